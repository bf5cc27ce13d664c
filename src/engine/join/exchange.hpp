// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/engine/device_settings.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {

/// A group to be made: all its members ask for it, in the same order among their common groups.
struct ChannelRequest {
    std::shared_ptr<const Label> label;
    int group_rank = 0;  // this process's in the group
    std::string key;     // of the join and the declared item: tells channels with equal ranks apart
    int item = 0;        // the number of the declared item, equal on all members
    DeviceSettings settings = {};
};

/// What join needs of an engine; every call is for all ranks of the world unless it says otherwise.
///
/// Each call blocks for at most the world's timeout, then throws Timeout or ends the job.
class Exchange {
public:
    virtual ~Exchange() = default;
    virtual int rank() const = 0;
    virtual int size() const = 0;
    /// The ranks of the world on this rank's host, this one among them, in order; asks nobody.
    virtual const std::vector<int>& local_ranks() const = 0;
    /// True if the engine can do some of making channels before the plans are known to be equal.
    virtual bool announces() const { return false; }
    /// Then it hears which ones this rank will ask for, in this order; `key` is that of the join.
    virtual void announce(const std::string& key, std::span<const ChannelRequest> requests) {
        static_cast<void>(key);
        static_cast<void>(requests);
    }
    /// Replaces each of the values by its maximum over all ranks.
    virtual void max(std::array<std::int64_t, 4>& values) = 0;
    /// From this rank to one other, in order.
    virtual void send(int to, const std::string& bytes) = 0;
    virtual std::string receive(int from) = 0;
    /// Makes a channel over two or more ranks; called by its members only.
    virtual std::shared_ptr<Channel> create(const ChannelRequest& request) = 0;
};

}  // namespace rankmesh::detail
