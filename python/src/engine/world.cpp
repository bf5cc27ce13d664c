// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <nanobind/stl/vector.h>

#include <rankmesh/engine/built.hpp>
#include <rankmesh/engine/gloo.hpp>

#include "engine/engine.hpp"
#include "engine/environment.hpp"

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

/// Returns a function that calls one of Python with each log line, on any thread of the engine.
std::function<void(std::string_view)> log_by(const nb::object& function) {
    const auto held = std::shared_ptr<nb::object>(new nb::object(function), [](nb::object* it) {
        const auto gil = Attached();
        if (gil.valid()) delete it;
    });
    return [held](std::string_view line) {
        const auto gil = Attached();
        if (!gil.valid()) return;
        try {
            call_python(*held, nb::make_tuple(nb::str(line.data(), line.size())));
        } catch (nb::python_error& error) {
            error.discard_as_unraisable("the log of a world");
        }
    };
}

}  // namespace

WorldOptions world_options_of(nb::handle engine, nb::handle timeout, bool multithreaded,
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
        options.log = log_by(function);
    }
    return options;
}

namespace {

Leave leaving(const World& world) { return python::leaving(detail::Access::checked_state(world)); }

/// Makes a world, while Python's handlers of signals run.
template <class Make>
std::unique_ptr<WorldHandle> made(const Make& make) {
    const auto world = std::make_shared<std::optional<World>>();
    without_gil_or_given_up({}, [=] { world->emplace(make()); });
    return std::make_unique<WorldHandle>(std::move(**world));
}

std::unique_ptr<WorldHandle> from_environment(nb::handle engine, nb::handle timeout, bool multithreaded,
                                              std::optional<bool> checked, nb::handle record,
                                              nb::handle record_signal, nb::handle log) {
    const auto options =
        world_options_of(engine, timeout, multithreaded, checked, record, record_signal, log);
    // MPI must be used by the thread that starts it.
    if (detail::engine_of(options) == "mpi")
        return std::make_unique<WorldHandle>(
            result_without_gil({}, [&] { return World::from_environment(options); }));
    return made([=] { return World::from_environment(options); });
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
    const auto options = world_options_of(nb::none(), timeout, false, checked, record, record_signal, log);
    auto rendezvous = rendezvous_of(store, job, rank, size);
    rendezvous.job_is_secret = job_is_secret;
    return made([=] { return World(gloo::World(rendezvous, options)); });
}

std::unique_ptr<WorldHandle> rejoin(nb::handle engine, nb::handle store, nb::handle job, nb::handle rank,
                                    nb::handle timeout, nb::handle record, nb::handle record_signal,
                                    nb::handle log) {
    const auto options = world_options_of(engine, timeout, false, {}, record, record_signal, log);
    const auto rendezvous = rendezvous_of(store, job, rank, nb::none());
    const auto from_program = !store.is_none() || !job.is_none() || !rank.is_none();
    return made([=] {
        return from_program ? World(gloo::World::rejoin(rendezvous, options)) : World::rejoin(options);
    });
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
    return std::make_unique<MemberHandle>(result_without_gil(leave, [&] { return world->join(plan); }),
                                          leave);
}

/// The start of a world, and this process in it.
void bind_process(nb::class_<WorldHandle>& c) {
    static_method<0>(
        c,
        cat("def from_environment(*, engine: typing.Literal['threads', 'mpi', 'gloo'] | None = None, "
            "timeout: float | datetime.timedelta | None = None, multithreaded: bool = False, checked: bool | "
            "None = None, ",
            record_options, ") -> World"),
        "Returns the world in which this process was started: MPI under mpirun; Gloo under srun, torchrun, "
        "or with RANKMESH_STORE; a world of one rank without a launcher. `engine`: default: RANKMESH_ENGINE. "
        "`timeout`: seconds; default: RANKMESH_TIMEOUT, else 30 minutes. `multithreaded`: on MPI, any thread "
        "may call. `checked`: compare the ranks' calls before data moves, like RANKMESH_CHECK=1. `record`: "
        "the folder for this rank's flight record, which is written on errors; default: RANKMESH_RECORD; '': "
        "none. `record_signal`: a signal, such as signal.SIGUSR1, that also writes the record; default: "
        "RANKMESH_RECORD_SIGNAL; 0: none. Its handler stays installed until the process ends. `log`: a "
        "logging.Logger, whose info() gets each line, or a function.",
        &from_environment);
    static_method<3>(
        c,
        cat("def from_store(store: str, rank: int, size: int, *, job: str | None = None, job_is_secret: bool "
            "= False, timeout: float | datetime.timedelta | None = None, checked: bool | None = None, ",
            record_options, ") -> World"),
        "Returns a world on Gloo of `size` processes, which find each other in `store`. This process is "
        "`rank`. `store` is a URL or a folder, as RANKMESH_STORE is. `job` is the id of this run in the "
        "store; default: RANKMESH_JOB, else the launcher's. `job_is_secret`: only the ranks know the job, "
        "which is then the secret of a store that rank 0 serves. The options are as in from_environment.",
        &from_store);
    c.def_prop_ro("rank", asking<WorldHandle, &World::rank>, "This process's rank.")
        .def_prop_ro("size", asking<WorldHandle, &World::size>, "The number of ranks.")
        .def_prop_ro("engine", asking<WorldHandle, &World::engine>, "'threads', 'mpi' or 'gloo'.")
        .def_prop_ro("host", asking<WorldHandle, &World::host>, "The name of this process's host.")
        .def_prop_ro("local_rank", asking<WorldHandle, &World::local_rank>,
                     "This rank's index among the ranks on its host.")
        .def_prop_ro("local_size", asking<WorldHandle, &World::local_size>,
                     "The number of ranks on this host.");
}

/// Calls that ranks make together.
void bind_collectives(nb::class_<WorldHandle>& c) {
    method(
        c,
        "def join(self, *plan: str | rankmesh._core.Mesh | collections.abc.Mapping[str, int | str] | "
        "rankmesh._plan.Declaration, name: str = '', over: collections.abc.Iterable[str | "
        "collections.abc.Iterable[str] | rankmesh._plan.Axes] = (), picks: "
        "collections.abc.Iterable[rankmesh._plan.Pick] = (), local: str = '', axes: "
        "collections.abc.Iterable[str] | None = None, placed: collections.abc.Iterable[int] = (), partial: "
        "bool = False, lazy: bool = False, timeout: float | datetime.timedelta | None = None) -> Member",
        "Creates this process's communicators for a plan: one mesh with the options of a Declaration, or "
        "several Declarations. Collective: every rank calls it with the same plan. If plans differ, every "
        "rank raises Disagreement.",
        &join);
    method(c, "def sub(self, ranks: collections.abc.Iterable[int]) -> World",
           "Returns a new world of these ranks, in that order. Exactly these ranks call it, and they wait "
           "for each other.",
           [](const WorldHandle& self, nb::handle ranks) {
               const auto listed = ints_of(ranks, "the ranks");
               const auto world = self.hold();
               return std::make_unique<WorldHandle>(
                   result_without_gil(leaving(*world), [&] { return world->sub(listed); }));
           });
    method(c, "def survivors(self, grace: float | datetime.timedelta = 1.0) -> World",
           "Returns a new world of the ranks that call this within `grace` seconds of each other after "
           "PeerLost, in their old order. Only on Gloo.",
           [](const WorldHandle& self, nb::handle grace) {
               const auto duration = duration_of(grace, "the grace");
               const auto world = self.hold();
               return made([=] { return world->survivors(duration); });
           });
    method(c, "def grow(self, most: int, timeout: float | datetime.timedelta) -> World",
           "Returns a new world of these ranks and of up to `most` processes that wait in rejoin(): when all "
           "have arrived, or when the timeout expires with those that have arrived. Only on Gloo with a "
           "store. Collective: every rank calls it. Errors are raised on all ranks, and this world stays "
           "usable. Each new process replaces a lost rank, or becomes a new last rank.",
           [](const WorldHandle& self, nb::handle most, nb::handle timeout) {
               const auto number = int_of(most, "the number of processes");
               const auto duration = duration_of(timeout, "the timeout");
               const auto world = self.hold();
               return made([=] { return world->grow(number, duration); });
           });
    static_method<0>(
        c,
        cat("def rejoin(*, engine: typing.Literal['gloo'] | None = None, store: str | None = None, job: str "
            "| None = None, rank: int | None = None, timeout: float | datetime.timedelta | None = None, ",
            record_options, ") -> World"),
        "Waits until the ranks of a running job call grow(), and returns the world that this process enters. "
        "`store` and `job` identify the job; default: RANKMESH_STORE and RANKMESH_JOB. `rank` is the rank of "
        "the first world to replace; default: RANK if set, else any. Raises Timeout if the job does not "
        "accept this process. The options are as in from_environment.",
        &rejoin);
}

}  // namespace

