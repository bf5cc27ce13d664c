// SPDX-License-Identifier: Apache-2.0
#include "fake/cuda/memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>

#include "fake/cuda/machine.hpp"
#include "fake/cuda/stream.hpp"

namespace fake_cuda {
namespace {

constexpr auto room = std::size_t{1} << 36;      // of addresses
constexpr auto step = std::size_t{1} << 12;      // between allocations, so that none runs into the next
constexpr auto capacity = std::size_t{1} << 34;  // of a device

struct Memory {
    static Memory& get() {
        static auto& memory = *new Memory();
        if (memory.begin == MAP_FAILED) violation("no addresses can be had for memory of devices");
        return memory;
    }

    std::mutex mutex;
    std::map<const char*, std::shared_ptr<Allocation>> allocations = {};
    std::map<const char*, std::size_t> pinned = {};  // of the host
    std::map<int, std::size_t> used = {};            // by device
    char* const begin = static_cast<char*>(
        mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    char* const end = begin + room;
    char* next = begin;

    bool is_pinned(const void* address) const {
        const auto* at = static_cast<const char*>(address);
        const auto after = pinned.upper_bound(at);
        return after != pinned.begin() && at < std::prev(after)->first + std::prev(after)->second;
    }
};

/// Says at exit what was not freed, where that was asked for.
const struct Leaks {
    ~Leaks() {
        auto& memory = Memory::get();
        if (setting("FAKE_LEAKS", 0) == 0) return;
        const auto lock = std::lock_guard(memory.mutex);
        if (!memory.allocations.empty())
            violation(memory.allocations.size(), " pieces of device memory were not freed, the first of ",
                      memory.allocations.begin()->second->bytes, " bytes");
        if (!memory.pinned.empty())
            violation(memory.pinned.size(), " pieces of pinned memory were not freed");
    }
} leaks;

}  // namespace

Location find(const void* address, std::size_t bytes) {
    const auto* begin = static_cast<const char*>(address);
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    const auto after = memory.allocations.upper_bound(begin);
    if (after == memory.allocations.begin()) return {};
    const auto& found = std::prev(after)->second;
    if (begin + bytes > found->address + found->bytes || begin >= found->address + found->bytes) return {};
    return {found, found->held.get() + (begin - found->address)};
}

void* allocate(int device, std::size_t bytes, bool for_windows) {
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    const auto space = (bytes / step + 2) * step;
    if (memory.used[device] + bytes > capacity ||
        memory.end - memory.next < static_cast<std::ptrdiff_t>(space))
        return nullptr;
    auto* address = memory.next;
    auto held = std::make_unique<char[]>(bytes);
    std::memset(held.get(), 0xa5, bytes);  // what nobody has written is not 0
    memory.allocations[address] =
        std::make_shared<Allocation>(Allocation{device, address, bytes, for_windows, std::move(held)});
    memory.next += space;
    memory.used[device] += bytes;
    return address;
}

bool release(void* address, bool for_windows) {
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    const auto found = memory.allocations.find(static_cast<char*>(address));
    if (found == memory.allocations.end() || found->second->for_windows != for_windows) return false;
    memory.used[found->second->device] -= found->second->bytes;
    memory.allocations.erase(found);
    return true;
}

namespace {

/// The bytes that a copy reads or writes: of a device, or the host's own.
struct Side {
    Location place;
    char* bytes;
    bool on_device() const { return place.of != nullptr; }
};
Side side(const void* address, std::size_t bytes) {
    auto place = find(address, bytes);
    auto* at = place.of ? place.behind : static_cast<char*>(const_cast<void*>(address));
    return {std::move(place), at};
}

bool fits(cudaMemcpyKind kind, bool to_device, bool from_device) {
    switch (kind) {
        case cudaMemcpyHostToHost:
            return !to_device && !from_device;
        case cudaMemcpyHostToDevice:
            return to_device && !from_device;
        case cudaMemcpyDeviceToHost:
            return !to_device && from_device;
        case cudaMemcpyDeviceToDevice:
            return to_device && from_device;
        case cudaMemcpyDefault:
            return true;
    }
    return false;
}

/// True for an address of fake devices, where no allocation lives or the bytes run over its end.
bool astray(const Side& side, const void* address) {
    const auto& memory = Memory::get();
    const auto* at = static_cast<const char*>(address);
    return !side.on_device() && at >= memory.begin && at < memory.end;
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t handle,
                 bool blocking) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (bytes == 0) return cudaSuccess;
    auto target = side(to, bytes);
    auto source = side(from, bytes);
    if (!to || !from || astray(target, to) || astray(source, from) ||
        !fits(kind, target.on_device(), source.on_device()))
        return said(cudaErrorInvalidValue);
    auto pinned = false;
    {
        auto& memory = Memory::get();
        const auto lock = std::lock_guard(memory.mutex);
        pinned = memory.is_pinned(target.on_device() ? from : to);
    }
    // As the real one: what is not pinned is read before the call returns, and written before it returns.
    auto staged = std::shared_ptr<std::string>{};
    if (!source.on_device() && !pinned) {
        staged = std::make_shared<std::string>(source.bytes, bytes);
        source.bytes = staged->data();
    }
    blocking = blocking || (!target.on_device() && !pinned);
    const auto done = enqueue(stream, [=] {
        std::memcpy(target.bytes, source.bytes, bytes);
        (void)staged;
    });
    if (blocking) done->wait();
    return cudaSuccess;
}

cudaError_t set(void* to, int value, std::size_t bytes, cudaStream_t handle, bool blocking) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (bytes == 0) return cudaSuccess;
    const auto target = find(to, bytes);
    if (!target.of) return said(cudaErrorInvalidValue);
    const auto done = enqueue(stream, [=] { std::memset(target.behind, value, bytes); });
    if (blocking) done->wait();
    return cudaSuccess;
}

}  // namespace
}  // namespace fake_cuda

