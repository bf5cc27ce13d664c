// SPDX-License-Identifier: Apache-2.0
// What the Python package is held beside: calls that do nothing, and the C++ that it calls.
#include <chrono>
#include <memory>
#include <string>

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <rankmesh/core/mesh.hpp>

namespace {

/// Seconds to write all groups of a mesh along an axis into memory that was just allocated, as an array is.
double list_groups(const std::string& text, const std::string& axis) {
    using Clock = std::chrono::steady_clock;
    const auto mesh = rankmesh::Mesh::parse(text);
    const auto begin = Clock::now();
    const auto groups = mesh.partition(axis);
    const auto size = static_cast<std::size_t>(mesh.size());
    const auto room = std::make_unique_for_overwrite<int[]>(size);
    groups.copy_to({room.get(), size});
    auto* volatile seen = room.get();
    static_cast<void>(seen);
    return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Methods that do nothing with what they are given.
struct Bare {};

}  // namespace

NB_MODULE(bench_python_bare, m) {
    m.def("nothing", [] {});
    nanobind::class_<Bare>(m, "Bare")
        .def(nanobind::init<>())
        .def(
            "coord", [](const Bare&, nanobind::handle) {}, nanobind::arg("rank"))
        .def(
            "index", [](const Bare&, nanobind::handle, nanobind::handle) {}, nanobind::arg("rank"),
            nanobind::arg("axis"))
        .def("group", [](const Bare&, nanobind::handle, const nanobind::args&) {});
    m.def("list_groups", &list_groups);
}
