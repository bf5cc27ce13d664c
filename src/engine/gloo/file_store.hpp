// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh::detail {

/// Notes that the processes of one job leave for each other in a folder, each written once.
///
/// The folder is made for this user only, and refused where another user owns it or could write to it.
class FileStore {
public:
    /// The notes of `job` under `folder`, each of which is made if it is missing.
    FileStore(const std::string& folder, const std::string& job);
    ~FileStore();
    FileStore(const FileStore&) = delete;
    FileStore& operator=(const FileStore&) = delete;

    /// Writes a note so that nobody sees a part of it; false if there is one of that name.
    bool put(const std::string& name, const std::string& text);
    /// The note of that name, nothing if there is none yet.
    std::optional<std::string> get(const std::string& name) const;
    void remove(const std::string& name) noexcept;

    const std::string& folder() const { return folder_; }
    const std::string& job() const { return job_; }

private:
    const std::string folder_;
    const std::string job_;
    int directory_ = -1;
    unsigned temporary_ = 0;
};

}  // namespace rankmesh::detail
