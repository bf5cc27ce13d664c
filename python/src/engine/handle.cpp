// SPDX-License-Identifier: Apache-2.0
#include "engine/handle.hpp"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <vector>

namespace rankmesh::python {
namespace {

std::atomic<unsigned> forked = 0;

std::vector<Ending*>& endings() {
    static auto& all = *new std::vector<Ending*>;  // outlives what ends after main
    return all;
}

}  // namespace

unsigned forks() {
    [[maybe_unused]] static const auto registered =
        pthread_atfork(nullptr, nullptr, [] { forked.fetch_add(1, std::memory_order_relaxed); });
    return forked.load(std::memory_order_relaxed);
}

Ending::Ending(int order) : order_(order) { endings().push_back(this); }
Ending::~Ending() { std::erase(endings(), this); }

void Ending::end_all(bool by_exception) noexcept {
    for (int order = 0; order <= 3; ++order) {
        auto now = endings();
        std::erase_if(now, [&](const Ending* ending) { return ending->order_ != order; });
        for (auto* ending : now) ending->end(by_exception);
    }
}

}  // namespace rankmesh::python
