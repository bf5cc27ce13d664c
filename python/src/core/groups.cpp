// SPDX-License-Identifier: Apache-2.0
#include "core/core.hpp"

#include <nanobind/ndarray.h>
#include <nanobind/stl/vector.h>

namespace rankmesh::python {

using detail::cat;

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

namespace {

/// Converts a Python index to an index from the front. Throws nb::index_error.
int position_of(nb::handle index, int size, const char* what) {
    const auto given = int_of(index, "an index");
    const auto position = given < 0 ? given + size : given;
    if (position < 0 || position >= size)
        throw nb::index_error(cat("index ", given, " of ", what, " of ", size).c_str());
    return position;
}

int size_of(const Ranks& ranks) { return ranks.size(); }
int size_of(const Groups& groups) { return groups.groups.size(); }
int item_of(const Ranks& ranks, int i) { return ranks[i]; }
Ranks item_of(const Groups& groups, int i) { return Ranks(groups.groups[i]); }

/// Binds the length, the items and the iterator of a sequence, `what` in errors; `item` is the type of items.
template <class T>
void bind_items(nb::class_<T>& c, const char* item, const char* what) {
    c.def("__len__", [](const T& self) { return size_of(self); });
    method(c, cat("def __getitem__(self, index: typing.SupportsIndex, /) -> ", item), "",
           [what](const T& self, nb::handle index) {
               if (nb::isinstance<nb::slice>(index)) throw nb::next_overload();
               return item_of(self, position_of(index, size_of(self), what));
           });
    method(c, cat("def __getitem__(self, index: slice, /) -> list[", item, "]"), "",
           [](const T& self, const nb::slice& slice) {
               auto list = nb::list();
               const auto [start, stop, step, length] =
                   slice.compute(static_cast<std::size_t>(size_of(self)));
               (void)stop;
               for (std::size_t i = 0; i < length; ++i)
                   list.append(item_of(self, static_cast<int>(start + static_cast<Py_ssize_t>(i) * step)));
               return list;
           });
    method(c, cat("def __iter__(self) -> collections.abc.Iterator[", item, "]"), "",
           [](nb::handle self) { return nb::steal(PySeqIter_New(self.ptr())); });
}

Ranks ranks_from(nb::handle given) {
    if (nb::isinstance<Ranks>(given)) return nb::cast<Ranks>(given);
    if (nb::isinstance<nb::str>(given)) return Ranks(parse_ranks(text_of(given, "a group")));
    auto ranks = ints_of(given, "a group");
    auto sorted = ranks;
    std::ranges::sort(sorted);
    if (!sorted.empty() && sorted.front() < 0)
        throw UsageError(cat("a group lists rank ", sorted.front(), "; ranks are 0 or more"));
    if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
        throw UsageError(cat("a group lists rank ", *twice, " twice"));
    return Ranks(std::move(ranks));
}

bool contains(const Ranks& ranks, nb::handle rank) {
    if (!PyIndex_Check(rank.ptr())) return false;
    try {
        return ranks.group_rank(int_of(rank, "a rank")).has_value();
    } catch (const Error&) {
        return false;  // a rank is never that large, and True is not a rank
    }
}

std::string asked(const Groups& groups) {
    auto text =
        cat("Mesh('", to_string(groups.mesh), groups.in_order ? "').partition_in_order(" : "').partition(");
    for (std::size_t i = 0; i < groups.axes.size(); ++i)
        text += cat(i > 0 ? ", '" : "'", groups.mesh.name(groups.axes[i]), "'");
    return text + ")";
}

/// What a sequence of ranks answers.
void bind_group(nb::class_<Ranks>& c) {
    method(c, "def __init__(self, ranks: str | collections.abc.Iterable[int]) -> None",
           "Makes a group of these ranks in this order, from text such as '{0..7, 64..71}', or from ints. "
           "Raises UsageError if a rank repeats.",
           [](Ranks* self, nb::object ranks) { new (self) Ranks(ranks_from(ranks)); });
    bind_items(c, "int", "a group");
    method(c, "def __contains__(self, rank: object, /) -> bool", "", &contains);
    method(
        c, "def index(self, value: typing.Any, start: int = 0, stop: int = ...) -> int",
        "Returns the group rank of a rank. Raises UsageError, a ValueError, if it is not in the group.",
        [](const Ranks& self, nb::handle rank, nb::handle start, nb::handle stop) {
            const auto given = int_of(rank, "a rank");
            const auto found = self.group_rank(given);
            const auto bound = [&](nb::handle index, int missing) {
                if (index.is_none()) return missing;
                // Sequence.index is called with sys.maxsize.
                const auto i = PyNumber_AsSsize_t(index.ptr(), nullptr);
                if (i == -1 && PyErr_Occurred()) throw nb::python_error();
                return static_cast<int>(std::clamp<Py_ssize_t>(i < 0 ? i + self.size() : i, 0, self.size()));
            };
            if (!found || *found < bound(start, 0) || *found >= bound(stop, self.size()))
                throw UsageError(cat("rank ", given, " is not in the group ", self.text()));
            return *found;
        });
    method(c, "def count(self, rank: object, /) -> int", "",
           [](const Ranks& self, nb::object rank) { return contains(self, rank) ? 1 : 0; });
    method(c, "def group_rank(self, rank: int) -> int | None",
           "Returns the group rank of a rank; None if it is not in the group.",
           [](const Ranks& self, nb::object rank) { return self.group_rank(int_of(rank, "a rank")); });
    c.def_prop_ro("step", &Ranks::step, "The step between neighbours if all steps are equal, else None.");
    method(
        c, "def pick(self, *positions: int) -> Group",
        "Returns the ranks at these group ranks, in the group's order. Negative ones count from the end. At "
        "most 16.",
        [](const Ranks& self, nb::args positions) { return self.pick(ints_of(positions, "the positions")); });
    method(c, "def numpy(self) -> typing.Any",
           "Returns the ranks as a new NumPy array of int32 with shape (len,).",
           [](const Ranks& self) { return array_of(self); });
    // Equality, hash, texts and pickles.
    bind_equality(c);
    c.def("__hash__", &Ranks::hash).def("__str__", &Ranks::text).def("__repr__", [](const Ranks& self) {
        return cat("Group('", self.text(), "')");
    });
    method(c, "def __reduce__(self) -> tuple[typing.Any, ...]", "", [](nb::object self) {
        const auto& ranks = nb::cast<const Ranks&>(self);
        const auto step = ranks.step();
        if (!step) return nb::make_tuple(self.type(), nb::make_tuple(nb::list(self)));
        const nb::object of_mesh = nb::module_::import_("operator").attr("attrgetter")("ranks");
        return nb::make_tuple(
            of_mesh, nb::make_tuple(Mesh::parse(cat("r=", ranks.size(), ":", *step, " @", ranks[0]))));
    });
}

}  // namespace

void bind_groups(nb::module_& m) {
    auto group = nb::class_<Ranks>(
        m, "Group", nb::sig("class Group(collections.abc.Sequence[int])"),
        "An ordered list of ranks, a sequence of int. Groups from strides are stored in closed form: 2^30 "
        "ranks cost the same as 8.\n\n>>> Mesh('pp=4 tp=2').group(1, 'pp')\nGroup('{1, 3, 5, 7}')");
    bind_group(group);
    bind_array(group);

    auto c = nb::class_<Groups>(
        m, "Partition", nb::sig("class Partition(collections.abc.Sequence[Group])"),
        "All groups along one set of axes, in the order of their first ranks. A sequence of Group.\n\n>>> "
        "[list(group) for group in Mesh('pp=2 tp=2').partition('tp')]\n[[0, 1], [2, 3]]");
    bind_items(c, "Group", "a partition");
    c.def_prop_ro(
        "group_size", [](const Groups& self) { return self.groups.group_size(); },
        "The number of ranks in each group.");
    method(c, "def numpy(self) -> typing.Any",
           "Returns the ranks as a new NumPy array of int32 with shape (len, group_size): one row for each "
           "group.",
           [](const Groups& self) { return array_of(self); });
    // Equality, hash, texts and pickles.
    method(c, "def __eq__(self, other: object, /) -> bool", "", [](const Groups& self, nb::handle other) {
        if (!nb::isinstance<Groups>(other)) return false;
        const auto& theirs = nb::cast<const Groups&>(other);
        if (self.groups.size() != theirs.groups.size()) return false;
        for (int i = 0; i < self.groups.size(); ++i)
            if (!(self.groups[i] == theirs.groups[i])) return false;
        return true;
    });
    c.def("__hash__", [](const Groups& self) {
         return Ranks(self.groups[0]).hash() * 31 + static_cast<std::size_t>(self.groups.size());
     }).def("__repr__", &asked);
    method(c, "def __reduce__(self) -> tuple[typing.Any, ...]", "", [](const Groups& self) {
        auto names = nb::list();
        for (auto axis : self.axes) names.append(nb::cast(std::string(self.mesh.name(axis))));
        const nb::object caller = nb::module_::import_("operator").attr("methodcaller");
        return nb::make_tuple(caller(self.in_order ? "partition_in_order" : "partition", *nb::tuple(names)),
                              nb::make_tuple(nb::cast(self.mesh)));
    });
    bind_array(c);
    nb::module_::import_("collections.abc").attr("Sequence").attr("register")(m.attr("Group"));
    nb::module_::import_("collections.abc").attr("Sequence").attr("register")(m.attr("Partition"));
}

}  // namespace rankmesh::python
