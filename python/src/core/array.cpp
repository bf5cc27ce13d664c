// SPDX-License-Identifier: Apache-2.0
// Ranks as NumPy arrays.
#include <algorithm>
#include <memory>
#include <span>

#include <nanobind/ndarray.h>

#include "core/core.hpp"

namespace rankmesh::python {

namespace {

/// An array whose memory NumPy takes over.
template <class Fill>
nb::object filled(const std::vector<std::size_t>& shape, Fill&& fill) {
    numpy_for("an array of ranks");
    auto count = std::size_t{1};
    for (auto size : shape) count *= size;
    auto memory = std::make_unique_for_overwrite<int[]>(count);
    fill(std::span<int>(memory.get(), count));
    auto* data = memory.get();
    const auto owner =
        nb::capsule(memory.release(), [](void* array) noexcept { delete[] static_cast<int*>(array); });
    return nb::ndarray<nb::numpy, int>(data, shape.size(), shape.data(), owner).cast();
}

}  // namespace

std::vector<std::size_t> shape_of(const Mesh& mesh) {
    auto shape = std::vector<std::size_t>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        shape.push_back(static_cast<std::size_t>(mesh.size(AxisId{a})));
    return shape;
}

nb::object array_of(const Ranks& ranks) {
    return filled({static_cast<std::size_t>(ranks.size())},
                  [&](std::span<int> out) { ranks.copy_to(out.data()); });
}

nb::object array_of(const Groups& groups) {
    return filled({static_cast<std::size_t>(groups.groups.size()),
                   static_cast<std::size_t>(groups.groups.group_size())},
                  [&](std::span<int> out) { groups.groups.copy_to(out); });
}

nb::object array_of(const Mesh& mesh) {
    return filled(shape_of(mesh), [&](std::span<int> out) { Ranks(mesh.ranks()).copy_to(out.data()); });
}

nb::object array_of(const Placement& placement) {
    return filled(shape_of(placement.mesh()),
                  [&](std::span<int> out) { std::ranges::copy(placement.table(), out.begin()); });
}

nb::object converted(const nb::object& array, nb::handle dtype, nb::handle copy) {
    if (nb::isinstance<nb::bool_>(copy) && !nb::cast<bool>(copy))
        throw UsageError("ranks are no array that could be shared; leave out copy=False");
    return dtype.is_none() ? array : nb::object(array.attr("astype")(dtype));
}

}  // namespace rankmesh::python
