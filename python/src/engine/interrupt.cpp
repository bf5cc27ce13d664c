// SPDX-License-Identifier: Apache-2.0
#include "engine/interrupt.hpp"

#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <exception>
#include <mutex>
#include <thread>

namespace rankmesh::python {
namespace {

/// The call of the main thread that waits for peers, if it does.
struct Waiting {
    const std::function<void()>* leave;
    bool interrupted = false;
};

class Interrupts {
public:
    static Interrupts& get() {
        static auto& only = *new Interrupts;  // its thread outlives main
        return only;
    }

    void begin(Waiting& waiting) {
        wrap();
        if (!thread_.joinable()) thread_ = std::thread([this] { watch(); });
        const auto lock = std::lock_guard(mutex_);
        waiting_ = &waiting;
    }
    void end() {
        const auto lock = std::lock_guard(mutex_);
        waiting_ = nullptr;
    }

private:
    Interrupts() { sem_init(&arrived_, 0, 0); }

    /// Puts our handler before Python's, which any signal.signal() puts back to the front.
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
        while (true) {
            if (sem_wait(&arrived_) != 0) continue;
            if (!raises()) continue;
            const auto lock = std::lock_guard(mutex_);
            if (!waiting_) continue;
            waiting_->interrupted = true;
            (*waiting_->leave)();
        }
    }

    /// True if Python's handler raises KeyboardInterrupt; another's may do anything, and runs after the call.
    static bool raises() {
        if (!nb::is_alive()) return false;
        const auto gil = nb::gil_scoped_acquire();
        try {
            const auto signals = nb::module_::import_("signal");
            const nb::object handler = signals.attr("getsignal")(SIGINT);
            const nb::object own = signals.attr("default_int_handler");
            return handler.is(own);
        } catch (const nb::python_error&) {
            return false;
        }
    }

    static inline sem_t arrived_;
    static inline std::atomic<void (*)(int)> before_ = nullptr;
    std::mutex mutex_;
    Waiting* waiting_ = nullptr;
    std::thread thread_;
};

unsigned long main_thread = 0;

}  // namespace

void note_main_thread() {
    const nb::object main = nb::module_::import_("threading").attr("main_thread")();
    const nb::object number = main.attr("ident");
    main_thread = nb::cast<unsigned long>(number);
}

void without_gil(const std::function<void()>& leave, const std::function<void()>& call) {
    if (PyThread_get_thread_ident() != main_thread) {
        const auto release = nb::gil_scoped_release();
        call();
        return;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    auto waiting = Waiting{&leave};
    auto& interrupts = Interrupts::get();
    try {
        const auto release = nb::gil_scoped_release();
        struct Begun {
            Interrupts& interrupts;
            ~Begun() { interrupts.end(); }
        };
        interrupts.begin(waiting);
        const auto begun = Begun{interrupts};
        call();
    } catch (...) {
        if (waiting.interrupted && PyErr_CheckSignals() != 0) throw nb::python_error();
        throw;
    }
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
}

namespace {

/// A call on a thread of its own.
struct Call {
    std::mutex mutex;
    std::condition_variable over;
    bool is_over = false;
    std::exception_ptr error;
};

std::atomic<int> given_up = 0;

/// What threads that were given up still use must not be destroyed beneath them: the process ends without.
void end_at_once(int status, void*) {
    if (given_up == 0) return;
    std::fflush(nullptr);
    _exit(status);
}

}  // namespace

void without_gil_or_given_up(std::function<void()> call) {
    if (PyThread_get_thread_ident() != main_thread) return without_gil([] {}, call);
    const auto state = std::make_shared<Call>();
    auto thread = std::thread([state, call = std::move(call)] {
        auto error = std::exception_ptr{};
        try {
            call();
        } catch (...) {
            error = std::current_exception();
        }
        const auto lock = std::lock_guard(state->mutex);
        state->error = error;
        state->is_over = true;
        state->over.notify_all();
    });
    while (true) {
        {
            const auto release = nb::gil_scoped_release();
            auto lock = std::unique_lock(state->mutex);
            constexpr auto patience = std::chrono::milliseconds(50);
            if (state->over.wait_for(lock, patience, [&] { return state->is_over; })) break;
        }
        if (PyErr_CheckSignals() == 0) continue;
        if (given_up++ == 0) on_exit(end_at_once, nullptr);
        thread.detach();
        throw nb::python_error();
    }
    thread.join();
    if (state->error) std::rethrow_exception(state->error);
}

}  // namespace rankmesh::python
