// SPDX-License-Identifier: Apache-2.0
// The module, its calls on threads without the GIL, and how both end with the interpreter.
#include <cxxabi.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "engine/engine.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::python {

struct Call {
    unsigned long thread;
    Leave leave;
    Waits waits;
    bool interrupted = false;
};

namespace {

constexpr auto patience_at_end = std::chrono::seconds(1);
constexpr auto interrupted_by_signal = "was interrupted by a signal";

/// All calls. Never waits for the GIL while the mutex is held.
struct Calls {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<std::shared_ptr<Call>> all;
    int attaching = 0;  // threads that wait for the GIL
    std::atomic<bool> ending = false;
};

Calls* calls = new Calls;  // outlives what ends after main

/// True if this thread must not take the GIL again, because the interpreter ends.
bool must_stay() { return calls->ending && !is_main_thread(); }

/// Takes the GIL; end_calls waits for that. Returns false if this thread must not take the GIL.
template <class Take>
bool attach(const Take& take) {
    {
        const auto lock = std::lock_guard(calls->mutex);
        if (must_stay()) return false;
        ++calls->attaching;
    }
    take();
    const auto lock = std::lock_guard(calls->mutex);
    --calls->attaching;
    calls->changed.notify_all();
    return true;
}

}  // namespace

InFlight::InFlight(Leave leave, Waits waits)
    : call_(std::make_shared<Call>(Call{PyThread_get_thread_ident(), std::move(leave), waits})) {
    const auto lock = std::lock_guard(calls->mutex);
    calls->all.push_back(call_);
}

InFlight::~InFlight() {
    const auto lock = std::lock_guard(calls->mutex);
    std::erase(calls->all, call_);
    calls->changed.notify_all();
}

bool InFlight::interrupted() const {
    const auto lock = std::lock_guard(calls->mutex);
    return call_->interrupted;
}

void InFlight::run(const std::function<void()>& body) const {
    struct Released {
        const std::shared_ptr<Call>& call;
        PyThreadState* const state = PyEval_SaveThread();
        ~Released() {
            if (attach([&] { PyEval_RestoreThread(state); })) return;
            {
                const auto lock = std::lock_guard(calls->mutex);
                std::erase(calls->all, call);
                calls->changed.notify_all();
            }
            stay();
        }
    };
    const auto released = Released{call_};
    if (!must_stay()) body();
}

bool interrupt(unsigned long thread, const char* why) {
    auto found = std::vector<std::shared_ptr<Call>>{};
    {
        const auto lock = std::lock_guard(calls->mutex);
        for (const auto& call : calls->all) {
            if (call->thread != thread || !call->leave) continue;
            call->interrupted = true;
            found.push_back(call);
        }
    }
    for (const auto& call : found) call->leave(why);
    return !found.empty();
}

/// The calls that end_calls found on other threads: none, all ended, some not ended.
enum class Others : unsigned char { none, ended, remain };

/// Called by the main thread when the interpreter ends. Afterwards no other thread returns to Python from a
/// call. Threads that wait for peers leave their worlds; this waits for them for a short time.
static Others end_calls() {
    auto found = std::vector<std::shared_ptr<Call>>{};
    {
        const auto lock = std::lock_guard(calls->mutex);
        calls->ending = true;
        found = calls->all;
    }
    const auto waits_for_peers = [](const std::shared_ptr<Call>& call) {
        return call->waits == Waits::for_peers;
    };
    const auto release = nb::gil_scoped_release();
    for (const auto& call : found)
        if (waits_for_peers(call) && call->leave) call->leave("ended while a thread of it waited for peers");
    auto lock = std::unique_lock(calls->mutex);
    const auto over = calls->changed.wait_for(lock, patience_at_end, [&] {
        return calls->attaching == 0 && std::ranges::none_of(calls->all, waits_for_peers);
    });
    if (!over) return Others::remain;
    return found.empty() ? Others::none : Others::ended;
}

Attached::Attached() {
    attach([this] { gil_.emplace(); });
}

nb::object call_python(nb::handle function, const nb::tuple& args) {
    PyObject* result = nullptr;
    try {
        result = PyObject_Call(function.ptr(), args.ptr(), nullptr);
    } catch (const abi::__forced_unwind&) {
        stay();  // Python unwinds and ends threads that request the GIL too late
    }
    stay_if_ending();
    if (!result) throw nb::python_error();
    return nb::steal(result);
}

