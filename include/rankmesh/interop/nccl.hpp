// SPDX-License-Identifier: Apache-2.0
// Converts between rankmesh's types and those of NCCL and CUDA. Link rankmesh::nccl.
#pragma once

#include <nccl.h>

#include <mutex>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/nccl.hpp>

namespace rankmesh::nccl {

/// Returns a CUDA stream as a Stream, for `communicator.on(stream(...))`.
inline Stream stream(cudaStream_t stream) { return {stream}; }

/// Returns a world of the ranks of `host` that uses the program's NCCL communicator, which must have the same
/// ranks in the same order. Collective over `host`.
///
/// Groups are split from `comm`, and its device is used. The program still owns `comm`: it must destroy
/// `comm` after the world, its members and communicators, and must not use `comm` during a join. Throws
/// UsageError on all ranks if the number of ranks or a rank differs.
///
///     void train(World& host, ncclComm_t comm) {
///         auto world = nccl::adopt(host, comm);
///         world.join({{"dp", rest}}).on("dp").barrier();
///     }
RANKMESH_EXPORT World adopt(const rankmesh::World& host, ncclComm_t comm);

/// Returns the NCCL communicator behind a communicator, for calls of NCCL; nullptr for a group of one.
///
/// rankmesh owns the NCCL communicator, which lives as long as any handle of its group. Hold `lock` around
/// every call on it. It is nonblocking: a call that returns ncclInProgress is complete when
/// ncclCommGetAsyncError returns something else. All members must call operations in the same order,
/// including rankmesh's. Throws UsageError for a host communicator.
///
///     void look_up(const Member& me, ncclComm_t& comm) { comm = nccl::native(me.on("tp")); }
RANKMESH_EXPORT ncclComm_t native(const Communicator& communicator);

/// Returns a lock that keeps rankmesh's threads from calling NCCL on `native(communicator)`. NCCL ends the
/// process if two threads call it on one communicator; ncclCommGetAsyncError counts, too. Release the lock
/// between two polls, because timeouts wait for it. The lock is empty for a group of one. Throws like
/// `native`.
///
///     void sum(const Member& me, float* data, std::size_t count, cudaStream_t stream) {
///         auto tp = me.on("tp");
///         auto result = ncclInProgress;
///         {
///             const auto held = nccl::lock(tp);
///             result = ncclAllReduce(data, data, count, ncclFloat32, ncclSum, nccl::native(tp), stream);
///         }
///         while (result == ncclInProgress) {
///             const auto held = nccl::lock(tp);
///             ncclCommGetAsyncError(nccl::native(tp), &result);
///         }
///     }
RANKMESH_EXPORT std::unique_lock<std::mutex> lock(const Communicator& communicator);

}  // namespace rankmesh::nccl
