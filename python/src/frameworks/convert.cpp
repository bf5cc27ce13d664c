// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/convert/convert.hpp>

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include "frameworks/frameworks.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

nb::object json(const char* function, nb::handle value) {
    return nb::module_::import_("json").attr(function)(value);
}

/// A str is settings in any format that the command reads; a mapping is settings by name.
Conversion converted(nb::handle settings, nb::handle from, nb::handle to, nb::handle world) {
    const auto ranks = world.is_none() ? std::nullopt : std::optional(int_of(world, "the size of the world"));
    if (ranks && *ranks < 1)
        throw UsageError(cat("the size of the world is ", *ranks, "; it must be 1 or more"));
    const auto first = text_of(from, "the framework of from_");
    const auto second = text_of(to, "the framework of to");
    auto text = std::string{};
    if (nb::isinstance<nb::str>(settings)) {
        text = text_of(settings, "the settings");
    } else {
        if (!nb::hasattr(settings, "keys"))
            throw TypeFault(
                cat("the settings are ", described(settings), "; they must be a mapping or a str"));
        const auto plain = nb::module_::import_("builtins").attr("dict")(settings);
        text = text_of(json("dumps", plain), "the settings");
    }
    return convert_text(first, second, text, ranks);
}

}  // namespace

void bind_convert(nb::module_& m) {
    auto loss = nb::class_<Loss>(m, "Loss", "Something that a framework cannot express, and why.");
    loss.def_ro("what", &Loss::what, "What is lost, such as 'dp=2'.")
        .def_ro("why", &Loss::why, "The reason, one sentence.")
        .def("__repr__", [](const Loss& self) { return cat("<Loss ", self.what, ": ", self.why, ">"); });
    bind_pickle(loss, &Loss::what, &Loss::why);
    using Call = Conversion::Call;
    auto call = nb::class_<Call>(
        m, "Call", "A call of the other framework's function, and the number of ranks that it moves.");
    bind_pickle(call, &Call::text, &Call::moved);
    auto conversion = nb::class_<Conversion>(
        m, "Conversion", "The result of converting settings between frameworks; true if nothing is lost.");
    conversion.def_ro("source", &Conversion::from, "The framework of the given settings.")
        .def_ro("to", &Conversion::to, "The framework to which the settings were converted.")
        .def_ro("ranks", &Conversion::ranks, "The number of ranks.")
        .def_prop_ro(
            "settings",
            [](const Conversion& self) {
                return self.settings ? json("loads", nb::cast(*self.settings)) : nb::object(nb::none());
            },
            nb::sig("def settings(self) -> dict[str, typing.Any] | None"),
            "The other framework's settings by name; None if it has none for these sizes.")
        .def_ro("text", &Conversion::text,
                "The settings in the framework's own syntax, to be pasted; None where it has none for these "
                "sizes.")
        .def_ro("mesh_from", &Conversion::mesh_from,
                "The mesh of the given settings; the experts' mesh follows a ';'.")
        .def_ro("mesh_to", &Conversion::mesh_to,
                "The mesh of the other framework's settings; None if it has none for these sizes.")
        .def_ro("moved", &Conversion::moved,
                "The number of processes that get another rank; None without settings.")
        .def_ro("first_moves", &Conversion::first_moves,
                "The first eight moved processes, as pairs of old and new rank.")
        .def_ro("lost", &Conversion::lost, "What the other framework cannot express.")
        .def_prop_ro(
            "call",
            [](const Conversion& self) { return self.call ? std::optional(self.call->text) : std::nullopt; },
            "A call of the other framework's function that moves fewer ranks, if there is one.")
        .def_ro("notes", &Conversion::notes, "What the program must do itself with the settings.")
        .def("__bool__", [](const Conversion& self) { return self.text && self.lost.empty(); })
        .def("__str__", [](const Conversion& self) { return self.text.value_or(""); })
        .def("__repr__", [](const Conversion& self) {
            return cat("<Conversion from ", self.from, " to ", self.to, ": ",
                       self.text.value_or("cannot be said"), ">");
        });
    bind_pickle(conversion, &Conversion::from, &Conversion::to, &Conversion::ranks, &Conversion::settings,
                &Conversion::text, &Conversion::mesh_from, &Conversion::mesh_to, &Conversion::moved,
                &Conversion::first_moves, &Conversion::lost, &Conversion::call, &Conversion::notes);
    function<1>(
        m,
        "def convert(settings: str | collections.abc.Mapping[str, typing.Any], *, from_: str, to: "
        "str, world: int | None = None) -> Conversion",
        "Converts settings from one framework to another. The settings are a mapping, or text such as "
        "flags, JSON, TOML or key=value words. `world`: the number of ranks if the settings do not "
        "contain it. Raises UsageError for settings that cannot be read.",
        &converted);
    function(m, "def frameworks() -> list[str]",
             "Returns the frameworks whose settings convert reads and writes.", [] {
                 auto names = nb::list();
                 for (const auto& framework : known_frameworks()) names.append(nb::cast(framework.name));
                 return names;
             });
}

}  // namespace rankmesh::python
