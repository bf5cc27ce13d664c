// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/library.hpp"

#include <dlfcn.h>

#include <initializer_list>
#include <optional>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {
namespace {

constexpr auto least_version = 22800;

/// One library, which stays loaded.
class Loaded {
public:
    explicit Loaded(std::initializer_list<const char*> names, const char* advice) : name_(*names.begin()) {
        for (const auto* name : names)
            if ((handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL))) return;
        const auto* why = dlerror();
        throw EngineFailure(cat(name_, " not found; ", advice, " (", why ? why : "no reason given", ")"));
    }

    template <class Function>
    void find(Function& function, const char* symbol) const {
        find_optional(function, symbol);
        if (!function) throw EngineFailure(cat(name_, " has no ", symbol, "; a newer one is needed"));
    }
    template <class Function>
    void find_optional(Function& function, const char* symbol) const {
        function = reinterpret_cast<Function>(dlsym(handle_, symbol));
    }

private:
    const char* name_;
    void* handle_ = nullptr;
};

constexpr auto cuda_advice = "install CUDA's runtime, or put its folder into LD_LIBRARY_PATH";

/// The runtimes, that of the headers first: the program and its other libraries are likely to have that one.
#if CUDART_VERSION >= 13000
constexpr const char* runtimes[] = {"libcudart.so.13", "libcudart.so.12"};
#else
constexpr const char* runtimes[] = {"libcudart.so.12", "libcudart.so.13"};
#endif

/// True if the driver is too old for a runtime.
bool is_too_new(const Loaded& library) {
    auto count = 0;
    auto device_count = static_cast<cudaError_t (*)(int*)>(nullptr);
    library.find(device_count, "cudaGetDeviceCount");
    return device_count(&count) == cudaErrorInsufficientDriver;
}

Loaded load_runtime() {
    auto first = std::optional<Loaded>{};
    for (const auto* name : runtimes) {
        try {
            auto loaded = Loaded({name}, cuda_advice);
            if (!is_too_new(loaded)) return loaded;
            if (!first) first = loaded;
        } catch (const EngineFailure&) {  // the other one may be there
        }
    }
    return first ? *first : Loaded({runtimes[0], runtimes[1], "libcudart.so"}, cuda_advice);
}

Cuda load_cuda() {
    const auto library = load_runtime();
    auto cuda = Cuda{};
    library.find(cuda.error_string, "cudaGetErrorString");
    library.find(cuda.last_error, "cudaGetLastError");
    library.find(cuda.device_count, "cudaGetDeviceCount");
    library.find(cuda.set_device, "cudaSetDevice");
    library.find(cuda.pointer_attributes, "cudaPointerGetAttributes");
    library.find(cuda.memory_info, "cudaMemGetInfo");
    library.find(cuda.malloc, "cudaMalloc");
    library.find(cuda.free, "cudaFree");
    library.find(cuda.malloc_async, "cudaMallocAsync");
    library.find(cuda.free_async, "cudaFreeAsync");
    library.find(cuda.memcpy, "cudaMemcpy");
    library.find(cuda.memcpy_async, "cudaMemcpyAsync");
    library.find(cuda.memset_async, "cudaMemsetAsync");
    library.find(cuda.priority_range, "cudaDeviceGetStreamPriorityRange");
    library.find(cuda.stream_create, "cudaStreamCreateWithPriority");
    library.find(cuda.stream_destroy, "cudaStreamDestroy");
    library.find(cuda.stream_wait, "cudaStreamWaitEvent");
    library.find(cuda.event_create, "cudaEventCreateWithFlags");
    library.find(cuda.event_destroy, "cudaEventDestroy");
    library.find(cuda.event_record, "cudaEventRecord");
    library.find(cuda.event_query, "cudaEventQuery");
    library.find(cuda.runtime_version, "cudaRuntimeGetVersion");
    library.find(cuda.driver_version, "cudaDriverGetVersion");
    library.find(cuda.exchange_capture_mode, "cudaThreadExchangeStreamCaptureMode");
    library.find(cuda.is_capturing, "cudaStreamIsCapturing");
    library.find(cuda.pci_bus_id, "cudaDeviceGetPCIBusId");
    return cuda;
}

