// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <rankmesh/engine/device_settings.hpp>

namespace rankmesh::detail {

inline constexpr int most_ctas = 64;  // of one communicator of NCCL

/// `max_ctas=8 high_priority name=tp`; "" if nothing is set.
std::string to_text(const DeviceSettings& settings);

/// Throws UsageError for settings that no device engine accepts; `whose` names their set in the text.
void check_settings(const DeviceSettings& settings, const std::string& whose);

}  // namespace rankmesh::detail
