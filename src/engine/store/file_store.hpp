// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// A store whose entries are files of a folder.
///
/// It makes the folder for this user only, and refuses a folder that another user owns or can write to.
class FileStore final : public Store {
public:
    /// Opens the store of `job` under `folder`, making either folder if it is missing.
    FileStore(const std::string& folder, const std::string& job);
    ~FileStore() override;
    FileStore(const FileStore&) = delete;
    FileStore& operator=(const FileStore&) = delete;

    bool set(const std::string& name, const std::string& text, Instant until) override;
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override;
    void remove(const std::vector<std::string>& names, Instant until) noexcept override;
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(4); }
    std::string text() const override;
    const std::string& job() const override { return job_; }

private:
    std::optional<std::string> read_entry(const std::string& name) const;
    std::string path_of(const std::string& file) const;

    const std::string folder_;
    const std::string job_;
    int directory_ = -1;
    unsigned temporary_ = 0;
};

}  // namespace rankmesh::detail
