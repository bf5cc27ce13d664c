// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace rankmesh::detail {

/// This process's connection to the PMIx server of its launcher.
class PmixClient {
public:
    using Instant = std::chrono::steady_clock::time_point;

    /// True if this build has PMIx.
    static bool is_built();
    /// That of this process, null where no server answers.
    ///
    /// It stays until the process ends: Open MPI's launcher takes no process back that has left its server.
    static std::shared_ptr<PmixClient> of_process();

    PmixClient(std::string name_space, int rank, int size)
        : name_space_(std::move(name_space)), rank_(rank), size_(size) {}
    virtual ~PmixClient() = default;
    PmixClient(const PmixClient&) = delete;
    PmixClient& operator=(const PmixClient&) = delete;

    /// What the launcher calls the job, and this process's place in it.
    const std::string& name_space() const { return name_space_; }
    int rank() const { return rank_; }
    int size() const { return size_; }
    /// How many worlds of all processes there were before, in this process.
    int next_world() { return worlds_++; }

    /// Writes an entry, once under each key; others read it after a fence that both take.
    virtual void put(const std::string& key, const std::string& text) = 0;
    /// Waits until all of these ranks have called the same or have ended; false if `until` comes first.
    ///
    /// Then it goes on by itself, and the next fence of these ranks begins after it.
    virtual bool fence(std::vector<int> ranks, Instant until) = 0;
    /// Begins one that nobody waits for here, unless one of these ranks goes on.
    virtual void begin_fence(std::vector<int> ranks) = 0;

    /// An entry: whose, and its key.
    using Name = std::pair<int, std::string>;
    /// The entries that fences have brought here or that were written on this host, nothing for others.
    virtual std::vector<std::optional<std::string>> read(std::span<const Name> names, Instant until) = 0;
    /// The same, where those that are not here are asked for on the hosts of their ranks.
    virtual std::vector<std::optional<std::string>> ask(std::span<const Name> names, Instant until) = 0;

private:
    const std::string name_space_;
    const int rank_;
    const int size_;
    std::atomic<int> worlds_ = 0;
};

}  // namespace rankmesh::detail
