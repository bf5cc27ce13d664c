// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/threads.hpp>

#include <algorithm>
#include <exception>
#include <latch>
#include <map>
#include <system_error>
#include <thread>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/launcher.hpp>

#include "engine/access.hpp"
#include "engine/diagnosis/attendance.hpp"
#include "engine/engines.hpp"
#include "engine/threads/world.hpp"
#include "engine/timeout.hpp"

namespace rankmesh {

namespace detail {
namespace {

/// The channel of one rank on a shared group.
class ThreadChannel final : public Channel {
public:
    ThreadChannel(std::shared_ptr<Job> job, std::shared_ptr<PendingBuffers> pending,
                  std::shared_ptr<Cause> cause, std::shared_ptr<SharedGroup> group, int group_rank)
        : job_(std::move(job)),
          pending_(std::move(pending)),
          cause_(std::move(cause)),
          group_(std::move(group)),
          group_rank_(group_rank) {}

    void run(const Call& call, const Label& label, Duration timeout) override {
        wait(start({&call, 1}, label), label, timeout);
    }
    std::uint64_t start(std::span<const Call> calls, const Label& label) override {
        auto use = PendingBuffers::Use(pending_, calls, group_rank_, label);
        try {
            const auto ticket = group_->post(group_rank_, calls, label);
            uses_.emplace(ticket, std::move(use));
            return ticket;
        } catch (...) {
            throw_as_told();
        }
    }
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        const auto use = uses_.extract(ticket);  // which ends with the wait
        try {
            group_->wait(ticket, label, timeout);
            cause_->clear();
        } catch (const Timeout& expired) {
            for (const auto rank : expired.missing)
                if (const auto recorder = job_->recorder(rank)) recorder->asked();
            throw_as_told();
        } catch (...) {
            throw_as_told();
        }
    }
    bool done(std::uint64_t ticket) override { return group_->done(ticket); }
    bool is_pending() override { return !uses_.empty(); }
    void leave(std::uint64_t ticket, const Label& label) noexcept override {
        job_->left(rank());
        group_->withdraw(ticket, label, *cause_);
        uses_.erase(ticket);
    }
    void leave() noexcept override {
        job_->left(rank());
        group_->fail(cause_->of_leaving(rank(), cat("rank ", rank(), " left by an exception")));
    }
    void throw_if_broken(const Label& label) override { group_->throw_if_failed(label); }
    std::vector<PeerStatus> ask(const std::string& key, std::uint64_t number) override {
        auto statuses = std::vector<PeerStatus>{};
        for (const auto rank : group_->ranks()) {
            const auto recorder = job_->recorder(rank);
            const auto called = recorder ? recorder->collectives(key) : std::nullopt;
            statuses.push_back({.arrived = called && *called >= number,
                                .doing = job_->doing(rank),
                                .answers = recorder != nullptr,
                                .ended = !called});
            if (recorder && rank != this->rank()) recorder->asked();
        }
        return statuses;
    }

private:
    int rank() const { return group_->ranks()[static_cast<std::size_t>(group_rank_)]; }
    /// Throws the error in flight again; all but a Disagreement is that of every later call as well.
    [[noreturn]] void throw_as_told() {
        try {
            throw;
        } catch (const Disagreement&) {
            throw;
        } catch (...) {
            cause_->set(group_->failure());
            report();
            throw;
        }
    }

