// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <rankmesh/engine/device_settings.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

struct Failure;

/// A request for the channel of one group: all its ranks make it, in the same order among their common
/// groups.
struct ChannelRequest {
    std::shared_ptr<const Label> label;
    int group_rank = 0;  // this process's in the group
    std::string key;     // of the join and the declared item: tells channels with equal ranks apart
    int item = 0;        // the number of the declared item, equal on all members
    DeviceSettings settings = {};
};

/// The interface that join uses of an engine; every call is collective over the world unless it says
/// otherwise.
///
/// Each call blocks for at most the world's timeout, then throws Timeout or ends the job.
class Exchange {
public:
    virtual ~Exchange() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// The ranks of the world on this rank's host, this one among them, in order; known without
    /// communication.
    virtual const std::vector<int>& local_ranks() const = 0;
    /// True if the engine prepares channels before the plans are known to be equal.
    virtual bool announces() const { return false; }
    /// Announces the channels that this rank will create, in this order; `key` is that of the join.
    virtual void announce(const std::string& /*key*/, std::span<const ChannelRequest>) {}
    /// Replaces each of the values by its maximum over all ranks.
    virtual void max(std::array<std::int64_t, 4>& values) = 0;
    /// Sends a message from this rank to another; messages arrive in order.
    virtual void send(int to, const std::string& bytes) = 0;
    virtual std::string receive(int from) = 0;
    /// Sends a message to a rank of a group that is made at run time, apart from those of `send`; it never
    /// waits for that rank, and only the two take part.
    virtual void post(int to, const std::string& bytes) = 0;
    /// The next such message of each of `from` that has sent one, and of which rank it is: waits for at least
    /// one, and returns none once `until` has come. Throws PeerLost if one of them has left without; `phase`
    /// names the step in its text.
    virtual std::vector<std::pair<int, std::string>> collect(const std::string& phase,
                                                             std::span<const int> from,
                                                             std::chrono::steady_clock::time_point until) = 0;
    /// What a rank does, `is in barrier, ...`, as far as this one can know without asking; else "".
    virtual std::string doing(int) { return {}; }
    /// Throws the reason that another rank has given for the failure of its join; it never waits for one.
    virtual void throw_if_failed() {}
    /// Gives others the reason for which this rank's join fails, before it leaves its channels: so it is not
    /// taken for the cause.
    virtual void fail(const Failure&) noexcept {}
    /// Connects a channel that was released; called by its members only, with a key that is new.
    virtual void restore(Channel&, const ChannelRequest&) {}
    /// All members of a channel that was made or restored under this key are connected: what this rank has
    /// announced for it alone is not read any more.
    virtual void forget(const std::string& /*key*/) {}
    /// Makes a channel over two or more ranks; called by its members only.
    virtual std::shared_ptr<Channel> create(const ChannelRequest& request) = 0;
};

/// Gathers data of all ranks on every rank: up a binomial tree to rank 0 and down again. On the way up `take`
/// gets what the ranks beneath this one have packed, and `pack` returns that together with this rank's own.
template <class Take, class Pack>
std::string gather(Exchange& exchange, Take&& take, Pack&& pack) {
    const auto rank = exchange.rank();
    const auto size = exchange.size();
    auto step = 1;
    for (; step < size && (rank & step) == 0; step *= 2)
        if (rank + step < size) take(exchange.receive(rank + step));
    auto packed = std::string(pack());
    if (rank != 0) {
        exchange.send(rank - step, packed);
        packed = exchange.receive(rank - step);
    }
    for (step /= 2; step >= 1; step /= 2)
        if (rank + step < size) exchange.send(rank + step, packed);
    return packed;
}

/// An engine for devices beside the host's: its channels work on device memory, ordered on streams. The
/// host's engine is its control plane.
class DeviceEngine {
public:
    virtual ~DeviceEngine() = default;

    /// The channel of one declared item; `host` connects the same ranks and can exchange what creation needs.
    ///
    /// At join `everyone` is true: all ranks of the world call it for every item of groups of two or more, in
    /// one order, with a null request where a rank has no part in the item or shares the channel of another.
    /// At prepare only the members of the group call it.
    virtual std::shared_ptr<Channel> create(const ChannelRequest* request,
                                            const std::shared_ptr<Channel>& host, bool everyone) = 0;
    /// Connects a channel that was released; called by its members only.
    virtual void restore(Channel&, const ChannelRequest&, const std::shared_ptr<Channel>& /*host*/) {}
    /// Throws UsageError for settings that it does not support; `whose` names their set in the text. Join
    /// calls it before it creates anything.
    virtual void check_settings(const DeviceSettings&, const std::string& /*whose*/) const {}
    /// The channel of a group of this rank alone.
    virtual std::shared_ptr<Channel> alone() = 0;
    /// How much it has created so far and the memory used, for the log of a join; "" for nothing to log.
    virtual std::string report() const { return {}; }
};

}  // namespace rankmesh::detail
