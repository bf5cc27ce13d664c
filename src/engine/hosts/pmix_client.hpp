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
    /// Returns the connection of this process, or null without a server. Throws Timeout if the server does
    /// not answer.
    ///
    /// It stays open until the process ends: Open MPI's launcher does not let a process reconnect.
    static std::shared_ptr<PmixClient> of_process(std::chrono::nanoseconds timeout);

    PmixClient(std::string name_space, int rank, int size)
        : name_space_(std::move(name_space)), rank_(rank), size_(size) {}
    virtual ~PmixClient() = default;
    PmixClient(const PmixClient&) = delete;
    PmixClient& operator=(const PmixClient&) = delete;

    /// The launcher's name of the job, this process's rank in it, and the number of processes.
    const std::string& name_space() const { return name_space_; }
    int rank() const { return rank_; }
    int size() const { return size_; }
    /// The number of worlds of all processes that this process has made, which this call increments.
    int next_world() { return worlds_++; }

    /// Writes an entry, once for each key; other ranks read it after a fence that both take part in.
    virtual void put(const std::string& key, const std::string& text) = 0;
    /// Gives the written entries to the server of this host: others can `ask` for them without a fence.
    virtual void commit() = 0;
    /// Returns once all of these ranks have called it or have ended. Returns false if `until` comes first:
    /// the fence then completes in the background, before the next fence of these ranks begins.
    virtual bool fence(std::vector<int> ranks, Instant until) = 0;
    /// Begins a fence that this process does not wait for, unless one of these ranks is still in progress.
    virtual void begin_fence(std::vector<int> ranks) = 0;

    /// The name of an entry: the rank that wrote it, and its key.
    using Name = std::pair<int, std::string>;
    /// The entries that fences have brought to this host, or that were written on it; nothing for others.
    virtual std::vector<std::optional<std::string>> read(std::span<const Name> names, Instant until) = 0;
    /// The same, but fetches other entries from the hosts of their ranks.
    virtual std::vector<std::optional<std::string>> ask(std::span<const Name> names, Instant until) = 0;

private:
    const std::string name_space_;
    const int rank_;
    const int size_;
    std::atomic<int> worlds_ = 0;
};

/// The PMIx that this build was compiled with, "" without.
std::string pmix_library();

}  // namespace rankmesh::detail
