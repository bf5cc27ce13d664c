// SPDX-License-Identifier: Apache-2.0
// One operation of the interface as calls of NCCL.
#pragma once

#include "engine/channel.hpp"
#include "engine/nccl/library.hpp"

namespace rankmesh::detail {

/// Where operations of one group run.
struct NcclGroup {
    ncclComm_t comm = nullptr;  // null in a group of one
    int group_rank = 0;
    int size = 1;
    void* barrier = nullptr;  // device memory for one i32
};

/// Device memory that lives on a stream, between what is put there before it is taken and after this has
/// gone.
class Scratch {
public:
    Scratch() = default;
    ~Scratch();
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    /// Called once.
    char* take(std::size_t bytes, cudaStream_t stream);

private:
    void* data_ = nullptr;
    cudaStream_t stream_ = nullptr;
};

/// Puts operations on a stream as one; the result is that of the last call of NCCL. Where it is in progress,
/// they are not there yet, and still need what they took of `scratch`, which one alone may do.
ncclResult_t enqueue(std::span<const Call> calls, const NcclGroup& nccl_group, cudaStream_t stream,
                     Scratch& scratch);

/// The buffers that this member reads or writes in a call, null where it has none.
struct UsedBuffers {
    const void* in;
    const void* out;
};
UsedBuffers used_buffers(const Call& call, int group_rank);

}  // namespace rankmesh::detail
