// SPDX-License-Identifier: Apache-2.0
// Between rankmesh and the types of NCCL and CUDA: link rankmesh::nccl.
#pragma once

#include <nccl.h>

#include <mutex>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/nccl.hpp>

namespace rankmesh::nccl {

/// A stream of the program's, for `communicator.on(stream(...))`.
inline Stream stream(cudaStream_t stream) { return {stream}; }

/// The ranks of `host` on a communicator of the program's over the same ranks in the same order; all of them
/// call it.
///
/// Groups are split from it, and the device is its. The program still owns it: it destroys it after the
/// world, its members and communicators, and calls nothing on it while a join runs. Throws UsageError for
/// another number of ranks or another rank, on all ranks.
///
///     void train(World& host, ncclComm_t comm) {
///         auto world = nccl::adopt(host, comm);
///         world.join({{"dp", rest}}).on("dp").barrier();
///     }
RANKMESH_EXPORT World adopt(const rankmesh::World& host, ncclComm_t comm);

/// The NCCL communicator behind a communicator, to call NCCL on; null for a group of one.
///
/// rankmesh owns it, and it lives as long as any handle of its group. Hold `lock` around every call on it. It
/// does not block: a call that gives ncclInProgress is complete when ncclCommGetAsyncError gives something
/// else. Operations on it come in the same order on all members, those of rankmesh among them. Throws
/// UsageError for a communicator of a host.
///
///     void look_up(const Member& me, ncclComm_t& comm) { comm = nccl::native(me.on("tp")); }
RANKMESH_EXPORT ncclComm_t native(const Communicator& communicator);

/// Keeps rankmesh's threads from calling NCCL on `native(communicator)`: two threads inside calls on one
/// communicator end the process, and ncclCommGetAsyncError is such a call. Release it between two polls,
/// since timeouts wait for it. Empty for a group of one; throws as `native`.
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
