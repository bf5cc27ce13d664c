// SPDX-License-Identifier: Apache-2.0
// The options of a world, and what its flight record and its peers hear of a Python program.
#include "engine/access.hpp"
#include "engine/engine.hpp"

namespace rankmesh::python {

using detail::cat;

Leave leaving(const std::shared_ptr<detail::WorldState>& world) {
    return [world = std::weak_ptr(world)](const char* why) {
        if (const auto state = world.lock())
            state->leave(cat("rank ", state->rank(), " of ", state->size(), " ", why));
    };
}

detail::RecordReason reason_of(nb::handle exception) {
    const nb::object name = exception.type().attr("__name__");
    auto text = text_with(name, PyObject_Str, "an exception");
    if (const auto said = text_with(exception, PyObject_Str, ""); !said.empty())
        detail::append(text, cat(": ", said));
    return {.reason = "exception", .error = std::move(text)};
}

namespace {

/// Calls a Python function with each log line, on any thread of the engine.
class Log {
public:
    explicit Log(nb::object function) : function_(new nb::object(std::move(function)), &Log::release) {}
    void operator()(std::string_view line) const {
        const auto gil = Attached();
        if (!gil.valid()) return;
        try {
            call_python(*function_, nb::make_tuple(nb::str(line.data(), line.size())));
        } catch (nb::python_error& error) {
            error.discard_as_unraisable("the log of a world");
        }
    }

private:
    static void release(nb::object* function) {
        const auto gil = Attached();
        if (gil.valid()) delete function;
    }
    std::shared_ptr<nb::object> function_;
};

}  // namespace

WorldOptions options_of(nb::handle engine, nb::handle timeout, bool multithreaded,
                        std::optional<bool> checked, nb::handle record, nb::handle record_signal,
                        nb::handle log) {
    auto options = WorldOptions{};
    if (!engine.is_none()) options.engine = text_of(engine, "the engine");
    if (!timeout.is_none()) options.timeout = duration_of(timeout, "the timeout");
    options.multithreaded = multithreaded;
    options.checked = checked;
    if (!record.is_none()) options.record = path_of(record, "the record");
    if (!record_signal.is_none()) options.record_signal = int_of(record_signal, "the record_signal");
    if (!log.is_none()) {
        auto function = nb::borrow(log);
        if (!PyCallable_Check(log.ptr()) && nb::hasattr(log, "info")) function = log.attr("info");
        if (!PyCallable_Check(function.ptr()))
            throw TypeFault(cat("the log is ", described(log),
                                "; it must be a logging.Logger, or a function of one str"));
        options.log = Log(std::move(function));
    }
    return options;
}

}  // namespace rankmesh::python
