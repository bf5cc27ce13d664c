// SPDX-License-Identifier: Apache-2.0
// Settings of a communicator on devices, such as thread blocks and priority.
#pragma once

#include <optional>
#include <string>

namespace rankmesh {

/// Settings of the device communicator of one declared set or pick. The device engine chooses unset values.
///
/// The settings are part of the plan and must be equal on all ranks. Worlds without devices check and ignore
/// them.
struct DeviceSettings {
    /// The fewest and the most thread blocks (CTAs) of an operation, 1 to 64. Fewer blocks leave more of the
    /// device to overlapping computation.
    std::optional<int> min_ctas = {};
    std::optional<int> max_ctas = {};
    /// The traffic class of messages between hosts, 0 or more. The network defines its meaning.
    std::optional<int> traffic_class = {};
    /// True: started calls run on a high-priority stream. Blocking calls always run on the caller's stream.
    bool high_priority = false;
    /// The communicator's name in logs and profiles of the device library: letters, digits, underscores,
    /// hyphens and dots. Default: `rankmesh` and its name in error texts.
    std::string name = {};

    friend bool operator==(const DeviceSettings&, const DeviceSettings&) = default;
};

}  // namespace rankmesh
