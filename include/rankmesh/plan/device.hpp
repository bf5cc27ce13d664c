// SPDX-License-Identifier: Apache-2.0
// Devices: rates, memory and bandwidths of GPUs.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>

namespace rankmesh::plan {

/// The constants of one kind of device. Rates are operations per second, bandwidths are bytes per second and
/// direction.
struct Device {
    std::string name = {};
    std::vector<std::string> aliases = {};  ///< other names
    double dense_rate = 0;                  ///< data sheet, bfloat16
    double fp8_rate = 0;                    ///< data sheet, fp8; 0: not supported
    double gemm_rate = 0;                   ///< best measured rate of a matrix product, bfloat16
    double sustained = 1;     ///< fraction of `gemm_rate` that lasts during training, under the power limit
    std::int64_t memory = 0;  ///< bytes
    double memory_bandwidth = 0;
    int scale_up_size = 0;           ///< devices of one NVLink domain
    double scale_up_bandwidth = 0;   ///< per device, inside that domain
    double scale_out_bandwidth = 0;  ///< per device, between domains; 0: depends on the machine
    bool bf16 = true;                ///< multiplies matrices in bfloat16; else the rates are of float16
    bool measured = true;            ///< somebody published training steps on it
    std::string source = {};
    friend bool operator==(const Device&, const Device&) = default;
};

/// Returns the built-in devices, from `src/plan/data/devices.csv`.
RANKMESH_EXPORT std::span<const Device> devices();

/// Returns whether `name` is the device's name or an alias, ignoring case.
RANKMESH_EXPORT bool is_named(const Device& device, std::string_view name);

/// Returns the device of that name or alias, ignoring case. Throws UsageError, which suggests the nearest
/// name, if there is none.
RANKMESH_EXPORT const Device& device(std::string_view name);

/// Reads devices from text with the columns of `src/plan/data/devices.csv`. Throws UsageError with `file` and
/// the line.
RANKMESH_EXPORT std::vector<Device> read_devices(std::string_view text, std::string_view file);

/// Throws UsageError, which names the constant, if a constant is impossible.
RANKMESH_EXPORT void check(const Device& device);

}  // namespace rankmesh::plan
