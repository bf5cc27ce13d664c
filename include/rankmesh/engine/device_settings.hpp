// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh {

/// Settings of the device communicator of one declared set or pick; the device engine chooses what is unset.
///
/// They are part of the plan, the same on all ranks. Worlds without devices check and ignore them.
struct DeviceSettings {
    /// The fewest and the most thread blocks (CTAs) that an operation uses, 1 to 64: few leave more of the
    /// device to computation that overlaps.
    std::optional<int> min_ctas = {};
    std::optional<int> max_ctas = {};
    /// The traffic class of its messages between hosts, 0 or more; the network defines what it means.
    std::optional<int> traffic_class = {};
    /// True to run `start_` calls on a stream of high priority. Blocking calls run on the caller's stream,
    /// with its priority.
    bool high_priority = false;
    /// Its name in the device library's logs and profiles: letters, digits, `_`, `-` or `.`. If unset,
    /// `rankmesh` and its name in error texts.
    std::string name = {};

    friend bool operator==(const DeviceSettings&, const DeviceSettings&) = default;
};

}  // namespace rankmesh
