// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include <atomic>
#include <map>

#include "engine/engine.hpp"
#include "engine/record/recorder.hpp"

namespace rankmesh::python {
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
    end_at_once_if_given_up();
    const auto others = end_calls();
    // Threads that never return hold objects forever.
    if (others != Others::none || any_given_up()) nb::set_leak_warnings(false);
    if (others == Others::remain) give_up();
    if (any_given_up())
        Ending::forget_all();
    else
        Ending::end_all(by_exception);
}

}  // namespace

unsigned forks() {
    [[maybe_unused]] static const auto registered = pthread_atfork(nullptr, nullptr, [] {
        forked.fetch_add(1, std::memory_order_relaxed);
        forget_calls();
        restart_interrupts();
    });
    return forked.load(std::memory_order_relaxed);
}

Ending::Ending(int order) : key_(order, last_age++) { endings()[key_] = this; }
Ending::~Ending() { endings().erase(key_); }

void Ending::end_all(bool by_exception) noexcept {
    for_all([=](Ending& ending, bool is_pending) { ending.end(by_exception || is_pending); });
}

void Ending::forget_all() noexcept {
    for_all([](Ending& ending, bool is_pending) { is_pending ? ending.end(true) : ending.forget(); });
}

}  // namespace rankmesh::python

NB_MODULE(_engine, m) {
    using namespace rankmesh::python;
    m.doc() = "The engines of rankmesh: worlds, members, communicators.";
    nanobind::module_::import_("rankmesh._core");
    note_main_thread();
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
