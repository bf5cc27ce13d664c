// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <rankmesh/core/export.hpp>
#include <rankmesh/core/int.hpp>

namespace rankmesh {

namespace detail {
[[noreturn]] RANKMESH_EXPORT void refuse_tag(int tag);
}  // namespace detail

/// What tells messages between the same two ranks apart, given as a number of any integer type; throws
/// UsageError for one that is not in 0..most.
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
