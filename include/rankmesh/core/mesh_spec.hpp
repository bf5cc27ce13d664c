// SPDX-License-Identifier: Apache-2.0
// MeshSpec, a mesh with one open size, such as dp=* tp=8.
#pragma once

#include <ostream>

#include <rankmesh/core/detail/reader.hpp>
#include <rankmesh/core/layout_text.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

/// A mesh in which one size may be `rest`; programs declare it before they know the number of ranks.
///
/// Law: a MeshSpec made from a Mesh resolves to that Mesh in every world.
/// Law: `spec.shifted(k).resolve(n + k) == spec.resolve(n).shifted(k)` if a size is `rest`.
///
///     MeshSpec{{"dp", rest}, {"tp", 2}}.resolve(8) == Mesh{{"dp", 4}, {"tp", 2}}
/// With an offset, `rest` counts the ranks from the offset to the end of the world:
///     MeshSpec::parse("dp=* tp=2 @4").resolve(8) == Mesh::parse("dp=2 tp=2 @4")
class MeshSpec {
public:
    /// Makes a spec. Throws UsageError like Mesh, and if two sizes are `rest`, or if an axis has a stride
    /// beside a `rest`.
    constexpr MeshSpec(std::initializer_list<Axis> axes)
        : MeshSpec(std::span<const Axis>(axes.begin(), axes.size())) {}
    constexpr explicit MeshSpec(std::span<const Axis> axes) : MeshSpec(with_rest_of_one(axes)) {}
    constexpr MeshSpec(const Mesh& mesh) : mesh_(mesh) {}

    /// Reads the notation of Mesh::parse, in which one size may be `*`.
    static constexpr MeshSpec parse(std::string_view text);

    /// Returns the same spec with `by` added to every rank. `rest` then counts the ranks from the offset on.
    ///
    ///     MeshSpec{{"tp", rest}}.shifted(4).resolve(8) == Mesh{{"tp", 4}}.shifted(4)
    constexpr MeshSpec shifted(int by) const {
        auto moved = *this;
        moved.mesh_ = mesh_.shifted(by);
        return moved;
    }

    /// Returns true if one size is `rest`.
    constexpr bool has_rest() const { return rest_ >= 0; }

    /// Returns the mesh in a world of `world` ranks. Throws UsageError if the known sizes do not divide the
    /// number of ranks from the offset on.
    ///
    /// dp=* tp=2 | resolve(8) -> dp=4 tp=2
    /// dp=* tp=2 @4 | resolve(8) -> dp=2 tp=2 @4
    constexpr Mesh resolve(int world) const {
        if (!has_rest()) return mesh_;
        const auto known = mesh_.size();
        const auto offset = mesh_.offset();
        if (world <= offset || (world - offset) % known != 0) throw_does_not_fit(world);
        return with_rest((world - offset) / known);
    }
    /// Returns the mesh. Throws UsageError if one size is `rest`.
    constexpr Mesh resolve() const {
        if (has_rest())
            throw UsageError(detail::cat("mesh ", to_text(),
                                         " has size '*' and no world size is known; give a number, or "
                                         "the number of ranks"));
        return mesh_;
    }

    friend constexpr bool operator==(const MeshSpec&, const MeshSpec&) = default;
    friend std::string to_string(const MeshSpec& spec) { return spec.to_text(); }

private:
    struct Parts {
        std::array<Axis, max_axes + 1> axes;
        std::size_t count;
        int rest;
    };
    static constexpr Parts with_rest_of_one(std::span<const Axis> given) {
        auto parts = Parts{.axes = {}, .count = 0, .rest = -1};
        for (const auto& axis : given) {
            if (parts.count == parts.axes.size()) break;  // Mesh says that these are too many
            auto& part = parts.axes[parts.count] = axis;
            if (axis.size.is_rest()) {
                if (parts.rest >= 0)
                    throw UsageError(detail::cat(
                        "axes '", parts.axes[static_cast<std::size_t>(parts.rest)].name, "' and '", axis.name,
                        "' both have size '*'; at most one can be inferred"));
                parts.rest = static_cast<int>(parts.count);
                part.size = 1;
            }
            ++parts.count;
        }
        return parts;
    }
    constexpr explicit MeshSpec(const Parts& parts)
        : mesh_(std::span<const Axis>(parts.axes.data(), parts.count)), rest_(parts.rest) {
        for (std::size_t a = 0; has_rest() && a < parts.count; ++a)
            if (parts.axes[a].stride != 0)
                throw UsageError(detail::cat("axis '", parts.axes[a].name, "' has stride ",
                                             parts.axes[a].stride,
                                             " beside a size '*'; give all sizes, or no strides"));
    }
    constexpr Mesh with_rest(int size) const {
        auto axes = std::array<Axis, max_axes>{};
        for (int a = 0; a < mesh_.axis_count(); ++a)
            axes[static_cast<std::size_t>(a)] = {mesh_.name(AxisId{a}),
                                                 a == rest_ ? size : mesh_.size(AxisId{a})};
        return Mesh(std::span<const Axis>(axes.data(), static_cast<std::size_t>(mesh_.axis_count())))
            .shifted(mesh_.offset());
    }
    [[noreturn]] void throw_does_not_fit(int world) const;
    std::string to_text() const;

