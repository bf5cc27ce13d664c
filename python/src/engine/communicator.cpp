// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.hpp"
#include "values/ranks.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

std::string named(Op operation, const char* part) {
    return cat("the ", part, " of ", detail::to_string(operation));
}

/// The operations of a list; their objects live as long as `given`.
std::vector<Started*> operations_of(const nb::list& given) {
    auto all = std::vector<Started*>{};
    for (auto each : given) {
        if (!nb::isinstance<Started>(each))
            throw TypeFault(cat("pendings[", all.size(), "] is ", described(each), "; it must be a Pending"));
        all.push_back(&nb::cast<Started&>(each));
    }
    return all;
}

nb::list wait_all(const nb::iterable& pendings) {
    const auto given = nb::list(pendings);
    const auto since = std::chrono::steady_clock::now();
    auto error = std::exception_ptr();
    auto results = nb::list();
    for (auto* each : operations_of(given)) {
        try {
            results.append(each->wait_after(std::chrono::steady_clock::now() - since));
        } catch (const nb::python_error&) {
            throw;
        } catch (...) {
            if (!error) error = std::current_exception();
        }
    }
    if (error) std::rethrow_exception(error);
    return results;
}

std::optional<std::size_t> wait_any(const nb::iterable& pendings) {
    const auto given = nb::list(pendings);
    const auto operations = operations_of(given);
    const auto since = std::chrono::steady_clock::now();
    auto held = std::vector<std::shared_ptr<Pending>>{};
    auto awaited = std::vector<Pending*>{};
    auto leaves = std::vector<Leave>{};
    for (const auto* each : operations) {
        held.push_back(each->handle().hold());
        awaited.push_back(held.back().get());
        leaves.push_back(each->handle().leave());
    }
    const auto leave = [&](const char* why) {
        for (const auto& each : leaves)
            if (each) each(why);
    };
    const auto index = result_without_gil(leave, [&] { return detail::first_complete(awaited, since); });
    if (index) operations[*index]->wait_after(std::chrono::steady_clock::now() - since);
    return index;
}

