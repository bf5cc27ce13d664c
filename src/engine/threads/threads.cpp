// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/threads.hpp>

#include <algorithm>
#include <exception>
#include <latch>
#include <map>
#include <system_error>
#include <thread>

#include <rankmesh/core/text.hpp>

#include "engine/threads/world.hpp"
#include "engine/first_ranks.hpp"
#include "engine/words.hpp"

namespace rankmesh {

namespace detail {
namespace {

/// One member's view of a room.
class Seat final : public Channel {
public:
    Seat(std::shared_ptr<Job> job, std::shared_ptr<Room> room, int position)
        : job_(std::move(job)), room_(std::move(room)), position_(position) {}

    void run(const Call& call, const Label& label, Duration deadline) override {
        room_->wait(room_->post(position_, {&call, 1}, label), label, deadline);
    }
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        return room_->post(position_, calls, label);
    }
    void wait(std::uint64_t ticket, const Label& label, Duration deadline) override {
        room_->wait(ticket, label, deadline);
    }
    bool done(std::uint64_t ticket) override { return room_->done(ticket); }
    void leave(std::uint64_t ticket, const Label& label) noexcept override {
        job_->left(rank());
        room_->withdraw(ticket, label);
    }
    void leave() noexcept override {
        job_->left(rank());
        room_->poison(rank(), cat("rank ", rank(), " left by an exception"));
    }
    void throw_if_broken(const Label& label) override { room_->throw_if_poisoned(label); }

private:
    int rank() const { return room_->ranks()[static_cast<std::size_t>(position_)]; }

    std::shared_ptr<Job> job_;
    std::shared_ptr<Room> room_;
    int position_;
};

}  // namespace

Job::Job(int size, const std::shared_ptr<Job>& parent, std::vector<int> members)
    : size(size),
      world(std::make_shared<Room>(first_ranks(size))),
      letters(static_cast<std::size_t>(size)),
      parent_(parent),
      members_(std::move(members)) {}

int Job::number_of(int parents_rank) const {
    const auto found = std::ranges::find(members_, parents_rank);
    return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

std::shared_ptr<Room> Job::room(const std::string& key, const std::vector<int>& ranks) {
    const auto lock = std::lock_guard(mutex_);
    if (poisoned_) {
        auto room = std::make_shared<Room>(ranks);
        room->poison(poisoned_->first, poisoned_->second);
        return room;
    }
    const auto name = std::pair(key, ranks.front());
    auto& entry = rooms_[name];
    if (!entry.object) entry.object = std::make_shared<Room>(ranks);
    auto room = entry.object;
    // A room is kept until all members have it, so that one who leaves early still leaves a poisoned one.
    if (++entry.taken == static_cast<int>(ranks.size())) {
        std::erase_if(alive_, [](const auto& weak) { return weak.expired(); });
        alive_.push_back(room);
        rooms_.erase(name);
    }
    return room;
}

std::shared_ptr<Job> Job::sub(const std::vector<int>& ranks, int turn) {
    const auto lock = std::lock_guard(mutex_);
    const auto name = std::pair(ranks, turn);
    auto& entry = making_[name];
    if (!entry.object) {
        entry.object = std::make_shared<Job>(static_cast<int>(ranks.size()), shared_from_this(), ranks);
        std::erase_if(subs_, [](const auto& weak) { return weak.expired(); });
        subs_.push_back(entry.object);
        if (poisoned_) entry.object->poison(entry.object->number_of(poisoned_->first), poisoned_->second);
    }
    auto job = entry.object;
    if (++entry.taken == static_cast<int>(ranks.size())) making_.erase(name);
    return job;
}

void Job::poison(int rank, const std::string& why) noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (poisoned_) return;
    poisoned_ = std::pair(rank, why);
    world->poison(rank, why);
    for (auto& [name, entry] : rooms_) entry.object->poison(rank, why);
    for (auto& weak : alive_)
        if (auto room = weak.lock()) room->poison(rank, why);
    for (auto& box : letters) box.poison(why, rank);
    for (auto& weak : subs_)
        if (auto sub = weak.lock()) sub->poison(sub->number_of(rank), why);
}

void Job::left(int rank) noexcept {
    auto nobody = -1;
    first_left_.compare_exchange_strong(nobody, rank);
    if (const auto parent = parent_.lock()) parent->left(members_[static_cast<std::size_t>(rank)]);
}

void Letters::put(int from, const std::string& letter) {
    const auto lock = std::lock_guard(mutex_);
    letters_.emplace_back(from, letter);
    arrived_.notify_all();
}

std::string Letters::take(int from, Duration deadline) {
    auto lock = std::unique_lock(mutex_);
    const auto next = [&] { return std::ranges::find(letters_, from, &std::pair<int, std::string>::first); };
    const auto until = from_now(deadline);
    if (!arrived_.wait_until(lock, until, [&] { return poison_ || next() != letters_.end(); }))
        throw Deadline(cat("the deadline of ", to_text(deadline), " passed in join, waiting for rank ", from),
                       {}, {from});
    if (next() == letters_.end()) throw Lost(poison_->first, poison_->second);
    auto letter = std::move(next()->second);
    letters_.erase(next());
    return letter;
}

void Letters::poison(const std::string& why, int rank) noexcept {
    const auto lock = std::lock_guard(mutex_);
    poison_ = std::pair(why, rank < 0 ? std::vector<int>{} : std::vector{rank});
    arrived_.notify_all();
}

void ThreadsWorld::max(std::array<std::int64_t, 4>& values) {
    const auto call = Call{.operation = Operation::all_reduce,
                           .dtype = DType::i64,
                           .reduction = Reduction::max,
                           .in = values.data(),
                           .out = values.data(),
                           .in_count = values.size(),
                           .out_count = values.size()};
    try {
        job_->world->wait(job_->world->post(rank_, {&call, 1}, label_), label_, options.deadline);
    } catch (const Deadline& deadline) {
        throw Deadline(cat("the deadline of ", to_text(options.deadline), " passed in join on rank ", rank_,
                           ": arrived ", ranks_to_string(deadline.arrived), ", missing ",
                           ranks_to_string(deadline.missing)),
                       deadline.arrived, deadline.missing);
    }
}

void ThreadsWorld::send(int to, const std::string& bytes) {
    job_->letters[static_cast<std::size_t>(to)].put(rank_, bytes);
}

std::string ThreadsWorld::receive(int from) {
    return job_->letters[static_cast<std::size_t>(rank_)].take(from, options.deadline);
}

std::shared_ptr<WorldState> ThreadsWorld::sub(const std::vector<int>& ranks) {
    const auto position = std::ranges::find(ranks, rank_) - ranks.begin();
    return std::make_shared<ThreadsWorld>(job_->sub(ranks, turns_[ranks]++), static_cast<int>(position),
                                          options);
}

std::shared_ptr<WorldState> ThreadsWorld::survivors(Duration) {
    throw Misuse(cat("rank ", rank_, " asks for the survivors of a world of threads, which end together; ",
                     what_survives));
}

std::shared_ptr<Channel> ThreadsWorld::create(const ChannelRequest& request) {
    return std::make_shared<Seat>(job_, job_->room(request.key, request.label->ranks.list()),
                                  request.position);
}

}  // namespace detail

