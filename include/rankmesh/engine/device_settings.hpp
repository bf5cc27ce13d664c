// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh {

/// How the communicator of one declared item is made on devices, beside those of the others; what is not said
/// is the device engine's choice.
///
/// It is part of the plan, the same on all ranks. Worlds without devices check it and make no use of it.
struct DeviceSettings {
    /// The fewest and the most blocks of threads (CTAs) that an operation takes of the device, 1 to 64: few
    /// leave more of it to what is computed meanwhile.
    std::optional<int> min_ctas = {};
    std::optional<int> max_ctas = {};
    /// What its messages are marked with between hosts, 0 or more; the network says what that means.
    std::optional<int> traffic_class = {};
    /// True if what is started with `start_` goes before other work that waits for room on the device.
    /// Blocking calls are on the caller's stream, and have its priority.
    bool high_priority = false;
    /// What the device's library calls it in its logs and profiles: letters, digits, `_`, `-` or `.`. Unless
    /// said, `rankmesh` and what error texts call it.
    std::string name = {};

    friend bool operator==(const DeviceSettings&, const DeviceSettings&) = default;
};

}  // namespace rankmesh