    std::shared_ptr<Job> job_;
    std::shared_ptr<PendingBuffers> pending_;
    std::shared_ptr<Cause> cause_;
    std::shared_ptr<SharedGroup> group_;
    int group_rank_;
    std::map<std::uint64_t, PendingBuffers::Use> uses_;  // by ticket
};

}  // namespace

Job::Job(int size, const std::shared_ptr<Job>& parent, std::vector<int> members)
    : size(size),
      world(group_of(first_ranks(size))),
      mailboxes(static_cast<std::size_t>(size)),
      parent_(parent),
      members_(std::move(members)),
      recorders_(static_cast<std::size_t>(size)),
      alive_(static_cast<std::size_t>(size)),
      returned_(static_cast<std::size_t>(size), false) {}

/// This job outlives its groups' calls: the channels that make them hold both.
std::shared_ptr<SharedGroup> Job::group_of(std::vector<int> ranks) {
    return std::make_shared<SharedGroup>(
        std::move(ranks),
        [this](const std::vector<int>& missing, const Label& label) { return seen(missing, label); });
}

void Job::record(int rank, const std::shared_ptr<Recorder>& recorder) {
    const auto lock = std::lock_guard(recording_);
    recorders_[static_cast<std::size_t>(rank)] = recorder;
}

std::shared_ptr<Recorder> Job::recorder(int rank) const {
    const auto lock = std::lock_guard(recording_);
    const auto& known = recorders_[static_cast<std::size_t>(rank)];
    return known ? known->lock() : nullptr;
}

std::string Job::doing(int rank) const {
    if (const auto known = recorder(rank)) return cat("is ", known->doing());
    const auto lock = std::lock_guard(recording_);
    return recorders_[static_cast<std::size_t>(rank)] ? "is gone: it has left the world" : "has not begun";
}

std::vector<int> Job::awaited(int rank) {
    auto lock = std::unique_lock(mutex_);
    const auto groups = alive_[static_cast<std::size_t>(rank)];
    lock.unlock();
    for (const auto& weak : groups)
        if (const auto group = weak.lock())
            if (auto ranks = group->awaited(rank); !ranks.empty()) return ranks;
    return {};
}

std::string Job::seen(const std::vector<int>& missing, const Label& label) {
    auto ranks = missing;
    auto waits = std::map<int, std::vector<int>>{};
    for (std::size_t i = 0; i < std::min(ranks.size(), most_described); ++i) {
        const auto rank = ranks[i];
        waits[rank] = awaited(rank);
        for (const auto each : waits[rank])
            if (ranks.size() < most_described && !contains(ranks, each)) ranks.push_back(each);
    }
    return last_seen(ranks, label, [&](int rank) {
        const auto& for_whom = waits[rank];
        if (for_whom.empty()) return doing(rank);
        return cat(
            doing(rank), ", waiting for ",
            for_whom.size() == 1 ? cat("rank ", for_whom.front()) : cat("ranks ", ranks_to_string(for_whom)));
    });
}

int Job::number_of(int parents_rank) const {
    const auto found = std::ranges::find(members_, parents_rank);
    return found == members_.end() ? -1 : static_cast<int>(found - members_.begin());
}

std::shared_ptr<SharedGroup> Job::group(int rank, const std::string& key, const std::vector<int>& ranks) {
    const auto lock = std::lock_guard(mutex_);
    if (failed_) {
        auto group = group_of(ranks);
        group->fail(failed_->second);
        return group;
    }
    const auto name = std::pair(key, ranks.front());
    auto& entry = groups_[name];
    if (!entry.object) {
        entry.object = group_of(ranks);
        for (auto gone : ended_) entry.object->end(gone, how_ended(gone));
    }
    auto group = entry.object;
    // A group is kept until all its ranks have it, so that a rank that leaves early still leaves a failed
    // group for the others.
    entry.taken.push_back(rank);
    if (entry.taken.size() == ranks.size()) {
        for (const auto member : ranks) {
            auto& own = alive_[static_cast<std::size_t>(member)];
            std::erase_if(own, [](const auto& weak) { return weak.expired(); });
            own.push_back(group);
        }
        groups_.erase(name);
    }
    return group;
}

std::shared_ptr<Job> Job::sub(int rank, const std::vector<int>& ranks, int turn) {
    const auto lock = std::lock_guard(mutex_);
    const auto name = std::pair(ranks, turn);
    auto& entry = making_[name];
    if (!entry.object) {
        entry.object = std::make_shared<Job>(static_cast<int>(ranks.size()), shared_from_this(), ranks);
        std::erase_if(subs_, [](const auto& weak) { return weak.expired(); });
        subs_.push_back(entry.object);
        if (failed_)
            entry.object->fail(entry.object->number_of(failed_->first),
                               entry.object->of_parent(failed_->first, failed_->second));
        for (auto gone : ended_)  // before it made its own
            if (const auto number = entry.object->number_of(gone); number >= 0) entry.object->end(number);
    }
    auto job = entry.object;
    entry.taken.push_back(rank);
    if (entry.taken.size() == ranks.size()) making_.erase(name);
    return job;
}

Failure Job::of_parent(int rank, Failure failure) const {
    for (auto* ranks : {&failure.lost, &failure.arrived, &failure.missing}) {
        for (auto& each : *ranks) each = number_of(each);
        std::erase(*ranks, -1);
    }
    const auto names_none = failure.lost.empty() && failure.missing.empty();
    if (const auto number = number_of(rank); names_none && number >= 0)
        failure = {.kind = Failure::Kind::left, .why = failure.why, .lost = {number}};
    return failure;
}

void Job::fail(int rank, const Failure& why) noexcept {
    const auto lock = std::lock_guard(mutex_);
    depart(rank, why);
    if (failed_) return;
    failed_ = std::pair(rank, why);
    world->fail(why);
    for (auto& [name, entry] : groups_) entry.object->fail(why);
    for (auto& own : alive_)
        for (auto& weak : own)
            if (auto group = weak.lock()) group->fail(why);
    for (auto& weak : subs_)
        if (auto sub = weak.lock()) sub->fail(sub->number_of(rank), sub->of_parent(rank, why));
}

void Job::depart(int rank, const Failure& why) {
    departures.add(rank, why);
    for (auto& box : mailboxes) box.look();
}

void Job::returned(int rank) noexcept {
    const auto lock = std::lock_guard(mutex_);
    returned_[static_cast<std::size_t>(rank)] = true;
}

std::string Job::how_ended(int rank) const {
    return returned_[static_cast<std::size_t>(rank)] ? "has returned" : "has destroyed its world";
}

void Job::end(int rank) noexcept {
    const auto lock = std::lock_guard(mutex_);
    ended_.push_back(rank);
    const auto how = how_ended(rank);
    world->end(rank, how);
    for (auto& [name, entry] : groups_) entry.object->end(rank, how);
    for (auto& weak : alive_[static_cast<std::size_t>(rank)])
        if (auto group = weak.lock()) group->end(rank, how);
    depart(rank, {.kind = Failure::Kind::left, .why = cat("rank ", rank, " ", how), .lost = {rank}});
    // A job of some ranks that this one has joined outlives its world here.
    for (auto& [name, entry] : making_)
        if (const auto number = entry.object->number_of(rank);
            number >= 0 && std::ranges::find(entry.taken, rank) == entry.taken.end())
            entry.object->end(number);
}

std::vector<int> Job::ended() {
    const auto lock = std::lock_guard(mutex_);
    auto ranks = ended_;
    if (failed_ && failed_->first >= 0) ranks.push_back(failed_->first);
    return ranks;
}

void Job::left(int rank) noexcept {
    auto nobody = -1;
    first_left_.compare_exchange_strong(nobody, rank);
    if (const auto parent = parent_.lock()) parent->left(members_[static_cast<std::size_t>(rank)]);
}

void Departures::add(int rank, const Failure& why) {
    const auto lock = std::lock_guard(mutex_);
    left_.emplace(rank, why);
}

std::optional<Failure> Departures::why(int rank) const {
    const auto lock = std::lock_guard(mutex_);
    const auto found = left_.find(rank);
    return found == left_.end() ? std::nullopt : std::optional(found->second);
}

void Mailbox::put(int from, const std::string& message) {
    const auto lock = std::lock_guard(mutex_);
    messages_.emplace_back(from, message);
    arrived_.notify_all();
}

std::string Mailbox::take(const Departures& left, int from, Duration timeout) {
    auto lock = std::unique_lock(mutex_);
    const auto next = [&] { return std::ranges::find(messages_, from, &std::pair<int, std::string>::first); };
    const auto until = from_now(timeout);
    auto gone = std::optional<Failure>{};
    ++waiting_;
    const auto in_time = arrived_.wait_until(lock, until, [&] {
        gone = left.why(from);
        return gone || next() != messages_.end();
    });
    --waiting_;
    if (!in_time)
        throw Timeout(cat("the timeout of ", to_text(timeout), " expired in join, waiting for rank ", from),
                      {}, {from});
    if (next() == messages_.end()) std::rethrow_exception(gone->error());
    auto message = std::move(next()->second);
    messages_.erase(next());
    return message;
}

void Mailbox::post(int from, const std::string& message) {
    const auto lock = std::lock_guard(mutex_);
    posts_[from].push_back(message);
    arrived_.notify_all();
}

std::vector<std::pair<int, std::string>> Mailbox::collect(const Departures& left, const std::string& phase,
                                                          std::span<const int> from,
                                                          std::chrono::steady_clock::time_point until) {
    auto lock = std::unique_lock(mutex_);
    auto heard = std::vector<std::pair<int, std::string>>{};
    const auto has_left = [&](int each) { return left.why(each).has_value(); };
    ++waiting_;
    arrived_.wait_until(lock, until, [&] {
        for (const auto each : from) {
            const auto next = posts_.find(each);
            if (next == posts_.end()) continue;
            heard.emplace_back(each, std::move(next->second.front()));
            next->second.pop_front();
            if (next->second.empty()) posts_.erase(next);
        }
        return !heard.empty() || std::ranges::any_of(from, has_left);
    });
    --waiting_;
    if (!heard.empty()) return heard;
    for (const auto each : from)
        if (auto why = left.why(each)) {
            append(why->why, cat("; ", phase, " cannot be completed"));
            std::rethrow_exception(why->error());
        }
    return {};
}

void Mailbox::look() noexcept {
    if (waiting_ == 0) return;  // who begins to wait later reads the departures then
    const auto lock = std::lock_guard(mutex_);
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
        job_->world->wait(job_->world->post(rank_, {&call, 1}, label_), label_, options.timeout, "join");
        cause->clear();
    } catch (const PeerLost&) {
        cause->set(job_->world->failure());
        throw;
    } catch (const Timeout& timeout) {
        cause->set(job_->world->failure());
        for (const auto missing : timeout.missing)
            if (const auto missed = job_->recorder(missing)) missed->asked();
        throw expired_in("join", options.timeout, rank_, timeout.arrived, timeout.missing,
                         ranks_to_string(timeout.missing), timeout.seen);
    }
}

