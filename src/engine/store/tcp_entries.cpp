// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_entries.hpp"

#include <algorithm>

namespace rankmesh::detail {

std::size_t TcpEntries::bytes_of(std::string_view name, std::string_view text) {
    constexpr auto overhead = std::size_t{128};  // of an entry in the table
    return overhead + name.size() + text.size();
}

TcpEntries::Text TcpEntries::find(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : found->second;
}

void TcpEntries::set(const std::string& name, std::string_view text) {
    bytes_ += bytes_of(name, text);
    entries_.emplace(name, std::make_shared<const std::string>(text));
}

void TcpEntries::remove(const std::string& name) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return;
    bytes_ -= bytes_of(name, *found->second);
    entries_.erase(found);
}

bool TcpEntries::keep(Wait& given) {
    const auto& names = given.names;
    if (!names.empty() && !entries_.contains(names.back()))
        for (std::size_t i = 0; i + 1 < names.size(); ++i)
            if (!entries_.contains(names[i])) given.absent.insert(names[i]);
    if (given.absent.empty()) return false;
    auto wait = std::make_unique<Wait>(std::move(given));
    auto* const key = wait.get();
    for (const auto& each : wait->absent) by_name_[std::string(each)].insert(key);
    by_name_[key->names.back()].insert(key);
    by_time_.emplace(wait->until, key);
    waits_[wait->connection].emplace(key, std::move(wait));
    return true;
}

std::size_t TcpEntries::waits_of(std::uint64_t connection) const {
    const auto found = waits_.find(connection);
    return found == waits_.end() ? 0 : found->second.size();
}

std::vector<TcpEntries::Wait> TcpEntries::take_completed_by(const std::string& name) {
    auto taken = std::vector<Wait>{};
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return taken;
    for (auto* wait : std::vector<Wait*>(found->second.begin(), found->second.end())) {
        wait->absent.erase(name);
        if (wait->absent.empty() || wait->names.back() == name) taken.push_back(take(wait));
    }
    return taken;
}

std::vector<TcpEntries::Wait> TcpEntries::take_expired(Instant now) {
    auto taken = std::vector<Wait>{};
    while (!by_time_.empty() && by_time_.begin()->first <= now)
        taken.push_back(take(by_time_.begin()->second));
    return taken;
}

void TcpEntries::forget(std::uint64_t connection) {
    for (auto found = waits_.find(connection); found != waits_.end(); found = waits_.find(connection))
        take(found->second.begin()->first);
}

TcpEntries::Instant TcpEntries::next_expiry(Instant latest) const {
    return by_time_.empty() ? latest : std::min(latest, by_time_.begin()->first);
}

TcpEntries::Wait TcpEntries::take(Wait* wait) {
    for (const auto& each : wait->names) {
        const auto found = by_name_.find(each);
        if (found == by_name_.end()) continue;
        found->second.erase(wait);
        if (found->second.empty()) by_name_.erase(found);
    }
    by_time_.erase({wait->until, wait});
    const auto of_connection = waits_.find(wait->connection);
    const auto found = of_connection->second.find(wait);
    auto taken = std::move(*found->second);
    of_connection->second.erase(found);
    if (of_connection->second.empty()) waits_.erase(of_connection);
    return taken;
}

}  // namespace rankmesh::detail
