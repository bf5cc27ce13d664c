// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <rankmesh/core/export.hpp>
#include <rankmesh/plan/job.hpp>
#include <rankmesh/plan/layout.hpp>

namespace rankmesh::plan {

/// Bytes on the device of the stage that needs most.
///
/// Law: `lower` is the sum of parameters, gradients, optimizer and activations, `allocated` has the buffers
/// too, and `estimate` is the sum of all parts.
struct Memory {
    std::int64_t parameters = 0;
    std::int64_t gradients = 0;
    std::int64_t optimizer = 0;
    std::int64_t activations = 0;
    std::int64_t buffers = 0;   ///< of communication, and what the largest single operation needs
    std::int64_t overhead = 0;  ///< of the allocator and the driver, as the stack is known to have
    std::int64_t lower = 0;
    std::int64_t allocated = 0;  ///< what the framework reports as allocated
    std::int64_t estimate = 0;   ///< what the driver reports as used
    int stage = 0;               ///< that needs most
};

/// What a layout of a job needs; both as their `check` accepts them.
RANKMESH_EXPORT Memory memory(const Job& job, const Layout& layout);

/// What is left for a job on each device, after what the driver keeps.
RANKMESH_EXPORT std::int64_t capacity(const Device& device);

}  // namespace rankmesh::plan
