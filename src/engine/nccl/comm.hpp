// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include <rankmesh/engine/device_settings.hpp>

#include "engine/channel.hpp"
#include "engine/nccl/library.hpp"

namespace rankmesh::detail {

/// The time after which the host's engine, which knows the rank, notices a peer's end later than NCCL does.
constexpr auto host_lag = std::chrono::milliseconds(250);

/// One NCCL communicator, a non-blocking one, so that every wait inside NCCL can end at a timeout.
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
                                          DeviceSettings settings, const Phase& phase);
    /// Wraps a communicator that the program made and still owns.
    static std::unique_ptr<NcclComm> adopt(ncclComm_t comm);
    /// Splits it; called by all its ranks. Null where `colour` is NCCL_SPLIT_NOCOLOR.
    std::unique_ptr<NcclComm> split(int colour, int key, DeviceSettings settings, const Phase& phase);

    /// True if `shrink` may be called: it is the engine's own, whole, and this NCCL can do it.
    bool can_shrink() const;
    /// A communicator of its ranks except those of `without`, in their order; called by all that remain. Work
    /// in flight on this one is aborted, and the new one shares no resources with it.
    std::unique_ptr<NcclComm> shrink(std::vector<int> without, DeviceSettings settings, const Phase& phase);

    /// Releases the memory of the device that NCCL can release; false where this NCCL cannot, or it fails.
    bool suspend(const Phase& phase);
    /// Brings it back.
    void resume(const Phase& phase);
    /// The bytes of the device's memory that it has now, nothing where this NCCL does not say.
    std::optional<std::size_t> memory() const;

    /// Aborts it, unless `end` has returned true.
    ~NcclComm();
    NcclComm(const NcclComm&) = delete;
    NcclComm& operator=(const NcclComm&) = delete;

    ncclComm_t handle() const { return comm_; }
    /// Returns once the last call of NCCL is complete; throws its error, or Timeout.
    void settle(ncclResult_t result, const Phase& phase);
    /// The asynchronous error that NCCL has reported, ncclSuccess if none; any thread may call it.
    ncclResult_t error() const;
    /// `result` as an error with NCCL's own text: PeerLost if a peer is gone, else EngineFailure.
    std::exception_ptr failure(ncclResult_t result, const std::string& what) const;
    /// Aborts all work in flight; nothing else may be called afterwards. Any thread may call it.
    void stop() noexcept;
    /// Finalises it together with the other ranks without waiting for them: called again until it returns
    /// true.
    bool end() noexcept;

private:
    NcclComm(const Nccl& nccl, DeviceSettings settings) : nccl_(nccl), settings_(std::move(settings)) {}
    ncclConfig_t config() const;
    void arrive(const Phase& phase);

    const Nccl& nccl_;
    const DeviceSettings settings_;  // NCCL does not copy the name
    ncclComm_t comm_ = nullptr;
    bool own_ = true;
    bool suspended_ = false;
    bool complete_ = false;  // all its ranks have created it
    bool finalized_ = false;

    mutable std::mutex mutex_;  // held where other threads than the caller's use it
    bool stopped_ = false;
};

}  // namespace rankmesh::detail