void stay_if_ending() {
    if (!must_stay()) return;
    PyEval_SaveThread();
    stay();
}

void stay() {
    while (true) pause();
}

namespace {

unsigned long main_thread = 0;

/// Interrupts the main thread's call when SIGINT arrives.
class Interrupts {
public:
    static Interrupts& get() {
        if (!only) only = new Interrupts;  // its thread outlives main
        return *only;
    }
    /// Starts again in a forked child, which does not have the thread.
    static void restart() noexcept { only = nullptr; }

    void begin() {
        wrap();
        if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
    }

private:
    Interrupts() { sem_init(&arrived_, 0, 0); }

    /// Installs rankmesh's handler before Python's; any signal.signal() reinstalls Python's.
    void wrap() {
        struct sigaction now;
        if (sigaction(SIGINT, nullptr, &now) != 0) return;
        if (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN || now.sa_handler == &Interrupts::handle)
            return;
        if ((now.sa_flags & SA_SIGINFO) != 0) return;  // not Python's
        before_ = now.sa_handler;
        now.sa_handler = &Interrupts::handle;
        sigaction(SIGINT, &now, nullptr);
    }

    static void handle(int signal) {
        if (auto* before = before_.load()) before(signal);
        sem_post(&arrived_);
    }

    void watch() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, nullptr);
        while (true)
            if (sem_wait(&arrived_) == 0 && raises()) interrupt(main_thread, interrupted_by_signal);
    }

    /// True if Python's own handler is installed, which raises KeyboardInterrupt. Other handlers run after
    /// the call.
    static bool raises() {
        const auto gil = Attached();
        if (!gil.valid()) return false;
        try {
            const auto signals = nb::module_::import_("signal");
            const nb::object handler = signals.attr("getsignal")(SIGINT);
            const nb::object own = signals.attr("default_int_handler");
            return handler.is(own);
        } catch (const nb::python_error&) {
            return false;
        }
    }

    static inline Interrupts* only = nullptr;
    static inline sem_t arrived_;
    static inline std::atomic<void (*)(int)> before_ = nullptr;
    std::thread thread_;
};

}  // namespace

bool is_main_thread() { return PyThread_get_thread_ident() == main_thread; }

void without_gil(Leave leave, const std::function<void()>& call, Waits waits) {
    const auto main = is_main_thread();
    if (main && leave) Interrupts::get().begin();
    auto interrupted = false;
    auto error = std::exception_ptr{};
    {
        const auto in_flight = InFlight(std::move(leave), waits);
        // Signals that arrived before are seen here; later signals by the watching thread.
        if (main && PyErr_CheckSignals() != 0) throw nb::python_error();
        try {
            in_flight.run(call);
        } catch (...) {
            error = std::current_exception();
        }
        interrupted = in_flight.interrupted();
    }
    if (main && PyErr_CheckSignals() != 0) throw nb::python_error();
    if (interrupted) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        throw nb::python_error();
    }
    if (error) std::rethrow_exception(error);
}

namespace {

std::atomic<int> given_up = 0;  // threads that run

/// Ends the process before objects that abandoned threads use are destroyed at exit.
void end_at_once(int status, void*) {
    if (given_up == 0) return;
    std::fflush(nullptr);
    _exit(status);
}

/// Counts one more abandoned thread.
void give_up() {
    if (given_up++ == 0) on_exit(end_at_once, nullptr);
}

}  // namespace

void without_gil_or_given_up(Leave leave, std::function<void()> call) {
    if (!is_main_thread()) return without_gil(std::move(leave), call);
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    enum class State : unsigned char { running, over, given_up };
    const auto state = std::make_shared<std::atomic<State>>(State::running);
    auto task = std::packaged_task<void()>([call = std::move(call)]() mutable {
        const auto own = std::exchange(call, nullptr);  // may need the GIL to end, so it ends before the task
        own();
    });
    auto result = task.get_future();
    auto thread = std::thread([state, task = std::move(task)]() mutable {
        task();
        if (state->exchange(State::over) == State::given_up) --given_up;
    });
    auto raised = std::optional<nb::python_error>{};
    auto until = std::chrono::steady_clock::time_point::max();
    while (true) {
        {
            const auto release = nb::gil_scoped_release();
            if (result.wait_for(std::chrono::milliseconds(50)) == std::future_status::ready) break;
        }
        const auto again = PyErr_CheckSignals() != 0;
        if (!again && std::chrono::steady_clock::now() < until) continue;
        if (again && !raised) {
            raised.emplace();
            if (leave) {
                leave(interrupted_by_signal);
                until = std::chrono::steady_clock::now() + std::chrono::seconds(2);
                continue;
            }
        } else if (again) {
            PyErr_Clear();
        }
        if (state->exchange(State::given_up) != State::over) give_up();
        thread.detach();
        throw nb::python_error(std::move(*raised));
    }
    thread.join();
    if (raised) throw nb::python_error(std::move(*raised));
    result.get();
}

