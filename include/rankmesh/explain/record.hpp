// SPDX-License-Identifier: Apache-2.0
// The content of a rank's flight record: of rankmesh, or a dump of PyTorch's flight recorder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace rankmesh {

/// A communicator in a record.
struct RecordedGroup {
    std::string name;             ///< the same on all its ranks
    std::string description;      ///< `'tp' of mesh dp=2 tp=2`, or what the program called it
    std::string axes = {};        ///< empty: not recorded
    std::vector<int> ranks = {};  ///< world ranks, in the communicator's order; empty: not recorded
    bool is_of_process = false;   ///< the name says nothing about other ranks
    friend auto operator<=>(const RecordedGroup&, const RecordedGroup&) = default;
};

/// One call: what the members of a group must agree on, and what describes the call.
struct RecordedOperation {
    std::string backend;  ///< `gloo`
    std::string operation;
    std::string reduction;                 ///< empty: none, or not recorded
    std::optional<std::int64_t> argument;  ///< the root, the distance, or the peer as a group rank
    std::optional<std::int64_t> source;    ///< of a send_recv: the peer to receive from
    std::int64_t tag = 0;                  ///< of a message
    bool has_open_edges = false;           ///< of a shift
    bool has_unknown_peer = false;         ///< of a message: the record does not name its peer
    std::vector<std::vector<std::int64_t>> input_sizes;
    std::vector<std::vector<std::int64_t>> output_sizes;
    std::vector<std::string> input_dtypes;
    std::vector<std::string> output_dtypes;
    friend auto operator<=>(const RecordedOperation&, const RecordedOperation&) = default;
};

enum class RecordedState : std::uint8_t { scheduled, started, completed, failed };

/// One entry of a record.
struct RecordedEntry {
    std::int64_t id = 0;      ///< the number of the call among all calls of the rank
    std::int64_t number = 0;  ///< of the call on its communicator; collectives and messages count separately
    std::shared_ptr<const RecordedGroup> group;
    std::shared_ptr<const RecordedOperation> call;
    std::int64_t created_ns = 0;    ///< Unix time; 0: not known
    std::int64_t completed_ns = 0;  ///< Unix time; 0: not known, or not completed
    std::int64_t timeout_ms = 0;    ///< 0: not known
    std::int64_t duration_ns = 0;   ///< on a device, which measured it; 0: not known
    /// In rankmesh's records a call is `scheduled` until its rank waits for it, and `started` while the rank
    /// waits.
    RecordedState state = RecordedState::scheduled;
    /// Nobody waits for the call any more. The record does not say whether it ended, failed or was only
    /// issued.
    bool is_end_assumed = false;
    bool is_message = false;
    bool blocking = true;
};

/// The progress of a rank on one communicator.
struct RecordedStatus {
    std::shared_ptr<const RecordedGroup> group;  ///< null: the record does not say which
    std::int64_t enqueued = 0;
    std::int64_t completed = 0;
};

/// A mesh of the program, and its placement if one was declared.
struct RecordedMesh {
    std::string name;
    std::string mesh;
    std::vector<int> placed;
    friend bool operator==(const RecordedMesh&, const RecordedMesh&) = default;
};

/// One rank's record.
struct FlightRecord {
    std::string file;
    int rank = 0;
    std::optional<int> world_size;
    int least_world_size = 1;  ///< if `world_size` is unknown: the world has at least so many ranks
    bool is_torch = false;
    bool is_log = false;  ///< what logs and reports say of a rank: its errors, and calls that did not end
    std::string engine;
    std::string host;                        ///< empty: not recorded
    std::optional<std::int64_t> started_ns;  ///< when the rank's world began, in nanoseconds since 1970
    std::optional<std::int64_t> written_ns;
    std::int64_t pid = 0;      ///< of the rank's process; 0: not recorded
    std::int64_t every_s = 0;  ///< how often the rank writes its record while it runs; 0: not
    bool is_still = false;     ///< several records in a row show the same calls: what has not ended is stuck
    std::string reason;        ///< why it was written: `timeout`, `request`, ...; empty: not recorded
    std::string error;
    std::string error_at;      ///< the line of the log with the error: `job.log:45, 20:27:21`; empty: no log
    std::vector<int> arrived;  ///< the ranks that the error names; the same for the next three
    std::vector<int> missing;
    std::vector<int> lost;
    std::vector<int> differ;  ///< of a disagreement: the ranks outside the largest set that agrees
    std::vector<RecordedMesh> meshes;
    std::vector<std::shared_ptr<const RecordedGroup>> groups;
    std::vector<RecordedStatus> statuses;
    std::vector<RecordedEntry> entries;  ///< by ascending id
};

/// A line of a log that is about no rank, such as an error of a device.
struct LoggedLine {
    std::string at;         ///< `dmesg.log:45, 20:27:21`
    std::string host;       ///< empty: not known
    std::string text;       ///< a sentence without its subject's host
    bool is_fault = false;  ///< of a device, a network or the memory; otherwise a remark
};

/// A file that holds no record, and why.
struct UnreadFile {
    std::string file;
    std::string why;          ///< a sentence that names the file
    std::optional<int> rank;  ///< the rank in the file's name
};

}  // namespace rankmesh
