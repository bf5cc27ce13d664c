// SPDX-License-Identifier: Apache-2.0
// An array in device memory, for tests and small programs.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/device.hpp>
#include <rankmesh/engine/nccl.hpp>

namespace rankmesh::detail {

/// Allocates bytes on `device`, which becomes the current device of this thread. The result frees them.
RANKMESH_EXPORT std::shared_ptr<void> allocate_on_device(int device, std::size_t bytes);
RANKMESH_EXPORT void copy_to_device(int device, void* to, const void* from, std::size_t bytes);
RANKMESH_EXPORT void copy_to_host(int device, void* to, const void* from, std::size_t bytes);

}  // namespace rankmesh::detail

namespace rankmesh::nccl {

/// An array of `size` elements on this rank's device, for programs without their own device memory, such as
/// tests.
///
/// Throws EngineFailure, with the size, if the allocation fails. The destructor frees the memory and waits
/// for all work on the device.
///
///     void test_sum(nccl::World& world, Communicator& dp) {
///         auto ones = nccl::Array<float>(world, 1024);
///         ones.copy_from(std::vector<float>(1024, 1.0f));
///         dp.all_reduce(ones.memory());
///         auto sums = std::vector<float>(1024);
///         ones.copy_to(sums);
///     }
template <class T>
    requires std::is_trivially_copyable_v<T>
class Array {
public:
    Array(const World& world, std::size_t size)
        : device_(world.device()),
          size_(size),
          data_(detail::allocate_on_device(device_, size * sizeof(T))) {}

    /// Returns the array as a buffer for collectives.
    Memory<T> memory() { return {data(), size_}; }
    Memory<const T> memory() const { return {data(), size_}; }

    /// Copies `size` values from the host, after earlier work on the device's default stream. Throws
    /// UsageError for another number of values.
    void copy_from(std::span<const T> values) {
        check(values.size());
        detail::copy_to_device(device_, data(), values.data(), size_ * sizeof(T));
    }
    /// Copies the values to the host and returns when they have arrived. Order and errors are as in
    /// `copy_from`.
    void copy_to(std::span<T> values) const {
        check(values.size());
        detail::copy_to_host(device_, values.data(), data(), size_ * sizeof(T));
    }

private:
    T* data() const { return static_cast<T*>(data_.get()); }
    void check(std::size_t size) const {
        if (size != size_)
            throw UsageError(detail::cat("an array of ", size_, " elements on device ", device_,
                                         " was given ", size, " on the host; both must be equal"));
    }

    int device_;
    std::size_t size_;
    std::shared_ptr<void> data_;
};

}  // namespace rankmesh::nccl
