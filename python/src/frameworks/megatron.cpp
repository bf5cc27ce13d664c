// SPDX-License-Identifier: Apache-2.0
#include "frameworks/megatron/megatron.hpp"

#include "frameworks.hpp"

namespace rankmesh::python {

using namespace frameworks::of_megatron;

void bind_megatron(nb::module_& parent) {
    auto m = parent.def_submodule("megatron", "What Megatron-core's RankGenerator asks.");
    def_named(m, "inject_gtp_remat_axis", inject_gtp_remat_axis, {"order", "after"});
    def_named(
        m, "in_order",
        +[](std::string_view order, std::vector<int> sizes, int rank_offset) {
            auto made = in_order(order, sizes, rank_offset);
            return std::make_pair(std::move(made.text), std::move(made.axes));
        },
        {"order", "sizes", "rank_offset"},
        "The order with all axes, and these with their sizes, outermost first.");
}

}  // namespace rankmesh::python
