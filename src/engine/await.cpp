// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/await.hpp>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "engine/access.hpp"

namespace rankmesh {

struct CompletionQueue::Entry {
    std::uint64_t place;
    std::chrono::steady_clock::time_point since;
    std::function<void(std::exception_ptr)> next;
    Pending* lent = nullptr;  // null: the queue owns it
    Pending own = {};

    detail::Awaited awaited() { return {lent ? lent : &own, since}; }
};

CompletionQueue::CompletionQueue(Executor executor) : executor_(std::move(executor)) {
    if (!executor_) executor_ = [](const std::function<void()>& next) { next(); };
}
CompletionQueue::~CompletionQueue() = default;

void CompletionQueue::then(Pending pending, std::function<void(std::exception_ptr)> next) {
    entries_.push_back(
        {++last_, std::chrono::steady_clock::now(), std::move(next), nullptr, std::move(pending)});
}

std::uint64_t CompletionQueue::add(Pending& pending, std::function<void(std::exception_ptr)> next) {
    entries_.push_back({++last_, std::chrono::steady_clock::now(), std::move(next), &pending});
    return last_;
}

void CompletionQueue::remove(std::uint64_t place) noexcept {
    std::erase_if(entries_, [place](const Entry& entry) { return entry.place == place; });
}

bool CompletionQueue::continue_one(bool blocks) {
    auto awaited = std::vector<detail::Awaited>{};
    auto index = std::optional<std::size_t>{};
    for (auto& entry : entries_) {
        awaited.push_back(entry.awaited());
        const auto is_over = !detail::Access::pending_state(*awaited.back().pending);
        if (is_over && !index) index = awaited.size() - 1;  // somebody has waited for it
    }
    if (!index) index = detail::first_complete(awaited, blocks);
    if (!index) return false;
    auto entry = std::move(entries_[*index]);
    entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(*index));
    auto error = std::exception_ptr();
    try {
        detail::synchronize(entry.awaited());
    } catch (...) {
        error = std::current_exception();
    }
    executor_([next = std::move(entry.next), error] { next(error); });
    return true;
}

bool CompletionQueue::run_one() { return continue_one(true); }
bool CompletionQueue::poll() { return continue_one(false); }

}  // namespace rankmesh
