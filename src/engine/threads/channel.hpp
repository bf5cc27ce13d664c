// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/channel.hpp"
#include "engine/diagnosis/cause.hpp"
#include "engine/pending_buffers.hpp"
#include "engine/threads/job.hpp"

namespace rankmesh::detail {

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

    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override {
        wait_for(ticket, label, timeout, {});
    }
    bool wait_for(std::uint64_t ticket, const Label& label, Duration timeout,
                  const Purpose& purpose) override;
    bool done(std::uint64_t ticket) override { return group_->done(ticket); }
    std::optional<Message> probe(const Call& call, const Label& label,
                                 std::optional<Duration> timeout) override;
    bool set_bell(Bell* bell) override {
        group_->set_bell(group_rank_, bell);
        return true;
    }
    bool is_pending() override { return !uses_.empty(); }
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override;
    void throw_if_broken(const Label& label) override { group_->throw_if_failed(label); }
    std::vector<PeerStatus> ask(const std::string& key, std::uint64_t number) override;

private:
    int rank() const { return group_->ranks()[static_cast<std::size_t>(group_rank_)]; }
    /// Throws the error in flight again; all but a Disagreement is that of every later call as well.
    [[noreturn]] void throw_as_told();
    template <class Body>
    auto asking(Body&& body);

    std::shared_ptr<Job> job_;
    std::shared_ptr<PendingBuffers> pending_;
    std::shared_ptr<Cause> cause_;
    std::shared_ptr<SharedGroup> group_;
    int group_rank_;
    std::map<std::uint64_t, PendingBuffers::Use> uses_;  // by ticket
};

}  // namespace rankmesh::detail
