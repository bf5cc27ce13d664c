// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::plan {

/// The constants of one kind of device; rates in operations a second, bandwidths in bytes a second and
/// direction.
struct Device {
    std::string name = {};
    std::vector<std::string> aliases = {};  ///< its other names
    double dense_rate = 0;                  ///< of the data sheet, bfloat16
    double fp8_rate = 0;                    ///< 0 where it has none
    double gemm_rate = 0;                   ///< of the best matrix product that somebody measured, bfloat16
    double sustained = 1;     ///< of `gemm_rate`, what lasts through training under its power limit
    std::int64_t memory = 0;  ///< bytes
    double memory_bandwidth = 0;
    int scale_up_size = 0;           ///< devices of one NVLink domain
    double scale_up_bandwidth = 0;   ///< of each device inside that domain
    double scale_out_bandwidth = 0;  ///< of each device between domains, 0 where its machines differ
    std::string source = {};
    friend bool operator==(const Device&, const Device&) = default;
};

/// The devices that the library knows, from `src/plan/data/devices.csv`.
RANKMESH_EXPORT std::span<const Device> devices();

/// Whether `name` is the device's name or an alias, in any case.
RANKMESH_EXPORT bool is_named(const Device& device, std::string_view name);

/// The device of that name or alias, in any case; throws UsageError that names the nearest.
RANKMESH_EXPORT const Device& device(std::string_view name);

/// Reads devices from text with the columns of `src/plan/data/devices.csv`; `file` is named in errors.
/// Throws UsageError with file and line.
RANKMESH_EXPORT std::vector<Device> read_devices(std::string_view text, std::string_view file);

/// Throws UsageError that says which constant is impossible.
RANKMESH_EXPORT void check(const Device& device);

}  // namespace rankmesh::plan