Nccl load_nccl() {
    const auto library = Loaded({"libnccl.so.2"},
                                "install NCCL 2.28 or later, or put its folder into "
                                "LD_LIBRARY_PATH");
    auto nccl = Nccl{};
    library.find(nccl.get_version, "ncclGetVersion");
    auto version = 0;
    if (nccl.get_version(&version) != ncclSuccess || version < least_version)
        throw EngineFailure(cat("libnccl.so.2 is NCCL ", nccl_version_text(version), "; ",
                                nccl_version_text(least_version), " or later is needed"));
    library.find(nccl.unique_id, "ncclGetUniqueId");
    library.find(nccl.error_string, "ncclGetErrorString");
    library.find(nccl.last_error, "ncclGetLastError");
    library.find(nccl.init, "ncclCommInitRankConfig");
    library.find(nccl.init_scalable, "ncclCommInitRankScalable");
    library.find(nccl.split, "ncclCommSplit");
    library.find(nccl.finalize, "ncclCommFinalize");
    library.find(nccl.destroy, "ncclCommDestroy");
    library.find(nccl.abort, "ncclCommAbort");
    library.find(nccl.async_error, "ncclCommGetAsyncError");
    library.find(nccl.count, "ncclCommCount");
    library.find(nccl.user_rank, "ncclCommUserRank");
    library.find(nccl.device, "ncclCommCuDevice");
    library.find(nccl.group_start, "ncclGroupStart");
    library.find(nccl.group_end, "ncclGroupEnd");
    library.find(nccl.all_reduce, "ncclAllReduce");
    library.find(nccl.reduce, "ncclReduce");
    library.find(nccl.reduce_scatter, "ncclReduceScatter");
    library.find(nccl.broadcast, "ncclBroadcast");
    library.find(nccl.all_gather, "ncclAllGather");
    library.find(nccl.gather, "ncclGather");
    library.find(nccl.scatter, "ncclScatter");
    library.find(nccl.all_to_all, "ncclAlltoAll");
    library.find(nccl.send, "ncclSend");
    library.find(nccl.recv, "ncclRecv");
    library.find_optional(nccl.revoke, "ncclCommRevoke");
    library.find_optional(nccl.shrink, "ncclCommShrink");
    library.find_optional(nccl.suspend, "ncclCommSuspend");
    library.find_optional(nccl.resume, "ncclCommResume");
    library.find_optional(nccl.memory_stats, "ncclCommMemStats");
    return nccl;
}

}  // namespace

void Cuda::fail(cudaError_t error, const char* what) const {
    const auto text = cat("CUDA reports '", error_string(error), "' in ", what);
    last_error();  // clears it, since a later call of the program would see it
    throw EngineFailure(text);
}

const Libraries& Libraries::get() {
    static const auto loaded = [] {
        // An error about NCCL is thrown first: it is what the user asked for.
        auto libraries = Libraries{.nccl = load_nccl()};
        libraries.cuda = load_cuda();
        return libraries;
    }();
    return loaded;
}

int Libraries::devices() const {
    auto count = 0;
    const auto error = cuda.device_count(&count);
    if (error == cudaErrorInsufficientDriver || error == cudaErrorStubLibrary)
        throw EngineFailure(cat("no NVIDIA driver, or one too old for this CUDA runtime, which reports: ",
                                cuda.error_string(error)));
    if (error == cudaErrorNoDevice || (error == cudaSuccess && count == 0))
        throw EngineFailure(
            "no NVIDIA GPU that this process can use; see nvidia-smi and CUDA_VISIBLE_DEVICES");
    cuda.check(error, "cudaGetDeviceCount");
    return count;
}

std::string nccl_version_text(int code) { return cat(code / 10000, ".", code / 100 % 100, ".", code % 100); }

std::string cuda_version_text(int code) { return cat(code / 1000, ".", code / 10 % 100); }

}  // namespace rankmesh::detail
