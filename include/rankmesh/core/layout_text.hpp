// SPDX-License-Identifier: Apache-2.0
// Writes and reads layouts: (4,8,8):(64,8,1).
#pragma once

#include <array>
#include <limits>
#include <ostream>
#include <string>

#include <rankmesh/core/detail/reader.hpp>
#include <rankmesh/core/layout.hpp>

namespace rankmesh {

namespace detail {

/// Reads `(4,8):(8,1)`. Throws UsageError for sizes or strides below 1, and for more than 2^31 - 1 ranks.
constexpr Layout read_layout(Reader& reader) {
    auto sizes = std::array<int, Layout::max_digits>{};
    auto count = std::size_t{0};
    auto product = std::int64_t{1};
    auto last = std::int64_t{0};
    reader.expect("(");
    do {
        reader.blanks();
        if (count == sizes.size())
            throw UsageError(cat("a layout lists more than ", Layout::max_digits, " digits"));
        const auto size = sizes[count++] = reader.number();
        if (size < 1) throw UsageError(cat("a layout has size ", size, "; sizes are 1 or more"));
        product *= size;
        if (product > std::numeric_limits<int>::max())
            throw UsageError(cat("the sizes of a layout make ", product, " ranks; a world has at most ",
                                 std::numeric_limits<int>::max()));
        reader.blanks();
    } while (reader.accept(","));
    reader.expect(")");
    reader.expect(":");
    reader.expect("(");
    auto layout = Layout{};
    for (std::size_t i = 0; i < count; ++i) {
        if (i > 0) reader.expect(",");
        reader.blanks();
        const auto stride = reader.number();
        if (stride < 1 && sizes[i] > 1)
            throw UsageError(cat("a layout has stride ", stride, "; strides are 1 or more"));
        last += std::int64_t{sizes[i] - 1} * stride;
        if (last >= std::numeric_limits<int>::max())
            throw UsageError(cat("a layout reaches offset ", last, "; a world has at most ",
                                 std::numeric_limits<int>::max(), " ranks"));
        layout.push_back({sizes[i], stride});
        reader.blanks();
    }
    reader.expect(")");
    return layout;
}

}  // namespace detail

inline std::string to_string(const Layout& layout) {
    if (layout.digit_count() == 0) return "(1):(1)";
    auto sizes = std::string{};
    auto strides = std::string{};
    for (int k = 0; k < layout.digit_count(); ++k) {
        const auto digit = layout.digit(k);
        detail::append(sizes, detail::cat(k > 0 ? "," : "", digit.size));
        detail::append(strides, detail::cat(k > 0 ? "," : "", digit.stride));
    }
    return detail::cat("(", sizes, "):(", strides, ")");
}

/// Reads `(4,8):(8,1)`. Throws UsageError for any other text, and for digits that do not nest.
///
/// Law: `parse_layout(to_string(layout)) == layout`.
constexpr Layout parse_layout(std::string_view text) {
    auto reader = detail::Reader("layout", text);
    reader.blanks();
    const auto layout = detail::read_layout(reader);
    reader.end();
    if (!layout.nests())
        throw UsageError(detail::cat("the strides of ", to_string(layout),
                                     " overlap: a stride must be larger than all that smaller strides reach "
                                     "together"));
    return layout;
}

inline std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << to_string(layout); }

}  // namespace rankmesh
