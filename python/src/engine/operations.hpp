// SPDX-License-Identifier: Apache-2.0
// Operations of a communicator: their arrays, and their methods in Python with those that start them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "engine/access.hpp"
#include "engine/engine.hpp"
#include "values/signature.hpp"

namespace rankmesh::python {

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

inline int root_of(nb::handle root) { return int_of(root, "the root"); }
inline bool is_list(nb::handle object) {
    return nb::isinstance<nb::list>(object) || nb::isinstance<nb::tuple>(object);
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

}  // namespace rankmesh::python
