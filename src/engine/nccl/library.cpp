// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/library.hpp"

#include <dlfcn.h>

#include <optional>

#include <rankmesh/core/error.hpp>

namespace rankmesh::detail {
namespace {

constexpr auto least_version = 22800;

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
    cudaError_t (*device_count)(int*) = library.find("cudaGetDeviceCount");
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

Loaded load_nccl() {
    auto library =
        Loaded({"libnccl.so.2"}, "install NCCL 2.28 or later, or put its folder into LD_LIBRARY_PATH");
    decltype(&ncclGetVersion) get_version = library.find("ncclGetVersion");
    auto version = 0;
    if (get_version(&version) != ncclSuccess || version < least_version)
        throw EngineFailure(cat("libnccl.so.2 is NCCL ", nccl_version_text(version), "; ",
                                nccl_version_text(least_version), " or later is needed"));
    return library;
}

}  // namespace

Loaded::Loaded(std::initializer_list<const char*> names, const char* advice) : name_(*names.begin()) {
    for (const auto* name : names)
        if ((handle_ = dlopen(name, RTLD_NOW | RTLD_LOCAL))) return;
    const auto* why = dlerror();
    throw EngineFailure(cat(name_, " not found; ", advice, " (", why ? why : "no reason given", ")"));
}

Loaded::Symbol Loaded::find(const char* symbol) const {
    const auto found = find_optional(symbol);
    if (!found.address) throw EngineFailure(cat(name_, " has no ", symbol, "; a newer one is needed"));
    return found;
}

Loaded::Symbol Loaded::find_optional(const char* symbol) const { return {dlsym(handle_, symbol)}; }

void Cuda::fail(cudaError_t error, const char* what) const {
    const auto text = cat("CUDA reports '", error_string(error), "' in ", what);
    last_error();  // clears it, since a later call of the program would see it
    throw EngineFailure(text);
}

const Libraries& Libraries::get() {
    static const auto loaded = Libraries{.nccl = {load_nccl()}, .cuda = {load_runtime()}};
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
