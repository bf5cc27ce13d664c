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

/// The records of a folder.
struct RecordFolder {
    std::vector<FlightRecord> records;  ///< sorted by rank
    std::vector<UnreadFile> unread;     ///< sorted by name
};

/// Reads all files of a folder, but not of its subfolders. Calls `progress` with the number of files read and
/// of all files.
///
/// Throws UsageError if the folder cannot be read or holds no file.
RecordFolder read_records(const std::string& folder,
                          const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace rankmesh
