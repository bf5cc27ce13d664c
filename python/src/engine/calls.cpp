// SPDX-License-Identifier: Apache-2.0
#include "engine/calls.hpp"

#include <cxxabi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace rankmesh::python {

struct Call {
    unsigned long thread;
    Leave leave;
    Waits waits;
    bool interrupted = false;
};

namespace {

constexpr auto patience_at_end = std::chrono::seconds(1);

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

Others end_calls() {
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

void forget_calls() noexcept { calls = new Calls; }

}  // namespace rankmesh::python
