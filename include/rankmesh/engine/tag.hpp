// SPDX-License-Identifier: Apache-2.0
// Tag, the tag of a message.
#pragma once

#include <cstdint>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/int.hpp>

namespace rankmesh {

namespace detail {
[[noreturn]] RANKMESH_EXPORT void refuse_tag(int tag);
}  // namespace detail

/// A message tag, converted from any integer type. Throws UsageError unless it is in 0..most.
class Tag {
public:
    static constexpr int most = 16383;

    template <detail::IntLike N>
    constexpr Tag(N n) : Tag(Int(n), nullptr) {}
    constexpr std::uint16_t number() const { return number_; }

private:
    constexpr Tag(int n, std::nullptr_t) : number_(static_cast<std::uint16_t>(n)) {
        if (n < 0 || n > most) detail::refuse_tag(n);
    }
    std::uint16_t number_;
};

}  // namespace rankmesh
