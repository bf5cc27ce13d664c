// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "engine/join/exchange.hpp"

namespace rankmesh::detail {

/// A second engine beside the host's: its channels work on device memory, ordered on streams. The host's
/// engine is its control plane.
class DeviceEngine {
public:
    virtual ~DeviceEngine() = default;

    /// The channel of one declared item; `host` connects the same ranks and can carry what they must tell
    /// each other.
    ///
    /// At join `everyone` is true: all ranks of the world call it for every item of groups of two or more, in
    /// one order, with a null request where a rank has no part in the item or shares the channel of another.
    /// At prepare only the members of the group call it.
    virtual std::shared_ptr<Channel> create(const ChannelRequest* request,
                                            const std::shared_ptr<Channel>& host, bool everyone) = 0;
    /// Throws UsageError for settings that it would have to leave out; `whose` they are, in its words. Join
    /// asks before anything is made.
    virtual void check_settings(const DeviceSettings& settings, const std::string& whose) const {
        static_cast<void>(settings);
        static_cast<void>(whose);
    }
    /// What a group of this rank alone runs on.
    virtual std::shared_ptr<Channel> alone() = 0;
    /// What it has made so far and what that takes, for the log of a join; "" says nothing.
    virtual std::string report() const { return {}; }
};

}  // namespace rankmesh::detail
