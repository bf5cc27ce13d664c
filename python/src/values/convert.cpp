// SPDX-License-Identifier: Apache-2.0
#include "values/convert.hpp"

#include "values/signature.hpp"

#include <unistd.h>

#include <nanobind/eval.h>
#include <nanobind/stl/vector.h>

#include <rankmesh/core/detail/caller.hpp>

#include <cstdio>
#include <limits>
#include <stdexcept>

namespace rankmesh::python {

using detail::cat;

namespace {

[[maybe_unused]] const auto said_to_the_library = detail::caller_is_python = true;

/// Returns a str as UTF-8; a lone surrogate becomes its escape sequence.
std::string utf8_of(nb::handle text) {
    const auto bytes = nb::steal(PyUnicode_AsEncodedString(text.ptr(), "utf-8", "backslashreplace"));
    if (!bytes.is_valid()) throw nb::python_error();
    return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

}  // namespace

std::string text_with(nb::handle value, PyObject* (*function)(PyObject*), std::string_view otherwise) {
    try {
        const auto text = nb::steal(function(value.ptr()));
        if (!text.is_valid()) throw nb::python_error();
        return utf8_of(text);
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_Exception)) throw;
        return std::string(otherwise);
    }
}

nb::module_ numpy_for(std::string_view what) {
    try {
        return nb::module_::import_("numpy");
    } catch (nb::python_error& error) {
        if (!error.matches(PyExc_ModuleNotFoundError)) throw;
        throw nb::import_error(
            cat(what, " requires NumPy, which is not installed here; pip install numpy").c_str());
    }
}

std::string described(nb::handle value) {
    const nb::object name = value.type().attr("__name__");
    const auto type = utf8_of(name);
    const auto shown = text_with(value, PyObject_Repr, "");
    if (shown.empty()) return "of type " + type;
    constexpr auto most = std::size_t{60};
    return cat(detail::shortened(detail::escaped(shown), most), ", which is ", type);
}

int int_from(nb::handle value, const std::function<std::string()>& what) {
    if (!PyIndex_Check(value.ptr()) || PyBool_Check(value.ptr()))
        throw TypeFault(cat(what(), " is ", described(value), "; it must be an int"));
    const auto number = nb::steal(PyNumber_Index(value.ptr()));
    if (!number.is_valid()) throw nb::python_error();
    auto overflow = 0;
    const auto wide = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
    if (overflow != 0 || wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max())
        throw UsageError(
            cat(what(), " is ",
                overflow != 0 ? std::string("a number of more than 64 bits") : std::to_string(wide),
                "; ranks, sizes and indices are at most ", Mesh::max_size));
    return static_cast<int>(wide);
}

nb::object each_of(nb::handle given, std::string_view what) {
    if (nb::isinstance<nb::str>(given) || !nb::hasattr(given, "__iter__"))
        throw TypeFault(cat(what, ", not ", described(given)));
    return nb::borrow(given);
}

std::vector<int> ints_of(nb::handle given, std::string_view what) {
    auto ints = std::vector<int>{};
    const auto values = each_of(given, cat(what, " must be a sequence of ints"));
    if (nb::hasattr(values, "ndim")) {
        const nb::object dimensions = values.attr("ndim");
        if (PyLong_Check(dimensions.ptr()) && nb::cast<int>(dimensions) != 1)
            throw UsageError(
                cat(what, " are an array of ", nb::cast<int>(dimensions), " dimensions; pass x.ravel()"));
    }
    for (auto value : values) ints.push_back(int_from(value, [&] { return cat("a number of ", what); }));
    return ints;
}

std::optional<std::string_view> view_of(nb::handle value) {
    if (!nb::isinstance<nb::str>(value)) return std::nullopt;
    auto length = Py_ssize_t{0};
    if (const auto* text = PyUnicode_AsUTF8AndSize(value.ptr(), &length))
        return std::string_view(text, static_cast<std::size_t>(length));
    PyErr_Clear();
    return std::nullopt;
}

std::string text_of(nb::handle value, std::string_view what) {
    if (!nb::isinstance<nb::str>(value))
        throw TypeFault(cat(what, " is ", described(value), "; it must be a str"));
    if (const auto text = view_of(value)) return std::string(*text);
    throw UsageError(cat(what, " is ", described(value), ", which is no valid Unicode"));
}

