// SPDX-License-Identifier: Apache-2.0
// The frameworks that are described by rows.
#include <nanobind/stl/map.h>
#include <nanobind/stl/variant.h>

#include <rankmesh/frameworks/groups.hpp>

#include "frameworks.hpp"
#include "frameworks/kinds.hpp"

namespace rankmesh::python {

namespace {

using frameworks::Groups;
using frameworks::State;
using frameworks::Value;
using frameworks::Values;

constexpr std::string_view quantities[] = {
    "group",    "group_list", "ranks",         "rank",   "size", "first", "last",   "next",       "prev",
    "is_first", "is_last",    "size_and_rank", "matrix", "mesh", "value", "action", "device_mesh"};
constexpr std::string_view types[] = {"int",
                                      "int | None",
                                      "bool",
                                      "str",
                                      "list[int] | None",
                                      "str | None",
                                      "str | dict[str, str] | None",
                                      "list[str]",
                                      "str | list[str]",
                                      "Any"};

nb::object object_of(const Value& value) {
    return std::visit(
        [](const auto& each) -> nb::object {
            if constexpr (std::is_same_v<std::decay_t<decltype(each)>, std::monostate>)
                return nb::none();
            else
                return nb::cast(each);
        },
        value);
}

Value value_of(nb::handle value, const std::string& name) {
    if (value.is_none()) return {};
    if (nb::isinstance<nb::bool_>(value)) return nb::cast<bool>(value);
    if (nb::isinstance<nb::str>(value)) return text_of(value, name);
    if (nb::isinstance<frameworks::DeviceMesh>(value))
        return std::vector{nb::cast<frameworks::DeviceMesh>(value)};
    if (nb::isinstance<nb::dict>(value)) return std::string(nb::repr(value).c_str());
    if (nb::isinstance<nb::list>(value) || nb::isinstance<nb::tuple>(value)) {
        if (nb::len(value) > 0 && nb::isinstance<nb::str>(value[0])) return texts_of(value, name);
        if (nb::len(value) == 0 || !nb::isinstance<nb::bool_>(value[0])) return ints_of(value, name);
        auto flags = std::vector<int>{};
        for (const auto each : value) flags.push_back(nb::cast<bool>(each));
        return flags;
    }
    return int_of(value, name.c_str());
}

Values values_of(const nb::dict& given, const std::vector<frameworks::Setting>& known) {
    auto values = Values{};
    for (const auto& [key, value] : given) {
        auto name = text_of(key, "the name of a setting");
        const auto row = std::ranges::find(known, name, &frameworks::Setting::name);
        const auto is_number =
            row != known.end() && (row->type == frameworks::Type::number ||
                                   (row->type == frameworks::Type::maybe_number && !value.is_none()));
        const auto is_list =
            row != known.end() && (row->type == frameworks::Type::words ||
                                   (row->type == frameworks::Type::names && !nb::isinstance<nb::str>(value)));
        auto converted = is_number ? Value(int_of(value, name.c_str()))
                         : is_list ? Value(texts_of(value, name))
                                   : value_of(value, name);
        values.emplace_back(std::move(name), std::move(converted));
    }
    return values;
}

std::vector<int> ranks_of(const frameworks::GroupPart& part) { return {part.begin(), part.end()}; }

nb::list settings_of(const std::vector<frameworks::Setting>& settings) {
    auto list = nb::list();
    for (const auto& row : settings) {
        auto entry = nb::dict();
        entry["name"] = row.name;
        entry["default"] = object_of(row.otherwise);
        entry["type"] = types[static_cast<std::size_t>(row.type)];
        entry["apart"] = row.apart;
        entry["needed"] = row.needed;
        entry["only_configured"] = row.only_configured;
        entry["axis"] = row.axis;
        entry["flag"] = row.flag;
        entry["doc"] = row.doc;
        list.append(entry);
    }
    return list;
}

const frameworks::Framework& framework_of(nb::handle name) {
    return frameworks::framework_named(text_of(name, "the name of a framework"));
}

using Rows = frameworks::Framework;
constexpr std::pair<const char*, std::string Rows::*> texts[] = {
    {"name", &Rows::name},         {"version", &Rows::version},       {"original", &Rows::original},
    {"title", &Rows::title},       {"initialize", &Rows::initialize}, {"backend_after", &Rows::backend_after},
    {"ensure", &Rows::ensure},     {"maker", &Rows::maker},           {"getter", &Rows::getter},
    {"base", &Rows::base},         {"module", &Rows::module},         {"state_class", &Rows::state_class},
    {"variable", &Rows::variable}, {"handle", &Rows::handle}};

/// The rows of a framework, for what is made of them in Python.
nb::dict rows_of(nb::handle name) {
    const auto& framework = framework_of(name);
    auto rows = nb::dict();
    for (const auto& [key, text] : texts) rows[key] = framework.*text;
    rows["is_class"] = framework.is_class();
    rows["by_value"] = framework.by_value;
    rows["settings"] = settings_of(framework.settings);
    rows["raises"] = framework.raises;
    auto meshes = nb::list();
    for (const auto& row : framework.meshes) meshes.append(nb::make_tuple(row.name, row.axes));
    rows["meshes"] = meshes;
    auto kinds = nb::list();
    for (const auto& row : framework.kinds)
        kinds.append(nb::make_tuple(row.name, row.groups, row.missing, row.when, row.brief));
    rows["kinds"] = kinds;
    auto accessors = nb::list();
    for (const auto& row : framework.accessors) {
        auto entry = nb::dict();
        entry["name"] = row.name;
        entry["kind"] = row.kind;
        entry["quantity"] = quantities[static_cast<std::size_t>(row.quantity)];
        entry["type"] = types[static_cast<std::size_t>(row.type)];
        entry["doc"] = row.doc;
        entry["is_computed"] = row.code != nullptr;
        entry["raises"] = row.raises;
        entry["called"] = row.called;
        entry["adds"] = row.adds != nullptr;
        entry["options"] = settings_of(row.options);
        entry["without"] = row.without ? nb::object(nb::make_tuple(object_of(*row.without))) : nb::none();
        accessors.append(entry);
    }
    rows["accessors"] = accessors;
    return rows;
}

/// Makes a method that returns what `ask` returns for an accessor and its options.
template <class Self, class Ask>
auto about_accessor(const Ask& ask) {
    return [ask](Self& self, nb::handle accessor, const nb::dict& options) {
        const auto& row =
            accessor_named(frameworks::Access::framework(self), text_of(accessor, "an accessor"));
        return ask(self, row.name, values_of(options, row.options));
    };
}

bool is_rising(const Groups& groups, std::string_view kind) {
    return frameworks::Access::made(groups).at(kind).row->rising;
}

/// Makes a method that returns what `ask` returns for a kind.
template <class Ask>
auto about_kind(Ask ask) {
    return [ask](const Groups& self, nb::handle kind) {
        return std::invoke(ask, self, text_of(kind, "a kind"));
    };
}

void bind_groups(nb::module_& m) {
    auto c = nb::class_<Groups>(m, "Groups", "Every group of a world by kind.");
    method(c, "def __init__(self, framework: str, settings: dict[str, typing.Any], world_size: int) -> None",
           "", [](Groups* self, nb::handle framework, const nb::dict& settings, nb::handle world_size) {
               const auto& rows = framework_of(framework);
               new (self)
                   Groups(rows.name, values_of(settings, rows.settings), int_of(world_size, "world_size"));
           });
    c.def_prop_ro("world_size", &Groups::world_size)
        .def_prop_ro("mesh", &Groups::mesh, "The framework's own axes, outermost first.")
        .def("kinds", &Groups::kinds, "The kinds that these settings give.");
    method(c, "def is_apart(self, kind: str) -> bool",
           "True where groups of equal ranks do not share a channel.", about_kind(&Groups::is_apart));
    method(c, "def is_on_host(self, kind: str) -> bool",
           "True where the groups are those of another kind, on the host.", about_kind(&Groups::is_on_host));
    method(c, "def is_rising(self, kind: str) -> bool",
           "True where communicators have the ranks of a group in rising order.", about_kind(&is_rising));
    method(c, "def partition(self, kind: str) -> list[list[int]]",
           "The groups of a kind, in the order in which the framework makes them.",
           about_kind([](const Groups& self, const std::string& kind) {
               auto all = std::vector<std::vector<int>>{};
               for (int i = 0; i < self.count(kind); ++i) all.push_back(ranks_of(self.group(kind, i)));
               return all;
           }));
    method(c, "def of(self, kind: str, rank: int) -> rankmesh._core.Group | None",
           "The group of a rank; None where it is in none.",
           [](const Groups& self, nb::handle kind, nb::handle rank) {
               return handle_of(self.of(text_of(kind, "a kind"), int_of(rank, "rank")));
           });
}

/// How a state begins, and whose it is.
void bind_start(nb::class_<State>& c) {
    method(c, "def __init__(self, groups: Groups, rank: int) -> None", "",
           [](State* self, const Groups& groups, nb::handle rank) {
               new (self) State(groups, int_of(rank, "rank"));
           });
    method(c, "def __init__(self, framework: str) -> None", "",
           [](State* self, nb::handle framework) { new (self) State(framework_of(framework).name); });
    method(c, "def enter(self, rank: int, world_size: int) -> None", "As one rank of a world from now on.",
           [](State& self, nb::handle rank, nb::handle world_size) {
               self.enter(int_of(rank, "rank"), int_of(world_size, "world_size"));
           });
    method(c, "def initialize(self, settings: dict[str, typing.Any]) -> None", "Makes the groups.",
           [](State& self, const nb::dict& settings) {
               self.initialize(values_of(settings, frameworks::Access::framework(self).settings));
           });
    c.def("is_initialized", &State::is_initialized)
        .def(
            "copy", [](const State& self) { return self; },
            "Returns a state of its own with the same groups.")
        .def("destroy", &State::destroy, "Forgets the groups and what was set.")
        .def_prop_ro("rank", &State::rank)
        .def_prop_ro("groups", &State::groups)
        .def("accessors", &State::accessors, "The names of the accessors, in the framework's order.");
}

void bind_state(nb::module_& m) {
    auto c = nb::class_<State>(m, "State", "What the framework's accessors answer on one rank.");
    bind_start(c);
    const auto signature = [](const char* name, const char* result) {
        return detail::cat("def ", name, "(self, accessor: str, options: dict[str, typing.Any] = {}) -> ",
                           result);
    };
    method(
        c, signature("ask", "typing.Any"), "The answer of an accessor.",
        about_accessor<const State>([](const State& self, const std::string& accessor, const Values& given) {
            return object_of(self.ask(accessor, given));
        }));
    method(c, signature("set", "list[str]"),
           "Calls an accessor that sets what others answer, or that makes groups. Returns the kinds that it "
           "makes.",
           about_accessor<State>(std::mem_fn(&State::set)));
    method(
        c, signature("group", "rankmesh._core.Group | None"), "The group that an accessor gives.",
        about_accessor<const State>([](const State& self, const std::string& accessor, const Values& given) {
            return handle_of(self.group(accessor, given));
        }));
    method(c, signature("kind", "str"), "The kind that an accessor is about.",
           about_accessor<const State>(std::mem_fn(&State::kind)));
}

}  // namespace

void bind_rows(nb::module_& parent) {
    auto m = parent.def_submodule("rows", "The frameworks that are described by rows.");
    m.def("names", &frameworks::names, "The frameworks by name.");
    function(m, "def rows(name: str) -> dict[str, typing.Any]", "The rows of a framework.", &rows_of);
    function(m, "def require(framework: str, accessor: str) -> None",
             "Raises UsageError that names the nearest where the framework has no such accessor.",
             [](nb::handle framework, nb::handle accessor) {
                 static_cast<void>(accessor_named(framework_of(framework), text_of(accessor, "an accessor")));
             });
    bind_groups(m);
    bind_state(m);
}

}  // namespace rankmesh::python