void bind_world(nb::module_& m) {
    auto c = nb::class_<WorldHandle>(
        m, "World",
        "The ranks of a job, and this process's access to them.\n\nAs a context manager it is closed at the "
        "end. If an exception leaves the block, it does not wait for peers, which raise PeerLost.\n\nCtrl-C "
        "ends a wait of the main thread, and peers raise PeerLost. Handlers of other signals, and your own "
        "handler of Ctrl-C, run after the call; during run() and from_environment() they run at once.");
    bind_process(c);
    bind_collectives(c);
    method(c, "def write_record(self, path: str | os.PathLike[str]) -> None",
           "Writes this rank's flight record to a file: the last calls on each of its communicators, as "
           "JSON. docs/flight-record.md describes the format, which `rankmesh explain` reads. Does not "
           "communicate; any thread may call it.",
           [](const WorldHandle& self, nb::handle path) {
               const auto file = path_of(path, "the path");
               const auto world = self.hold();
               without_gil({}, [&] { world->write_record(file); });
           });
    method(
        c, "def _declare(self, mesh: str, ranks: collections.abc.Sequence[int], is_placed: bool) -> None",
        "Adds a mesh to the flight record whose groups are not of `join`. `ranks` are those of its "
        "positions, and `is_placed` is False if they follow from the mesh.",
        [](const WorldHandle& self, const std::string& mesh, const std::vector<int>& ranks, bool is_placed) {
            const auto& state = *detail::Access::checked_state(self.get());
            auto placed = *state.roots_of(ranks);
            if (!is_placed && placed == ranks) placed.clear();
            state.recorder()->declare(mesh, std::move(placed));
        });
    c.def(
        "close", [](WorldHandle& self) { self.end(false); },
        "Ends this process's part in the world. The engine lives as long as a member or communicator of the "
        "world.");
    method(c, "def __enter__(self) -> World", "", [](nb::object self) { return self; });
    method(c, "def __exit__(self, type: typing.Any, value: typing.Any, traceback: typing.Any) -> None", "",
           &exit_block);
    c.def("__repr__", [](const WorldHandle& self) {
        if (self.ended()) return std::string("<World, closed>");
        const auto& world = self.get();
        return cat("<World: rank ", world.rank(), " of ", world.size(), " on ", world.engine(), ">");
    });
    bind_run(m);
    function(m, "def _record_pause(folder: str) -> int",
             "What RANKMESH_RECORD_EVERY says, in seconds; 0: never.",
             [](const std::string& folder) { return detail::record_pause(folder).count(); });
    function(
        m, "def _replace_file(path: str, text: str) -> str",
        "Writes a file that readers see only when it is complete. Returns \"\", or what went wrong.",
        [](const std::string& path, const std::string& text) { return detail::replace_file(path, text); });
    function(m, "def engines() -> dict[str, str]",
             "Returns the engines of this build, each with the version of its library.", [] {
                 auto engines = nb::dict();
                 for (const auto& engine : built_engines()) engines[nb::cast(engine.name)] = engine.library;
                 return engines;
             });
}

}  // namespace rankmesh::python
