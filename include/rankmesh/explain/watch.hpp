// SPDX-License-Identifier: Apache-2.0
// Notices that ranks of a running job stop, from the records that they write again and again.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/export.hpp>
#include <rankmesh/explain/explain.hpp>
#include <rankmesh/explain/record.hpp>

namespace rankmesh {

/// What has changed in a watched job.
struct WatchEvent {
    enum class Kind : std::uint8_t { stopped, goes_on, failed };

    Kind kind = Kind::stopped;
    Finding finding = {};
    std::int64_t since_ns = 0;  ///< the end of the last call of the group before it stopped, in Unix time
    std::int64_t until_ns = 0;  ///< `goes_on`: its first call afterwards
    std::string stack = {};     ///< a command that prints the stack of the first rank to blame; empty: none
};

/// Compares the records of a running job with those of earlier looks.
///
/// A call is stopped if a rank waits in it and has written `records` records since any rank of the group made
/// progress. So a file that is late, missing or unreadable is not enough.
class RANKMESH_EXPORT Watch {
public:
    explicit Watch(int records = 3) : records_(records) {}

    /// Takes the newest records of each rank, sorted by rank, and returns what has changed.
    std::vector<WatchEvent> look(std::vector<FlightRecord> records, std::span<const UnreadFile> unread = {});
    /// Returns true if no rank wrote a record in as many looks.
    bool has_ended() const { return silent_ >= records_; }
    /// Returns true if a rank has reported an error.
    bool has_failed() const { return has_failed_; }
    /// Returns the calls that are stopped.
    const std::vector<WatchEvent>& stopped() const { return stopped_; }

private:
    struct Seen {
        std::int64_t written_ns = 0;
        std::int64_t id = 0;    // of the last call
        std::int64_t over = 0;  // how many of the calls have ended
        std::int64_t last_ns = 0;
        int moved = 0;             // the look at which the rank was seen to make progress
        std::vector<int> written;  // the last looks with a new record since then
    };

    void note(std::span<FlightRecord> records);  // of one rank
    bool is_stopped(const Finding& finding) const;
    int last_moved(const std::vector<int>& ranks) const;
    std::int64_t since(const Finding& finding) const;
    void end_stops(const std::vector<FlightRecord>& records, std::vector<WatchEvent>& events);

    int records_;
    int look_ = 0;
    int silent_ = 0;
    bool has_failed_ = false;
    std::map<int, Seen> seen_;
    std::vector<WatchEvent> stopped_;
};

/// Returns the name of a kind: `stopped`, `goes_on`, `failed`.
RANKMESH_EXPORT std::string_view to_string(WatchEvent::Kind kind);
/// Returns the line of `rankmesh watch`.
RANKMESH_EXPORT std::string to_string(const WatchEvent& event);

}  // namespace rankmesh
