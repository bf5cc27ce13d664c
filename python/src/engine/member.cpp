// SPDX-License-Identifier: Apache-2.0
#include <nanobind/stl/vector.h>

#include <numeric>

#include <rankmesh/engine/halo.hpp>

#include "engine/engine.hpp"
#include "values/ranks.hpp"

namespace rankmesh::python {

namespace {

/// Returns the result of `ask`. Throws UnknownName instead of UsageError if the mesh does not have one of
/// these axes.
template <class Ask>
auto asked(const Member& member, const std::vector<std::string>& names, Ask&& ask) {
    try {
        return ask();
    } catch (const UsageError& error) {
        if (member.meshes().size() == 1)
            for (const auto& name : names)
                if (!member.mesh().find(name)) throw UnknownName(error.what());
        throw;
    }
}

/// What the Members of all kinds share, which is written in Python.
nb::object shared(const char* name) { return nb::module_::import_("rankmesh._member_names").attr(name); }

std::vector<std::string> names_of(const nb::args& args) { return texts_of(args, "the axes"); }
std::vector<std::string_view> views_of(const std::vector<std::string>& names) {
    return {names.begin(), names.end()};
}

GroupOptions options_of(nb::handle name, nb::handle timeout) {
    auto options = GroupOptions{.name = text_of(name, "the name")};
    if (!timeout.is_none()) options.timeout = duration_of(timeout, "the timeout");
    return options;
}

/// Returns the world ranks along some axes of the mesh, declared or not, or of the communicator with that
/// name.
Ranks ranks_along(const Member& member, const std::vector<std::string>& names) {
    const auto& mesh = member.mesh();
    if (names.size() == 1 && !mesh.find(names.front()))
        return asked(member, names, [&] { return Ranks(member.on(views_of(names)).world_ranks()); });
    auto set = AxisSet{};
    for (const auto& name : names) asked(member, {name}, [&] { set.insert(mesh.axis(name)); });
    auto ranks = std::vector<int>{};
    for (const auto place : mesh.group(mesh.rank(member.coord()), set))
        ranks.push_back(member.rank_at(mesh.coord(place)));
    return Ranks(std::move(ranks));
}

/// Calls `call` with what to suspend or resume: a set of axes, a communicator, or nothing for all.
template <class Call>
void rest(const MemberHandle& self, const nb::args& axes, const CommunicatorHandle* on, const Call& call) {
    const auto names = names_of(axes);
    if (on && !names.empty())
        throw UsageError("axes and a communicator were given; give the axes, or on=, or nothing for all");
    const auto views = views_of(names);
    const auto member = self.hold();
    const auto communicator = on ? on->hold() : nullptr;
    asked(*member, names, [&] {
        without_gil(self.leave(), [&] {
            if (communicator)
                call(*member, *communicator);
            else if (names.empty())
                call(*member);
            else
                call(*member, std::span<const std::string_view>(views));
        });
    });
}

void bind_usage(nb::module_& m) {
    auto usage = nb::class_<Usage>(m, "Usage",
                                   "The resources that the communicators of one rank hold in its process.");
    auto communicator = nb::class_<Usage::Communicator>(
        usage, "Communicator", "One communicator. Other sets of axes that share it are not listed.");
    communicator
        .def_ro("axes", &Usage::Communicator::axes, "'dp,tp', or the name of a pick, separate set or group.")
        .def_ro("label", &Usage::Communicator::label, "The name in error texts.")
        .def_ro("size", &Usage::Communicator::size, "The number of ranks.")
        .def_ro("connections", &Usage::Communicator::connections, "Connections to other processes.")
        .def_ro("descriptors", &Usage::Communicator::descriptors, "Open files of this process.")
        .def_ro("suspended", &Usage::Communicator::suspended, "True between suspend() and resume().")
        .def("__repr__", [](const Usage::Communicator& self) {
            return detail::cat("<", self.label, ": ", self.connections, " connections, ", self.descriptors,
                               " descriptors", self.suspended ? ", suspended>" : ">");
        });
    usage
        .def_ro("communicators", &Usage::communicators,
                "The communicators of two or more ranks, in the order of creation.")
        .def_prop_ro("connections", &Usage::connections, "The sum over all of them.")
        .def_prop_ro("descriptors", &Usage::descriptors, "The sum over all of them.")
        .def("__repr__", [](const Usage& self) {
            return detail::cat("<Usage: ", self.communicators.size(), " communicators, ", self.connections(),
                               " connections, ", self.descriptors(), " descriptors>");
        });
}

/// The process in the plan: its meshes, its rank and its host, and which ranks stand beside it.
void bind_process(nb::class_<MemberHandle>& c) {
    method(c, "def __getitem__(self, mesh: str, /) -> Member", "",
           [](const MemberHandle& self, nb::handle mesh) {
               const auto name = text_of(mesh, "the name of a mesh");
               const auto& member = self.get();
               try {
                   auto view = Member(member[name]);
                   return std::make_unique<MemberHandle>(std::move(view), self.leave());
               } catch (const UsageError& error) {
                   throw UnknownName(error.what());
               }
           });
    c.def_prop_ro("meshes", asking<MemberHandle, &Member::meshes>,
                  "The names of the plan's meshes, in the order of the plan.")
        .def_prop_ro("rank", asking<MemberHandle, &Member::rank>, "This process's rank in the world.")
        .def_prop_ro(
            "size",
            [](nb::handle self) {
                return shared("Size")(nb::cast<const MemberHandle&>(self).get().size(), self);
            },
            nb::for_getter(nb::sig("def size(self) -> rankmesh._member_names.Size")),
            "The number of ranks of the world; me.size('dp') is the number along axes, or in a declared "
            "group.")
        .def_prop_ro("world_size", asking<MemberHandle, &Member::size>, "The number of ranks of the world.")
        .def_prop_ro(
            "device", [](const MemberHandle&) { return "cpu"; }, "The device of the buffers.")
        .def_prop_ro("host", asking<MemberHandle, &Member::host>, "The name of this process's host.")
        .def_prop_ro("local_rank", asking<MemberHandle, &Member::local_rank>,
                     "This rank's index among the world's ranks on its host.")
        .def_prop_ro("local_size", asking<MemberHandle, &Member::local_size>,
                     "The number of the world's ranks on this host.")
        .def_prop_ro("mesh", asking<MemberHandle, &Member::mesh>, nb::rv_policy::move,
                     "The mesh, with every '*' resolved.")
        .def_prop_ro(
            "inside", asking<MemberHandle, &Member::inside>,
            "True if this rank is in the mesh. If not, calls that need a coordinate raise UsageError.")
        .def_prop_ro("coord", asking<MemberHandle, &Member::coord>, "This rank's index on every axis.")
        .def_prop_ro(
            "prefix", asking<MemberHandle, &Member::prefix>,
            "The prefix of this rank's log lines: '[pp=1 dp=0 tp=3]', or '[rank 5]' outside the mesh.");
    method(c, "def at(self, axis: str) -> int",
           "Returns this rank's index on an axis, or among the declared local ranks.",
           [](const MemberHandle& self, nb::handle axis) {
               const auto name = text_of(axis, "an axis");
               return asked(self.get(), {name}, [&] { return self.get().at(name); });
           });
    method(c, "def is_first(self, axis: str) -> bool", "Returns True if at(axis) is 0.",
           [](const MemberHandle& self, nb::handle axis) {
               return self.get().is_first(text_of(axis, "an axis"));
           });
    method(c, "def is_last(self, axis: str) -> bool",
           "Returns True if at(axis) is the highest index of the axis, or of the declared local ranks.",
           [](const MemberHandle& self, nb::handle axis) {
               return self.get().is_last(text_of(axis, "an axis"));
           });
    method(
        c,
        "def neighbor(self, axis: str, by: int, edge: typing.Literal['open', 'wrap'] = 'open') -> int | None",
        "Returns the world rank `by` steps along an axis; negative steps go back. Past the end returns None, "
        "or with edge='wrap' continues at the other end.",
        [](const MemberHandle& self, nb::handle axis, nb::handle by, nb::handle edge) {
            return self.get().neighbor(text_of(axis, "an axis"), int_of(by, "the distance"), edge_of(edge));
        });
    method(c,
           "def rank_at(self, coordinate: rankmesh._core.Coordinate | collections.abc.Mapping[str, int] | "
           "str = ..., /, **index: int) -> int",
           "Returns the world rank at a coordinate of the mesh. Also for ranks outside the mesh.",
           [](const MemberHandle& self, nb::args args, nb::kwargs kwargs) {
               return self.get().rank_at(coordinate_of(args, kwargs));
           });
    method(c, "def ranks(self, *axes: str) -> rankmesh._core.Group",
           "Returns the world ranks that differ from this rank only along these axes, or the ranks of a "
           "declared group.",
           [](const MemberHandle& self, nb::args axes) { return ranks_along(self.get(), names_of(axes)); });
}

std::unique_ptr<CommunicatorHandle> on(const MemberHandle& self, const nb::args& axes) {
    const auto names = names_of(axes);
    const auto& member = self.get();
    return asked(member, names,
                 [&] { return std::make_unique<CommunicatorHandle>(member.on(views_of(names))); });
}

/// The communicators of declared sets, and new ones.
void bind_communicators(nb::class_<MemberHandle>& c) {
    method(c, "def get_group(self, *axes: str) -> Communicator", "Like on().", &on);
    c.def(
        "barrier",
        [](const MemberHandle& self) {
            const auto member = self.hold();
            auto ranks = std::vector<int>(static_cast<std::size_t>(member->size()));
            std::iota(ranks.begin(), ranks.end(), 0);
            without_gil(self.leave(), [&] { member->group(ranks).barrier(); });
        },
        "Returns when all ranks of the world have called it.");
    method(
        c, "def on(self, *axes: str) -> Communicator",
        "Returns the communicator of a single axis, of a declared set in any order, or of a pick, separate "
        "set or local ranks by name. Raises UsageError if it was not declared or this rank is not in it.",
        &on);
    method(c, "def find(self, *axes: str) -> Communicator | None",
           "Like on(), but returns None if this rank is not in it.",
           [](const MemberHandle& self, nb::args axes) -> std::unique_ptr<CommunicatorHandle> {
               const auto names = names_of(axes);
               auto found = self.get().find(views_of(names));
               return found ? std::make_unique<CommunicatorHandle>(std::move(*found)) : nullptr;
           });
    method(c, "def prepare(self, *axes: str) -> None",
           "Connects a set that a lazy declaration deferred. Collective: every rank of the mesh calls it "
           "with the same names.",
           [](const MemberHandle& self, nb::args axes) {
               const auto names = names_of(axes);
               auto& member = self.get();
               without_gil(self.leave(), [&] { member.prepare(views_of(names)); });
           });
    method<1>(c,
              "def group(self, ranks: collections.abc.Iterable[int], *, name: str = '', timeout: float | "
              "datetime.timedelta | None = None) -> Communicator",
              "Returns a communicator of these world ranks, in that order. Exactly these ranks call it; they "
              "first compare their lists.",
              [](const MemberHandle& self, nb::handle ranks, nb::handle name, nb::handle timeout) {
                  const auto listed = ints_of(ranks, "the ranks");
                  const auto options = options_of(name, timeout);
                  const auto member = self.hold();
                  return std::make_unique<CommunicatorHandle>(
                      result_without_gil(self.leave(), [&] { return member->group(listed, options); }));
              });
    method<2>(c,
              "def split(self, color: int | None, key: int = 0, *, over: Communicator | None = None, name: "
              "str = '', timeout: float | datetime.timedelta | None = None) -> Communicator | None",
              "Returns the communicator of the ranks of `over`, or of the world, with the same color, "
              "ordered by key, then by rank; like MPI_Comm_split. Collective over all of them. Returns None "
              "for a rank whose color is None.",
              [](const MemberHandle& self, nb::handle color, nb::handle key, const CommunicatorHandle* over,
                 nb::handle name, nb::handle timeout) -> std::unique_ptr<CommunicatorHandle> {
                  const auto of = color.is_none() ? std::nullopt : std::optional(int_of(color, "the color"));
                  const auto by = int_of(key, "the key");
                  const auto options = options_of(name, timeout);
                  const auto member = self.hold();
                  const auto on = over ? over->hold() : nullptr;
                  auto made = result_without_gil(self.leave(), [&] {
                      return on ? member->split(*on, of, by, options) : member->split(of, by, options);
                  });
                  return made ? std::make_unique<CommunicatorHandle>(std::move(*made)) : nullptr;
              });
}

/// One axis for each dimension; None becomes "".
std::vector<std::string> split_axes(nb::handle given) {
    auto names = std::vector<std::string>{};
    if (nb::isinstance<nb::str>(given) || !nb::isinstance<nb::sequence>(given))
        throw TypeFault(detail::cat("the axes are ", described(given), "; they must be a list of names"));
    for (auto name : given) names.push_back(name.is_none() ? "" : text_of(name, "an axis"));
    return names;
}

/// The arguments of a halo, or of its start.
struct Halo {
    Halo(nb::handle given, nb::handle axes, nb::handle width, nb::handle edge, bool corners)
        : names(split_axes(axes)),
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

/// The name of a buffer of neighbours in errors.
auto named(const char* part) {
    return [part](std::size_t i) { return detail::cat("buffer ", i, part, " of neighbor_all_to_all"); };
}

/// The timeout of calls on the first axis.
std::chrono::nanoseconds timeout_of(const Member& me, const std::vector<std::string>& names) {
    for (const auto& name : names)
        if (!name.empty()) return detail::Access::state(me.on(name)).timeout;
    return {};
}

nb::object start_neighbors(const MemberHandle& self, nb::handle axes, const nb::sequence& ins,
                           const nb::sequence& outs, nb::handle edge) {
    const auto names = split_axes(axes);
    const auto views = std::vector<std::string_view>(names.begin(), names.end());
    auto arrays = std::vector<Array>{};
    const auto sent = buffers_of<ConstBuffers>(ins, arrays, false, named(" in"));
    const auto received = buffers_of<Buffers>(outs, arrays, true, named(" out"));
    auto pending = detail::start_neighbors(self.get(), views, sent, received, edge_of(edge));
    return started(std::move(pending), self.leave(), std::move(arrays), outs, timeout_of(self.get(), names));
}

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

}  // namespace

void bind_member(nb::module_& m) {
    bind_usage(m);
    auto c = nb::class_<MemberHandle>(
        m, "Member",
        "This process's view of a plan, or of one of its meshes, with its communicators.\n\nIn a plan of "
        "several meshes, member['expert'] is the view of one mesh.");
    bind_process(c);
    bind_communicators(c);
    method(c, "def suspend(self, *axes: str, on: Communicator | None = None) -> None",
           "Releases the resources of an idle communicator, such as Gloo's connections: of a declared set, "
           "of `on`, or of all without arguments. Collective over its ranks. Until resume(), calls on it, "
           "and on communicators that share its connections, raise UsageError.",
           [](const MemberHandle& self, nb::args axes, const CommunicatorHandle* on) {
               rest(self, axes, on, [](const Member& me, const auto&... what) { me.suspend(what...); });
           });
    method(c, "def resume(self, *axes: str, on: Communicator | None = None) -> None",
           "Restores what suspend() released. Must be called with the same arguments.",
           [](const MemberHandle& self, nb::args axes, const CommunicatorHandle* on) {
               rest(self, axes, on, [](const Member& me, const auto&... what) { me.resume(what...); });
           });
    c.def(
         "usage", [](const MemberHandle& self) { return self.get().usage(); },
         "Returns the resources that this process's communicators hold now. Does not communicate.")
        .def_prop_ro("communicator_count", asking<MemberHandle, &Member::channel_count>,
                     "The number of communicators of two or more ranks of this process.")
        .def("__repr__", [](const MemberHandle& self) {
            if (self.ended()) return std::string("<Member, ended>");
            return detail::cat("<Member ", self.get().meshes().size() == 1 ? self.get().prefix() : "", ">");
        });
    bind_halo(c);
    c.attr("__getattr__") = shared("missing");
}

}  // namespace rankmesh::python
