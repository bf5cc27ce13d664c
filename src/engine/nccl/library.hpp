// SPDX-License-Identifier: Apache-2.0
// NCCL and CUDA's runtime as the running process finds them: types from their headers, functions by dlopen.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <initializer_list>
#include <string>

namespace rankmesh::detail {

#ifdef NCCL_SUSPEND_MEM
using NcclMemoryStat = ncclCommMemStat_t;
#else  // headers of 2.28
enum NcclMemoryStat : unsigned {};
#endif

/// A library that this process has loaded. It stays loaded.
class Loaded {
public:
    /// A function of it, of the type of the pointer that it is assigned to.
    struct Symbol {
        void* address;
        template <class Function>
        operator Function*() const {
            return reinterpret_cast<Function*>(address);
        }
    };

    /// Loads the first of these names that is there; throws EngineFailure with `advice` if none is.
    Loaded(std::initializer_list<const char*> names, const char* advice);
    /// Throws EngineFailure if the library does not have it.
    Symbol find(const char* symbol) const;
    /// Null if the library does not have it.
    Symbol find_optional(const char* symbol) const;

private:
    const char* name_;
    void* handle_ = nullptr;
};

/// The functions of CUDA's runtime that the engine calls.
struct Cuda {
    Loaded library;
    const char* (*error_string)(cudaError_t) = library.find("cudaGetErrorString");
    cudaError_t (*last_error)() = library.find("cudaGetLastError");
    cudaError_t (*device_count)(int*) = library.find("cudaGetDeviceCount");
    cudaError_t (*set_device)(int) = library.find("cudaSetDevice");
    cudaError_t (*pointer_attributes)(cudaPointerAttributes*,
                                      const void*) = library.find("cudaPointerGetAttributes");
    cudaError_t (*memory_info)(std::size_t*, std::size_t*) = library.find("cudaMemGetInfo");
    cudaError_t (*malloc)(void**, std::size_t) = library.find("cudaMalloc");
    cudaError_t (*free)(void*) = library.find("cudaFree");
    cudaError_t (*malloc_async)(void**, std::size_t, cudaStream_t) = library.find("cudaMallocAsync");
    cudaError_t (*free_async)(void*, cudaStream_t) = library.find("cudaFreeAsync");
    cudaError_t (*memcpy)(void*, const void*, std::size_t, cudaMemcpyKind) = library.find("cudaMemcpy");
    cudaError_t (*memcpy_async)(void*, const void*, std::size_t, cudaMemcpyKind,
                                cudaStream_t) = library.find("cudaMemcpyAsync");
    cudaError_t (*memset_async)(void*, int, std::size_t, cudaStream_t) = library.find("cudaMemsetAsync");
    cudaError_t (*priority_range)(int*, int*) = library.find("cudaDeviceGetStreamPriorityRange");
    cudaError_t (*stream_create)(cudaStream_t*, unsigned, int) = library.find("cudaStreamCreateWithPriority");
    cudaError_t (*stream_destroy)(cudaStream_t) = library.find("cudaStreamDestroy");
    cudaError_t (*stream_wait)(cudaStream_t, cudaEvent_t, unsigned) = library.find("cudaStreamWaitEvent");
    cudaError_t (*event_create)(cudaEvent_t*, unsigned) = library.find("cudaEventCreateWithFlags");
    cudaError_t (*event_destroy)(cudaEvent_t) = library.find("cudaEventDestroy");
    cudaError_t (*event_record)(cudaEvent_t, cudaStream_t) = library.find("cudaEventRecord");
    cudaError_t (*event_query)(cudaEvent_t) = library.find("cudaEventQuery");
    cudaError_t (*runtime_version)(int*) = library.find("cudaRuntimeGetVersion");
    cudaError_t (*driver_version)(int*) = library.find("cudaDriverGetVersion");
    cudaError_t (*exchange_capture_mode)(cudaStreamCaptureMode*) =
        library.find("cudaThreadExchangeStreamCaptureMode");
    cudaError_t (*is_capturing)(cudaStream_t,
                                cudaStreamCaptureStatus*) = library.find("cudaStreamIsCapturing");
    cudaError_t (*pci_bus_id)(char*, int length, int device) = library.find("cudaDeviceGetPCIBusId");

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
    Loaded library;
    decltype(&ncclGetVersion) get_version = library.find("ncclGetVersion");
    decltype(&ncclGetUniqueId) unique_id = library.find("ncclGetUniqueId");
    decltype(&ncclGetErrorString) error_string = library.find("ncclGetErrorString");
    decltype(&ncclGetLastError) last_error = library.find("ncclGetLastError");
    decltype(&ncclCommInitRankConfig) init = library.find("ncclCommInitRankConfig");
    decltype(&ncclCommInitRankScalable) init_scalable = library.find("ncclCommInitRankScalable");
    decltype(&ncclCommSplit) split = library.find("ncclCommSplit");
    decltype(&ncclCommFinalize) finalize = library.find("ncclCommFinalize");
    decltype(&ncclCommDestroy) destroy = library.find("ncclCommDestroy");
    decltype(&ncclCommAbort) abort = library.find("ncclCommAbort");
    decltype(&ncclCommGetAsyncError) async_error = library.find("ncclCommGetAsyncError");
    decltype(&ncclCommCount) count = library.find("ncclCommCount");
    decltype(&ncclCommUserRank) user_rank = library.find("ncclCommUserRank");
    decltype(&ncclCommCuDevice) device = library.find("ncclCommCuDevice");
    decltype(&ncclGroupStart) group_start = library.find("ncclGroupStart");
    decltype(&ncclGroupEnd) group_end = library.find("ncclGroupEnd");
    decltype(&ncclAllReduce) all_reduce = library.find("ncclAllReduce");
    decltype(&ncclReduce) reduce = library.find("ncclReduce");
    decltype(&ncclReduceScatter) reduce_scatter = library.find("ncclReduceScatter");
    decltype(&ncclBroadcast) broadcast = library.find("ncclBroadcast");
    decltype(&ncclAllGather) all_gather = library.find("ncclAllGather");
    decltype(&ncclGather) gather = library.find("ncclGather");
    decltype(&ncclScatter) scatter = library.find("ncclScatter");
    decltype(&ncclAlltoAll) all_to_all = library.find("ncclAlltoAll");
    decltype(&ncclSend) send = library.find("ncclSend");
    decltype(&ncclRecv) recv = library.find("ncclRecv");
    // Null if this NCCL does not have it.
    decltype(&ncclCommRevoke) revoke = library.find_optional("ncclCommRevoke");
    decltype(&ncclCommShrink) shrink = library.find_optional("ncclCommShrink");
    ncclResult_t (*suspend)(ncclComm_t, int flags) =
        library.find_optional("ncclCommSuspend");  // headers of 2.28 lack these three
    ncclResult_t (*resume)(ncclComm_t) = library.find_optional("ncclCommResume");
    ncclResult_t (*memory_stats)(ncclComm_t, NcclMemoryStat which,
                                 std::uint64_t* value) = library.find_optional("ncclCommMemStats");
};

/// Both libraries, loaded once for the process.
struct Libraries {
    Nccl nccl;  // whose error is thrown first: it is what the user asked for
    Cuda cuda;

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
