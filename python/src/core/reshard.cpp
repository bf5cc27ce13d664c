// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/core/reshard.hpp>
#include <rankmesh/report/text.hpp>

#include <nanobind/stl/vector.h>

#include "core/core.hpp"

namespace rankmesh::python {

using detail::cat;

namespace {

std::vector<std::int64_t> shape_of(nb::handle given) {
    auto shape = std::vector<std::int64_t>{};
    for (auto size : each_of(given, "the shape must be a sequence of ints")) {
        if (!PyIndex_Check(size.ptr()))
            throw TypeFault(cat("a size of the shape is ", described(size), "; it must be an int"));
        // For an int that is too large this returns the largest size, which Sharding refuses.
        shape.push_back(PyNumber_AsSsize_t(size.ptr(), nullptr));
        if (PyErr_Occurred()) throw nb::python_error();
    }
    return shape;
}

nb::object slices_of(const Slice& slice) {
    auto slices = nb::list();
    for (const auto& range : slice.ranges)
        slices.append(
            nb::steal(PySlice_New(nb::cast(range.begin).ptr(), nb::cast(range.end).ptr(), nullptr)));
    return nb::tuple(slices);
}

Slice inside(const Slice& slice, const Slice& outer) {
    auto moved = slice;
    for (std::size_t d = 0; d < moved.ranges.size(); ++d) {
        moved.ranges[d].begin -= outer.ranges[d].begin;
        moved.ranges[d].end -= outer.ranges[d].begin;
    }
    return moved;
}

void bind_sharding(nb::module_& m) {
    auto sharding = nb::class_<Sharding>(
        m, "Sharding",
        "An array of one shape, sharded over a mesh: knows the slice of each rank.\n\n>>> Sharding('dp=2 "
        "tp=4', (1000, 64), '0=tp').slices(7)\n(slice(750, 1000, None), slice(0, 64, None))");
    method(sharding,
           "def __init__(self, mesh: str | Mesh, shape: collections.abc.Iterable[int], split: str = "
           "'replicated') -> None",
           "`split` names the axes that split each dimension, in order, and the axes with partial sums: "
           "'0=dp,tp 1=cp sum=pp'. The array is replicated along all other axes. Uneven sizes follow torch's "
           "DTensor; '0=tp:megatron' pads like Megatron's vocabulary.",
           [](Sharding* self, nb::handle mesh, nb::handle shape, nb::handle split) {
               new (self) Sharding(
                   nb::isinstance<Mesh>(mesh) ? nb::cast<Mesh>(mesh) : Mesh::parse(text_of(mesh, "a mesh")),
                   shape_of(shape), Split::parse(text_of(split, "a split")));
           });
    sharding.def_prop_ro("mesh", &Sharding::mesh, nb::rv_policy::copy, "The mesh.")
        .def_prop_ro(
            "shape",
            [](const Sharding& self) {
                return nb::tuple(nb::cast(std::vector(self.shape().begin(), self.shape().end())));
            },
            nb::sig("def shape(self) -> tuple[int, ...]"), "The shape of the array.")
        .def_prop_ro(
            "split", [](const Sharding& self) { return to_string(self.split()); }, "The split as text.")
        .def_prop_ro("parts", &Sharding::parts, "The number of partial sums; 1 without partial sums.");
    method(
        sharding, "def slices(self, rank: int) -> tuple[slice, ...]",
        "Returns the slice of a rank. Raises UsageError for a rank outside the mesh.",
        [](const Sharding& self, nb::handle rank) { return slices_of(self.slice(int_of(rank, "a rank"))); });
    method(sharding, "def part(self, rank: int) -> int",
           "Returns the number of the partial sum that a rank holds. Raises UsageError for a rank outside "
           "the mesh.",
           [](const Sharding& self, nb::handle rank) {
               const auto number = int_of(rank, "a rank");
               static_cast<void>(self.mesh().coord(number));  // throws for a rank outside the mesh
               return self.part(number);
           });
    sharding.def("__repr__", [](const Sharding& self) {
        return cat("<Sharding of ", detail::text_of_shape(self.shape()), " over ", to_string(self.mesh()),
                   ", ", to_string(self.split()), ">");
    });
    method(sharding, "def __reduce__(self) -> tuple[typing.Any, ...]", "", [](nb::object self) {
        return nb::make_tuple(self.type(),
                              nb::make_tuple(self.attr("mesh"), self.attr("shape"), self.attr("split")));
    });
    auto transfer_ =
        nb::class_<Transfer>(m, "Transfer", "One message of a reshard, as one of its two ranks sees it.");
    transfer_
        .def_ro("stage", &Transfer::stage,
                "0: from a rank that holds the data; 1: inside a host, after stage 0.")
        .def_ro("peer", &Transfer::peer, "The other rank.")
        .def_ro("part", &Transfer::part, "The number of the partial sum; the receiver adds them.")
        .def_prop_ro(
            "slices", [](const Transfer& self) { return slices_of(self.slice); },
            nb::sig("def slices(self) -> tuple[slice, ...]"), "The slice, in indices of the whole array.");
    method(transfer_, "def within(self, sharding: Sharding, rank: int) -> tuple[slice, ...]",
           "Returns the slice relative to what a rank holds, as an index of its NumPy array. Raises "
           "UsageError if the rank does not hold all of it.",
           [](const Transfer& self, const Sharding& sharding, nb::handle rank) {
               const auto outer = sharding.slice(int_of(rank, "a rank"));
               if (outer.ranges.size() != self.slice.ranges.size() || common(self.slice, outer) != self.slice)
                   throw UsageError(cat("rank ", int_of(rank, "a rank"), " holds ", to_string(outer),
                                        ", which does not contain ", to_string(self.slice)));
               return slices_of(inside(self.slice, outer));
           });
    transfer_.def("__repr__", [](const Transfer& self) {
        return cat("<Transfer: stage ", self.stage, ", peer ", self.peer, ", part ", self.part, ", ",
                   to_string(self.slice), ">");
    });
}

}  // namespace

void bind_reshard(nb::module_& m) {
    bind_sharding(m);
    auto reshard = nb::class_<Reshard>(
        m, "Reshard",
        "The plan for moving an array from one sharding to another: what each rank sends, receives and "
        "keeps. Queries need no communication. str() is the output of `rankmesh reshard`, in "
        "elements.\n\n>>> plan = Reshard(Sharding('tp=2', (8,), '0=tp'), Sharding('tp=4', (8,), "
        "'0=tp'))\n>>> plan.receives(1)\n[<Transfer: stage 0, peer 0, part 0, [2:4]>]");
    method(reshard, "def __init__(self, from_: Sharding, to: Sharding, host: int = 1) -> None",
           "`host`: the number of consecutive ranks that share a host; each slice is sent to a host only "
           "once. Both shardings must have the same shape, and ranks of one world.",
           [](Reshard* self, const Sharding& from, const Sharding& to, nb::handle host) {
               new (self) Reshard(from, to, int_of(host, "the ranks of a host"));
           });
    static_method(reshard, "def steps(from_: Sharding, to: Sharding, host: int = 1) -> list[Reshard]",
                  "Returns the reshards that, one after another, send the fewest bytes between hosts: two if "
                  "partial sums of one host are first added there, else one.",
                  [](const Sharding& from, const Sharding& to, nb::handle host) {
                      return Reshard::steps(from, to, int_of(host, "the ranks of a host"));
                  });
    reshard.def_prop_ro("from_", &Reshard::from, nb::rv_policy::copy, "The sharding before.")
        .def_prop_ro("to", &Reshard::to, nb::rv_policy::copy, "The sharding after.")
        .def_prop_ro("host", &Reshard::host, "The number of ranks per host.");
    method(reshard, "def receives(self, rank: int) -> list[Transfer]",
           "Returns what a rank receives, sorted by stage, then by peer.",
           [](const Reshard& self, nb::handle rank) { return self.receives(int_of(rank, "a rank")); });
    method(reshard, "def sends(self, rank: int) -> list[Transfer]",
           "Returns what a rank sends, in the same order.",
           [](const Reshard& self, nb::handle rank) { return self.sends(int_of(rank, "a rank")); });
    method(reshard, "def keeps(self, rank: int) -> list[Transfer]",
           "Returns the parts of its new slice that a rank already holds, as messages to itself.",
           [](const Reshard& self, nb::handle given) {
               const auto rank = int_of(given, "a rank");
               auto kept = std::vector<Transfer>{};
               for (auto& [part, slice] : self.keeps(rank)) kept.push_back({0, rank, part, slice});
               return kept;
           });
    reshard
        .def("__str__",
             [](const Reshard& self) {
                 const auto text = report::ReshardText{.unit = "elements", .hosts = self.host() > 1};
                 auto all = cat(detail::text_of_shape(self.from().shape()), ", ",
                                detail::counted(self.host(), "rank"), " a host\n  from ",
                                to_string(self.from().mesh()), ", ", to_string(self.from().split()),
                                "\n  to   ", to_string(self.to().mesh()), ", ", to_string(self.to().split()),
                                "\n\n", text({self}));
                 all.pop_back();
                 return all;
             })
        .def("__repr__", [](const Reshard& self) {
            return cat("<Reshard of ", detail::text_of_shape(self.from().shape()), ": ",
                       to_string(self.from().mesh()), ", ", to_string(self.from().split()), " to ",
                       to_string(self.to().mesh()), ", ", to_string(self.to().split()), ">");
        });
    method(reshard, "def __reduce__(self) -> tuple[typing.Any, ...]", "", [](nb::object self) {
        return nb::make_tuple(self.type(),
                              nb::make_tuple(self.attr("from_"), self.attr("to"), self.attr("host")));
    });
}

}  // namespace rankmesh::python
