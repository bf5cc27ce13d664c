// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/comm.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include <rankmesh/core/error.hpp>

#include "engine/join/settings.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// Polls until `ready`, at growing intervals; false if `until` passes first.
template <class Ready>
bool wait_until(Clock::time_point until, Ready&& ready) {
    auto pause = std::chrono::microseconds(1);
    while (!ready()) {
        if (Clock::now() >= until) return false;
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::microseconds(1000));
    }
    return true;
}

[[noreturn]] void throw_timeout(const NcclComm::Phase& phase) {
    throw Timeout(cat("the timeout of ", to_text(phase.timeout), " expired in ", phase.what,
                      "; NCCL does not say who is missing"),
                  {}, {});
}

}  // namespace

ncclConfig_t NcclComm::config() const {
    auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
    config.blocking = 0;
    config.commName = settings_.name.c_str();
    const auto number = [](const std::optional<int>& said) { return said.value_or(NCCL_CONFIG_UNDEF_INT); };
    config.minCTAs = number(settings_.min_ctas);
    config.maxCTAs = number(settings_.max_ctas);
    if (settings_.min_ctas && !settings_.max_ctas)
        config.maxCTAs = most_ctas;  // NCCL refuses the first alone
    config.trafficClass = number(settings_.traffic_class);
    return config;
}

std::unique_ptr<NcclComm> NcclComm::init(std::vector<ncclUniqueId> ids, int size, int rank, bool share,
                                         DeviceSettings settings, const Phase& phase) {
    const auto& nccl = Libraries::get().nccl;
    auto made = std::unique_ptr<NcclComm>(new NcclComm(nccl, std::move(settings)));
    auto config = made->config();
    config.splitShare = share ? 1 : 0;
    made->settle(ids.size() == 1 ? nccl.init(&made->comm_, size, ids.front(), rank, &config)
                                 : nccl.init_scalable(&made->comm_, size, rank, static_cast<int>(ids.size()),
                                                      ids.data(), &config),
                 phase);
    made->complete_ = true;
    return made;
}

std::unique_ptr<NcclComm> NcclComm::adopt(ncclComm_t comm) {
    auto made = std::unique_ptr<NcclComm>(new NcclComm(Libraries::get().nccl, {}));
    made->comm_ = comm;
    made->own_ = false;
    return made;
}

std::unique_ptr<NcclComm> NcclComm::split(int colour, int key, DeviceSettings settings, const Phase& phase) {
    auto made = std::unique_ptr<NcclComm>(new NcclComm(nccl_, std::move(settings)));
    auto config = made->config();
    settle(nccl_.split(comm_, colour, key, &made->comm_, &config), phase);
    if (colour == NCCL_SPLIT_NOCOLOR) return nullptr;
    made->arrive(phase);
    return made;
}

bool NcclComm::can_shrink() const {
    const auto lock = std::lock_guard(mutex_);
    return nccl_.shrink && comm_ && own_ && complete_ && !stopped_;
}

std::unique_ptr<NcclComm> NcclComm::shrink(std::vector<int> without, DeviceSettings settings,
                                           const Phase& phase) {
    auto made = std::unique_ptr<NcclComm>(new NcclComm(nccl_, std::move(settings)));
    auto config = made->config();
    settle(nccl_.shrink(comm_, without.data(), static_cast<int>(without.size()), &made->comm_, &config,
                        NCCL_SHRINK_ABORT),
           phase);
    made->arrive(phase);
    return made;
}

/// Waits for a communicator that is split from another. NCCL may fill it in from a thread of its own, even
/// after the parent is done.
void NcclComm::arrive(const Phase& phase) {
    const auto child = std::atomic_ref(comm_);
    const auto is_there = [&] {
        if (phase.look) phase.look();
        return child.load() != nullptr;
    };
    if (!wait_until(from_now(phase.timeout), is_there)) throw_timeout(phase);
    settle(ncclInProgress, phase);
    complete_ = true;
}

