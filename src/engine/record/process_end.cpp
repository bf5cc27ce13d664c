// SPDX-License-Identifier: Apache-2.0

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "engine/record/recorder.hpp"
#include "engine/system.hpp"

namespace rankmesh::detail {
namespace {

std::terminate_handler next = nullptr;

void write_and_terminate() {
    auto text = std::string{};
    try {
        if (const auto thrown = std::current_exception()) std::rethrow_exception(thrown);
    } catch (const std::exception& error) {
        text = error.what();
    } catch (...) {
        text = "an exception that is no std::exception";
    }
    Recorder::write_all("terminate", text);
    if (next) next();
    std::abort();
}

std::atomic<std::chrono::seconds> every = std::chrono::seconds(0);
std::atomic<int> wake = -1;  // where a signal writes a byte

/// All that may be called in a signal handler.
void on_signal(int) {
    const auto before = errno;
    if (write(wake.load(std::memory_order_relaxed), "", 1) < 0) {
    }
    errno = before;
}

/// Reads the bytes; never ends, since a signal may come until the process does.
void await_signals(int descriptor) {
    char bytes[16];
    while (read(descriptor, bytes, sizeof bytes) > 0 || errno == EINTR) Recorder::write_all("signal", "");
}

}  // namespace

void write_records_on_terminate() {
    static std::once_flag once;
    std::call_once(once, [] { next = std::set_terminate(write_and_terminate); });
}

std::chrono::seconds records_written_every() { return every; }

void write_records_every(std::chrono::seconds pause) {
    static std::once_flag once;
    std::call_once(once, [pause] {
        every = pause;
        thread_without_signals([pause] {
            for (;;) {
                std::this_thread::sleep_for(pause);
                Recorder::write_all("request", "");
            }
        }).detach();
    });
}

void write_records_on_signal(int number) {
    static std::mutex mutex;
    static std::set<int> known;
    const auto lock = std::lock_guard(mutex);
    if (known.contains(number)) return;
    if (known.empty()) {
        int ends[2] = {-1, -1};
        if (pipe2(ends, O_CLOEXEC) != 0) return;
        fcntl(ends[1], F_SETFL, O_NONBLOCK);  // a signal never waits
        wake = ends[1];
        thread_without_signals([descriptor = ends[0]] { await_signals(descriptor); }).detach();
    }
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    sigaction(number, &action, nullptr);
    known.insert(number);
}

}  // namespace rankmesh::detail