void ThreadsWorld::send(int to, const std::string& bytes) {
    job_->mailboxes[static_cast<std::size_t>(to)].put(rank_, bytes);
}

std::string ThreadsWorld::receive(int from) {
    return job_->mailboxes[static_cast<std::size_t>(rank_)].take(job_->departures, from, options.timeout);
}

void ThreadsWorld::post(int to, const std::string& bytes) {
    job_->mailboxes[static_cast<std::size_t>(to)].post(rank_, bytes);
}

std::vector<std::pair<int, std::string>> ThreadsWorld::collect(const std::string& phase,
                                                               std::span<const int> from,
                                                               std::chrono::steady_clock::time_point until) {
    return job_->mailboxes[static_cast<std::size_t>(rank_)].collect(job_->departures, phase, from, until);
}

std::string ThreadsWorld::doing(int rank) {
    if (const auto recorder = job_->recorder(rank)) recorder->asked();
    return job_->doing(rank);
}

std::shared_ptr<WorldState> ThreadsWorld::sub(const std::vector<int>& ranks) {
    const auto group_rank = std::ranges::find(ranks, rank_) - ranks.begin();
    const auto turn = turns_[ranks]++;
    return std::make_shared<ThreadsWorld>(job_->sub(rank_, ranks, turn), store_, static_cast<int>(group_rank),
                                          options, pending_,
                                          cat(part_, "sub-", ranks_to_string(ranks), ".", turn, "."));
}

