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

/// Rendezvous through the entries of a store.
///
/// Collective steps run along a tree: a rank writes one or two entries a step, reads those of its eight
/// children in one request and its parent's in another, so no rank reads as many entries as there are ranks.
/// A rank that waits polls again after a quarter of the time that it has waited so far: it notices late by
/// that at most, and a long wait takes few polls.
class StoreRendezvous final : public Rendezvous {
public:
    /// Registers this rank; throws UsageError if a rank of that number is registered in this job already.
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
    /// `scope` is the prefix of this world's keys, which no other world of the job has.
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
