// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <vector>

#include "engine/operations.hpp"

namespace rankmesh::python {
namespace {

using detail::cat;

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

}  // namespace

nb::object started(Pending&& pending, Leave leave, std::vector<Array>&& arrays, nb::object result,
                   std::chrono::nanoseconds timeout) {
    auto prepared = Prepared{};
    prepared.others = std::move(arrays);
    prepared.result = std::move(result);
    return nb::cast(Started(std::move(pending), std::move(leave), std::move(prepared), timeout));
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

}  // namespace rankmesh::python
