// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include <nanobind/stl/vector.h>

#include <rankmesh/engine/built.hpp>
#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/run.hpp>
#include <rankmesh/engine/threads.hpp>

#include "engine/access.hpp"
#include "engine/engine.hpp"
#include "engine/environment.hpp"
#include "engine/interrupt.hpp"
#include "values/declaration.hpp"
#include "values/ranks.hpp"

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

Leave leaving(const World& world) { return python::leaving(detail::Access::checked_state(world)); }

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

std::unique_ptr<WorldHandle> from_environment(nb::handle engine, nb::handle timeout, bool multithreaded,
                                              std::optional<bool> checked, nb::handle record,
                                              nb::handle record_signal, nb::handle log) {
    const auto options = options_of(engine, timeout, multithreaded, checked, record, record_signal, log);
    // MPI must be used by the thread that starts it.
    if (detail::engine_of(options) == "mpi") {
        auto world = std::optional<World>{};
        without_gil({}, [&] { world.emplace(World::from_environment(options)); });
        return std::make_unique<WorldHandle>(std::move(*world));
    }
    const auto world = std::make_shared<std::optional<World>>();
    without_gil_or_given_up({}, [=] { world->emplace(World::from_environment(options)); });
    return std::make_unique<WorldHandle>(std::move(**world));
}

gloo::RendezvousOptions rendezvous_of(nb::handle store, nb::handle job, nb::handle rank, nb::handle size) {
    auto rendezvous = gloo::RendezvousOptions{};
    if (!store.is_none()) rendezvous.store = text_of(store, "the store");
    if (!job.is_none()) rendezvous.job = text_of(job, "the job");
    if (!rank.is_none()) rendezvous.rank = int_of(rank, "the rank");
    if (!size.is_none()) rendezvous.size = int_of(size, "the size");
    return rendezvous;
}

std::unique_ptr<WorldHandle> from_store(nb::handle store, nb::handle rank, nb::handle size, nb::handle job,
                                        bool job_is_secret, nb::handle timeout, std::optional<bool> checked,
                                        nb::handle record, nb::handle record_signal, nb::handle log) {
    const auto options = options_of(nb::none(), timeout, false, checked, record, record_signal, log);
    auto rendezvous = rendezvous_of(store, job, rank, size);
    rendezvous.job_is_secret = job_is_secret;
    const auto world = std::make_shared<std::optional<World>>();
    without_gil_or_given_up({}, [=] { world->emplace(gloo::World(rendezvous, options)); });
    return std::make_unique<WorldHandle>(std::move(**world));
}

std::unique_ptr<WorldHandle> rejoin(nb::handle engine, nb::handle store, nb::handle job, nb::handle rank,
                                    nb::handle timeout, nb::handle record, nb::handle record_signal,
                                    nb::handle log) {
    const auto options = options_of(engine, timeout, false, {}, record, record_signal, log);
    const auto rendezvous = rendezvous_of(store, job, rank, nb::none());
    const auto from_program = !store.is_none() || !job.is_none() || !rank.is_none();
    const auto world = std::make_shared<std::optional<World>>();
    without_gil_or_given_up({}, [=] {
        world->emplace(from_program ? World(gloo::World::rejoin(rendezvous, options))
                                    : World::rejoin(options));
    });
    return std::make_unique<WorldHandle>(std::move(**world));
}

/// Ends a world that a `with` block leaves.
void exit_block(WorldHandle& self, nb::handle type, nb::handle value, nb::handle) {
    const auto by_exception = !type.is_none();
    try {
        if (by_exception) detail::Access::checked_state(self.get())->recorder()->failed(reason_of(value));
    } catch (const UsageError&) {  // the world has ended, or belongs to the parent process
    }
    self.end(by_exception);
}

// --- threads

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

