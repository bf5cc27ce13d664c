// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/world.hpp"

#include <algorithm>

#include <rankmesh/core/ranks.hpp>
#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/threads/channel.hpp"

namespace rankmesh::detail {

void ThreadsWorld::max(std::array<std::int64_t, 4>& values) {
    const auto call = reducing(Operation::all_reduce, values, values, rankmesh::max);
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
        throw timeout_error_in("join", options.timeout, rank_, timeout.arrived, timeout.missing,
                               ranks_text(timeout.missing), timeout.seen);
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

Rendezvous& ThreadsWorld::rendezvous() {
    if (!rendezvous_ && part_.empty())
        rendezvous_ = std::make_unique<Rendezvous>(store_, rank_, job_->size, options.timeout);
    else if (!rendezvous_)
        rendezvous_ = Rendezvous::of_part(store_, part_, rank_, job_->size, options.timeout);
    return *rendezvous_;
}

std::shared_ptr<ThreadsWorld> ThreadsWorld::over(std::unique_ptr<Rendezvous> rendezvous,
                                                 const std::shared_ptr<JobStore>& store,
                                                 const WorldOptions& options,
                                                 std::shared_ptr<PendingBuffers> pending) {
    // Its scope is in front of what is said in worlds of some of its ranks, too.
    const auto& scope = rendezvous->scope();
    auto world = std::make_shared<ThreadsWorld>(store->job(scope, rendezvous->size()), store,
                                                rendezvous->rank(), options, std::move(pending), scope);
    world->rendezvous_ = std::move(rendezvous);
    return world;
}

std::shared_ptr<WorldState> ThreadsWorld::survivors(Duration grace) {
    auto& own = rendezvous();
    auto lost = job_->ended();
    std::ranges::sort(lost);
    lost.erase(std::unique(lost.begin(), lost.end()), lost.end());
    const auto why = cause->of_survivors(rank_, std::move(lost));
    job_->renew(why);
    own.fail({}, why);  // to those that wait in grow
    auto rest = own.survivors(grace, [this] { return job_->ended(); });
    auto world = over(std::move(rest.rendezvous), store_, options, pending_);
    job_->made(world->job_, rest.ranks);
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
    auto grown = Rendezvous::rejoin(store, place, "", options.timeout);
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

}  // namespace rankmesh::detail
