// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/engine/communicator.hpp>
#include <rankmesh/engine/nccl.hpp>

namespace rankmesh::cli {

/// One operation on one communicator, as this rank saw it.
struct Verified {
    std::string_view operation;
    std::size_t bytes = 0;   // of the larger buffer of one rank
    double seconds = 0;      // of one call
    std::int64_t wrong = 0;  // elements that are wrong
};

/// The names of the operations, in the order of `verify`.
const std::vector<std::string>& operation_names();

/// Runs operation number `which` on `on` and compares every element with its expected value.
///
/// Each type once blocking and once started with few elements, then f32 with about `bytes` bytes, timed. With
/// `devices` the buffers are on this rank's device, and the time ends when the device is done.
Verified verify(Communicator& on, int which, std::size_t bytes, const nccl::World* devices);

}  // namespace rankmesh::cli
