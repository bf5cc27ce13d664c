// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/nccl.hpp>

namespace rankmesh::cli {

/// The result of one operation on one communicator on this rank.
struct Verified {
    std::string_view operation;
    std::size_t bytes = 0;   // size of the larger buffer of one rank
    double seconds = 0;      // seconds of one call
    std::int64_t wrong = 0;  // number of wrong elements
};

/// Returns the names of the operations that hosts or devices have, in the order of `verify`.
std::span<const std::string> operation_names(bool on_devices);

/// Runs operation number `which` on `on` and compares every element with its expected value.
///
/// Runs each type once blocking and once started, with few elements; then f32 with about `bytes` bytes,
/// timed. With `devices` the buffers are on this rank's device, and the time includes the work on the device.
Verified verify(Communicator& on, int which, std::size_t bytes, const nccl::World* devices);

}  // namespace rankmesh::cli