namespace threads {
namespace {

/// What a thread is handed as its World.
class RankWorld : public World {
public:
    explicit RankWorld(std::shared_ptr<detail::WorldState> state) : World(std::move(state)) {}
};

}  // namespace

void run(int size, const std::function<void(World&)>& program, const WorldOptions& options) {
    if (size < 1)
        throw Misuse(detail::cat("threads::run was asked for ", size, " ranks; a world has 1 or more"));
    const auto settled = detail::settled(options);  // throws here, not on the ranks' threads
    const auto job = std::make_shared<detail::Job>(size);
    auto errors = std::map<int, std::exception_ptr>{};
    auto first = std::exception_ptr{};
    auto mutex = std::mutex{};
    const auto failed = [&](int rank, std::string_view what) {
        const auto lock = std::lock_guard(mutex);
        errors[rank] = std::current_exception();
        if (!first) first = errors[rank];
        job->left(rank);
        job->poison(rank, detail::cat("rank ", rank, " failed", what.empty() ? "" : ": ", what));
    };
    auto started = std::latch(1);
    auto all_started = true;  // written before the latch opens
    auto ranks = std::vector<std::thread>{};
    const auto rank_main = [&](int rank) {
        started.wait();
        if (!all_started) return;
        auto world = RankWorld(std::make_shared<detail::ThreadsWorld>(job, rank, settled));
        try {
            program(world);
        } catch (const std::exception& error) {
            failed(rank, error.what());
        } catch (...) {
            failed(rank, {});
        }
    };
    auto failure = std::string{};
    try {
        for (int rank = 0; rank < size; ++rank) ranks.emplace_back(rank_main, rank);
    } catch (const std::system_error& error) {
        all_started = false;
        failure = detail::cat("the system gave ", ranks.size(), " of ", size, " threads: ", error.what());
    }
    started.count_down();
    for (auto& rank : ranks) rank.join();
    if (!all_started) throw EngineFailure(failure);

    // Of the rank that left first: what others threw after that may only be its echo.
    if (const auto cause = errors.find(job->first_left()); cause != errors.end())
        std::rethrow_exception(cause->second);
    if (first) std::rethrow_exception(first);
}

}  // namespace threads
}  // namespace rankmesh
