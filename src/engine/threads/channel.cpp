// SPDX-License-Identifier: Apache-2.0
#include "engine/threads/channel.hpp"

#include <utility>

#include <rankmesh/core/error.hpp>
#include <rankmesh/core/text.hpp>

namespace rankmesh::detail {

void ThreadChannel::run(const Call& call, const Label& label, Duration timeout) {
    wait(start({&call, 1}, label), label, timeout);
}

std::uint64_t ThreadChannel::start(std::span<const Call> calls, const Label& label) {
    auto use = PendingBuffers::Use(pending_, calls, group_rank_, label);
    try {
        const auto ticket = group_->post(group_rank_, calls, label);
        uses_.emplace(ticket, std::move(use));
        return ticket;
    } catch (...) {
        throw_as_told();
    }
}

/// Calls `body`; if its timeout expires, the missing ranks have been asked what they do.
template <class Body>
auto ThreadChannel::asking(Body&& body) {
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

bool ThreadChannel::wait_for(std::uint64_t ticket, const Label& label, Duration timeout,
                             const Purpose& purpose) {
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

std::optional<Message> ThreadChannel::probe(const Call& call, const Label& label,
                                            std::optional<Duration> timeout) {
    return asking([&] { return group_->probe(group_rank_, call, label, timeout); });
}

void ThreadChannel::leave(std::uint64_t ticket, const Label& label) noexcept {
    job_->left(rank());
    group_->withdraw(ticket, label, *cause_);
    uses_.erase(ticket);
}

void ThreadChannel::leave() noexcept {
    job_->left(rank());
    group_->fail(cause_->of_leaving(rank(), cat("rank ", rank(), " left by an exception")));
}

std::vector<Channel::PeerStatus> ThreadChannel::ask(const std::string& key, std::uint64_t number) {
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

void ThreadChannel::throw_as_told() {
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

}  // namespace rankmesh::detail
