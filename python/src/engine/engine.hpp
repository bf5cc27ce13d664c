// SPDX-License-Identifier: Apache-2.0
// Operations: the memory of Python objects as their buffers, and their methods in Python with those that
// start them. The bindings; each is in the file of its name.
#pragma once

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/detail/memory_layout.hpp>

#include "engine/access.hpp"
#include "engine/handle.hpp"
#include "values/signature.hpp"

namespace rankmesh::python {

/// An input or output of an operation: the elements of an array, which lives at least as long as this.
struct Array : detail::AnyBuffer<void> {
    std::shared_ptr<void> keep = nullptr;  ///< keeps the memory alive; released with the GIL held
    std::shared_ptr<const detail::MemoryLayout> layout = nullptr;  ///< null: contiguous and row-major
};

/// Returns the memory of a NumPy array, a CPU tensor, or another object with the buffer protocol or DLPack.
///
/// Throws TypeFault for other objects. Throws UsageError for memory of another device, types that no engine
/// moves, and for an output in read-only memory. `what` names the argument, such as "the output of
/// all_reduce".
Array array_of(nb::handle object, std::string_view what, bool written);
/// The same; throws UsageError unless the array is contiguous and row-major.
Array contiguous_array_of(nb::handle object, std::string_view what, bool written);

/// An array that is written, with its dimensions.
struct FieldArray : Array {
    std::vector<detail::MemoryLayout::Dimension> dimensions = {};
};
FieldArray field_of(nb::handle object, std::string_view what);

/// Returns a function that leaves a world and tells its peers why. It does not keep the world alive.
Leave leaving(const std::shared_ptr<detail::WorldState>& world);
Leave leaving(const Communicator& on);
/// Returns the reason of a flight record when a Python exception ends a world: `KeyError: 'x'`.
detail::RecordReason reason_of(nb::handle exception);
/// Returns Python's Pending of a started operation, which keeps its arrays alive. wait() returns `result`.
nb::object started(Pending&& pending, Leave leave, std::vector<Array>&& arrays, nb::object result,
                   std::chrono::nanoseconds timeout);

/// The last of the options of a world in signatures.
inline constexpr auto record_options =
    "record: str | os.PathLike[str] | None = None, record_signal: int | None = None, log: "
    "collections.abc.Callable[[str], object] | logging.Logger | None = None";
/// Returns the options of a world; None is the default.
WorldOptions world_options_of(nb::handle engine, nb::handle timeout, bool multithreaded,
                              std::optional<bool> checked, nb::handle record, nb::handle record_signal,
                              nb::handle log);

using Op = detail::Operation;

/// An operation with its arrays, whose memory it keeps alive.
struct Prepared {
    detail::Call call;
    Array in = {};
    Array out = {};
    std::vector<std::size_t> in_counts = {};
    std::vector<std::size_t> out_counts = {};
    nb::object result = nb::none();  ///< the array that was written
    bool own_part = false;           ///< in place, of an array that is not contiguous
    std::vector<Array> others = {};  ///< of an operation of several calls
};

/// Calls `body` with the call of an operation, and the layouts of its arrays if one is not contiguous.
template <class Body>
auto with_call(const Prepared& prepared, const Body& body) {
    const auto& [in, out] = std::tie(prepared.in.layout, prepared.out.layout);
    if (!in && !out) return body(prepared.call);
    auto call = detail::StridedCall(prepared.call, in ? *in : detail::MemoryLayout(),
                                    out ? *out : detail::MemoryLayout());
    call.own_part = prepared.own_part;
    return body(call);
}

/// A started operation. It owns its arrays until it was waited for.
class Started {
public:
    Started(Pending&& pending, Leave leave, Prepared&& prepared, std::chrono::nanoseconds timeout)
        : timeout_(timeout),
          prepared_(std::make_unique<Prepared>(std::move(prepared))),
          handle_(std::make_unique<PendingHandle>(std::move(pending), std::move(leave))) {}
    Started(Started&&) = default;
    ~Started() {
        if (!handle_ || !prepared_) return;
        const auto current = nb::error_scope();
        try {
            handle_->finish();
        } catch (const nb::python_error& error) {
            raise_later(error);
        }
    }