nb::object run(nb::handle size, nb::handle function, nb::handle timeout, std::optional<bool> checked,
               nb::handle record, nb::handle record_signal, nb::handle log, nb::handle args) {
    const auto ranks = int_of(size, "the number of ranks");
    if (!PyCallable_Check(function.ptr()))
        throw TypeFault(cat("the program is ", described(function), "; it must be a function of a World"));
    const auto options = options_of(nb::none(), timeout, true, checked, record, record_signal, log);
    const auto program = std::shared_ptr<Program>(
        new Program{nb::borrow(function), nb::tuple(nb::borrow(args)),
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

// --- plans

std::unique_ptr<MemberHandle> join(const WorldHandle& self, nb::args args, nb::kwargs options) {
    const auto known = {"name", "over", "picks", "local", "axes", "placed", "partial", "lazy", "timeout"};
    for (auto [key, value] : options) {
        const auto option = text_of(key, "an option");
        if (std::ranges::find(known, option) == known.end())
            throw TypeFault(cat("join has no option ", detail::in_quotes(option),
                                "; a mesh is its first argument, as in join('dp=2 tp=2')"));
    }
    if (args.size() == 0) throw TypeFault("join names no mesh; give one, as in join('dp=2 tp=2')");
    const auto plan = plan_of(nb::module_::import_("rankmesh._plan").attr("declarations")(args, **options));
    const auto world = self.hold();
    const auto leave = leaving(*world);
    auto member = std::optional<Member>{};
    without_gil(leave, [&] { member.emplace(world->join(plan)); });
    return std::make_unique<MemberHandle>(std::move(*member), leave);
}

/// The functions of the module.
void bind_functions(nb::module_& m) {
    m.def(
        "run", &run, nb::arg("size"), nb::arg("program"), nb::kw_only(), nb::arg("timeout") = nb::none(),
        nb::arg("checked") = nb::none(), nb::arg("record") = nb::none(),
        nb::arg("record_signal") = nb::none(), nb::arg("log") = nb::none(),
        nb::arg("args") = nb::make_tuple(),
        nb::sig("def run(size: int, program: collections.abc.Callable[[World, "
                "typing_extensions.Unpack[_Ts]], _T], *, timeout: float | datetime.timedelta | None = None, "
                "checked: bool | None = None, record: str | os.PathLike[str] | None = None, record_signal: "
                "int | None = None, log: collections.abc.Callable[[str], object] | logging.Logger | None = "
                "None, args: tuple[typing_extensions.Unpack[_Ts]] = ...) -> list[_T]"),
        "Runs `program(world, *args)` as `size` ranks of one world, each a thread of this process, and "
        "returns the results by rank. Raises the first exception of a rank; the other ranks' calls raise "
        "PeerLost. The options are as in World.from_environment.\n\nIf a signal handler raises, such as that "
        "of Ctrl-C, every rank raises KeyboardInterrupt; when all have ended, run raises the handler's "
        "exception. After two seconds, or when the handler raises again, run abandons the ranks that have "
        "not ended.");
    m.def(
        "engines",
        [] {
            auto engines = nb::dict();
            for (const auto& engine : built_engines()) engines[nb::cast(engine.name)] = engine.library;
            return engines;
        },
        nb::sig("def engines() -> dict[str, str]"),
        "Returns the engines and stores of this build, each with the version of its library.");
}

/// The start of a world, and this process in it.
void bind_process(nb::class_<WorldHandle>& c) {
    c.def_static(
         "from_environment", &from_environment, nb::kw_only(), nb::arg("engine") = nb::none(),
         nb::arg("timeout") = nb::none(), nb::arg("multithreaded") = false, nb::arg("checked") = nb::none(),
         nb::arg("record") = nb::none(), nb::arg("record_signal") = nb::none(), nb::arg("log") = nb::none(),
         nb::sig("def from_environment(*, engine: typing.Literal['threads', 'mpi', 'gloo'] | None "
                 "= None, timeout: "
                 "float | datetime.timedelta | None = None, multithreaded: bool = False, checked: "
                 "bool | None = "
                 "None, record: str | os.PathLike[str] | None = None, record_signal: int | None = None, "
                 "log: collections.abc.Callable[[str], object] | logging.Logger | None = None) -> World"),
         "Returns the world in which this process was started: MPI under mpirun; Gloo under srun, torchrun, "
         "or with RANKMESH_STORE; a world of one rank without a launcher. `engine`: default: "
         "RANKMESH_ENGINE. `timeout`: seconds; default: RANKMESH_TIMEOUT, else 30 minutes. `multithreaded`: "
         "on MPI, any thread may "
         "call. `checked`: compare the ranks' calls before data moves, like RANKMESH_CHECK=1. `record`: the "
         "folder for this rank's flight record, which is written on errors; default: RANKMESH_RECORD; '': "
         "none. `record_signal`: a signal, such as signal.SIGUSR1, that also writes the record; default: "
         "RANKMESH_RECORD_SIGNAL; 0: none. Its handler stays installed until the process ends. `log`: a "
         "logging.Logger, whose info() gets each line, or a function.")
        .def_static(
            "from_store", &from_store, nb::arg("store").none(), nb::arg("rank").none(),
            nb::arg("size").none(), nb::kw_only(), nb::arg("job").none() = nb::none(),
            nb::arg("job_is_secret") = false, nb::arg("timeout") = nb::none(),
            nb::arg("checked") = nb::none(), nb::arg("record") = nb::none(),
            nb::arg("record_signal") = nb::none(), nb::arg("log") = nb::none(),
            nb::sig("def from_store(store: str, rank: int, size: int, *, job: str | None = None, "
                    "job_is_secret: bool = False, timeout: float | datetime.timedelta | None = None, "
                    "checked: bool | None = None, record: str | "
                    "os.PathLike[str] | None = None, record_signal: int | None = None, log: "
                    "collections.abc.Callable[[str], object] | logging.Logger | None = None) -> World"),
            "Returns a world on Gloo of `size` processes, which find each other in `store`. This process is "
            "`rank`. `store` is a URL or a folder, as RANKMESH_STORE is. `job` is the id of this run in the "
            "store; default: RANKMESH_JOB, else the launcher's. `job_is_secret`: only the ranks know the "
            "job, which is "
            "then the secret of a store that rank 0 serves. The options are as in from_environment.")
        .def_prop_ro(
            "rank", [](const WorldHandle& self) { return self.get().rank(); }, "This process's rank.")
        .def_prop_ro(
            "size", [](const WorldHandle& self) { return self.get().size(); }, "The number of ranks.")
        .def_prop_ro(
            "engine", [](const WorldHandle& self) { return self.get().engine(); },
            "'threads', 'mpi' or 'gloo'.")
        .def_prop_ro(
            "host", [](const WorldHandle& self) { return self.get().host(); },
            "The name of this process's host.")
        .def_prop_ro(
            "local_rank", [](const WorldHandle& self) { return self.get().local_rank(); },
            "This rank's index among the ranks on its host.")
        .def_prop_ro(
            "local_size", [](const WorldHandle& self) { return self.get().local_size(); },
            "The number of ranks on this host.");
}

/// Calls that ranks make together.
void bind_collectives(nb::class_<WorldHandle>& c) {
    c.def("join", &join,
          nb::sig("def join(self, *plan: str | rankmesh._core.Mesh | collections.abc.Mapping[str, int | "
                  "str] | rankmesh._plan.Declaration, name: str = '', over: "
                  "collections.abc.Iterable[str | collections.abc.Iterable[str] | rankmesh._plan.Axes] = "
                  "(), picks: "
                  "collections.abc.Iterable[rankmesh._plan.Pick] = (), local: str = '', axes: "
                  "collections.abc.Iterable[str] | None = None, "
                  "placed: collections.abc.Iterable[int] = (), partial: bool = False, lazy: bool = False, "
                  "timeout: float | "
                  "datetime.timedelta | None = None) -> Member"),
          "Creates this process's communicators for a plan: one mesh with the options of a Declaration, or "
          "several Declarations. Collective: every rank calls it with the same plan. If plans differ, every "
          "rank raises Disagreement.")
        .def(
            "sub",
            [](const WorldHandle& self, nb::handle ranks) {
                const auto listed = ints_of(ranks, "the ranks");
                const auto world = self.hold();
                auto sub = std::optional<World>{};
                without_gil(leaving(*world), [&] { sub.emplace(world->sub(listed)); });
                return std::make_unique<WorldHandle>(std::move(*sub));
            },
            nb::arg("ranks"), nb::sig("def sub(self, ranks: collections.abc.Iterable[int]) -> World"),
            "Returns a new world of these ranks, in that order. Exactly these ranks call it, and they wait "
            "for each other.")
        .def(
            "survivors",
            [](const WorldHandle& self, nb::handle grace) {
                const auto duration = duration_of(grace, "the grace");
                const auto world = self.hold();
                const auto rest = std::make_shared<std::optional<World>>();
                without_gil_or_given_up({}, [=] { rest->emplace(world->survivors(duration)); });
                return std::make_unique<WorldHandle>(std::move(**rest));
            },
            nb::arg("grace") = 1.0,
            nb::sig("def survivors(self, grace: float | datetime.timedelta = 1.0) -> World"),
            "Returns a new world of the ranks that call this within `grace` seconds of each other after "
            "PeerLost, in their old order. Only on Gloo.")
        .def(
            "grow",
            [](const WorldHandle& self, nb::handle most, nb::handle timeout) {
                const auto number = int_of(most, "the number of processes");
                const auto duration = duration_of(timeout, "the timeout");
                const auto world = self.hold();
                const auto larger = std::make_shared<std::optional<World>>();
                without_gil_or_given_up({}, [=] { larger->emplace(world->grow(number, duration)); });
                return std::make_unique<WorldHandle>(std::move(**larger));
            },
            nb::arg("most").none(), nb::arg("timeout").none(),
            nb::sig("def grow(self, most: int, timeout: float | datetime.timedelta) -> World"),
            "Returns a new world of these ranks and of up to `most` processes that wait in rejoin(): when "
            "all have arrived, or when the timeout expires with those that have arrived. Only on Gloo with a "
            "store. Collective: every rank calls it. Errors are raised on all ranks, and this world stays "
            "usable. Each new process replaces a lost rank, or becomes a new last rank.")
        .def_static(
            "rejoin", &rejoin, nb::kw_only(), nb::arg("engine") = nb::none(), nb::arg("store") = nb::none(),
            nb::arg("job") = nb::none(), nb::arg("rank") = nb::none(), nb::arg("timeout") = nb::none(),
            nb::arg("record") = nb::none(), nb::arg("record_signal") = nb::none(),
            nb::arg("log") = nb::none(),
            nb::sig("def rejoin(*, engine: typing.Literal['gloo'] | None = None, store: str | None = None, "
                    "job: str | None = None, rank: int | None = None, timeout: float | datetime.timedelta | "
                    "None = None, record: str | os.PathLike[str] | None = None, record_signal: int | None = "
                    "None, log: collections.abc.Callable[[str], object] | logging.Logger | None = None) -> "
                    "World"),
            "Waits until the ranks of a running job call grow(), and returns the world that this process "
            "enters. `store` and `job` identify the job; default: RANKMESH_STORE and RANKMESH_JOB. `rank` is "
            "the "
            "rank of the first world to replace; default: RANK if set, else any. Raises Timeout if the job "
            "does not accept this process. The options are as in from_environment.");
}

/// The flight record, and the end of a world.
void bind_end(nb::class_<WorldHandle>& c) {
    c.def(
         "write_record",
         [](const WorldHandle& self, nb::handle path) {
             const auto file = path_of(path, "the path");
             const auto world = self.hold();
             without_gil({}, [&] { world->write_record(file); });
         },
         nb::arg("path").none(), nb::sig("def write_record(self, path: str | os.PathLike[str]) -> None"),
         "Writes this rank's flight record to a file: the last calls on each of its communicators, as JSON. "
         "docs/flight-record.md describes the format, which `rankmesh explain` reads. Does not communicate; "
         "any thread may call it.")
        .def(
            "_declare",
            [](const WorldHandle& self, const std::string& mesh, const std::vector<int>& ranks,
               bool is_placed) {
                const auto& state = *detail::Access::checked_state(self.get());
                auto placed = *state.roots_of(ranks);
                if (!is_placed && placed == ranks) placed.clear();
                state.recorder()->declare(mesh, std::move(placed));
            },
            nb::arg("mesh"), nb::arg("ranks"), nb::arg("is_placed"),
            nb::sig("def _declare(self, mesh: str, ranks: collections.abc.Sequence[int], is_placed: bool) -> "
                    "None"),
            "Adds a mesh to the flight record whose groups are not of `join`. `ranks` are those of its "
            "positions, "
            "and `is_placed` is False if they follow from the mesh.")
        .def(
            "close", [](WorldHandle& self) { self.end(false); },
            "Ends this process's part in the world. The engine lives as long as a member or communicator of "
            "the world.")
        .def(
            "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> World"))
        .def(
            "__exit__", &exit_block, nb::arg("type").none(), nb::arg("value").none(),
            nb::arg("traceback").none(),
            nb::sig("def __exit__(self, type: typing.Any, value: typing.Any, traceback: typing.Any) -> None"))
        .def("__repr__", [](const WorldHandle& self) {
            if (self.ended()) return std::string("<World, closed>");
            const auto& world = self.get();
            return cat("<World: rank ", world.rank(), " of ", world.size(), " on ", world.engine(), ">");
        });
}

}  // namespace

void bind_world(nb::module_& m) {
    auto world = nb::class_<WorldHandle>(
        m, "World",
        "The ranks of a job, and this process's access to them.\n\nAs a context manager it is closed at the "
        "end. If an exception leaves the block, it does not wait for peers, which raise PeerLost.\n\nCtrl-C "
        "ends a wait of the main thread, and peers raise PeerLost. Handlers of other signals, and your own "
        "handler of Ctrl-C, run after the call; during run() and from_environment() they run at once.");
    bind_process(world);
    bind_collectives(world);
    bind_end(world);
    bind_functions(m);
}

}  // namespace rankmesh::python
