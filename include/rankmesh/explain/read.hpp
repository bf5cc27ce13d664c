// SPDX-License-Identifier: Apache-2.0
// Reads flight records, in rankmesh::convert, which has what reads JSON.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/explain/record.hpp>

namespace rankmesh {

/// Reads records one by one, and keeps once what many of them have in common.
class RecordReader {
public:
    RecordReader();
    ~RecordReader();
    RecordReader(const RecordReader&) = delete;
    RecordReader& operator=(const RecordReader&) = delete;

    /// Reads rankmesh's JSON, or a dump of PyTorch's flight recorder, as JSON or as a pickle of which nothing
    /// is executed.
    ///
    /// A dump of PyTorch's says no rank: that is the last number in the name of its file. Throws UsageError
    /// that says what is wrong.
    FlightRecord read(std::string_view bytes, const std::string& file);

private:
    struct Known;
    std::unique_ptr<Known> known_;
};

/// The records of a folder.
struct RecordFolder {
    std::vector<FlightRecord> records;  ///< by rank
    std::vector<UnreadFile> unread;     ///< by name
};

/// Reads all files of a folder, without those in folders inside it; `progress` is told how many are done, and
/// of how many.
///
/// Throws UsageError where the folder cannot be read or holds no file.
RecordFolder read_records(const std::string& folder,
                          const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace rankmesh
