// SPDX-License-Identifier: Apache-2.0
// NCCL and CUDA's runtime as the running process finds them: types from their headers, functions by dlopen.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

namespace rankmesh::detail {

#ifdef NCCL_SUSPEND_MEM
using NcclMemoryStat = ncclCommMemStat_t;
#else  // headers of 2.28
enum NcclMemoryStat : unsigned {};
#endif

/// The functions of CUDA's runtime that the engine calls.
struct Cuda {
    const char* (*error_string)(cudaError_t);
    cudaError_t (*last_error)();
    cudaError_t (*device_count)(int*);
    cudaError_t (*set_device)(int);
    cudaError_t (*pointer_attributes)(cudaPointerAttributes*, const void*);
    cudaError_t (*memory_info)(std::size_t*, std::size_t*);
    cudaError_t (*malloc)(void**, std::size_t);
    cudaError_t (*free)(void*);
    cudaError_t (*malloc_async)(void**, std::size_t, cudaStream_t);
    cudaError_t (*free_async)(void*, cudaStream_t);
    cudaError_t (*memcpy)(void*, const void*, std::size_t, cudaMemcpyKind);
    cudaError_t (*memcpy_async)(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t);
    cudaError_t (*memset_async)(void*, int, std::size_t, cudaStream_t);
    cudaError_t (*priority_range)(int*, int*);
    cudaError_t (*stream_create)(cudaStream_t*, unsigned, int);
    cudaError_t (*stream_destroy)(cudaStream_t);
    cudaError_t (*stream_wait)(cudaStream_t, cudaEvent_t, unsigned);
    cudaError_t (*event_create)(cudaEvent_t*, unsigned);
    cudaError_t (*event_destroy)(cudaEvent_t);
    cudaError_t (*event_record)(cudaEvent_t, cudaStream_t);
    cudaError_t (*event_query)(cudaEvent_t);
    cudaError_t (*runtime_version)(int*);
    cudaError_t (*driver_version)(int*);
    cudaError_t (*exchange_capture_mode)(cudaStreamCaptureMode*);
    cudaError_t (*is_capturing)(cudaStream_t, cudaStreamCaptureStatus*);
    cudaError_t (*pci_bus_id)(char*, int length, int device);

    /// cudaEventQuery. It leaves no cudaErrorNotReady in the last error, where the program would find it, and
    /// invalidates no capture, whoever captures.
    cudaError_t query(cudaEvent_t event) const {
        auto mode = cudaStreamCaptureModeRelaxed;
        exchange_capture_mode(&mode);
        const auto result = event_query(event);
        if (result == cudaErrorNotReady) last_error();
        exchange_capture_mode(&mode);
        return result;
    }
    /// Throws EngineFailure unless `error` is success; `what` says which call gave it.
    void check(cudaError_t error, const char* what) const {
        if (error != cudaSuccess) fail(error, what);
    }
    [[noreturn]] void fail(cudaError_t error, const char* what) const;
};

/// The functions of NCCL that the engine calls.
struct Nccl {
    decltype(&ncclGetVersion) get_version;
    decltype(&ncclGetUniqueId) unique_id;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclGetLastError) last_error;
    decltype(&ncclCommInitRankConfig) init;
    decltype(&ncclCommInitRankScalable) init_scalable;
    decltype(&ncclCommSplit) split;
    decltype(&ncclCommFinalize) finalize;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclCommGetAsyncError) async_error;
    decltype(&ncclCommCount) count;
    decltype(&ncclCommUserRank) user_rank;
    decltype(&ncclCommCuDevice) device;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclAllReduce) all_reduce;
    decltype(&ncclReduce) reduce;
    decltype(&ncclReduceScatter) reduce_scatter;
    decltype(&ncclBroadcast) broadcast;
    decltype(&ncclAllGather) all_gather;
    decltype(&ncclGather) gather;
    decltype(&ncclScatter) scatter;
    decltype(&ncclAlltoAll) all_to_all;
    decltype(&ncclSend) send;
    decltype(&ncclRecv) recv;
    // Null if this NCCL does not have it.
    decltype(&ncclCommRevoke) revoke;
    decltype(&ncclCommShrink) shrink;
    ncclResult_t (*suspend)(ncclComm_t, int flags);  // headers of 2.28 lack these three
    ncclResult_t (*resume)(ncclComm_t);
    ncclResult_t (*memory_stats)(ncclComm_t, NcclMemoryStat which, std::uint64_t* value);
};

/// Both libraries, loaded once for the process.
struct Libraries {
    Cuda cuda = {};
    Nccl nccl = {};

    /// Throws EngineFailure that says which library is missing, or which version is needed.
    static const Libraries& get();
    /// The number of devices that this process can use, at least one; throws EngineFailure if the driver or a
    /// device is missing.
    int devices() const;
};

/// `2.28.9`, from NCCL's version code.
std::string nccl_version_text(int code);
/// `13.5`, from CUDA's.
std::string cuda_version_text(int code);

}  // namespace rankmesh::detail