StoreRendezvous& ThreadsWorld::rendezvous() {
    if (!rendezvous_ && part_.empty())
        rendezvous_ = std::make_unique<StoreRendezvous>(store_, rank_, job_->size, options.timeout);
    else if (!rendezvous_)
        rendezvous_ = StoreRendezvous::of_part(store_, part_, rank_, job_->size, options.timeout);
    return *rendezvous_;
}

std::shared_ptr<ThreadsWorld> ThreadsWorld::over(std::unique_ptr<Rendezvous> rendezvous,
                                                 const std::shared_ptr<JobStore>& store,
                                                 const WorldOptions& options,
                                                 std::shared_ptr<PendingBuffers> pending) {
    auto own = std::unique_ptr<StoreRendezvous>(static_cast<StoreRendezvous*>(rendezvous.release()));
    // Its scope is in front of what is said in worlds of some of its ranks, too.
    auto world = std::make_shared<ThreadsWorld>(store->job(own->scope(), own->size()), store, own->rank(),
                                                options, std::move(pending), own->scope());
    world->rendezvous_ = std::move(own);
    return world;
}

std::shared_ptr<WorldState> ThreadsWorld::survivors(Duration grace) {
    auto rest = rendezvous().survivors(grace, [this] { return job_->ended(); }, {});
    auto world = over(std::move(rest.rendezvous), store_, options, pending_);
    world->record_in(recorder(), roots_of(rest.ranks));
    return world;
}

