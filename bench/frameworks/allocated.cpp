// SPDX-License-Identifier: Apache-2.0
// In a file of its own: where the compiler can see through these, g++ warns of new that ends in free.
#include "allocated.hpp"

#include <cstdlib>
#include <new>

namespace {

std::size_t bytes = 0;

}  // namespace

std::size_t allocated_bytes() { return bytes; }

void* operator new(std::size_t size) {
    bytes += size;
    if (auto* memory = std::malloc(size == 0 ? 1 : size)) return memory;
    throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
    bytes += size;
    return std::malloc(size == 0 ? 1 : size);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
