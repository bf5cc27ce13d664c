// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/diagnosis/attendance.hpp"
#include "engine/mpi/watched_call.hpp"

namespace rankmesh::detail {

/// What the other ranks of a call say of it, over their watchdogs, which reach the ranks of this host.
class Inquiry {
public:
    /// How long a report waits for a rank whose process is there: it may be short of processor time.
    static constexpr auto patience = std::chrono::seconds(2);
    /// How long a question takes that is asked while all may be well.
    static constexpr auto brief = std::chrono::milliseconds(200);
    static constexpr auto most_asked = 4096;  // ranks, which bounds the time of the queries

    /// `self` is what this rank answers meanwhile.
    Inquiry(const WatchedCall& call, RankStatusOf self) : call_(call), self_(std::move(self)) {}

    /// The answers of these ranks about the call.
    PeerQuery::Answers ask(const std::vector<int>& ranks, Duration patience) const;
    /// Who is missing in the call, as far as the watchdogs of this host can tell; nobody without them.
    Attendance attendance() const;
    /// The answers of `ranks`, in their order, and what is known of those that have not answered.
    static std::vector<Channel::PeerStatus> statuses_of(const PeerQuery& world, const std::vector<int>& ranks,
                                                        const PeerQuery::Answers& answers);

private:
    /// How the calls of ranks that have all arrived differ; "" if this one is in no collective.
    std::string difference(const PeerQuery::Answers& answers) const;
    std::string who_is_awaited(int rank, RankStatus status, std::vector<int>& mute) const;

    const WatchedCall& call_;
    const RankStatusOf self_;
};

}  // namespace rankmesh::detail
