// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mutex>
#include <vector>

#include <rankmesh/engine/device_settings.hpp>

#include "engine/channel.hpp"
#include "engine/nccl/library.hpp"
#include "engine/nccl/reaper.hpp"

namespace rankmesh::detail {

/// The time after which the host's engine, which knows the rank, notices a peer's end later than NCCL does.
constexpr auto host_lag = std::chrono::milliseconds(250);

/// One NCCL communicator, a non-blocking one, so that every wait inside NCCL can end at a timeout.
///
/// Every call of NCCL on it is made under one lock: even ncclCommGetAsyncError frees the finished job, and
/// two threads inside calls on one communicator end the process.
class NcclComm {
public:
    /// What a wait is for, as the error of an expired timeout says it, and its timeout.
    struct Phase {
        std::string what;
        Duration timeout;
        std::function<void()> look = {};  // called again and again; throws if a peer is gone
    };

    /// Of `size` ranks that have the same ids; all of them call it. `share` lets those that are split from it
    /// use its resources.
    static std::unique_ptr<NcclComm> init(std::vector<ncclUniqueId> ids, int size, int rank, bool share,
                                          DeviceSettings settings, const Phase& phase,
                                          std::shared_ptr<NcclReaper> reaper);
    /// Wraps a communicator that the program made and still owns.
    static std::unique_ptr<NcclComm> adopt(ncclComm_t comm) {
        auto made = std::unique_ptr<NcclComm>(new NcclComm(Libraries::get().nccl, {}, nullptr));
        made->comm_ = comm;
        made->own_ = false;
        return made;
    }
    /// Splits it; called by all its ranks. Null where `colour` is NCCL_SPLIT_NOCOLOR.
    std::unique_ptr<NcclComm> split(int colour, int key, DeviceSettings settings, const Phase& phase,
                                    std::shared_ptr<NcclReaper> reaper);

    /// True if `shrink` may be called: it is the engine's own, whole, has no error, which NCCL_SHRINK_ABORT
    /// does not clear, and this NCCL can do it.
    bool can_shrink() const {
        const auto held = lock();
        if (!nccl_.shrink || !comm_ || !own_ || !complete_ || stopped_) return false;
        auto state = ncclInProgress;
        return nccl_.async_error(comm_, &state) == ncclSuccess && state == ncclSuccess;
    }
    /// A communicator of its ranks except those of `without`, in their order; called by all that remain. Work
    /// in flight on this one is aborted, and the new one shares no resources with it.
    std::unique_ptr<NcclComm> shrink(std::vector<int> without, DeviceSettings settings, const Phase& phase);

    /// True if `suspend` and `resume` may be called.
    bool can_suspend() const { return own_ && nccl_.suspend && nccl_.resume; }
    /// Releases the memory of the device that NCCL can release; called by all its ranks.
    void suspend(const Phase& phase) {
        constexpr auto memory = 1;  // NCCL_SUSPEND_MEM
        settle(call([&](ncclComm_t comm) { return nccl_.suspend(comm, memory); }), phase);
        suspended_ = true;
    }
    /// Brings it back; called by all its ranks.
    void resume(const Phase& phase) {
        settle(call([&](ncclComm_t comm) { return nccl_.resume(comm); }), phase);
        suspended_ = false;
    }
    /// The bytes of the device's memory that it has now, nothing where this NCCL does not say.
    std::optional<std::size_t> memory() const;

    /// Has the reaper abort it, unless `end` has destroyed it.
    ~NcclComm();
    NcclComm& operator=(NcclComm&&) = delete;

    ncclComm_t handle() const { return comm_; }
    /// Held around each call of NCCL on it.
    std::unique_lock<std::mutex> lock() const { return std::unique_lock(mutex_); }
    /// Calls NCCL on it; ncclInvalidUsage if it was stopped.
    template <class Body>
    ncclResult_t call(Body&& body) {
        const auto held = lock();
        return stopped_ ? ncclInvalidUsage : body(comm_);
    }
    /// Returns once the last call of NCCL is complete; throws its error, or Timeout, and then it is stopped.
    void settle(ncclResult_t result, const Phase& phase) { settle(result, phase, nullptr); }
    /// The asynchronous error that NCCL has reported, ncclSuccess if none; any thread may call it.
    ncclResult_t error() const;
    /// `result` as an error with NCCL's own text: PeerLost if a peer is gone, else EngineFailure.
    std::exception_ptr failure(ncclResult_t result, const std::string& what) const;
    /// Ends all work in flight without waiting for that; nothing else may be called afterwards. Any thread
    /// may call it.
    void stop() noexcept { stop(nullptr); }
    /// Waits until what was in flight when it was stopped uses no stream or buffer any more, but not longer
    /// than `most`: NCCL may wait for work of other communicators.
    void wait_for_abort(Duration most) const {
        auto held = lock();
        const auto aborted = aborted_;
        held.unlock();
        if (aborted.valid()) aborted.wait_for(most);
    }

    /// On the reaper's thread from now on, where calls may block.
    void enter_reaper() { reaper_ = nullptr; }
    /// Finalises it together with the other ranks without waiting for them: called again until it returns
    /// true.
    bool end() noexcept;

private:
    NcclComm(const Nccl& nccl, DeviceSettings settings, std::shared_ptr<NcclReaper> reaper)
        : nccl_(nccl),
          settings_(std::make_shared<const DeviceSettings>(std::move(settings))),
          reaper_(std::move(reaper)) {}
    ncclConfig_t config() const;
    std::unique_ptr<NcclComm> wait_for_child(ncclResult_t result, std::unique_ptr<NcclComm> child,
                                             const Phase& phase, bool has_one);
    void settle(ncclResult_t result, const Phase& phase, std::unique_ptr<NcclComm>* child);
    void stop(std::unique_ptr<NcclComm> child) noexcept;

    const Nccl& nccl_;
    const std::shared_ptr<const DeviceSettings> settings_;  // NCCL does not copy the name
    std::shared_ptr<NcclReaper> reaper_;
    ncclComm_t comm_ = nullptr;
    bool own_ = true;
    bool suspended_ = false;
    bool complete_ = false;  // all its ranks have created it
    bool finalized_ = false;
    /// Of a communicator and all that are split from it and share its resources: one was stopped, and an
    /// abort of one stops them all, so none can be finalised. Null: it shares nothing.
    std::shared_ptr<std::atomic<bool>> one_is_stopped_;

    mutable std::mutex mutex_;
    bool stopped_ = false;
    std::shared_future<void> aborted_;
};

}  // namespace rankmesh::detail
