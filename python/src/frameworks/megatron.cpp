// SPDX-License-Identifier: Apache-2.0
#include "frameworks/megatron/megatron.hpp"

#include "frameworks.hpp"

namespace rankmesh::python {

using namespace frameworks::of_megatron;

void bind_megatron(nb::module_& parent) {
    auto m = parent.def_submodule("megatron", "What Megatron-core's RankGenerator asks.");
    function(m, "def inject_gtp_remat_axis(order: str, after: str) -> str", "",
             [](nb::handle order, nb::handle after) {
                 return inject_gtp_remat_axis(text_of(order, "order"), text_of(after, "after"));
             });
    function(m,
             "def in_order(order: str, sizes: collections.abc.Sequence[int], rank_offset: int) -> tuple[str, "
             "list[tuple[str, int]]]",
             "The order with all axes, and these with their sizes, outermost first.",
             [](nb::handle order, nb::handle sizes, nb::handle rank_offset) {
                 auto made = in_order(text_of(order, "order"), ints_of(sizes, "sizes"),
                                      int_of(rank_offset, "rank_offset"));
                 return std::make_pair(std::move(made.text), std::move(made.axes));
             });
}

}  // namespace rankmesh::python
