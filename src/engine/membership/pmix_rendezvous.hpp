// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/channel.hpp"
#include "engine/hosts/pmix_client.hpp"
#include "engine/membership/rendezvous.hpp"

namespace rankmesh::detail {

/// Rendezvous through the PMIx server of the launcher.
///
/// A collective step is one fence. The fence carries this rank's text and all entries that it has published
/// since the last fence. Entries stay with the server until the job ends.
class PmixRendezvous final : public Rendezvous {
public:
    /// Of all processes that the launcher started together.
    PmixRendezvous(const std::shared_ptr<PmixClient>& client, Duration timeout);

    std::string all(const std::string& phase, std::string text, const Combine& combine) override;
    void publish(const std::string& name, const std::string& text) override;
    std::vector<std::string> fetch(const std::string& phase, std::span<const int> from,
                                   const std::string& name, std::span<const int> ranks,
                                   Instant until) override;
    void send(int to, const std::string& text) override;
    std::string receive(int from, const std::string& where) override;
    void post(int to, const std::string& text) override;
    std::vector<std::pair<int, std::string>> collect(const std::string& phase, std::span<const int> from,
                                                     Instant until) override;
    void leave(const Failure& why) noexcept override;
    std::unique_ptr<Rendezvous> sub(const std::vector<int>& ranks) override;
    Survivors survivors(Duration grace, const std::function<std::vector<int>()>& ended,
                        const std::function<void()>& begin) override;
    Grown grow(const Growth& asked, const std::function<std::vector<int>()>& ended) override;

private:
    /// `scope` is the prefix of this world's keys, which no other world of the job has.
    PmixRendezvous(std::shared_ptr<PmixClient> client, std::string scope, std::vector<int> members, int rank,
                   Duration timeout);
    PmixRendezvous(const std::shared_ptr<PmixClient>& client, int world, Duration timeout);

    bool fence(std::span<const int> ranks, Instant until);
    std::vector<std::string> read(const std::string& phase, const std::string& key, std::span<const int> from,
                                  std::span<const int> ranks, bool all_came, Instant until);
    /// Throws the failure with which a rank has left.
    [[noreturn]] void throw_relayed(const std::string& phase, const std::string& left) const;
    std::vector<PmixClient::Name> names(std::span<const int> ranks, const std::string& key) const;
    std::string full(const std::string& name) const { return scope_ + name; }

    const std::shared_ptr<PmixClient> client_;
    const std::string scope_;
    const std::vector<int> members_;  // the launcher's number of each rank
    const Duration timeout_;
    bool fresh_ = false;  // something was published since the last fence
    int steps_ = 0;
    std::map<int, int> sent_;    // by receiver
    std::map<int, int> posted_;  // as `sent_`, of groups that are made at run time
    std::map<int, int> collected_;
    std::map<int, int> received_;  // by sender
};

}  // namespace rankmesh::detail
