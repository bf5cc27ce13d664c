// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/job_store.hpp"

#include "engine/threads/job.hpp"

namespace rankmesh::detail {

bool JobStore::set(const std::string& name, const std::string& text, Instant) {
    const auto lock = std::lock_guard(mutex_);
    return entries_.emplace(name, text).second;
}

std::vector<std::optional<std::string>> JobStore::get(const std::vector<std::string>& names, Instant) {
    const auto lock = std::lock_guard(mutex_);
    auto texts = std::vector<std::optional<std::string>>{};
    for (const auto& name : names) {
        const auto found = entries_.find(name);
        texts.push_back(found == entries_.end() ? std::nullopt : std::optional(found->second));
    }
    return texts;
}

void JobStore::remove(const std::vector<std::string>& names, Instant) noexcept {
    const auto lock = std::lock_guard(mutex_);
    for (const auto& name : names) entries_.erase(name);
}

std::shared_ptr<Job> JobStore::job(const std::string& key, int size) {
    const auto lock = std::lock_guard(mutex_);
    auto& made = made_[key];
    if (!made.job) made.job = std::make_shared<Job>(size);
    auto job = made.job;
    if (++made.taken == size) made_.erase(key);
    return job;
}

}  // namespace rankmesh::detail
