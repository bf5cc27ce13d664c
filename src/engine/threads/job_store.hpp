// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/store/store.hpp"

namespace rankmesh::detail {

class Job;

/// The entries by which threads of one threads::run, and those that enter it, agree on their worlds, and the
/// jobs that they make of them.
class JobStore final : public Store {
public:
    bool set(const std::string& name, const std::string& text, Instant until) override;
    std::vector<std::optional<std::string>> get(const std::vector<std::string>& names,
                                                Instant until) override;
    void remove(const std::vector<std::string>& names, Instant until) noexcept override;
    std::chrono::microseconds longest_pause() const override { return std::chrono::milliseconds(1); }
    std::string text() const override { return "the memory of this process"; }
    const std::string& job() const override { return job_; }

    /// The job of `size` ranks with this key, of which each asks once.
    std::shared_ptr<Job> job(const std::string& key, int size);

private:
    struct Made {
        std::shared_ptr<Job> job;
        int taken = 0;
    };
    const std::string job_ = "threads";
    std::mutex mutex_;
    std::map<std::string, std::string> entries_;
    std::map<std::string, Made> made_;  // until every rank has it
};

}  // namespace rankmesh::detail