using namespace fake_cuda;

cudaError_t cudaMalloc(void** address, std::size_t bytes) {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    demand_cleared(__func__);
    if (!address) return said(cudaErrorInvalidValue);
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    wait_for_peers(__func__);
    *address = allocate(current_device(), bytes, false);
    return *address ? cudaSuccess : said(cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* address) {
    FAKE_CUDA_READY();
    demand_no_capture(__func__);
    if (!address) return cudaSuccess;
    const auto place = find(address, 1);
    if (!place.of) return said(cudaErrorInvalidValue);
    synchronize(place.of->device);
    wait_for_peers(__func__);
    return release(address, false) ? cudaSuccess : said(cudaErrorInvalidValue);
}

cudaError_t cudaMallocAsync(void** address, std::size_t bytes, cudaStream_t stream) {
    FAKE_CUDA_READY();
    if (!stream_of(stream)) return said(cudaErrorInvalidResourceHandle);
    demand_no_capture(__func__);
    if (!address) return said(cudaErrorInvalidValue);
    *address = nullptr;
    if (bytes == 0) return cudaSuccess;
    *address = allocate(current_device(), bytes, false);
    return *address ? cudaSuccess : said(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeAsync(void* address, cudaStream_t handle) {
    FAKE_CUDA_READY();
    const auto stream = stream_of(handle);
    if (!stream) return said(cudaErrorInvalidResourceHandle);
    if (!address) return cudaSuccess;
    if (!find(address, 1).of) return said(cudaErrorInvalidValue);
    enqueue(stream, [=] {
        if (!release(address, false)) violation("cudaFreeAsync: memory was freed twice");
    });
    return cudaSuccess;
}

cudaError_t cudaMallocHost(void** address, std::size_t bytes) {
    FAKE_CUDA_READY();
    if (!address) return said(cudaErrorInvalidValue);
    *address = std::malloc(std::max(bytes, std::size_t{1}));
    if (!*address) return said(cudaErrorMemoryAllocation);
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    memory.pinned[static_cast<char*>(*address)] = std::max(bytes, std::size_t{1});
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void* address) {
    FAKE_CUDA_READY();
    if (!address) return cudaSuccess;
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    if (memory.pinned.erase(static_cast<char*>(address)) == 0) return said(cudaErrorInvalidValue);
    std::free(address);
    return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
    return copy(to, from, bytes, kind, nullptr, true);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return copy(to, from, bytes, kind, stream, false);
}

cudaError_t cudaMemset(void* to, int value, std::size_t bytes) {
    return set(to, value, bytes, nullptr, true);
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t stream) {
    return set(to, value, bytes, stream, false);
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    FAKE_CUDA_READY();
    if (!free || !total) return said(cudaErrorInvalidValue);
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    *total = capacity;
    *free = capacity - memory.used[current_device()];
    return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
    FAKE_CUDA_READY();
    if (!attributes) return said(cudaErrorInvalidValue);
    *attributes = {};
    const auto place = find(address, 1);
    auto& memory = Memory::get();
    const auto lock = std::lock_guard(memory.mutex);
    attributes->type = cudaMemoryTypeUnregistered;
    attributes->device = cudaInvalidDeviceId;
    if (place.of) {
        attributes->type = cudaMemoryTypeDevice;
        attributes->device = place.of->device;
        attributes->devicePointer = const_cast<void*>(address);
    } else if (memory.is_pinned(address)) {
        attributes->type = cudaMemoryTypeHost;
        attributes->device = current_device();
        attributes->devicePointer = const_cast<void*>(address);
        attributes->hostPointer = const_cast<void*>(address);
    }
    return cudaSuccess;
}
