// SPDX-License-Identifier: Apache-2.0
#include "engine/operations.hpp"

namespace rankmesh::python {

namespace {

using detail::cat;

std::string named(Op operation, const char* part) {
    return cat("the ", part, " of ", detail::to_string(operation));
}

/// The arrays of a list, with what holds their memory.
struct List {
    Buffers buffers;
    std::vector<Array> keep;
};

List list_of(nb::handle objects) {
    auto list = List{};
    for (auto object : objects) {
        list.keep.push_back(contiguous_array_of(object, detail::buffer_of_list(list.keep.size()), true));
        detail::ListAccess::pieces(list.buffers).push_back(list.keep.back());
    }
    return list;
}

}  // namespace

Prepared arrays_of(Op operation, nb::handle in, nb::handle out) {
    const auto in_place = out.is_none();
    auto prepared = Prepared{.call = {.operation = operation}};
    prepared.in = array_of(in, named(operation, in_place ? "buffer" : "input"), in_place);
    prepared.out = in_place ? prepared.in : array_of(out, named(operation, "output"), true);
    prepared.result = nb::borrow(in_place ? in : out);
    return prepared;
}

Prepared rooted_arrays(Op operation, const Communicator& on, nb::handle in, nb::handle out, int root) {
    auto prepared = Prepared{.call = {.operation = operation}};
    const auto root_reads = detail::traits(operation).reads == detail::Users::root;
    const auto mine = on.rank() == root;
    const auto needed = [&](nb::handle given, const char* part) {
        if (given.is_none())
            throw UsageError(cat("rank ", on.rank(), " of ", on.label(), " gives None as ",
                                 named(operation, part), "; only ranks other than the root ", root, " may"));
    };
    const auto is_given = [&](nb::handle given, bool is_of_root) {
        return !is_of_root || mine || !given.is_none();
    };
    if (is_given(in, root_reads)) {
        needed(in, "input");
        prepared.in = array_of(in, named(operation, "input"), false);
    }
    if (is_given(out, !root_reads)) {
        needed(out, "output");
        prepared.out = array_of(out, named(operation, "output"), true);
    }
    const auto none_like = [](const Array& other) { return Array{{nullptr, 0, other.dtype, other.unit}}; };
    if (!is_given(in, root_reads)) prepared.in = none_like(prepared.out);
    if (!is_given(out, !root_reads)) prepared.out = none_like(prepared.in);
    prepared.result = nb::borrow(out);
    return prepared;
}

Prepared own_part(const CommunicatorHandle& self, Prepared&& prepared) {
    if (prepared.in.layout)
        prepared.own_part = true;
    else
        prepared.call = detail::Access::own_part(self.get(), std::move(prepared.call));
    return std::move(prepared);
}

nb::object run(const CommunicatorHandle& self, Prepared&& prepared) {
    auto& on = self.get();
    auto sender = 0;
    without_gil(leaving(on), [&] {
        with_call(prepared, [&](const auto& call) {
            if (prepared.call.is_from_any())
                sender = detail::Access::run_from_any(on, call);
            else
                detail::Access::run(on, call);
        });
    });
    return prepared.call.is_from_any() ? nb::object(nb::int_(sender)) : std::move(prepared.result);
}

Started start(const CommunicatorHandle& self, Prepared&& prepared) {
    auto& on = self.get();
    auto pending = with_call(prepared, [&](const auto& call) { return detail::Access::start(on, call); });
    return Started(std::move(pending), leaving(on), std::move(prepared), detail::Access::state(on).timeout);
}

nb::object run_list(const CommunicatorHandle& self, nb::handle objects, const detail::Call& like) {
    const auto list = list_of(objects);
    auto& on = self.get();
    without_gil(leaving(on), [&] { detail::Access::run_list(on, like, list.buffers); });
    return nb::borrow(objects);
}

std::string start_signature(const std::string& signature) {
    const auto arrow = signature.rfind(" -> ") + 4;
    const auto name = std::string("def ").size();
    return cat("def start_", signature.substr(name, arrow - name), "Pending[", signature.substr(arrow), "]");
}

std::string start_text(const std::string& signature) {
    const auto name = std::string("def ").size();
    return cat("Starts ", signature.substr(name, signature.find('(') - name),
               " and returns at once. The arrays must not be used until the Pending's wait() returns.");
}

}  // namespace rankmesh::python