    nb::object wait() { return wait_after({}); }
    /// Waits when so much of the timeout has already passed.
    nb::object wait_after(std::chrono::nanoseconds passed) {
        if (failed_) std::rethrow_exception(failed_);
        const auto pending = handle_->hold();
        try {
            without_gil(handle_->leave(), [&] { detail::Access::wait(*pending, passed); });
        } catch (const UsageError&) {  // the wait did not begin
            throw;
        } catch (const Error&) {
            failed_ = std::current_exception();
            throw;
        }
        if (prepared_)
            result_ = prepared_->call.is_from_any() ? nb::object(nb::int_(pending->sender()))
                                                    : std::move(prepared_->result);
        prepared_ = nullptr;
        return result_;
    }
    nb::object wait_within(std::chrono::nanoseconds timeout) {
        return wait_after(std::max(timeout_ - timeout, timeout_.zero()));
    }
    bool done() {
        const auto pending = handle_->hold();
        return result_without_gil({}, [&] { return pending->done(); });
    }
    const PendingHandle& handle() const { return *handle_; }
    /// Returns None while the operation is running and its timeout has not expired; else returns or throws
    /// like `wait`.
    std::optional<nb::object> ask(std::chrono::nanoseconds passed) {
        if (passed < timeout_ && !done()) return std::nullopt;
        return wait_after(passed);
    }
    void exit(bool by_exception) {
        if (!by_exception) return static_cast<void>(wait());
        if (prepared_) handle_->end(true);
        prepared_ = nullptr;
    }

private:
    std::chrono::nanoseconds timeout_;
    std::exception_ptr failed_;  // what a wait threw; every later one throws it again
    nb::object result_ = nb::none();
    std::unique_ptr<Prepared> prepared_;  // outlives the operation; null: it was waited for
    std::unique_ptr<PendingHandle> handle_;
};

/// Returns the arrays of an operation; without an output the input is also the output.
Prepared arrays_of(Op operation, nb::handle in, nb::handle out);
/// Like arrays_of, for operations in which only the root needs an array; the others may pass None.
Prepared rooted_arrays(Op operation, const Communicator& on, nb::handle in, nb::handle out, int root);
/// Makes the shorter array of an operation in place this rank's part of the other.
Prepared own_part(const CommunicatorHandle& self, Prepared&& prepared);

/// Returns the buffers of a list of arrays; `arrays` keeps their memory, and `name` says the name of each.
template <class List, class Name>
List buffers_of(nb::handle objects, std::vector<Array>& arrays, bool written, const Name& name) {
    auto list = List{};
    for (auto object : objects) {
        const auto number = detail::ListAccess::pieces(list).size();
        arrays.push_back(contiguous_array_of(object, name(number), written));
        detail::ListAccess::pieces(list).push_back(arrays.back());
    }
    return list;
}

nb::object run(const CommunicatorHandle& self, Prepared&& prepared);
Started start(const CommunicatorHandle& self, Prepared&& prepared);
/// Runs an operation like `like` in place of each array of a list, and returns the list.
nb::object run_list(const CommunicatorHandle& self, nb::handle objects, const detail::Call& like);

/// Returns the signature of the method that starts an operation, which gives a Pending.
std::string start_signature(const std::string& signature);
/// Returns the text of that method.
std::string start_text(const std::string& signature);

/// Binds the method that starts an operation. `signature` is of the method that waits for it.
template <class... Handles>
void bind_start(nb::class_<CommunicatorHandle>& c, const std::string& signature,
                Prepared (*make)(const CommunicatorHandle&, Handles...)) {
    method(c, start_signature(signature), start_text(signature).c_str(),
           [make](const CommunicatorHandle& self, Handles... given) {
               return start(self, make(self, given...));
           });
}

/// Binds an operation by two methods: one waits for it, `start_` does not.
template <class... Handles>
void bind_operation(nb::class_<CommunicatorHandle>& c, const std::string& signature, const char* text,
                    Prepared (*make)(const CommunicatorHandle&, Handles...)) {
    method(c, signature, text, [make](const CommunicatorHandle& self, Handles... given) {
        return run(self, make(self, given...));
    });
    bind_start(c, signature, make);
}

void bind_copies(nb::class_<CommunicatorHandle>& c);
void bind_messages(nb::class_<CommunicatorHandle>& c);
void bind_reductions(nb::class_<CommunicatorHandle>& c);
void bind_world(nb::module_& m);
void bind_run(nb::module_& m);
void bind_member(nb::module_& m);
void bind_communicator(nb::module_& m);
void bind_mpi4py(nb::module_& m);

}  // namespace rankmesh::python
