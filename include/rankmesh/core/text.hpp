// SPDX-License-Identifier: Apache-2.0
// The one notation, both ways: everything that is printed parses back to an equal value.
#pragma once

#include <ostream>
#include <ranges>
#include <string>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/mesh_spec.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/core/reader.hpp>

namespace rankmesh {

// --- layout: (4,8,8):(64,8,1)
// ----------------------------------------------------------------------------------

namespace detail {

/// Reads `(4,8):(8,1)`; throws Misuse for sizes or strides below 1 and for more than 2^31 - 1 ranks.
constexpr Layout read_layout(Reader& reader) {
    auto sizes = std::array<int, Layout::max_digits>{};
    auto count = std::size_t{0};
    auto product = std::int64_t{1};
    auto last = std::int64_t{0};
    reader.expect("(");
    do {
        reader.blanks();
        if (count == sizes.size())
            throw Misuse(cat("a layout lists more than ", Layout::max_digits, " digits"));
        const auto size = sizes[count++] = reader.number();
        if (size < 1) throw Misuse(cat("a layout has size ", size, "; sizes are 1 or more"));
        product *= size;
        if (product > Mesh::max_size)
            throw Misuse(
                cat("the sizes of a layout make ", product, " ranks; a world has at most ", Mesh::max_size));
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
            throw Misuse(cat("a layout has stride ", stride, "; strides are 1 or more"));
        last += std::int64_t{sizes[i] - 1} * stride;
        if (last >= Mesh::max_size)
            throw Misuse(
                cat("a layout reaches offset ", last, "; a world has at most ", Mesh::max_size, " ranks"));
        layout.append({sizes[i], stride});
        reader.blanks();
    }
    reader.expect(")");
    return layout;
}

}  // namespace detail

inline std::string to_string(const Layout& layout) {
    auto sizes = std::string{};
    auto strides = std::string{};
    for (int k = 0; k < layout.digit_count(); ++k) {
        const auto digit = layout.digit(k);
        detail::append(sizes, detail::cat(k > 0 ? "," : "", digit.size));
        detail::append(strides, detail::cat(k > 0 ? "," : "", digit.stride));
    }
    if (layout.digit_count() == 0) sizes = strides = "1";
    return detail::cat("(", sizes, "):(", strides, ")");
}

/// Reads `(4,8):(8,1)`; throws Misuse.
constexpr Layout parse_layout(std::string_view text) {
    auto reader = detail::Reader("layout", text);
    const auto layout = detail::read_layout(reader);
    reader.end();
    return layout;
}

// --- mesh: pp=4 dp=8 tp=8, pp=2:32 dp=4:8 @64, dp=* tp=8
// -------------------------------------------------------

constexpr MeshSpec MeshSpec::parse(std::string_view text) {
    struct Entry {
        std::string_view name;
        Extent size = 1;
        int stride = 0;
        Layout layout = {};
        bool is_layout = false;
    };
    auto reader = detail::Reader("mesh", text);
    auto entries = std::array<Entry, max_axes + 1>{};
    auto count = std::size_t{0};
    auto layouts = false;
    auto offset = std::optional<int>{};
    for (reader.blanks(); !reader.done(); reader.separator()) {
        if (reader.accept("@")) {
            offset = reader.number();
            break;
        }
        if (count == entries.size()) break;  // Mesh says that these are too many
        auto& entry = entries[count++];
        entry.name = reader.name();
        reader.expect("=");
        if (reader.accept("*")) {
            entry.size = rest;
        } else if (reader.peek() == '(') {
            entry.layout = detail::read_layout(reader);
            entry.is_layout = layouts = true;
        } else {
            entry.size = reader.number();
            if (reader.accept(":")) {
                entry.stride = reader.number();
                if (entry.stride < 1)
                    throw Misuse(detail::cat("axis '", entry.name, "' has stride ", entry.stride,
                                             "; strides are 1 or more"));
            }
        }
        if (const auto next = reader.peek();
            next != ' ' && next != '\t' && next != '\n' && next != ',' && !reader.done())
            reader.fail("a blank between axes");
    }
    if (count <= max_axes) reader.end();

    auto axes = std::array<Axis, max_axes + 1>{};
    for (std::size_t i = 0; i < count; ++i) axes[i] = {entries[i].name, entries[i].size, entries[i].stride};
    const auto listed = std::span<const Axis>(axes.data(), count);
    if (!layouts) {
        const auto spec = MeshSpec(listed);
        if (!offset) return spec;
        if (spec.has_rest())
            throw Misuse(detail::cat("mesh ", text, " gives an offset beside a size '*'; give all sizes"));
        return spec.mesh_.shifted(*offset);
    }
    detail::checked_product(listed);
    auto mesh = Mesh(Mesh::Unfinished{});
    for (std::size_t i = 0; i < count; ++i) {
        const auto& entry = entries[i];
        if (entry.size.is_rest())
            throw Misuse(detail::cat("mesh ", text,
                                     " gives strides beside a size '*'; give all sizes, or no strides"));
        if (!entry.is_layout && entry.stride == 0 && entry.size.size() > 1)
            throw Misuse(detail::cat("axis '", entry.name,
                                     "' has no stride, but others have; give all a stride or none"));
        auto digits = entry.layout;
        if (!entry.is_layout) {
            if (std::int64_t{entry.size.size() - 1} * entry.stride >= Mesh::max_size)
                throw Misuse(detail::cat("axis '", entry.name, "' reaches beyond rank ", Mesh::max_size - 1));
            digits.push_back({entry.size.size(), entry.stride});
        }
        mesh.push_axis(entry.name, digits);
    }
    return mesh.finish(offset.value_or(0));
}

constexpr Mesh Mesh::parse(std::string_view text) { return MeshSpec::parse(text).resolve(); }
constexpr Mesh Mesh::parse(std::string_view text, int world) { return MeshSpec::parse(text).resolve(world); }

inline std::string to_string(const Mesh& mesh) {
    auto out = std::string{};
    const auto plain = mesh.is_plain() || mesh.shifted(-mesh.offset()).is_plain();
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto digits = mesh.layout(AxisId{a});
        detail::append(out, detail::cat(a > 0 ? " " : "", mesh.name(AxisId{a}), "="));
        if (plain || digits.digit_count() == 0)
            detail::append(out, digits.size());
        else if (digits.digit_count() == 1)
            detail::append(out, detail::cat(digits.size(), ":", digits.digit(0).stride));
        else
            out += to_string(digits);
    }
    if (mesh.offset() != 0) detail::append(out, detail::cat(" @", mesh.offset()));
    return out;
}

