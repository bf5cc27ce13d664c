// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/exchange.hpp"

namespace rankmesh::detail {

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
    virtual void restore(Channel& channel, const ChannelRequest& request,
                         const std::shared_ptr<Channel>& host) {
        static_cast<void>(channel);
        static_cast<void>(request);
        static_cast<void>(host);
    }
    /// Throws UsageError for settings that it does not support; `whose` names their set in the text. Join
    /// calls it before it creates anything.
    virtual void check_settings(const DeviceSettings& settings, const std::string& whose) const {
        static_cast<void>(settings);
        static_cast<void>(whose);
    }
    /// The channel of a group of this rank alone.
    virtual std::shared_ptr<Channel> alone() = 0;
    /// How much it has created so far and the memory used, for the log of a join; "" for nothing to log.
    virtual std::string report() const { return {}; }
};

}  // namespace rankmesh::detail
