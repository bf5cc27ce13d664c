// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

namespace rankmesh::detail {

/// The entries of a store that is served, and the requests that wait for some.
class TcpEntries {
public:
    using Instant = std::chrono::steady_clock::time_point;
    using Text = std::shared_ptr<const std::string>;
    /// A request for entries.
    struct Wait {
        std::uint64_t connection = 0;
        std::uint32_t id = 0;
        std::vector<std::string> names;  // all but the last must exist, or the last
        Instant until;
        std::size_t next = 0;  // the first name that did not exist
    };

    std::size_t size() const { return entries_.size(); }
    /// What all entries and waiting requests take.
    std::size_t bytes() const { return bytes_; }
    /// What the entries and waiting requests of one connection take.
    std::size_t bytes_of(std::uint64_t connection) const {
        const auto found = held_.find(connection);
        return found == held_.end() ? 0 : found->second;
    }
    static std::size_t bytes_of(std::string_view name, std::string_view text) {
        constexpr auto overhead = std::size_t{128};  // of an entry in the table
        return overhead + name.size() + text.size();
    }
    static std::size_t bytes_of(const std::vector<std::string>& names) {
        auto bytes = sizeof(Wait) + bytes_of("", "") * 2;  // in the tables
        for (const auto& each : names) bytes += sizeof each + each.capacity() + 1;
        return bytes;
    }

    /// Null if there is none.
    Text find(const std::string& name) const {
        const auto found = entries_.find(name);
        return found == entries_.end() ? nullptr : found->second.text;
    }
    /// Sets an entry that does not exist.
    void set(std::uint64_t connection, const std::string& name, std::string_view text) {
        bytes_ += bytes_of(name, text);
        held_[connection] += bytes_of(name, text);
        entries_.emplace(name, Entry{std::make_shared<const std::string>(text), connection});
    }
    void remove(const std::string& name) {
        const auto found = entries_.find(name);
        if (found == entries_.end()) return;
        give_back(found->second.connection, bytes_of(name, *found->second.text));
        entries_.erase(found);
    }

    /// Takes over a request whose entries do not exist yet; returns false if they do.
    bool keep(Wait& given);
    std::size_t waits_of(std::uint64_t connection) const {
        const auto found = waits_.find(connection);
        return found == waits_.end() ? 0 : found->second.size();
    }
    /// Takes out the requests that an entry of this name completes.
    std::vector<Wait> take_completed_by(const std::string& name);
    /// Takes out the requests whose time has passed.
    std::vector<Wait> take_expired(Instant now) {
        auto taken = std::vector<Wait>{};
        while (!by_time_.empty() && by_time_.begin()->first <= now)
            taken.push_back(take(by_time_.begin()->second));
        return taken;
    }
    void forget(std::uint64_t connection) {
        for (auto found = waits_.find(connection); found != waits_.end(); found = waits_.find(connection))
            take(found->second.begin()->first);
        held_.erase(connection);
    }
    /// When the next request expires; `latest` if none does before.
    Instant next_expiry(Instant latest) const {
        return by_time_.empty() ? latest : std::min(latest, by_time_.begin()->first);
    }

private:
    struct Entry {
        Text text;
        std::uint64_t connection;
    };
    /// Steps over the names that exist.
    bool is_complete(Wait& wait) const {
        const auto& names = wait.names;
        while (wait.next + 1 < names.size() && entries_.contains(names[wait.next])) ++wait.next;
        return wait.next + 1 >= names.size() || entries_.contains(names.back());
    }
    Wait take(Wait* wait);
    void unlist(const std::string& name, Wait* wait) {
        const auto found = by_name_.find(name);
        if (found == by_name_.end()) return;
        found->second.erase(wait);
        if (found->second.empty()) by_name_.erase(found);
    }
    void give_back(std::uint64_t connection, std::size_t bytes) {
        bytes_ -= bytes;
        if (const auto found = held_.find(connection); found != held_.end()) found->second -= bytes;
    }

    std::unordered_map<std::string, Entry> entries_;
    std::size_t bytes_ = 0;
    std::unordered_map<std::uint64_t, std::size_t> held_;  // bytes of each connection
    std::unordered_map<std::uint64_t, std::map<Wait*, std::unique_ptr<Wait>>> waits_;  // by connection
    std::unordered_map<std::string, std::unordered_set<Wait*>> by_name_;
    std::set<std::pair<Instant, Wait*>> by_time_;
};

/// The texts that wait until a connection sends them.
class TcpOutbox {
public:
    using Text = std::shared_ptr<const std::string>;

    /// `unsent` counts the bytes of the texts of all connections, but for texts shared with entries.
    explicit TcpOutbox(std::size_t& unsent) : unsent_(unsent) {}
    ~TcpOutbox() {
        for (const auto& each : texts_) forget(each);
    }
    TcpOutbox& operator=(TcpOutbox&&) = delete;

    void push(std::string text) { push(std::make_shared<const std::string>(std::move(text)), false); }
    void push(Text text, bool is_shared) {
        if (!is_shared) unsent_ += text->size();
        texts_.push_back({std::move(text), is_shared});
    }
    /// Sends what the kernel takes. Returns false if the connection is broken. `any`: whether it has sent
    /// some.
    bool flush(int socket, bool& any);
    bool empty() const { return texts_.empty(); }
    std::size_t size() const { return texts_.size(); }

private:
    struct Unsent {
        Text text;
        bool is_shared = false;
    };
    void forget(const Unsent& each) {
        if (!each.is_shared) unsent_ -= each.text->size();
    }

    std::size_t& unsent_;
    std::deque<Unsent> texts_;
    std::size_t sent_ = 0;  // of the first text
};

}  // namespace rankmesh::detail
