// SPDX-License-Identifier: Apache-2.0
// Reads flight records. Belongs to the library rankmesh::convert, which reads JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/explain/record.hpp>

namespace rankmesh {

struct Explanation;
struct SlowReport;
struct WatchEvent;

/// Reads records one by one. Data that many records share is stored once.
class RecordReader {
public:
    RecordReader();
    ~RecordReader();
    RecordReader(const RecordReader&) = delete;
    RecordReader& operator=(const RecordReader&) = delete;

    /// Reads a record in rankmesh's JSON, or a dump of PyTorch's flight recorder as JSON or pickle. Never
    /// executes anything from a pickle.
    ///
    /// PyTorch's dumps do not contain the rank; it is the last number in the file name. Throws UsageError,
    /// with the reason, for any other content.
    FlightRecord read(std::string_view bytes, const std::string& file);

private:
    struct Known;
    class Reading;
    std::unique_ptr<Known> known_;
};

/// The records of folders and files, and what logs and reports say.
struct RecordFolder {
    std::vector<FlightRecord> records;  ///< sorted by rank
    std::vector<UnreadFile> unread;     ///< sorted by name
    std::vector<LoggedLine> lines;      ///< of logs, about no rank
};

/// Reads files, and all files of folders, but not of their subfolders: records, dumps, logs, and reports of
/// NCCL's RAS. `ras://HOST:PORT` asks RAS itself; without a port, its usual one. Calls `progress` with the
/// number of files read and of all files. Files of several paths are named by their path.
///
/// Throws UsageError if a path cannot be read, or if no folder holds a file.
RecordFolder read_records(const std::vector<std::string>& paths,
                          const std::function<void(std::size_t, std::size_t)>& progress = {});

/// Reads the records `rank-N.json` of a folder, and of large ones only the last calls: 10,000 in seconds.
/// Throws UsageError if the folder cannot be read.
RecordFolder read_last_calls(const std::string& folder);

/// A line of an answer in words; what does not fit in a line is indented.
struct AnswerLine {
    std::size_t indent = 0;
    std::string text;
};

/// Returns what `rankmesh explain` prints, with at most `most` findings.
std::vector<AnswerLine> lines_of(const std::vector<FlightRecord>& records, const Explanation& explanation,
                                 std::size_t most = 5);
std::vector<AnswerLine> lines_of(const std::vector<FlightRecord>& records, const SlowReport& report);
/// Returns the JSON of `rankmesh explain --json`.
std::string json_of(const std::vector<FlightRecord>& records, const Explanation& explanation);
std::string json_of(const std::vector<FlightRecord>& records, const SlowReport& report);
/// Returns the JSON of `rankmesh watch --json`.
std::string json_of(const WatchEvent& event);

}  // namespace rankmesh