void raise_later(const nb::python_error& error) noexcept {
    if (!is_main_thread()) {
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), error.type().ptr());
        return;
    }
    auto* kept = new nb::python_error(error);
    const auto raise = [](void* given) {
        const auto own = std::unique_ptr<nb::python_error>(static_cast<nb::python_error*>(given));
        own->restore();
        return -1;
    };
    if (Py_AddPendingCall(raise, kept) == 0) return;
    kept->discard_as_unraisable("a destructor of rankmesh");
    delete kept;
}

namespace {

std::atomic<unsigned> forked = 0;

/// All objects that have not ended, by order and age.
std::map<std::pair<int, std::uint64_t>, Ending*>& endings() {
    static auto& all =
        *new std::map<std::pair<int, std::uint64_t>, Ending*>;  // outlives objects that end after main
    return all;
}

std::uint64_t last_age = 0;

/// Calls `end` for each object in order, even if others are made or destroyed meanwhile.
template <class End>
void for_all(const End& end) {
    while (!endings().empty()) {
        const auto first = endings().begin();
        const auto order = first->first.first;
        auto* ending = first->second;
        endings().erase(first);
        end(*ending, order == 0);
    }
}

/// Ends the engine objects of Python, as by an exception if an exception ends the interpreter.
void end_interpreter(bool by_exception) {
    on_exit(end_at_once, nullptr);
    const auto others = end_calls();
    // Threads that never return hold objects forever.
    if (others != Others::none || given_up > 0) nb::set_leak_warnings(false);
    if (others == Others::remain) give_up();
    if (given_up > 0)  // threads may be inside; pending operations release their arrays
        for_all([](Ending& ending, bool is_pending) { is_pending ? ending.end(true) : ending.forget(); });
    else
        for_all([=](Ending& ending, bool is_pending) { ending.end(by_exception || is_pending); });
}

}  // namespace

unsigned forks() {
    [[maybe_unused]] static const auto registered = pthread_atfork(nullptr, nullptr, [] {
        forked.fetch_add(1, std::memory_order_relaxed);
        calls = new Calls;  // those before are the parent's
        main_thread = PyThread_get_thread_ident();
        given_up = 0;
        Interrupts::restart();
    });
    return forked.load(std::memory_order_relaxed);
}

Ending::Ending(int order) : key_(order, last_age++) { endings()[key_] = this; }
Ending::~Ending() { endings().erase(key_); }

}  // namespace rankmesh::python

NB_MODULE(_engine, m) {
    using namespace rankmesh::python;
    m.doc() = "The engines of rankmesh: worlds, members, communicators.";
    nanobind::module_::import_("rankmesh._core");
    const nanobind::object main = nanobind::module_::import_("threading").attr("main_thread")();
    main_thread = nanobind::cast<unsigned long>(nanobind::object(main.attr("ident")));
    (void)forks();
    bind_communicator(m);
    bind_member(m);
    bind_world(m);
    bind_mpi4py(m);
    static auto uncaught = false;
    const auto sys = nanobind::module_::import_("sys");
    const nanobind::object before = sys.attr("excepthook");
    const auto hook = nanobind::cpp_function([before](nanobind::args args) {
        uncaught = true;
        before(*args);
    });
    sys.attr("excepthook") = hook;
    const auto at_exit = nanobind::cpp_function([sys, before, hook] {
        const nanobind::object now = sys.attr("excepthook");
        const auto replaced = !now.is(hook);
        if (!replaced) sys.attr("excepthook") = before;
        // At a prompt the interpreter continues after an exception and ends normally.
        const auto by_exception =
            !nanobind::hasattr(sys, "ps1") && (uncaught || (replaced && nanobind::hasattr(sys, "last_type")));
        if (by_exception) {
            const nanobind::object value = nanobind::getattr(sys, "last_value", nanobind::none());
            rankmesh::detail::Recorder::all_failed(reason_of(value));
        }
        end_interpreter(by_exception);
    });
    nanobind::module_::import_("atexit").attr("register")(at_exit);
}
