// SPDX-License-Identifier: Apache-2.0
// What calls tell a device engine: where memory is, and the stream that orders work on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <rankmesh/engine/dtype.hpp>

namespace rankmesh {

/// Where memory is: on the host, or on a device, which only a device engine may access.
enum class Space : std::uint8_t { host, device };

constexpr std::string_view to_string(Space space) { return space == Space::host ? "host" : "device"; }

/// A queue of work on a device, by the device library's own handle (a `cudaStream_t`); null is its default
/// one.
struct Stream {
    void* handle = nullptr;
    friend bool operator==(Stream, Stream) = default;
};

/// `size` elements of T on a device, or in `space`: a buffer for collectives that this library never reads
/// itself.
///
/// It does not own the memory.
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

/// `size` elements of a type that is known only at run time: memory of another library.
///
/// What does not compile for a Memory<T> is UsageError for it: a mean of integers, two types in one
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
