// SPDX-License-Identifier: Apache-2.0
#include "fake/cuda/machine.hpp"

#include <unistd.h>

#include <vector>

namespace fake_cuda {
namespace {

thread_local int current = 0;
thread_local cudaError_t last = cudaSuccess;

/// The numbers on the host of the devices that this process sees.
std::vector<int> visible() {
    const auto there = setting("FAKE_DEVICES", 8);
    auto seen = std::vector<int>{};
    if (const auto* list = std::getenv("CUDA_VISIBLE_DEVICES")) {
        auto in = std::istringstream(list);
        for (auto word = std::string{}; std::getline(in, word, ',');) {
            const auto number = word.empty() ? -1 : std::atoi(word.c_str());
            if (number < 0 || number >= there) break;  // those after it are not seen either
            seen.push_back(number);
        }
    } else {
        for (int device = 0; device < there; ++device) seen.push_back(device);
    }
    return seen;
}

}  // namespace

int devices() { return static_cast<int>(visible().size()); }

std::string identity(int device) {
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    return text(host, "/", visible().at(static_cast<std::size_t>(device)));
}

int current_device() { return current; }
void set_current_device(int device) { current = device; }

cudaError_t said(cudaError_t error) {
    if (error != cudaSuccess) last = error;
    return error;
}

void demand_cleared(const char* call) {
    if (last == cudaErrorNotReady)
        violation(call,
                  " finds cudaErrorNotReady of a query in the last error; cudaGetLastError() clears it");
}

int driver() { return setting("FAKE_DRIVER", CUDART_VERSION); }

cudaError_t ready(const char* call) {
    if (fake_common::is_planted(call)) return cudaErrorUnknown;
    if (driver() / 1000 < CUDART_VERSION / 1000) return cudaErrorInsufficientDriver;
    return devices() == 0 ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace fake_cuda

using namespace fake_cuda;

cudaError_t cudaGetDeviceCount(int* count) {
    if (!count) return said(cudaErrorInvalidValue);
    FAKE_CUDA_READY();  // as the real one, which leaves the count as it is where there is no driver
    *count = devices();
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
    FAKE_CUDA_READY();
    demand_cleared(__func__);
    if (device < 0 || device >= devices()) return said(cudaErrorInvalidDevice);
    current = device;
    return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
    FAKE_CUDA_READY();
    if (!device) return said(cudaErrorInvalidValue);
    *device = current;
    return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
    if (!version) return said(cudaErrorInvalidValue);
    *version = driver();
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    if (!version) return said(cudaErrorInvalidValue);
    *version = CUDART_VERSION;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device) {
    FAKE_CUDA_READY();
    if (!id || length < 13) return said(cudaErrorInvalidValue);
    if (device < 0 || device >= devices()) return said(cudaErrorInvalidDevice);
    std::snprintf(id, static_cast<std::size_t>(length), "0000:%02x:00.0",
                  visible()[static_cast<std::size_t>(device)] & 0xff);
    return cudaSuccess;
}

cudaError_t cudaGetLastError() {
    const auto error = last;
    last = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() { return last; }

namespace {

struct Words {
    cudaError_t error;
    const char* name;
    const char* sentence;
};
constexpr Words words[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorStreamCaptureUnsupported, "cudaErrorStreamCaptureUnsupported",
     "operation not permitted when stream is capturing"},
    {cudaErrorUnknown, "cudaErrorUnknown", "unknown error"},
    {cudaErrorIllegalState, "cudaErrorIllegalState",
     "the operation cannot be performed in the present state"},
};

const Words* words_of(cudaError_t error) {
    for (const auto& each : words)
        if (each.error == error) return &each;
    return nullptr;
}

}  // namespace

const char* cudaGetErrorName(cudaError_t error) {
    const auto* found = words_of(error);
    return found ? found->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
    const auto* found = words_of(error);
    return found ? found->sentence : "unrecognized error code";
}