std::string path_of(nb::handle value, std::string_view what) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(value.ptr(), &encoded) == 0) {
        const auto error = nb::python_error();
        if (error.matches(PyExc_TypeError))
            throw TypeFault(
                cat(what, " is ", described(value), "; it must be a path: a str, bytes or os.PathLike"));
        if (error.matches(PyExc_ValueError))
            throw UsageError(cat(what, " is ", described(value),
                                 ", which is no path: ", text_with(error.value(), PyObject_Str, "")));
        throw error;
    }
    const auto bytes = nb::steal(encoded);
    return {PyBytes_AsString(bytes.ptr()), static_cast<std::size_t>(PyBytes_Size(bytes.ptr()))};
}

std::chrono::nanoseconds duration_of(nb::handle given, std::string_view what) {
    auto seconds = 0.0;
    if (nb::hasattr(given, "total_seconds"))
        seconds = nb::cast<double>(given.attr("total_seconds")());
    else if (!nb::try_cast(given, seconds))
        throw TypeFault(
            cat(what, " is ", described(given), "; it must be a number of seconds, or a timedelta"));
    if (!(seconds > 0) || seconds > 1e9) {
        char text[32];
        std::snprintf(text, sizeof text, "%g", seconds);
        throw UsageError(cat(what, " is ", text, " s; it must be positive and at most 10^9 s"));
    }
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

std::vector<std::string> texts_of(nb::handle values, std::string_view what) {
    if (nb::isinstance<nb::str>(values)) return {text_of(values, what)};
    auto texts = std::vector<std::string>{};
    for (auto value : each_of(values, cat(what, " must be a sequence of str")))
        texts.push_back(text_of(value, cat("a name of ", what)));
    return texts;
}

AxisId axis_of(const Mesh& mesh, nb::handle name) {
    if (!nb::isinstance<nb::str>(name))
        throw TypeFault(cat("an axis is ", described(name), "; it must be the str of its name"));
    if (const auto text = view_of(name))
        if (const auto found = mesh.find(*text)) return *found;
    try {
        return mesh.axis(text_of(name, "an axis"));
    } catch (const UsageError& error) {
        throw UnknownName(error.what());
    }
}

std::vector<AxisId> axes_of(const Mesh& mesh, const nb::args& names) {
    if (names.size() == 0)
        throw UsageError(cat("no axis is given; name at least one axis of mesh ", to_string(mesh),
                             ", such as '", mesh.name(AxisId{0}),
                             "'; if the call takes a rank, the rank comes first"));
    auto axes = std::vector<AxisId>{};
    auto seen = AxisSet{};
    for (auto name : names) {
        const auto axis = axis_of(mesh, name);
        if (seen.contains(axis))
            throw UsageError(cat("axis '", mesh.name(axis), "' is named twice in one list of axes"));
        seen.insert(axis);
        axes.push_back(axis);
    }
    return axes;
}

AxisSet set_of(const std::vector<AxisId>& axes) {
    auto set = AxisSet{};
    for (auto axis : axes) set.insert(axis);
    return set;
}

Coordinate coordinate_of(const nb::args& args, const nb::kwargs& kwargs) {
    if (args.size() > 1 || (args.size() == 1 && kwargs.size() > 0))
        throw UsageError("a coordinate is one mapping, or keywords: {'pp': 1, 'tp': 3} or pp=1, tp=3");
    auto coordinate = Coordinate{};
    const auto add = [&](nb::handle name, nb::handle index) {
        const auto axis = text_of(name, "an axis of a coordinate");
        coordinate.push_back(
            axis, int_from(index, [&] { return cat("the index of axis ", detail::in_quotes(axis)); }));
    };
    if (args.size() == 0) {
        for (auto [name, index] : kwargs) add(name, index);
        return coordinate;
    }
    const auto given = nb::object(args[0]);
    if (nb::isinstance<Coordinate>(given)) return nb::cast<Coordinate>(given);
    if (nb::isinstance<nb::str>(given)) return Coordinate::parse(text_of(given, "a coordinate"));
    if (!nb::hasattr(given, "keys"))
        throw TypeFault(
            cat("a coordinate is ", described(given), "; it must be a mapping such as {'tp': 3}"));
    for (auto name : given.attr("keys")()) add(name, given[name]);
    return coordinate;
}

Edge edge_of(nb::handle given) {
    const auto edge = text_of(given, "edge");
    if (edge == "open") return Edge::open;
    if (edge == "wrap") return Edge::wrap;
    throw UsageError(cat("edge is ", detail::in_quotes(edge), "; it must be 'open' or 'wrap'"));
}

namespace {

/// Returns the size of an axis: an int, or "*" if that is allowed.
Extent extent_of(nb::handle size, std::string_view axis) {
    if (nb::isinstance<nb::str>(size) && text_of(size, "a size") == "*") return rest;
    return int_from(size, [&] { return cat("the size of axis ", detail::in_quotes(axis)); });
}

bool truth_of(nb::handle value) {
    const auto truth = PyObject_IsTrue(value.ptr());
    if (truth < 0) throw nb::python_error();
    return truth != 0;
}

Axes axes_of(nb::handle given) {
    const auto has_options = nb::hasattr(given, "axes");
    const nb::object names = has_options                      ? nb::object(given.attr("axes"))
                             : nb::isinstance<nb::str>(given) ? given.attr("split")(",")
                                                              : nb::borrow(given);
    auto axes = Axes(std::span<const std::string>(texts_of(names, "a set of axes")));
    if (!has_options) return axes;
    const nb::object separate = given.attr("separate");
    const nb::object timeout = given.attr("timeout");
    if (const auto name = text_of(separate, "the name of a separate communicator"); !name.empty())
        axes = axes.separate(name);
    if (!timeout.is_none()) axes = axes.within(duration_of(timeout, "the timeout"));
    return axes;
}

Declaration declaration_of(nb::handle given) {
    const auto field = [&](const char* name) { return nb::object(given.attr(name)); };
    auto declaration = Declaration{};
    declaration.mesh = mesh_spec_of(field("mesh"));
    declaration.name = text_of(field("name"), "the name of a mesh");
    for (auto set : each_of(field("over"), "over must be a sequence of sets of axes, such as [('dp', 'cp')]"))
        declaration.over.push_back(axes_of(set));
    for (auto pick : each_of(field("picks"), "picks must be a sequence of rankmesh.Pick")) {
        if (!nb::hasattr(pick, "of") || !nb::hasattr(pick, "at") || !nb::hasattr(pick, "name"))
            throw TypeFault(cat("a pick is ", described(pick), "; it must be a rankmesh.Pick"));
        declaration.picks.push_back({.of = text_of(nb::object(pick.attr("of")), "the axis of a pick"),
                                     .at = ints_of(nb::object(pick.attr("at")), "the indices of a pick"),
                                     .as = text_of(nb::object(pick.attr("name")), "the name of a pick")});
    }
    declaration.local = text_of(field("local"), "the name of the local ranks");
    if (const auto axes = field("axes"); !axes.is_none()) declaration.axes = texts_of(axes, "the axes");
    declaration.placed = ints_of(field("placed"), "the placed ranks");
    declaration.partial = truth_of(field("partial"));
    declaration.lazy = truth_of(field("lazy"));
    if (const auto timeout = field("timeout"); !timeout.is_none())
        declaration.timeout = duration_of(timeout, "the timeout");
    return declaration;
}

}  // namespace

void NamedSizes::add(nb::handle name, nb::handle size) {
    names.push_back(text_of(name, "an axis"));
    sizes.push_back(extent_of(size, names.back()));
}

std::vector<Axis> NamedSizes::all() const {
    auto axes = std::vector<Axis>{};
    for (std::size_t i = 0; i < names.size(); ++i) axes.push_back({names[i], sizes[i]});
    return axes;
}

NamedSizes axes_from(nb::handle given, const nb::kwargs& keywords) {
    auto axes = NamedSizes{};
    if (given.is_valid()) {
        const auto pairs =
            nb::hasattr(given, "items") ? nb::object(given.attr("items")()) : nb::borrow(given);
        if (!nb::hasattr(pairs, "__iter__"))
            throw TypeFault(cat("a mesh is ", described(given), "; it must be a str, a mapping, or pairs"));
        for (auto pair : pairs) {
            if (nb::isinstance<nb::str>(pair) || !nb::hasattr(pair, "__len__") || nb::len(pair) != 2)
                throw TypeFault(cat("an axis is ", described(pair), "; it must be a pair such as ('tp', 8)"));
            axes.add(pair[0], pair[1]);
        }
    }
    for (auto [name, size] : keywords) axes.add(name, size);
    return axes;
}

MeshSpec mesh_spec_of(nb::handle given) {
    if (nb::isinstance<Mesh>(given)) return nb::cast<Mesh>(given);
    if (!nb::isinstance<nb::str>(given)) return MeshSpec(axes_from(given, nb::kwargs()).all());
    const auto text = text_of(given, "a mesh");
    if (const auto at = text.find_first_of(";+"); at != std::string::npos)
        throw UsageError(cat("the mesh ", detail::in_quotes(text), " has a '", text.substr(at, 1),
                             "', but one mesh is needed here; rankmesh.convert takes several"));
    return MeshSpec::parse(text);
}

Plan plan_of(nb::handle declarations) {
    auto plan = Plan{};
    for (auto declaration : declarations) plan.push_back(declaration_of(declaration));
    return plan;
}

void raise(const char* type, const char* text, std::initializer_list<std::vector<int>> ranks) {
    auto given = nb::list();
    given.append(nb::str(text));
    for (const auto& each : ranks) given.append(nb::cast(each));
    const auto made = nb::module_::import_("rankmesh._errors").attr(type)(*given);
    PyErr_SetObject(made.type().ptr(), made.ptr());
}

namespace {

void translate(const std::exception_ptr& thrown) {
    try {
        std::rethrow_exception(thrown);
    } catch (const UnknownName& error) {
        raise("UnknownName", error.what());
    } catch (const TypeFault& error) {
        raise("UsageTypeError", error.what());
    } catch (const UsageError& error) {
        raise("UsageError", error.what());
    } catch (const Disagreement& error) {
        raise("Disagreement", error.what(), {error.ranks});
    } catch (const Timeout& error) {
        raise("Timeout", error.what(), {error.arrived, error.missing});
    } catch (const PeerLost& error) {
        raise("PeerLost", error.what(), {error.ranks});
    } catch (const EngineFailure& error) {
        raise("EngineFailure", error.what());
    } catch (const NotBuilt& error) {
        raise("NotBuilt", error.what());
    } catch (const Error& error) {
        raise("Error", error.what());
    }
}

}  // namespace

void register_errors() {
    nb::register_exception_translator([](const std::exception_ptr& thrown, void*) {
        // Null: no exception, but Python unwinds a thread that asks for the GIL after the interpreter has
        // ended.
        while (!thrown) pause();
        try {
            translate(thrown);
        } catch (nb::python_error& error) {  // raised while the exception was made: Ctrl-C, out of memory
            error.restore();
        }
    });
}

namespace {

/// Returns what stands between the parentheses of a signature. Commas outside of brackets and quotes separate
/// it.
std::vector<std::string> listed_in(const std::string& signature) {
    auto texts = std::vector<std::string>(1);
    auto depth = 0;
    auto is_quoted = false;
    for (auto i = signature.find('(') + 1; depth >= 0; ++i) {
        const auto c = signature.at(i);
        if (c == '\'') is_quoted = !is_quoted;
        if (!is_quoted) depth += (c == '(' || c == '[') - (c == ')' || c == ']');
        if (c == ',' && depth == 0 && !is_quoted)
            texts.emplace_back();
        else if (depth >= 0 && (c != ' ' || !texts.back().empty()))
            texts.back() += c;
    }
    return texts;
}

nb::object value_of(const std::string& expression) {
    if (expression == "None" || expression == "...") return nb::none();
    return nb::eval(nb::str(expression.c_str()), nb::dict());
}

}  // namespace

Signature::Signature(std::string text, std::size_t count, std::size_t positional) : text_(std::move(text)) {
    if (count == 0) return;
    auto before_star = count;
    for (const auto& each : listed_in(text_)) {
        if (each == "self") continue;
        if (each == "*") {
            before_star = parameters_.size();
        } else if (each == "/") {
            for (auto& parameter : parameters_) parameter.name.clear();
        } else {
            const auto equals = each.find(" = ");
            parameters_.push_back({each.substr(0, each.find(':')), nb::object()});
            if (equals != std::string::npos) parameters_.back().otherwise = value_of(each.substr(equals + 3));
        }
    }
    if (parameters_.size() != count || before_star != positional)
        throw std::logic_error(detail::cat("'", text_, "' is not of ", count, " parameters, ", positional,
                                           " of them before '*'"));
}

}  // namespace rankmesh::python

// The linker redirects nanobind's calls of PyErr_SetString to this file (--wrap in python/CMakeLists.txt).
// For wrong arguments nanobind would list every signature, and it has no hook for another text.
extern "C" {
void set_python_error(PyObject* type, const char* text) __asm__("__real_PyErr_SetString");
void set_error(PyObject* type, const char* text) __asm__("__wrap_PyErr_SetString");
}

void set_error(PyObject* type, const char* text) {
    using namespace rankmesh::python;
    if (type != PyExc_TypeError ||
        std::string_view(text).find("(): incompatible function arguments.") == std::string_view::npos)
        return set_python_error(type, text);
    try {
        const nb::object said = nb::module_::import_("rankmesh._signatures").attr("in_a_sentence")(text);
        raise("UsageTypeError", text_of(said, "an error").c_str());
    } catch (nb::python_error& error) {
        error.restore();
    } catch (const std::exception&) {
        set_python_error(type, text);
    }
}
