// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <rankmesh/engine/device_settings.hpp>

#include "engine/channel.hpp"
#include "engine/nccl/library.hpp"

namespace rankmesh::detail {

/// One NCCL communicator. It is a non-blocking one: whatever takes long inside NCCL ends at a timeout.
class NcclComm {
public:
    /// What is waited for, in the words of an expired timeout, and for how long.
    struct Phase {
        std::string what;
        Duration timeout;
    };

    /// Of `size` ranks that have the same ids; all of them call it. `share` lets those that are split from it
    /// use its resources.
    static std::unique_ptr<NcclComm> init(std::vector<ncclUniqueId> ids, int size, int rank, bool share,
                                          DeviceSettings settings, const Phase& phase);
    /// One of the program's own, which stays so.
    static std::unique_ptr<NcclComm> adopt(ncclComm_t comm);
    /// Called by all ranks of this one; null where `colour` is NCCL_SPLIT_NOCOLOR.
    std::unique_ptr<NcclComm> split(int colour, int key, DeviceSettings settings, const Phase& phase);

    /// True if `shrink` may be called: it is the engine's own, whole, and this NCCL can do it.
    bool can_shrink() const;
    /// One of its ranks but those of `without`, in their order; called by all of those. Whatever this one
    /// does is ended; the new one shares nothing with it.
    std::unique_ptr<NcclComm> shrink(std::vector<int> without, DeviceSettings settings, const Phase& phase);

    /// Aborts it, unless `end` has said that it has ended.
    ~NcclComm();
    NcclComm(const NcclComm&) = delete;
    NcclComm& operator=(const NcclComm&) = delete;

    ncclComm_t handle() const { return comm_; }
    /// Returns once what a call of NCCL has begun is complete; throws what it ended with, or Timeout.
    void settle(ncclResult_t result, const Phase& phase);
    /// The error that NCCL has reported since, ncclSuccess if none; any thread may ask.
    ncclResult_t error() const;
    /// `result` as an error with NCCL's own words: PeerLost where a peer has gone, else EngineFailure.
    std::exception_ptr failure(ncclResult_t result, const std::string& what) const;
    /// Ends what is in flight, also what never would; nothing more may be called. Any thread may.
    void stop() noexcept;
    /// Ends it together with the other ranks, without waiting for them: called again until it gives true.
    bool end() noexcept;

private:
    NcclComm(const Nccl& nccl, DeviceSettings settings) : nccl_(nccl), settings_(std::move(settings)) {}
    ncclConfig_t config() const;
    void arrive(const Phase& phase);

    const Nccl& nccl_;
    const DeviceSettings settings_;  // NCCL does not copy the name
    ncclComm_t comm_ = nullptr;
    bool own_ = true;
    bool complete_ = false;  // it was made, by all its ranks
    bool finalized_ = false;

    mutable std::mutex mutex_;  // held where other threads than the caller's use it
    bool stopped_ = false;
};

}  // namespace rankmesh::detail
