// SPDX-License-Identifier: Apache-2.0
// The common bindings of the grids of DeepSpeed and AReaL.
#pragma once

#include <rankmesh/dialect/topology.hpp>

#include "dialects.hpp"

namespace rankmesh::python {

/// Pairs of each rank of a grid and the rank at the next stage.
template <class Grid>
IntLists all_p2p_groups(const Grid& grid) {
    auto pairs = IntLists(nb::list());
    for (int rank = 0; rank < grid.world_size; ++rank) pairs.append(list_of(grid.p2p_groups(rank)));
    return pairs;
}

/// A group of a grid: its attribute and the methods that return it, by default and, as `NAME_gloo`, on the
/// host.
template <class Grid>
struct HandleRow {
    std::string name;
    std::optional<Group> Grid::*group;
    const char* doc;
    std::string getter = {};
    bool on_host = false;
    std::string host_getter = {};
};

/// Binds the attributes and methods of these rows. They return the entry of the object's `_groups`: torch's
/// group, or ranks from `handles()`.
template <class Grid, class Base>
void def_handles(nb::class_<Grid, Base>& grid, const std::vector<HandleRow<Grid>>& rows,
                 Ranks (*ranks)(const Grid&, const Group&)) {
    const auto add = [&](const std::string& name, const std::string& getter, const char* doc) {
        const auto get = [name](nb::handle self) {
            return nb::object(self.attr("_groups").attr("_find")(name.c_str()));
        };
        const auto def = [](const std::string& of) {
            return detail::cat("def ", of, "(self) -> typing.Any");
        };
        grid.def_prop_ro(name.c_str(), get, nb::sig(def(name).c_str()), doc);
        if (!getter.empty()) grid.def(getter.c_str(), get, nb::sig(def(getter).c_str()), doc);
    };
    for (const auto& row : rows) {
        add(row.name, row.getter, row.doc);
        if (row.on_host) add(row.name + "_gloo", row.host_getter, "The same on the host.");
    }
    grid.def("handles", [rows, ranks](const Grid& self) {
        auto handles = nb::typed<nb::dict, nb::str, Ranks>(nb::dict());
        for (const auto& row : rows)
            if (const auto& group = self.*row.group) {
                const auto of = nb::cast(ranks(self, *group));
                handles[row.name.c_str()] = of;
                if (row.on_host) handles[(row.name + "_gloo").c_str()] = of;
            }
        return handles;
    });
}

}  // namespace rankmesh::python