std::shared_ptr<WorldState> ThreadsWorld::grow(int most, Duration timeout) {
    auto grown = rendezvous().grow({.most = most, .timeout = timeout, .common = *options.checked ? "1" : "0"},
                                   [this] { return job_->ended(); });
    auto world = over(std::move(grown.rendezvous), store_, options, pending_);
    world->is_grown = true;
    return world;
}

std::shared_ptr<WorldState> ThreadsWorld::rejoin(const std::shared_ptr<JobStore>& store,
                                                 std::optional<int> place, WorldOptions options) {
    auto grown = StoreRendezvous::rejoin(store, place, "", options.timeout);
    options.checked = grown.world.common == "1";  // as all others have it
    auto world = over(std::move(grown.rendezvous), store, options, std::make_shared<PendingBuffers>());
    world->is_grown = true;
    return world;
}

std::shared_ptr<Channel> ThreadsWorld::create(const ChannelRequest& request) {
    return std::make_shared<ThreadChannel>(job_, pending_, cause,
                                           job_->group(rank_, request.key, request.label->ranks.list()),
                                           request.group_rank);
}

}  // namespace detail

namespace {

/// A public World of one rank of a job.
class RankWorld : public World {
public:
    explicit RankWorld(std::shared_ptr<detail::WorldState> state) : World(std::move(state)) {}
};

}  // namespace

namespace detail {

Engine threads_engine() {
    return {.name = "threads",
            .built = []() -> std::vector<BuiltEngine> {
                return {{"threads", ""}};
            },
            .create = [](int, char**, const WorldOptions& options) -> World {
                check_announced("threads", 1);
                return RankWorld(std::make_shared<ThreadsWorld>(std::make_shared<Job>(1),
                                                                std::make_shared<JobStore>(), 0, options));
            }};
}

}  // namespace detail

namespace threads {

void run(int size, const std::function<void(World&)>& program, const WorldOptions& options) {
    if (size < 1)
        throw UsageError(detail::cat(detail::in_python("run", "threads::run"), " was asked for ", size,
                                     " ranks; a world has 1 or more"));
    const auto settled = detail::settled(options);  // throws here, not on the ranks' threads
    const auto job = std::make_shared<detail::Job>(size);
    const auto store = std::make_shared<detail::JobStore>();
    auto errors = std::map<int, std::exception_ptr>{};
    auto first = std::exception_ptr{};
    auto mutex = std::mutex{};
    const auto failed = [&](int rank, const World& world, std::string_view what) {
        const auto lock = std::lock_guard(mutex);
        errors[rank] = std::current_exception();
        if (!first) first = errors[rank];
        job->left(rank);
        const auto why = detail::cat("rank ", rank, " failed", what.empty() ? "" : ": ", what);
        if (const auto& state = detail::Access::state(world)) state->leave(why);
        // The program may have put a smaller or a larger world in its place.
        job->fail(rank, {.kind = detail::Failure::Kind::left, .why = why, .lost = {rank}});
    };
    auto started = std::latch(1);
    auto all_started = true;  // written before the latch opens
    auto ranks = std::vector<std::thread>{};
    const auto rank_main = [&](int rank) {
        started.wait();
        if (!all_started) return;
        auto world = RankWorld(std::make_shared<detail::ThreadsWorld>(job, store, rank, settled));
        try {
            program(world);
            job->returned(rank);
        } catch (const std::exception& error) {
            failed(rank, world, error.what());
        } catch (...) {
            failed(rank, world, {});
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

    // The error of the rank that failed first: others may only have thrown PeerLost because of it.
    if (const auto cause = errors.find(job->first_left()); cause != errors.end())
        std::rethrow_exception(cause->second);
    if (first) std::rethrow_exception(first);
}

JobHandle::JobHandle(const World& world) {
    const auto* state = dynamic_cast<const detail::ThreadsWorld*>(detail::Access::checked_state(world).get());
    if (!state)
        throw UsageError(detail::cat("a JobHandle of a world on '", world.engine(),
                                     "' was asked for; threads enter worlds of threads, and processes those "
                                     "of others by World::rejoin"));
    store_ = state->store();
}

World JobHandle::rejoin(std::optional<int> place, const WorldOptions& options) const {
    if (place && *place < 0)
        throw UsageError(detail::cat("rank ", *place, " of a running job is asked for; ranks are 0 or more"));
    return RankWorld(detail::ThreadsWorld::rejoin(store_, place, detail::settled(options)));
}

}  // namespace threads
}  // namespace rankmesh
