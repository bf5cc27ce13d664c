// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/world.hpp"

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>
#include <rankmesh/engine/detail/make_call.hpp>

namespace rankmesh::detail {
namespace {

/// The channel of one rank on a shared group.
class ThreadChannel final : public Channel {
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
    /// Calls `body`; if its timeout expires, the missing ranks have been asked what they do.
    template <class Body>
    auto asking(Body&& body) {
        try {
            return body();
        } catch (const Timeout& expired) {
            for (const auto rank : expired.missing)
                if (const auto recorder = job_->recorder(rank)) recorder->asked();
            throw_as_told();
        } catch (...) {
            throw_as_told();
        }
    }

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
        wait_for(ticket, label, timeout, {});
    }
    bool wait_for(std::uint64_t ticket, const Label& label, Duration timeout,
                  const Purpose& purpose) override {
        auto use = uses_.extract(ticket);  // which ends with the wait
        return asking([&] {
            const auto sender = group_->wait(ticket, label, timeout, {}, purpose.is_interrupted);
            if (!sender) {
                uses_.insert(std::move(use));
                return false;
            }
            set_sender(*sender);
            cause_->clear();
            return true;
        });
    }
    bool done(std::uint64_t ticket) override { return group_->done(ticket); }
    std::optional<Message> probe(const Call& call, const Label& label,
                                 std::optional<Duration> timeout) override {
        return asking([&] { return group_->probe(group_rank_, call, label, timeout); });
    }
    bool set_bell(Bell* bell) override {
        group_->set_bell(group_rank_, bell);
        return true;
    }
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
    std::shared_ptr<Job> job_;
    std::shared_ptr<PendingBuffers> pending_;
    std::shared_ptr<Cause> cause_;
    std::shared_ptr<SharedGroup> group_;
    int group_rank_;
    std::map<std::uint64_t, PendingBuffers::Use> uses_;  // by ticket
};

}  // namespace

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

std::shared_ptr<WorldState> ThreadsWorld::sub(const std::vector<int>& ranks) {
    const auto turn = turns_[ranks]++;
    return std::make_shared<ThreadsWorld>(job_->sub(rank_, ranks, turn), store_, position_of(ranks, rank_),
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
