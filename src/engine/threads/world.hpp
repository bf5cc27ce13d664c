// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/threads/room.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {

/// Letters to one rank; only join writes any, and only when plans differ.
class Letters {
public:
    void put(int from, const std::string& letter);
    std::string take(int from, Duration deadline);
    void poison(const std::string& why, int rank) noexcept;

private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<std::pair<int, std::string>> letters_;
    std::optional<std::pair<int, std::string>> poison_;
};

/// What the ranks of one threads::run share.
class Job {
public:
    explicit Job(int size);

    /// The room of the group with this key; every member asks once.
    std::shared_ptr<Room> room(const std::string& key, const std::vector<int>& ranks);
    /// Poisons every room, now and later; the first call decides what they say.
    void poison(int rank, const std::string& why) noexcept;

    /// Notes that a rank leaves by an exception, before its peers can hear of it.
    void left(int rank) noexcept;
    /// The rank that left first, -1 if none has.
    int first_left() const { return first_left_; }

    const int size;
    const std::shared_ptr<Room> world;
    std::vector<Letters> letters;  // by rank

private:
    struct Entry {
        std::shared_ptr<Room> room;
        int taken = 0;
    };
    std::atomic<int> first_left_ = -1;
    std::mutex mutex_;
    std::map<std::pair<std::string, int>, Entry> rooms_;  // by key and first rank, until every member has it
    std::vector<std::weak_ptr<Room>> alive_;
    std::optional<std::pair<int, std::string>> poisoned_;
};

/// One rank of a Job.
class ThreadsWorld final : public WorldState, private Exchange {
public:
    ThreadsWorld(std::shared_ptr<Job> job, int rank, const WorldOptions& options)
        : WorldState(options), job_(std::move(job)), rank_(rank) {
        label_.mesh = "world";
        label_.axes = "join";
    }

    std::string engine() const override { return "threads"; }
    Exchange& exchange() override { return *this; }
    void leave(const std::string& what) noexcept override {
        job_->left(rank_);
        job_->poison(rank_, what);
    }

private:
    int rank() const override { return rank_; }
    int size() const override { return job_->size; }
    void max(std::array<std::int64_t, 4>& values) override;
    void send(int to, const std::string& bytes) override;
    std::string receive(int from) override;
    std::shared_ptr<Channel> create(const ChannelRequest& request) override;

    std::shared_ptr<Job> job_;
    int rank_;
    Label label_;  // what a deadline in join is reported with
};

}  // namespace rankmesh::detail
