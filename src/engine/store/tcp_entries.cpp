// SPDX-License-Identifier: Apache-2.0
#include "engine/store/tcp_entries.hpp"

#include <algorithm>

namespace rankmesh::detail {

std::size_t TcpEntries::bytes_of(std::string_view name, std::string_view text) {
    constexpr auto overhead = std::size_t{128};  // of an entry in the table
    return overhead + name.size() + text.size();
}

std::size_t TcpEntries::bytes_of(const std::vector<std::string>& names) {
    auto bytes = sizeof(Wait) + bytes_of("", "") * 2;  // in the tables
    for (const auto& each : names) bytes += sizeof each + each.capacity() + 1;
    return bytes;
}

std::size_t TcpEntries::bytes_of(std::uint64_t connection) const {
    const auto found = held_.find(connection);
    return found == held_.end() ? 0 : found->second;
}

TcpEntries::Text TcpEntries::find(const std::string& name) const {
    const auto found = entries_.find(name);
    return found == entries_.end() ? nullptr : found->second.text;
}

void TcpEntries::set(std::uint64_t connection, const std::string& name, std::string_view text) {
    bytes_ += bytes_of(name, text);
    held_[connection] += bytes_of(name, text);
    entries_.emplace(name, Entry{std::make_shared<const std::string>(text), connection});
}

void TcpEntries::remove(const std::string& name) {
    const auto found = entries_.find(name);
    if (found == entries_.end()) return;
    give_back(found->second.connection, bytes_of(name, *found->second.text));
    entries_.erase(found);
}

void TcpEntries::give_back(std::uint64_t connection, std::size_t bytes) {
    bytes_ -= bytes;
    if (const auto found = held_.find(connection); found != held_.end()) found->second -= bytes;
}

/// Steps over the names that exist.
bool TcpEntries::is_complete(Wait& wait) const {
    const auto& names = wait.names;
    while (wait.next + 1 < names.size() && entries_.contains(names[wait.next])) ++wait.next;
    return wait.next + 1 >= names.size() || entries_.contains(names.back());
}

bool TcpEntries::keep(Wait& given) {
    if (is_complete(given)) return false;
    auto wait = std::make_unique<Wait>(std::move(given));
    auto* const key = wait.get();
    for (const auto& each : {key->names[key->next], key->names.back()}) by_name_[each].insert(key);
    by_time_.emplace(wait->until, key);
    bytes_ += bytes_of(wait->names);
    held_[wait->connection] += bytes_of(wait->names);
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
        unlist(name, wait);
        if (is_complete(*wait))
            taken.push_back(take(wait));
        else
            by_name_[wait->names[wait->next]].insert(wait);
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
    held_.erase(connection);
}

TcpEntries::Instant TcpEntries::next_expiry(Instant latest) const {
    return by_time_.empty() ? latest : std::min(latest, by_time_.begin()->first);
}

TcpEntries::Wait TcpEntries::take(Wait* wait) {
    for (const auto& each : {wait->names[wait->next], wait->names.back()}) unlist(each, wait);
    give_back(wait->connection, bytes_of(wait->names));
    by_time_.erase({wait->until, wait});
    const auto of_connection = waits_.find(wait->connection);
    const auto found = of_connection->second.find(wait);
    auto taken = std::move(*found->second);
    of_connection->second.erase(found);
    if (of_connection->second.empty()) waits_.erase(of_connection);
    return taken;
}

void TcpEntries::unlist(const std::string& name, Wait* wait) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) return;
    found->second.erase(wait);
    if (found->second.empty()) by_name_.erase(found);
}

}  // namespace rankmesh::detail
