// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "engine/gloo/store.hpp"

namespace rankmesh::detail {

/// Notes in a folder.
///
/// The folder is made for this user only, and refused where another user owns it or could write to it.
class FileStore final : public Store {
public:
    /// The notes of `job` under `folder`, each of which is made if it is missing.
    FileStore(const std::string& folder, const std::string& job);
    ~FileStore() override;
    FileStore(const FileStore&) = delete;
    FileStore& operator=(const FileStore&) = delete;

    bool put(const std::string& name, const std::string& text) override;
    std::optional<std::string> get(const std::string& name) override;
    void remove(const std::string& name) noexcept override;
    std::string text() const override;
    const std::string& job() const override { return job_; }

private:
    const std::string folder_;
    const std::string job_;
    int directory_ = -1;
    unsigned temporary_ = 0;
};

}  // namespace rankmesh::detail