inline std::string MeshSpec::to_text() const {
    if (!has_rest()) return to_string(mesh_);
    auto out = std::string{};
    for (int a = 0; a < mesh_.axis_count(); ++a) {
        detail::append(out, detail::cat(a > 0 ? " " : "", mesh_.name(AxisId{a}), "="));
        if (a == rest_)
            out += '*';
        else
            detail::append(out, mesh_.size(AxisId{a}));
    }
    return out;
}

// --- coordinate: pp=1 dp=0 tp=3
// --------------------------------------------------------------------------------

constexpr Coordinate Coordinate::parse(std::string_view text) {
    auto reader = detail::Reader("coordinate", text);
    auto coordinate = Coordinate(Names{});
    reader.blanks();
    do {
        const auto name = reader.name();
        reader.expect("=");
        coordinate.push_back(name, reader.number());
        reader.separator();
    } while (!reader.done());
    return coordinate;
}

inline std::string to_string(const Coordinate& coordinate) {
    auto out = std::string{};
    for (int i = 0; i < coordinate.size(); ++i)
        detail::append(out, detail::cat(i > 0 ? " " : "", coordinate.name(i), "=", coordinate[AxisId{i}]));
    return out;
}

// --- ranks: {0..7, 64..71}, {0, 8, ..., 56}
// --------------------------------------------------------------------

