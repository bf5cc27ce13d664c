// SPDX-License-Identifier: Apache-2.0
// The calls of NCCL that make up one operation.
#pragma once

#include <optional>

#include <nccl.h>

#include "engine/channel.hpp"
#include "engine/nccl/library.hpp"

namespace rankmesh::detail {

/// NCCL's type; nothing for a type that it does not reduce.
std::optional<ncclDataType_t> nccl_type(DType dtype);
/// NCCL's reduction; nothing for one that it does not have. Since true is 1, some logical reductions of bools
/// are numeric ones.
std::optional<ncclRedOp_t> nccl_reduction(Reduction reduction, DType dtype);

/// Throws UsageError for a call that NCCL does not support.
void check_nccl(const Call& call, const Label& label, int group_rank);

/// The communicator and stream that operations of one group run on.
struct NcclGroup {
    ncclComm_t comm = nullptr;  // null in a group of one
    int group_rank = 0;
    int size = 1;
    void* barrier = nullptr;  // device memory for one i32
};

/// Device memory that is allocated and freed in stream order: after the work enqueued before it, and after
/// its last use.
class Scratch {
public:
    Scratch() = default;
    ~Scratch();
    Scratch& operator=(Scratch&&) = delete;
    /// Called once.
    char* take(std::size_t bytes, cudaStream_t stream);

private:
    void* data_ = nullptr;
    cudaStream_t stream_ = nullptr;
};

/// Enqueues operations on a stream as one group; returns the result of the last call of NCCL. While that is
/// in progress, they are not enqueued yet and still need their part of `scratch`, which only one at a time
/// may use.
ncclResult_t enqueue(std::span<const Call> calls, const NcclGroup& nccl_group, cudaStream_t stream,
                     Scratch& scratch);

/// The buffers that this rank reads or writes in a call, null where it has none.
struct UsedBuffers {
    const void* in;
    const void* out;
};
UsedBuffers used_buffers(const Call& call, int group_rank);

}  // namespace rankmesh::detail
