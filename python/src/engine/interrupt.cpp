// SPDX-License-Identifier: Apache-2.0
#include "engine/calls.hpp"

#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace rankmesh::python {
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

void note_main_thread() {
    const nb::object main = nb::module_::import_("threading").attr("main_thread")();
    const nb::object number = main.attr("ident");
    main_thread = nb::cast<unsigned long>(number);
}
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

std::atomic<int> given_up = 0;

void end_at_once(int status, void*) {
    if (given_up == 0) return;
    std::fflush(nullptr);
    _exit(status);
}

}  // namespace

bool any_given_up() { return given_up > 0; }

void give_up() {
    if (given_up++ == 0) end_at_once_if_given_up();
}
void end_at_once_if_given_up() { on_exit(end_at_once, nullptr); }

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

void restart_interrupts() noexcept {
    main_thread = PyThread_get_thread_ident();
    given_up = 0;
    Interrupts::restart();
}

}  // namespace rankmesh::python