/// Ranks in order, as runs `0..7` of three or more, as `0, 8, ..., 56` for five or more of one step, else one
/// by one.
inline std::string ranks_to_string(std::ranges::random_access_range auto const& ranks) {
    auto out = std::string("{");
    const auto count = static_cast<std::ptrdiff_t>(std::ranges::size(ranks));
    const auto begin = std::ranges::begin(ranks);
    for (std::ptrdiff_t i = 0; i < count;) {
        if (i > 0) out += ", ";
        auto end = i + 1;  // one past the last term of the step that starts here
        const auto step = end < count ? std::int64_t{begin[end]} - begin[i] : 0;
        while (end < count && std::int64_t{begin[end]} - begin[end - 1] == step) ++end;
        if (step == 1 && end - i >= 3) {
            detail::append(out, detail::cat(begin[i], "..", begin[end - 1]));
        } else if (step != 1 && end - i >= 5) {
            detail::append(out, detail::cat(begin[i], ", ", begin[i + 1], ", ..., ", begin[end - 1]));
        } else {
            end = i + 1;
            detail::append(out, begin[i]);
        }
        i = end;
    }
    return out + "}";
}

/// Reads `{0..7, 64..71}` or `{0, 8, ..., 56}`; throws Misuse.
inline std::vector<int> parse_ranks(std::string_view text) {
    auto reader = detail::Reader("group", text);
    auto ranks = std::vector<int>{};
    auto fresh = std::size_t{0};  // terms since the last run or progression: two of them give a step
    const auto fill = [&](std::int64_t from, std::int64_t to, std::int64_t step) {
        if (step == 0 || (to - from) % step != 0 || (to - from) / step < 1)
            throw Misuse(detail::cat("the group '", text, "' goes from ", from, " to ", to, " by ", step,
                                     ", which does not lead there"));
        if ((to - from) / step > (1 << 28))
            throw Misuse(detail::cat("the group '", text, "' lists too many ranks"));
        for (auto next = from; next != to + step; next += step) ranks.push_back(static_cast<int>(next));
        fresh = 0;
    };
    reader.blanks();
    reader.expect("{");
    reader.blanks();
    if (!reader.accept("}")) {
        do {
            reader.blanks();
            if (reader.accept("...")) {
                if (fresh < 2) reader.fail("two terms before '...'");
                reader.blanks();
                reader.expect(",");
                reader.blanks();
                const auto last = std::int64_t{ranks.back()};
                const auto step = last - ranks[ranks.size() - 2];
                fill(last + step, reader.number(), step);
            } else {
                const auto first = reader.number();
                if (reader.accept(".."))
                    fill(first, reader.number(), 1);
                else
                    ranks.push_back(first), ++fresh;
            }
            reader.blanks();
        } while (reader.accept(","));
        reader.expect("}");
    }
    reader.end();
    return ranks;
}

inline std::string to_string(const Group& group) { return ranks_to_string(group); }

// --- placement: a=2 b=2 @[3,1,2,0]
// -----------------------------------------------------------------------------

inline std::string to_string(const Placement& placement) {
    auto out = to_string(placement.mesh()) + " @[";
    for (std::size_t i = 0; i < placement.ranks().size(); ++i)
        detail::append(out, detail::cat(i > 0 ? "," : "", placement.ranks()[i]));
    return out + "]";
}

inline Placement Placement::parse(std::string_view text) {
    const auto at = std::min(text.find('@'), text.size());
    const auto mesh = Mesh::parse(text.substr(0, at));
    auto reader = detail::Reader("placement", text.substr(at));
    auto ranks = std::vector<int>{};
    reader.expect("@[");
    do {
        reader.blanks();
        ranks.push_back(reader.number());
        reader.blanks();
    } while (reader.accept(","));
    reader.expect("]");
    reader.end();
    return Placement(mesh, std::move(ranks));
}

// --- streams
// ---------------------------------------------------------------------------------------------------

/// Writes the notation of a layout, mesh, spec, coordinate, group or placement.
template <class T>
requires std::same_as<T, Layout> || std::same_as<T, Mesh> || std::same_as<T, MeshSpec> ||
    std::same_as<T, Coordinate> || std::same_as<T, Group> || std::same_as<T, Placement>
        std::ostream& operator<<(std::ostream& out, const T& value) {
    return out << to_string(value);
}

}  // namespace rankmesh