void bind_pending(nb::module_& m) {
    auto pending = nb::class_<Started>(
        m, "Pending", nb::sig("class Pending(typing.Generic[_T_co])"),
        "A started operation. Its arrays must not be used until wait() returns.\n\nIf it is dropped without "
        "wait(), even by an exception, it waits, at most until the timeout; Ctrl-C ends the wait. As a "
        "context manager it waits at the end. If an exception leaves the block, it does not wait, and its "
        "peers raise PeerLost. `await` waits without blocking asyncio's event loop. If the await is "
        "cancelled, the operation continues and can be awaited or waited for again. When the interpreter "
        "ends, it does not wait.");
    method(pending, "def wait(self, timeout: float | datetime.timedelta | None = None) -> _T_co",
           "Waits until the operation is complete and returns the array that was written. A second call "
           "returns or raises the same.\n\nRaises Timeout if the communicator's timeout expires, or "
           "`timeout` if that is shorter, and PeerLost if a peer has left.",
           [](Started& self, nb::handle timeout) {
               return timeout.is_none() ? self.wait() : self.wait_within(duration_of(timeout, "the timeout"));
           });
    method(pending, "def result(self) -> _T_co", "Like wait().", &Started::wait);
    method(pending, "def __await__(self) -> collections.abc.Generator[typing.Any, None, _T_co]", "",
           [](nb::object self) {
               const auto ask = nb::cpp_function([self](double passed) -> nb::object {
                   const auto seconds = std::chrono::duration<double>(passed);
                   const auto result = nb::cast<Started&>(self).ask(
                       std::chrono::duration_cast<std::chrono::nanoseconds>(seconds));
                   return result ? nb::object(nb::make_tuple(*result)) : nb::object(nb::none());
               });
               return nb::module_::import_("rankmesh._await").attr("completed")(ask).attr("__await__")();
           });
    pending.def_static(
        "__class_getitem__",
        [](nb::handle type) {
            const nb::object pending = nb::module_::import_("rankmesh._engine").attr("Pending");
            return nb::module_::import_("types").attr("GenericAlias")(pending, type);
        },
        nb::arg("type").none());
    method(pending, "def __enter__(self) -> Pending[_T_co]", "", [](nb::object self) { return self; });
    method(pending, "def __exit__(self, type: typing.Any, value: typing.Any, traceback: typing.Any) -> None",
           "", [](Started& self, nb::handle type, nb::handle, nb::handle) { self.exit(!type.is_none()); });
    pending.def("done", &Started::done, "Returns True if wait() would return at once.");
    function(m, "def wait_all(pendings: collections.abc.Iterable[Pending[_T]]) -> list[_T]",
             "Waits until every operation is complete and returns what their wait() returns. Their timeouts "
             "run at the same time. If operations fail, raises the error of the first of them after it has "
             "waited for the others.",
             wait_all);
    function(m, "def wait_any(pendings: collections.abc.Iterable[Pending[typing.Any]]) -> int | None",
             "Waits until one of the operations is complete and returns its index. Ignores operations that "
             "were waited for; returns None if no other is left.\n\nTimeouts run from this call on. Raises "
             "what wait() of the operation raises that has failed or whose timeout expires.",
             wait_any);
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
    auto arrays = std::vector<Array>{};
    const auto buffers = buffers_of<Buffers>(objects, arrays, true, detail::buffer_of_list);
    auto& on = self.get();
    without_gil(leaving(on), [&] { detail::Access::run_list(on, like, buffers); });
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

nb::object started(Pending&& pending, Leave leave, std::vector<Array>&& arrays, nb::object result,
                   std::chrono::nanoseconds timeout) {
    auto prepared = Prepared{};
    prepared.others = std::move(arrays);
    prepared.result = std::move(result);
    return nb::cast(Started(std::move(pending), std::move(leave), std::move(prepared), timeout));
}

Leave leaving(const Communicator& on) { return leaving(detail::Access::state(on).world); }

void bind_communicator(nb::module_& m) {
    using Self = CommunicatorHandle;
    bind_pending(m);
    auto c = nb::class_<Self>(
        m, "Communicator",
        "The communicator of one group. Every rank of the group calls the same operations in the same "
        "order.\n\nArrays are NumPy arrays, CPU tensors, and other objects with the buffer protocol or "
        "DLPack; lengths are in elements. Arrays that are not contiguous, such as slices, are copied through "
        "memory of the communicator. Calls return the array that was written. Blocking calls release the "
        "GIL. They raise UsageError for arrays of a wrong length, type or layout, Timeout, PeerLost, and on "
        "threads and in checked mode Disagreement if the ranks' calls differ.");
    c.def_prop_ro("rank", asking<Self, &Communicator::rank>, "This process's rank in the group.")
        .def_prop_ro("size", asking<Self, &Communicator::size>, "The number of ranks of the group.")
        .def_prop_ro("label", asking<Self, &Communicator::label>,
                     "The name and mesh, as in error texts: \"'dp' of mesh dp=2 tp=2\".")
        .def_prop_ro(
            "world_ranks", [](const Self& self) { return Ranks(self.get().world_ranks()); },
            "The world ranks of the group, in order.");
    method(c, "def world_rank(self, group_rank: int) -> int", "Returns the world rank of a group rank.",
           [](const Self& self, nb::handle rank) {
               return self.get().world_rank(int_of(rank, "a group rank"));
           });
    method(
        c, "def group_rank_of(self, world_rank: int) -> int | None",
        "Returns the group rank of a world rank; None if it is not in the group.",
        [](const Self& self, nb::handle rank) { return self.get().group_rank_of(int_of(rank, "a rank")); });
    method(c, "def within(self, timeout: float | datetime.timedelta) -> Communicator",
           "Returns the same communicator with another timeout, in seconds, for its blocking calls.",
           [](const Self& self, nb::handle timeout) {
               return std::make_unique<Self>(self.get().within(duration_of(timeout, "the timeout")));
           });
    c.def("__repr__", [](const Self& self) {
        return self.ended() ? std::string("<Communicator, ended>")
                            : detail::cat("<Communicator ", self.get().label(), ">");
    });
    bind_reductions(c);
    bind_copies(c);
    bind_messages(c);
    bind_operation(
        c, "def barrier(self) -> None", "Returns when every rank of the group has called it.",
        +[](const Self&) { return Prepared{.call = {.operation = Op::barrier}}; });
    c.def(
         "_raise_if_broken",
         [](const Self& self) {
             const auto& state = detail::Access::state(self.get());
             const auto use = detail::Channel::Use(*state.channel, *state.label);
             state.channel->throw_if_broken(*state.label);
         },
         "Raises why the communicator cannot be used any more, such as PeerLost. Does not communicate.")
        .def(
            "monitored_barrier",
            [](const Self& self) {
                auto& on = self.get();
                without_gil(leaving(on), [&] { on.monitored_barrier(); });
            },
            "Like barrier(), but an expired timeout raises Timeout with `arrived` and `missing` on every "
            "engine, also on MPI.");
}

}  // namespace rankmesh::python