bool NcclComm::suspend(const Phase& phase) {
    constexpr auto memory = 1;  // NCCL_SUSPEND_MEM
    if (!own_ || !nccl_.suspend || !nccl_.resume) return false;
    try {
        settle(nccl_.suspend(comm_, memory), phase);
    } catch (const EngineFailure&) {  // another one can be made
        return false;
    }
    suspended_ = true;
    return true;
}

void NcclComm::resume(const Phase& phase) {
    settle(nccl_.resume(comm_), phase);
    suspended_ = false;
}

std::optional<std::size_t> NcclComm::memory() const {
    constexpr auto persistent =
        static_cast<NcclMemoryStat>(2);                     // ncclStatGpuMemPersist, what cannot be suspended
    constexpr auto total = static_cast<NcclMemoryStat>(3);  // ncclStatGpuMemTotal
    const auto lock = std::lock_guard(mutex_);
    auto bytes = std::uint64_t{0};
    if (!comm_ || stopped_ || !nccl_.memory_stats ||
        nccl_.memory_stats(comm_, suspended_ ? persistent : total, &bytes) != ncclSuccess)
        return std::nullopt;
    return static_cast<std::size_t>(bytes);
}

NcclComm::~NcclComm() {
    if (comm_ && own_) nccl_.abort(comm_);
}

bool NcclComm::end() noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (!comm_ || !own_ || stopped_) return true;
    auto state = ncclSuccess;
    if (nccl_.async_error(comm_, &state) != ncclSuccess) return true;
    if (state == ncclInProgress) return false;
    if (state != ncclSuccess) return true;  // and is aborted
    if (!finalized_) {
        finalized_ = true;
        state = nccl_.finalize(comm_);
        return state != ncclSuccess && state != ncclInProgress;
    }
    // The ranks' common work is complete, so that this does not wait for others.
    nccl_.destroy(comm_);
    comm_ = nullptr;
    return true;
}

void NcclComm::settle(ncclResult_t result, const Phase& phase) {
    auto known = false;
    try {
        known = wait_until(from_now(phase.timeout), [&] {
            if (result != ncclInProgress || nccl_.async_error(comm_, &result) != ncclSuccess ||
                result != ncclInProgress)
                return true;
            if (phase.look) phase.look();
            return false;
        });
    } catch (...) {
        stop();
        throw;
    }
    if (known && result == ncclSuccess) return;
    const auto error = known ? failure(result, phase.what) : nullptr;
    stop();
    if (error) std::rethrow_exception(error);
    throw_timeout(phase);
}

ncclResult_t NcclComm::error() const {
    const auto lock = std::lock_guard(mutex_);
    if (stopped_) return ncclSuccess;
    auto result = ncclSuccess;
    nccl_.async_error(comm_, &result);
    return result == ncclInProgress ? ncclSuccess : result;
}

std::exception_ptr NcclComm::failure(ncclResult_t result, const std::string& what) const {
    const auto* more = nccl_.last_error(comm_);
    const auto text = cat("NCCL reports '", nccl_.error_string(result), "' in ", what,
                          more && *more ? ": " : "", more ? more : "");
    if (result == ncclRemoteError) return std::make_exception_ptr(PeerLost(text, {}));
    return std::make_exception_ptr(EngineFailure(text));
}

void NcclComm::stop() noexcept {
    const auto lock = std::lock_guard(mutex_);
    if (stopped_ || !comm_) return;
    stopped_ = true;
    if (!own_) return;  // its owner may still use it
    // A thread that is inside NCCL now still has a valid communicator after this, but not after an abort.
    if (complete_ && nccl_.revoke && nccl_.revoke(comm_, NCCL_REVOKE_DEFAULT) != ncclInvalidArgument) return;
    nccl_.abort(comm_);
    comm_ = nullptr;
}

}  // namespace rankmesh::detail
