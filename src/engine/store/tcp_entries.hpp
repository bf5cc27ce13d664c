// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
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
    std::size_t bytes_of(std::uint64_t connection) const;
    static std::size_t bytes_of(std::string_view name, std::string_view text);
    static std::size_t bytes_of(const std::vector<std::string>& names);

    /// Null if there is none.
    Text find(const std::string& name) const;
    /// Sets an entry that does not exist.
    void set(std::uint64_t connection, const std::string& name, std::string_view text);
    void remove(const std::string& name);

    /// Takes over a request whose entries do not exist yet; returns false if they do.
    bool keep(Wait& given);
    std::size_t waits_of(std::uint64_t connection) const;
    /// Takes out the requests that an entry of this name completes.
    std::vector<Wait> take_completed_by(const std::string& name);
    /// Takes out the requests whose time has passed.
    std::vector<Wait> take_expired(Instant now);
    void forget(std::uint64_t connection);
    /// When the next request expires; `latest` if none does before.
    Instant next_expiry(Instant latest) const;

private:
    struct Entry {
        Text text;
        std::uint64_t connection;
    };
    bool is_complete(Wait& wait) const;
    Wait take(Wait* wait);
    void unlist(const std::string& name, Wait* wait);
    void give_back(std::uint64_t connection, std::size_t bytes);

    std::unordered_map<std::string, Entry> entries_;
    std::size_t bytes_ = 0;
    std::unordered_map<std::uint64_t, std::size_t> held_;  // bytes of each connection
    std::unordered_map<std::uint64_t, std::map<Wait*, std::unique_ptr<Wait>>> waits_;  // by connection
    std::unordered_map<std::string, std::unordered_set<Wait*>> by_name_;
    std::set<std::pair<Instant, Wait*>> by_time_;
};

}  // namespace rankmesh::detail
