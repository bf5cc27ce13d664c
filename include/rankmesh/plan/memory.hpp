// SPDX-License-Identifier: Apache-2.0
// Predicts the memory that a layout needs on each device.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// Bytes on one device of the stage that needs most memory.
///
/// Law: `lower` is the sum of parameters, gradients, optimizer and activations. `allocated` adds the buffers.
/// `estimate` is the sum of all parts.
struct Memory {
    std::int64_t parameters = 0;
    std::int64_t gradients = 0;
    std::int64_t optimizer = 0;
    std::int64_t activations = 0;
    std::int64_t buffers = 0;   ///< communication buffers and temporary memory of the largest operation
    std::int64_t overhead = 0;  ///< allocator and driver, from the constants of the stack
    std::int64_t lower = 0;
    std::int64_t allocated = 0;  ///< what the framework reports as allocated memory
    std::int64_t estimate = 0;   ///< what the driver reports as used memory
    int stage = 0;               ///< the stage that needs most
};

/// The parts of `estimate`, by name.
inline constexpr auto memory_parts =
    std::array<std::pair<std::string_view, std::int64_t Memory::*>, 6>{{{"parameters", &Memory::parameters},
                                                                        {"gradients", &Memory::gradients},
                                                                        {"optimizer", &Memory::optimizer},
                                                                        {"activations", &Memory::activations},
                                                                        {"buffers", &Memory::buffers},
                                                                        {"overhead", &Memory::overhead}}};

/// Returns the memory that a layout needs. `check` must accept the job and the layout.
RANKMESH_EXPORT Memory memory(const Job& job, const Layout& layout);

/// Returns the bytes of each device that a job can use: what the driver reports minus what it keeps.
RANKMESH_EXPORT std::int64_t capacity(const Device& device);

/// Whether a layout fits: `tight` if only the error of the estimate decides.
enum class Fit : std::uint8_t { fits, tight, too_large };

/// The error of the estimate of memory, which a layout that fits has to spare (docs/plan-model.md).
constexpr double memory_error = 0.03;

RANKMESH_EXPORT Fit fit(std::int64_t estimate, std::int64_t capacity);
/// Returns `fits`, `tight` or `does not fit`.
RANKMESH_EXPORT std::string_view to_string(Fit fit);

}  // namespace rankmesh::plan
