// SPDX-License-Identifier: Apache-2.0
// Runs a Python program as ranks, each on a thread.
#include <unistd.h>

#include <algorithm>

#include <rankmesh/engine/run.hpp>
#include <rankmesh/engine/threads.hpp>

#include "engine/engine.hpp"

namespace rankmesh::python {

using detail::cat;

namespace {

/// The ranks of one run. Requires the GIL.
class Run {
public:
    /// Throws KeyboardInterrupt in a rank that starts after the interrupt.
    void begin(const World& world, unsigned long thread) {
        if (interrupted_) {
            PyErr_SetNone(PyExc_KeyboardInterrupt);
            throw nb::python_error();
        }
        ranks_.push_back({detail::Access::checked_state(world), thread});
    }
    void end(unsigned long thread) {
        std::erase_if(ranks_, [&](const Rank& rank) { return rank.thread == thread; });
    }
    /// Makes every rank raise KeyboardInterrupt; ranks that wait for peers, or for an inner run, at once.
    void interrupt(const char* why) {
        interrupted_ = true;
        const auto ranks = ranks_;
        for (const auto& [state, thread] : ranks) python::leaving(state)(why);
        for (const auto& [state, thread] : ranks)
            if (!python::interrupt(thread, why)) PyThreadState_SetAsyncExc(thread, PyExc_KeyboardInterrupt);
    }

private:
    struct Rank {
        std::shared_ptr<detail::WorldState> state;
        unsigned long thread;
    };
    std::vector<Rank> ranks_;
    bool interrupted_ = false;
};

/// The data of a run's threads; outlives abandoned threads.
struct Program {
    nb::object function;
    nb::tuple args;
    std::vector<nb::object> results;
    Run run = {};
};

/// Ends a process that a rank forked, with the result of the rank's program, because the code that started
/// the rank is not in this process.
[[noreturn]] void end_child(std::optional<nb::python_error>& error) {
    auto status = 0;
    if (error && error->matches(PyExc_SystemExit)) {
        const nb::object code = error->value().attr("code");
        auto number = 0;
        if (nb::try_cast(code, number)) {
            status = number;
        } else if (!code.is_none()) {
            status = 1;
            PySys_FormatStderr("%S\n", code.ptr());
        }
    } else if (error) {
        status = 1;
        error->restore();
        PyErr_Print();
    }
    for (const auto* name : {"stdout", "stderr"}) {
        try {
            const nb::object stream = nb::module_::import_("sys").attr(name);
            if (!stream.is_none()) stream.attr("flush")();
        } catch (nb::python_error& failed) {
            failed.discard_as_unraisable(name);
        }
    }
    _exit(status);
}

/// Runs the program of one rank on its thread.
void run_rank(Program& program, World& world) {
    const auto gil = Attached();
    if (!gil.valid()) stay();
    const auto thread = PyThread_get_thread_ident();
    program.run.begin(world, thread);
    struct End {
        Run& run;
        unsigned long thread;
        ~End() { run.end(thread); }
    };
    const auto end = End{program.run, thread};
    auto& result = program.results[static_cast<std::size_t>(world.rank())];
    const auto recorder = std::weak_ptr(detail::Access::checked_state(world)->recorder());
    const auto handle = nb::cast(std::make_unique<WorldHandle>(std::move(world)));
    const auto args =
        nb::steal<nb::tuple>(PySequence_Concat(nb::make_tuple(handle).ptr(), program.args.ptr()));
    if (!args.is_valid()) throw nb::python_error();
    auto error = std::optional<nb::python_error>{};
    const auto before = forks();
    try {
        result = call_python(program.function, args);
    } catch (const nb::python_error& raised) {
        error.emplace(raised);
    }
    if (forks() != before) end_child(error);
    if (error)
        if (const auto own = recorder.lock()) own->failed(reason_of(error->value()));
    nb::cast<WorldHandle&>(handle).end(false);
    if (error) throw nb::python_error(std::move(*error));
}

nb::object run_threads(nb::handle size, nb::handle function, nb::handle timeout, std::optional<bool> checked,
                       nb::handle record, nb::handle record_signal, nb::handle log, nb::handle args) {
    const auto ranks = int_of(size, "the number of ranks");
    if (!PyCallable_Check(function.ptr()))
        throw TypeFault(cat("the program is ", described(function), "; it must be a function of a World"));
    const auto options = world_options_of(nb::none(), timeout, true, checked, record, record_signal, log);
    const auto program = std::shared_ptr<Program>(
        new Program{nb::borrow(function), args.is_none() ? nb::tuple() : nb::tuple(nb::borrow(args)),
                    std::vector<nb::object>(static_cast<std::size_t>(std::clamp(ranks, 0, 1 << 20)))},
        [](Program* it) {
            const auto gil = Attached();
            if (gil.valid()) delete it;
        });
    const auto interrupt = [program](const char* why) {
        const auto gil = Attached();
        if (gil.valid()) program->run.interrupt(why);
    };
    const auto call = [=] {
        threads::run(
            ranks, [&](World& world) { run_rank(*program, world); }, options);
    };
    if (is_main_thread())
        without_gil_or_given_up(interrupt, call);
    else
        without_gil(interrupt, call, Waits::for_threads);
    auto list = nb::list();
    for (auto& result : program->results) list.append(result);
    return list;
}

}  // namespace

void bind_run(nb::module_& m) {
    function<2>(
        m,
        cat("def run(size: int, program: collections.abc.Callable[[World, typing_extensions.Unpack[_Ts]], "
            "_T], *, timeout: float | datetime.timedelta | None = None, checked: bool | None = None, ",
            record_options, ", args: tuple[typing_extensions.Unpack[_Ts]] = ...) -> list[_T]"),
        "Runs `program(world, *args)` as `size` ranks of one world, each a thread of this process, and "
        "returns the results by rank. Raises the first exception of a rank; the other ranks' calls raise "
        "PeerLost. The options are as in World.from_environment.\n\nIf a signal handler raises, such as that "
        "of Ctrl-C, every rank raises KeyboardInterrupt; when all have ended, run raises the handler's "
        "exception. After two seconds, or when the handler raises again, run abandons the ranks that have "
        "not ended.",
        &run_threads);
}

}  // namespace rankmesh::python
