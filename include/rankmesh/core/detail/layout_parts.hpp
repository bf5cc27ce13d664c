// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include <rankmesh/core/layout.hpp>

namespace rankmesh::detail {

/// Takes a layout apart into layouts of fewer digits, outermost first.
///
/// Law: for parts a and b of the whole, whole.offset_of(i) == a.offset_of(i / b.size()) + b.offset_of(i %
/// b.size()).
class LayoutParts {
public:
    constexpr explicit LayoutParts(const Layout& whole) : whole_(whole) {}

    /// The next part, of `size` indices, which divides what is left; nothing where it would not end between
    /// digits.
    constexpr std::optional<Layout> next(int size) {
        auto part = Layout{};
        while (size > 1) {
            if (left_.size == 1) left_ = whole_.digit(next_++);
            const auto take = std::min(size, left_.size);
            if (size % take != 0 || left_.size % take != 0) return std::nullopt;
            left_.size /= take;
            part.append({take, left_.size * left_.stride});
            size /= take;
        }
        return part;
    }

private:
    Layout whole_;
    int next_ = 0;  // the digit that is taken apart after this one
    Digit left_;    // what of this one is not yet given away
};

}  // namespace rankmesh::detail