    Mesh mesh_;  // size 1 in place of `rest`
    int rest_ = -1;
};

// --- mesh: pp=4 dp=8 tp=8, pp=2:32 dp=4:8 @64, dp=* tp=8

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
    auto offset = 0;
    for (reader.blanks(); !reader.done(); reader.separator()) {
        if (reader.accept("@")) {
            offset = reader.number();
            break;
        }
        if (count == entries.size()) break;  // Mesh says that these are too many
        auto& entry = entries[count++];
        entry.name = reader.name();
        if (!reader.accept("=")) reader.fail(detail::cat("'=' and a size, as in ", entry.name, "=8,"));
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
                    throw UsageError(detail::cat("axis '", entry.name, "' has stride ", entry.stride,
                                                 "; strides are 1 or more"));
            }
        }
        if (!reader.at_separator()) reader.fail("a blank or ',' between axes");
    }
    if (count <= max_axes) reader.end();

    auto axes = std::array<Axis, max_axes + 1>{};
    for (std::size_t i = 0; i < count; ++i) axes[i] = {entries[i].name, entries[i].size, entries[i].stride};
    const auto listed = std::span<const Axis>(axes.data(), count);
    if (!layouts) {
        const auto spec = MeshSpec(listed);
        return offset == 0 ? spec : spec.shifted(offset);
    }
    detail::checked_product(listed);
    auto mesh = Mesh(Mesh::Unfinished{});
    for (std::size_t i = 0; i < count; ++i) {
        const auto& entry = entries[i];
        if (entry.size.is_rest())
            throw UsageError(detail::cat("mesh ", detail::excerpt(text),
                                         " gives strides beside a size '*'; give all sizes, or no strides"));
        if (!entry.is_layout && entry.stride == 0 && entry.size.size() > 1)
            throw UsageError(detail::cat("axis '", entry.name,
                                         "' has no stride, but others have; give all a stride or none"));
        auto digits = entry.layout.coalesced();
        if (!entry.is_layout) {
            digits.push_back(detail::checked_digit(entry.name, entry.size.size(), entry.stride));
        }
        mesh.push_axis(entry.name, digits);
    }
    return mesh.finish(offset);
}

constexpr Mesh Mesh::parse(std::string_view text) { return MeshSpec::parse(text).resolve(); }
constexpr Mesh Mesh::parse(std::string_view text, int world) { return MeshSpec::parse(text).resolve(world); }

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
    if (mesh_.offset() != 0) detail::append(out, detail::cat(" @", mesh_.offset()));
    return out;
}

inline void MeshSpec::throw_does_not_fit(int world) const {
    const auto known = mesh_.size();
    const auto offset = mesh_.offset();
    const auto refused = detail::cat("mesh ", to_text(), " does not fit a world of ", world);
    if (offset > 0 && world <= offset)
        throw UsageError(detail::cat(refused, ": no rank is left from ", offset, " on"));
    throw UsageError(detail::cat(refused, ": the known sizes make ", known, ", which does not divide ",
                                 offset == 0
                                     ? detail::cat(world)
                                     : detail::cat("the ", world - offset, " ranks from ", offset, " on")));
}

inline std::ostream& operator<<(std::ostream& out, const MeshSpec& spec) { return out << to_string(spec); }

}  // namespace rankmesh
