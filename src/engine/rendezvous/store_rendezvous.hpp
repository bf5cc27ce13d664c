// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/rendezvous/rendezvous.hpp"
#include "engine/rendezvous/store.hpp"
#include "engine/rendezvous/survivor_agreement.hpp"

namespace rankmesh::detail {

/// Ranks that meet by entries in a store.
///
/// A rank writes one or two entries for each step that all take and reads those of its eight children in one
/// look and its parent's in another, so nobody reads as many entries as there are ranks. Who waits looks
/// again after a quarter of the time that it has waited, so it hears late by that at most, and of long waits
/// few looks are made.
class StoreRendezvous final : public Rendezvous {
public:
    /// Says that this rank is here; throws UsageError if a rank of that number has been before, in this job.
    /// `store` may be null in a world of one.
    StoreRendezvous(std::shared_ptr<Store> store, int rank, int size, Duration timeout);

    std::string all(const std::string& phase, std::string text, const Combine& combine) override;
    void publish(const std::string& name, const std::string& text) override;
    std::vector<std::string> fetch(const std::string& phase, std::span<const int> from,
                                   const std::string& name, std::span<const int> ranks,
                                   Instant until) override;
    void send(int to, const std::string& text) override;
    std::string receive(int from) override;
    void leave(const std::string& why) noexcept override;
    std::unique_ptr<Rendezvous> sub(const std::vector<int>& ranks) override;
    Rest survivors(Duration grace, const std::function<std::vector<int>()>& ended) override;

private:
    /// `scope` tells this world's entries from those of others of the same job.
    StoreRendezvous(std::shared_ptr<Store> store, std::string scope, int rank, int size, Duration timeout);

    using Entries = std::function<std::string(int rank)>;
    std::vector<std::string> wait(const std::string& phase, const std::vector<std::string>& names,
                                  const std::vector<int>& ranks, const Entries& arrival_key, Instant until);
    [[noreturn]] void throw_missing(const std::string& phase, const std::vector<int>& ranks,
                                    const Entries& arrival_key);
    std::string full(const std::string& name) const { return scope_ + name; }

    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const Duration timeout_;
    int steps_ = 0;
    std::map<int, int> sent_;              // by receiver
    std::map<int, int> received_;          // by sender
    std::vector<std::string> stale_keys_;  // own entries since the last step
    std::vector<std::string>
        old_stale_keys_;  // and before it, which everybody has read once all take one more
    SurvivorAgreement survivor_agreement_;
};

}  // namespace rankmesh::detail
