// SPDX-License-Identifier: Apache-2.0
// In a file of its own: where the compiler can see through these, g++ warns of new that ends in free.
#include "support/allocations.hpp"

#include <malloc.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t count = 0;
std::atomic<std::int64_t> held = 0;
std::atomic<std::int64_t> most = 0;

void* counted(void* memory) {
    ++count;
    const auto bytes = static_cast<std::int64_t>(malloc_usable_size(memory));
    const auto now = held.fetch_add(bytes) + bytes;
    for (auto before = most.load(); now > before && !most.compare_exchange_weak(before, now);) {
    }
    return memory;
}
void free_counted(void* memory) {
    held -= static_cast<std::int64_t>(malloc_usable_size(memory));
    std::free(memory);
}

}  // namespace

std::size_t support::allocations() { return count; }
std::size_t support::most_bytes() {
    held = 0;
    return static_cast<std::size_t>(most.exchange(0));
}

void* operator new(std::size_t size) {
    if (auto* memory = counted(std::malloc(size == 0 ? 1 : size))) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    return counted(std::malloc(size == 0 ? 1 : size));
}
void operator delete(void* memory) noexcept { free_counted(memory); }
void operator delete(void* memory, std::size_t) noexcept { free_counted(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { free_counted(memory); }
