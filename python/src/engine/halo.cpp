// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/halo.hpp>

#include "engine/access.hpp"
#include "engine/operations.hpp"

namespace rankmesh::python {
namespace {

/// One axis for each dimension; None becomes "".
std::vector<std::string> axes_of(nb::handle given) {
    auto names = std::vector<std::string>{};
    if (nb::isinstance<nb::str>(given) || !nb::isinstance<nb::sequence>(given))
        throw TypeFault(detail::cat("the axes are ", described(given), "; they must be a list of names"));
    for (auto name : given) names.push_back(name.is_none() ? "" : text_of(name, "an axis"));
    return names;
}

/// The arguments of a halo, or of its start.
struct Halo {
    Halo(nb::handle given, nb::handle axes, nb::handle width, nb::handle edge, bool corners)
        : names(axes_of(axes)),
          views(names.begin(), names.end()),
          field(field_of(given, "the field of halo")) {
        const auto layers = int_of(width, "the width");
        if (layers < 1)
            throw UsageError(detail::cat("halo of width ", layers, "; ghost cells have one layer or more"));
        options = {.width = static_cast<std::size_t>(layers), .edge = edge_of(edge), .corners = corners};
    }
    detail::Field described() const { return {field, field.dimensions}; }

    std::vector<std::string> names;
    std::vector<std::string_view> views;
    FieldArray field;
    HaloOptions options;
};

/// The buffers of neighbours.
template <class List>
List list_of(nb::handle objects, std::vector<Array>& arrays, bool written) {
    auto list = List{};
    for (auto object : objects) {
        const auto number = detail::ListAccess::pieces(list).size();
        const auto what = detail::cat("buffer ", number, written ? " out" : " in", " of neighbor_all_to_all");
        arrays.push_back(contiguous_array_of(object, what, written));
        detail::ListAccess::pieces(list).push_back(arrays.back());
    }
    return list;
}

/// The timeout of calls on the first axis.
std::chrono::nanoseconds timeout_of(const Member& me, const std::vector<std::string>& names) {
    for (const auto& name : names)
        if (!name.empty()) return detail::Access::state(me.on(name)).timeout;
    return {};
}

nb::object start_neighbors(const MemberHandle& self, nb::handle axes, const nb::sequence& ins,
                           const nb::sequence& outs, nb::handle edge) {
    const auto names = axes_of(axes);
    const auto views = std::vector<std::string_view>(names.begin(), names.end());
    auto arrays = std::vector<Array>{};
    const auto sent = list_of<ConstBuffers>(ins, arrays, false);
    const auto received = list_of<Buffers>(outs, arrays, true);
    auto pending = detail::start_neighbors(self.get(), views, sent, received, edge_of(edge));
    return started(std::move(pending), self.leave(), std::move(arrays), outs, timeout_of(self.get(), names));
}

}  // namespace

void bind_halo(nb::class_<MemberHandle>& c) {
    const auto signature =
        "def neighbor_all_to_all(self, axes: collections.abc.Sequence[str], ins: "
        "collections.abc.Sequence[typing.Any], outs: _T, edge: typing.Literal['wrap', 'open'] = 'wrap') -> "
        "_T";
    method(c, signature,
           "Sends one array to each neighbour along mesh axes and receives one from each, like "
           "MPI_Neighbor_alltoall. `ins` and `outs` have two contiguous arrays for each axis, in the order "
           "of the axes: for the lower neighbour, then for the upper neighbour. With edge='open', arrays of "
           "neighbours that do not exist are ignored. Returns `outs`.",
           [](const MemberHandle& self, nb::handle axes, const nb::sequence& ins, const nb::sequence& outs,
              nb::handle edge) { return start_neighbors(self, axes, ins, outs, edge).attr("wait")(); });
    method(c, start_signature(signature), start_text(signature).c_str(), &start_neighbors);
    const auto parameters = std::string(
        "halo(self, field: _T, axes: collections.abc.Sequence[str | None], width: int = 1, edge: "
        "typing.Literal['wrap', 'open'] = 'wrap'");
    method(c, detail::cat("def ", parameters, ", corners: bool = False) -> _T"),
           "Fills the ghost cells of a local field from the neighbours along mesh axes, and returns the "
           "field. `axes[i]` is the axis that splits dimension i; None, or no name, where none does.\n\nThe "
           "field has `width` layers of ghost cells on both sides of each split dimension. With edge='open', "
           "ghost cells without a neighbour keep their values. So do those at corners and edges, which "
           "belong to diagonal neighbours, unless `corners` is True: then axes are exchanged one after the "
           "other. Raises UsageError if a split dimension has fewer own cells than `width`.",
           [](const MemberHandle& self, nb::object field, nb::handle axes, nb::handle width, nb::handle edge,
              bool corners) {
               const auto halo = Halo(field, axes, width, edge, corners);
               const auto member = self.hold();
               without_gil(self.leave(),
                           [&] { detail::run_halo(*member, halo.described(), halo.views, halo.options); });
               return field;
           });
    method(
        c, detail::cat("def start_", parameters, ") -> Pending[_T]"),
        "Starts halo, without corners, and returns at once. Ghost cells must not be used, and own cells not "
        "be written, until the Pending's wait() returns.",
        [](const MemberHandle& self, nb::object field, nb::handle axes, nb::handle width, nb::handle edge) {
            auto halo = Halo(field, axes, width, edge, false);
            auto pending = detail::start_halo(self.get(), halo.described(), halo.views, halo.options);
            const auto timeout = timeout_of(self.get(), halo.names);
            return started(std::move(pending), self.leave(), {std::move(halo.field)}, field, timeout);
        });
}

}  // namespace rankmesh::python
