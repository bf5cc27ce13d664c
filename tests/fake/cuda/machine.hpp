// SPDX-License-Identifier: Apache-2.0
// The devices of a fake host, and what each of its threads has said about them.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "fake/common.hpp"

namespace fake_cuda {

using fake_common::setting;
using fake_common::text;

template <class... T>
[[noreturn]] void violation(const T&... parts) {
    fake_common::violation("cuda", parts...);
}

/// How many devices this process sees: FAKE_DEVICES, or those of them that CUDA_VISIBLE_DEVICES lists.
int devices();
/// The host and the number that a device has there, whatever this process calls it.
std::string identity(int device);

/// The calling thread's device; every thread begins with 0.
int current_device();
void set_current_device(int device);

/// Keeps an error for cudaGetLastError.
cudaError_t said(cudaError_t error);
/// What a query left in the last error, where the program would take it for its own, is a violation.
void demand_cleared(const char* call);
/// cudaSuccess if there is a driver and a device, and FAKE_FAIL does not name the call.
cudaError_t ready(const char* call);
/// The version of the driver; 0: there is none.
int driver();

/// What ends a function that needs a device where there is none.
#define FAKE_CUDA_READY() \
    if (const auto error = fake_cuda::ready(__func__); error != cudaSuccess) return fake_cuda::said(error)

}  // namespace fake_cuda
