// SPDX-License-Identifier: Apache-2.0
// Writes meshes, coordinates and groups as text, and reads coordinates. Every text parses back to an equal
// value. mesh.hpp includes this file.
#pragma once

#include <ostream>
#include <string>

#include <rankmesh/core/detail/reader.hpp>
#include <rankmesh/core/layout_text.hpp>
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/ranks.hpp>

namespace rankmesh {

// --- mesh: pp=4 dp=8 tp=8, pp=2:32 dp=4:8 @64; mesh_spec.hpp reads it

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

// --- coordinate: pp=1 dp=0 tp=3

constexpr Coordinate Coordinate::parse(std::string_view text) {
    auto reader = detail::Reader("coordinate", text);
    auto coordinate = Coordinate(Names{});
    for (reader.blanks(); !reader.done(); reader.separator()) {
        const auto name = reader.name();
        if (!reader.accept("=")) reader.fail(detail::cat("'=' and an index, as in ", name, "=0,"));
        coordinate.push_back(name, reader.number());
        if (!reader.at_separator()) reader.fail("a blank or ',' between axes");
    }
    return coordinate;
}

inline std::string to_string(const Coordinate& coordinate) {
    auto out = std::string{};
    for (int i = 0; i < coordinate.size(); ++i)
        detail::append(out, detail::cat(i > 0 ? " " : "", coordinate.name(i), "=", coordinate[AxisId{i}]));
    return out;
}

// --- group: {0..7, 64..71}

inline std::string to_string(const Group& group) {
    // A group of 2^30 members with one step is written from three of them, without a loop.
    const auto step = group.step();
    if (group.size() < 5 || !step) return ranks_to_string(group);
    if (*step == 1) return detail::cat("{", group.front(), "..", group.back(), "}");
    return detail::cat("{", group[0], ", ", group[1], ", ..., ", group.back(), "}");
}

// --- streams

inline std::ostream& operator<<(std::ostream& out, const Mesh& mesh) { return out << to_string(mesh); }
inline std::ostream& operator<<(std::ostream& out, const Coordinate& at) { return out << to_string(at); }
inline std::ostream& operator<<(std::ostream& out, const Group& group) { return out << to_string(group); }

}  // namespace rankmesh
