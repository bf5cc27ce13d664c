// SPDX-License-Identifier: Apache-2.0
#include "engine/handle.hpp"

#include <pthread.h>

#include <atomic>
#include <map>

namespace rankmesh::python {
namespace {

std::atomic<unsigned> forked = 0;

/// All objects that have not ended, by order and age.
std::map<std::pair<int, std::uint64_t>, Ending*>& endings() {
    static auto& all =
        *new std::map<std::pair<int, std::uint64_t>, Ending*>;  // outlives objects that end after main
    return all;
}

std::uint64_t made = 0;

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

}  // namespace

unsigned forks() {
    [[maybe_unused]] static const auto registered = pthread_atfork(nullptr, nullptr, [] {
        forked.fetch_add(1, std::memory_order_relaxed);
        forget_calls();
        restart_interrupts();
    });
    return forked.load(std::memory_order_relaxed);
}

Ending::Ending(int order) : key_(order, made++) { endings()[key_] = this; }
Ending::~Ending() { endings().erase(key_); }

void Ending::end_all(bool by_exception) noexcept {
    for_all([=](Ending& ending, bool is_pending) { ending.end(by_exception || is_pending); });
}

void Ending::forget_all() noexcept {
    for_all([](Ending& ending, bool is_pending) { is_pending ? ending.end(true) : ending.forget(); });
}

}  // namespace rankmesh::python
