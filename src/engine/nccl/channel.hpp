// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <deque>
#include <memory>

#include "engine/channel.hpp"
#include "engine/diagnosis/cause.hpp"
#include "engine/nccl/comm.hpp"
#include "engine/nccl/device.hpp"
#include "engine/nccl/operations.hpp"

namespace rankmesh::detail {

/// The channel of one group on NCCL, or of a single rank on its device.
///
/// A blocking call is enqueued on the call's stream; a started one on the channel's stream, ordered after the
/// work that is on the call's stream by then. A call on another stream than the previous call is ordered
/// after that one. An event after each call marks its completion; the device's thread checks timeouts, errors
/// and peers that are gone.
class NcclChannel final : public Channel {
public:
    struct Parts {
        std::shared_ptr<NcclDevice> device;
        std::unique_ptr<NcclComm> comm = nullptr;      // null in a group of one, like the members below
        std::shared_ptr<Channel> host = nullptr;       // which connects the same ranks
        std::shared_ptr<const Label> label = nullptr;  // that of the first handle
        int group_rank = 0;
        int size = 1;
        Duration timeout = {};                   // the timeout for connections that a call makes
        bool high_priority = false;              // of the channel's stream for started calls
        std::shared_ptr<Cause> cause = nullptr;  // why calls of the rank fail, until one is made again
    };
    explicit NcclChannel(Parts parts);
    /// Returns once nothing is in flight, or the channel has failed.
    ~NcclChannel() override;

    void run(const Call& call, const Label& label, Duration timeout) override;
    std::uint64_t start(std::span<const Call> calls, const Label& label) override;
    void wait(std::uint64_t ticket, const Label& label, Duration timeout) override;
    void synchronize(std::uint64_t ticket, const Label& label, Duration timeout) override;
    bool done(std::uint64_t ticket) override {
        const auto lock = std::lock_guard(mutex_);
        const auto& work = works_[ticket];
        return work.error || is_over(work);
    }
    void forget(std::uint64_t ticket) noexcept override {
        const auto lock = std::lock_guard(mutex_);
        release(works_[ticket]);
    }
    void leave(std::uint64_t ticket, const Label& label) noexcept override;
    void leave() noexcept override {
        if (!parts_.comm) return;
        const auto rank = parts_.device->rank;
        const auto lock = std::lock_guard(mutex_);
        break_with(std::make_exception_ptr(PeerLost(cat("rank ", rank, " left by an exception"), {rank})));
    }
    void throw_if_broken(const Label& label) override;

    bool is_pending() override {
        const auto lock = std::lock_guard(mutex_);
        return std::ranges::any_of(works_, &Work::held);
    }
    void release() override;
    Holding holding() override {
        return {.device_bytes = parts_.comm ? parts_.comm->memory() : std::nullopt};
    }
    /// Goes on after it was released: with its communicator if NCCL has suspended that, else with the one
    /// that `make` returns.
    void restore(const std::function<std::unique_ptr<NcclComm>(const NcclComm::Phase&)>& make);

    /// Null in a group of one, and while it is released.
    ncclComm_t comm() const { return group_.comm; }
    /// Held by whoever calls NCCL on it; empty where there is none.
    std::unique_lock<std::mutex> lock() const {
        return parts_.comm ? parts_.comm->lock() : std::unique_lock<std::mutex>();
    }

    /// Checks the works in flight; on the device's thread, and on the thread that destroys the channel.
    void watch() noexcept;

private:
    /// The time to wait for streams and buffers that a broken communicator may still use.
    static constexpr auto buffers_in_use = std::chrono::seconds(2);
    using TimePoint = std::chrono::steady_clock::time_point;
    /// Calls that were enqueued together.
    struct Work {
        std::uint64_t ticket = 0;       // its number among the works
        cudaEvent_t over = nullptr;     // recorded after it
        cudaStream_t stream = nullptr;  // of the call
        Call call = {};                 // the first one
        const Label* label = nullptr;
        std::uint64_t number = 0;  // of the first one, among the collectives or the messages of this channel
        Duration timeout = {};
        TimePoint until = TimePoint::max();  // once a call waits for it
        bool held = false;                   // a ticket refers to it
        bool flying = false;
        std::exception_ptr error = nullptr;
    };

    Work& launch(std::span<const Call> calls, const Label& label, cudaStream_t stream);
    void check_stream(const Call& call, const Label& label);
    void check_memory(const Call& call, const Label& label);
    bool all_say(bool it);
    bool try_on(void (NcclComm::*step)(const NcclComm::Phase&), const char* what);
    Work& fresh();
    /// The number of a call that is made next.
    std::uint64_t next_number(const Call& call) const {
        return (is_point_to_point(call.operation) ? messages_ : collectives_) + 1;
    }
    void publish(Work& work, std::span<const Call> calls, const Label& label, bool held);
    bool is_over(const Work& work) const;
    void reap();
    void release(Work& work);
    static void limit(Work& work, Duration timeout);
    void break_with(std::exception_ptr error) noexcept;
    void let_go(const Work& work) const noexcept;
    void settle_all();
    NcclComm::Phase phase(const char* what) const {
        return {cat(what, " ", parts_.label->text(), " on rank ", parts_.device->rank), parts_.timeout,
                [this] { parts_.host->throw_if_broken(*parts_.label); }};
    }
    std::exception_ptr in_other_words(std::exception_ptr error, const Work& work) const;
    std::exception_ptr with_names(std::exception_ptr error) const;
    std::string text(const Work& work) const;
    std::exception_ptr timeout_of(const Work& work) const;

    const Cuda& cuda_;
    Parts parts_;
    NcclGroup group_;
    cudaStream_t own_ = nullptr;    // for started calls
    cudaEvent_t ready_ = nullptr;   // marks where a started call was made on its stream
    cudaStream_t last_ = nullptr;   // the stream of the last call,
    const Work* latest_ = nullptr;  // and its work
    std::uint64_t collectives_ = 0;
    std::uint64_t messages_ = 0;
    std::array<const void*, 64> known_ = {};  // memory of the device, by a hash of its address

    // Shared with the device's thread.
    std::mutex mutex_;
    std::deque<Work> works_;  // which do not move
    std::vector<Work*> free_;
    std::deque<Work*> flying_;  // in the order in which they complete
    std::exception_ptr error_;
    TimePoint alone_since_ = TimePoint::max();  // when NCCL lost a peer that the host's engine still had
};

}  // namespace rankmesh::detail
