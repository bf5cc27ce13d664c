// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/mesh.hpp>

#include "round_trip.hpp"

namespace {

/// What reads must answer: the ends of the mesh have coordinates that lead back to them.
void ask(const rankmesh::Mesh& mesh) {
    for (auto rank : {mesh.offset(), mesh.ranks()[mesh.size() / 2], mesh.extent() - 1})
        if (mesh.rank(mesh.coord(rank)) != rank) std::abort();
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto axis = rankmesh::AxisId{a};
        const auto partition = mesh.partition(axis);
        const auto group = partition[partition.size() - 1];
        if (group.group_rank(group.back()) != group.size() - 1) std::abort();
        if (mesh.group(group.front(), axis) != group) std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace rankmesh;
    const auto print = [](auto& value) { return to_string(value); };
    fuzz::round_trip(
        data, size, [](auto text) { return MeshSpec::parse(text); }, print);
    return fuzz::round_trip(
        data, size,
        [](auto text) {
            const auto mesh = Mesh::parse(text);
            ask(mesh);
            return mesh;
        },
        print);
}
