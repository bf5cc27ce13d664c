// SPDX-License-Identifier: Apache-2.0
// Memory of the library's own, and buffers that it is told of.
#include "fake/nccl/group.hpp"

using namespace fake_nccl;

namespace {

void demand_memory(const Communicator& communicator, const void* buffer, std::size_t bytes, bool for_windows,
                   const char* call) {
    const auto place = fake_cuda::find(buffer, bytes);
    if (!place.of || place.of->device != communicator.device)
        violation(call, ": the ", bytes, " bytes do not lie in memory of device ", communicator.device);
    if (for_windows && !place.of->for_windows)
        violation(call, ": the ", bytes, " bytes are not of ncclMemAlloc");
}

template <class Handle>
Handle registered(Communicator& communicator) {
    auto* handle = new char{};
    communicator.registered.insert(handle);
    return reinterpret_cast<Handle>(handle);
}

void deregister(Communicator& communicator, void* handle, const char* call) {
    demand(communicator.registered.erase(handle) > 0, call, "nothing was registered by this handle");
    delete static_cast<char*>(handle);
}

}  // namespace

ncclResult_t ncclMemAlloc(void** address, std::size_t bytes) {
    return answer([&] {
        demand(address && bytes > 0, "ncclMemAlloc", "nothing was asked for");
        if (fake_cuda::ready("ncclMemAlloc") != cudaSuccess)
            throw Failure{ncclUnhandledCudaError, "ncclMemAlloc: there is no device"};
        *address = fake_cuda::allocate(fake_cuda::current_device(), bytes, true);
        if (!*address) throw Failure{ncclUnhandledCudaError, "ncclMemAlloc: the device is out of memory"};
    });
}

ncclResult_t ncclMemFree(void* address) {
    return answer([&] {
        if (!address) return;
        const auto place = fake_cuda::find(address, 1);
        if (place.of) fake_cuda::synchronize(place.of->device);
        demand(fake_cuda::release(address, true), "ncclMemFree", "this is not of ncclMemAlloc");
    });
}

ncclResult_t ncclCommRegister(const ncclComm_t handle, void* buffer, std::size_t bytes, void** out) {
    constexpr auto call = "ncclCommRegister";
    return answer([&] {
        auto communicator = ready(handle, call);
        demand(buffer && bytes > 0 && out, call, "an argument is missing");
        demand_memory(*communicator, buffer, bytes, false, call);
        *out = registered<void*>(*communicator);
    });
}

ncclResult_t ncclCommDeregister(const ncclComm_t handle, void* what) {
    return answer([&] { deregister(*of(handle, "ncclCommDeregister"), what, "ncclCommDeregister"); });
}

ncclResult_t ncclCommWindowRegister(ncclComm_t handle, void* buffer, std::size_t bytes, ncclWindow_t* out,
                                    int flags) {
    constexpr auto call = "ncclCommWindowRegister";
    return answer([&] {
        auto communicator = ready(handle, call);
        demand(buffer && bytes > 0 && out, call, "an argument is missing");
        demand(reinterpret_cast<std::uintptr_t>(buffer) % NCCL_WIN_REQUIRED_ALIGNMENT == 0, call,
               "the buffer is not aligned to NCCL_WIN_REQUIRED_ALIGNMENT");
        demand_memory(*communicator, buffer, bytes, true, call);
        submit(Job{{communicator}, communicator->is_blocking(), [=] {
                       communicator->exchange(text(call, " of ", bytes, " bytes with flags ", flags), {});
                       *out = registered<ncclWindow_t>(*communicator);
                   }});
    });
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t handle, ncclWindow_t window) {
    return answer(
        [&] { deregister(*of(handle, "ncclCommWindowDeregister"), window, "ncclCommWindowDeregister"); });
}
