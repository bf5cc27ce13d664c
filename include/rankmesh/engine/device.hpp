// SPDX-License-Identifier: Apache-2.0
// Device memory and streams in calls: where a buffer is, and which stream orders the work on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <rankmesh/engine/dtype.hpp>

namespace rankmesh {

/// Where memory is: on the host, or on a device. Only a device engine accesses device memory.
enum class Space : std::uint8_t { host, device };

constexpr std::string_view to_string(Space space) { return space == Space::host ? "host" : "device"; }

/// A stream of a device, by the handle of the device library (a `cudaStream_t`); null is the default stream.
struct Stream {
    void* handle = nullptr;
    friend bool operator==(Stream, Stream) = default;
};

/// A buffer of `size` elements of T on a device, or in `space`. rankmesh itself never reads device memory.
///
/// A Memory does not own the memory.
template <class T>
class Memory {
public:
    using value_type = T;
    constexpr Memory(T* data, std::size_t size, Space space = Space::device)
        : data_(data), size_(size), space_(space) {}
    constexpr T* data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    constexpr Space space() const { return space_; }

private:
    T* data_;
    std::size_t size_;
    Space space_;
};

/// A buffer of `size` elements whose type is known only at run time, such as memory of another library.
///
/// Errors that do not compile for Memory<T> throw UsageError here: a mean of integers, two types in one
/// operation.
///
///     auto data = std::vector<float>(8);
///     void* lent = data.data();
///     const auto memory = Memory(lent, 8, DType::f32, Space::host);
///     EXPECT_EQ(to_string(memory.dtype()), "f32");
template <class Void>
    requires std::is_void_v<Void>
class Memory<Void> {
public:
    using value_type = Void;
    constexpr Memory(Void* data, std::size_t size, DType dtype, Space space = Space::device)
        : data_(data), size_(size), dtype_(dtype), space_(space) {}
    constexpr Void* data() const { return data_; }
    constexpr std::size_t size() const { return size_; }
    constexpr DType dtype() const { return dtype_; }
    constexpr Space space() const { return space_; }

private:
    Void* data_;
    std::size_t size_;
    DType dtype_;
    Space space_;
};
template <class Void>
Memory(Void*, std::size_t, DType, Space = Space::device) -> Memory<Void>;

}  // namespace rankmesh
