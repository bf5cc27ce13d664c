// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/gloo/file_store.hpp"

namespace rankmesh::detail {

/// What the ranks of a world do together without a connection, by notes in a store.
///
/// A rank writes one or two notes for each step that all take and reads those of its eight children and its
/// parent's, so nobody reads as many notes as there are ranks. Every call ends at the deadline, exactly, with
/// the ranks that did not come.
class Rendezvous {
public:
    using Combine = std::function<std::string(const std::string&, const std::string&)>;

    /// `scope` tells this world's notes from those of others of the same job.
    Rendezvous(std::shared_ptr<FileStore> store, std::string scope, int rank, int size, Duration deadline);

    int rank() const { return rank_; }
    int size() const { return size_; }
    const std::shared_ptr<FileStore>& store() const { return store_; }
    const std::string& scope() const { return scope_; }

    /// Says that this rank is here; throws Misuse if a rank of that number has been before, in this job.
    void claim();
    /// The texts of all ranks combined, on all ranks; `phase` is what a passed deadline was in.
    std::string all(const std::string& phase, std::string text, const Combine& combine);
    /// Leaves a note of this rank for whoever asks; it goes when all ranks have taken two more steps.
    void publish(const std::string& name, const std::string& text);
    /// The note of that name by one of `ranks`, which all are waited for.
    std::string fetch(const std::string& phase, int from, const std::string& name, std::span<const int> ranks,
                      std::chrono::steady_clock::time_point until);
    /// Carry texts in order from one rank to one other.
    void send(int to, const std::string& text);
    std::string receive(int from);
    /// Makes every present and later wait of the other ranks throw Lost.
    void leave(const std::string& why) noexcept;

private:
    using Notes = std::function<std::string(int rank)>;
    std::string wait(const std::string& phase, const std::string& name, const std::vector<int>& ranks,
                     const Notes& presence, std::chrono::steady_clock::time_point until);
    std::string full(const std::string& name) const { return scope_ + name; }

    std::shared_ptr<FileStore> store_;
    std::string scope_;
    int rank_;
    int size_;
    Duration deadline_;
    int steps_ = 0;
    std::map<int, int> sent_;              // by receiver
    std::map<int, int> received_;          // by sender
    std::vector<std::string> litter_;      // own notes since the last step
    std::vector<std::string> old_litter_;  // and before it, which everybody has read once all take one more
};

}  // namespace rankmesh::detail
