// SPDX-License-Identifier: Apache-2.0
// What an engine for devices needs in calls: where memory lies, and the stream that orders work on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace rankmesh {

/// Where memory lies: what a host engine reads, or what only a device engine may touch.
enum class Space : std::uint8_t { host, device };

constexpr std::string_view to_string(Space space) { return space == Space::host ? "host" : "device"; }

/// A queue of work on a device, by the device library's own handle (a `cudaStream_t`); null is its default
/// one.
struct Stream {
    void* handle = nullptr;
    friend bool operator==(Stream, Stream) = default;
};

/// `size` elements of T that lie on a device, or in `space`: a buffer for collectives that is never read
/// here.
///
/// A view: the memory is its owner's.
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

}  // namespace rankmesh
