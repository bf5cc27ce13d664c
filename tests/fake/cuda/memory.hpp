// SPDX-License-Identifier: Apache-2.0
// Memory of fake devices: its addresses are ones that the host cannot read, what it holds lies
// elsewhere.
#pragma once

#include <cstddef>
#include <memory>

namespace fake_cuda {

struct Allocation {
    int device;
    char* address;
    std::size_t bytes;
    bool for_windows;  // by ncclMemAlloc
    std::unique_ptr<char[]> held;
};

/// Where device memory really lies; it stays as long as this is kept.
struct Location {
    std::shared_ptr<Allocation> of;  // null: these bytes are not all in one allocation
    char* behind = nullptr;
};
Location find(const void* address, std::size_t bytes);

/// Never gives an address twice. Null: the device has no more.
void* allocate(int device, std::size_t bytes, bool for_windows);
/// False for what does not begin an allocation of that kind.
bool release(void* address, bool for_windows);

}  // namespace fake_cuda
