// SPDX-License-Identifier: Apache-2.0
#include "engine/nccl/comm.hpp"

#include <rankmesh/core/error.hpp>

#include "engine/join/blueprint.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// Polls until `ready`; false if `until` passes first. The first polls only yield: a small call takes NCCL
/// less than the 55 us that the shortest sleep takes Linux.
template <class Ready>
bool wait_until(Clock::time_point until, Ready&& ready) {
    constexpr auto busy = std::chrono::microseconds(100);
    const auto begin = Clock::now();
    auto pause = std::chrono::microseconds(50);
    while (!ready()) {
        const auto now = Clock::now();
        if (now >= until) return false;
        if (now - begin < busy) {
            std::this_thread::yield();
            continue;
        }
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::microseconds(1000));
    }
    return true;
}

}  // namespace

ncclConfig_t NcclComm::config() const {
    auto config = ncclConfig_t(NCCL_CONFIG_INITIALIZER);
    config.blocking = 0;
    config.commName = settings_->name.c_str();
    const auto number = [](const std::optional<int>& said) { return said.value_or(NCCL_CONFIG_UNDEF_INT); };
    config.minCTAs = number(settings_->min_ctas);
    config.maxCTAs = number(settings_->max_ctas);
    if (settings_->min_ctas && !settings_->max_ctas)
        config.maxCTAs = most_ctas;  // NCCL refuses the first alone
    config.trafficClass = number(settings_->traffic_class);
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 32, 0)
    config.launchOrderImplicit = 1;  // the device keeps the order in which the host calls communicators
#endif
    return config;
}

std::unique_ptr<NcclComm> NcclComm::init(std::vector<ncclUniqueId> ids, int size, int rank, bool share,
                                         DeviceSettings settings, const Phase& phase,
                                         std::shared_ptr<NcclReaper> reaper) {
    const auto& nccl = Libraries::get().nccl;
    auto made = std::unique_ptr<NcclComm>(new NcclComm(nccl, std::move(settings), std::move(reaper)));
    auto config = made->config();
    config.splitShare = share ? 1 : 0;
    if (share) made->one_is_stopped_ = std::make_shared<std::atomic<bool>>(false);
    made->settle(ids.size() == 1 ? nccl.init(&made->comm_, size, ids.front(), rank, &config)
                                 : nccl.init_scalable(&made->comm_, size, rank, static_cast<int>(ids.size()),
                                                      ids.data(), &config),
                 phase);
    made->complete_ = true;
    return made;
}

std::unique_ptr<NcclComm> NcclComm::split(int colour, int key, DeviceSettings settings, const Phase& phase,
                                          std::shared_ptr<NcclReaper> reaper) {
    auto child = std::unique_ptr<NcclComm>(new NcclComm(nccl_, std::move(settings), std::move(reaper)));
    child->one_is_stopped_ = one_is_stopped_;
    auto config = child->config();
    const auto result =
        call([&](ncclComm_t comm) { return nccl_.split(comm, colour, key, &child->comm_, &config); });
    child = wait_for_child(result, std::move(child), phase, colour != NCCL_SPLIT_NOCOLOR);
    return child->comm_ ? std::move(child) : nullptr;
}

std::unique_ptr<NcclComm> NcclComm::shrink(std::vector<int> without, DeviceSettings settings,
                                           const Phase& phase) {
    auto child = std::unique_ptr<NcclComm>(new NcclComm(nccl_, std::move(settings), reaper_));
    auto config = child->config();
    const auto result = call([&](ncclComm_t comm) {
        return nccl_.shrink(comm, without.data(), static_cast<int>(without.size()), &child->comm_, &config,
                            NCCL_SHRINK_ABORT);
    });
    return wait_for_child(result, std::move(child), phase, true);
}

/// Waits for a child. NCCL answers ncclSuccess at once, its parent is in progress, and the child is written
/// when the parent's job ends, after a failure too.
std::unique_ptr<NcclComm> NcclComm::wait_for_child(ncclResult_t result, std::unique_ptr<NcclComm> child,
                                                   const Phase& phase, bool has_one) {
    settle(result == ncclSuccess ? ncclInProgress : result, phase, &child);
    if (!child->comm_) {
        if (has_one) throw EngineFailure(cat("NCCL made no communicator in ", phase.what));
        return child;
    }
    child->settle(ncclInProgress, phase);
    child->complete_ = true;
    return child;
}

std::optional<std::size_t> NcclComm::memory() const {
    constexpr auto persistent =
        static_cast<NcclMemoryStat>(2);                     // ncclStatGpuMemPersist, what cannot be suspended
    constexpr auto total = static_cast<NcclMemoryStat>(3);  // ncclStatGpuMemTotal
    const auto held = lock();
    auto bytes = std::uint64_t{0};
    if (!comm_ || stopped_ || !nccl_.memory_stats ||
        nccl_.memory_stats(comm_, suspended_ ? persistent : total, &bytes) != ncclSuccess)
        return std::nullopt;
    return static_cast<std::size_t>(bytes);
}

NcclComm::~NcclComm() {
    if (!comm_ || !own_) return;
    if (one_is_stopped_) *one_is_stopped_ = true;
    if (reaper_)
        reaper_->abort({.comm = comm_, .settings = settings_});
    else
        nccl_.abort(comm_);
}

bool NcclComm::end() noexcept {
    {
        const auto held = lock();
        if (!comm_ || !own_ || stopped_ || (one_is_stopped_ && *one_is_stopped_)) return true;
        auto state = ncclSuccess;
        if (nccl_.async_error(comm_, &state) != ncclSuccess) return true;
        if (state == ncclInProgress) return false;
        if (state != ncclSuccess) return true;  // and is aborted
        if (!finalized_) {
            finalized_ = true;
            state = nccl_.finalize(comm_);
            return state != ncclSuccess && state != ncclInProgress;
        }
    }
    // The ranks' common work is complete, so that this does not wait for others.
    if (nccl_.destroy(comm_) == ncclSuccess) comm_ = nullptr;
    return true;
}

void NcclComm::settle(ncclResult_t result, const Phase& phase, std::unique_ptr<NcclComm>* child) {
    auto known = false;
    const auto give_up = [&] { stop(child ? std::move(*child) : nullptr); };
    try {
        known = wait_until(from_now(phase.timeout), [&] {
            if (result != ncclInProgress) return true;
            const auto asked = call([&](ncclComm_t comm) { return nccl_.async_error(comm, &result); });
            if (asked != ncclSuccess) result = asked;
            if (result != ncclInProgress) return true;
            if (phase.look) phase.look();
            return false;
        });
    } catch (...) {
        give_up();
        throw;
    }
    if (known && result == ncclSuccess) return;
    const auto error = known ? failure(result, phase.what) : nullptr;
    give_up();
    if (error) std::rethrow_exception(error);
    throw Timeout(cat("the timeout of ", to_text(phase.timeout), " expired in ", phase.what,
                      "; NCCL does not say who is missing"),
                  {}, {});
}

ncclResult_t NcclComm::error() const {
    const auto held = lock();
    if (stopped_) return ncclSuccess;
    auto result = ncclSuccess;
    nccl_.async_error(comm_, &result);
    return result == ncclInProgress ? ncclSuccess : result;
}

std::exception_ptr NcclComm::failure(ncclResult_t result, const std::string& what) const {
    const auto held = lock();
    const auto* more = nccl_.last_error(stopped_ ? nullptr : comm_);
    const auto text = cat("NCCL reports '", nccl_.error_string(result), "' in ", what,
                          more && *more ? ": " : "", more ? more : "");
    if (result == ncclRemoteError) return std::make_exception_ptr(PeerLost(text, {}));
    return std::make_exception_ptr(EngineFailure(text));
}

/// `child`, if any, is one that a job of this one will write to.
void NcclComm::stop(std::unique_ptr<NcclComm> child) noexcept {
    const auto held = lock();
    if (one_is_stopped_) *one_is_stopped_ = true;
    if (!own_) {  // its owner may still use it, and its job may still write the child
        if (!stopped_ && child && !child->comm_) static_cast<void>(child.release());
        stopped_ = true;
        return;
    }
    auto dead = NcclReaper::Dead{.settings = settings_, .child = std::move(child)};
    if (!stopped_ && comm_) {
        stopped_ = true;
        // Revoking frees a job, and NCCL would use it once more: none may be there, not even one that has
        // ended and was not asked about, or that has failed.
        auto state = ncclInProgress;
        nccl_.async_error(comm_, &state);
        if (complete_ && nccl_.revoke && state == ncclSuccess &&
            nccl_.revoke(comm_, NCCL_REVOKE_DEFAULT) != ncclInvalidArgument) {
        } else {
            dead.comm = std::exchange(comm_, nullptr);
        }
    }
    if (!dead.comm && !dead.child) return;
    if (reaper_)
        aborted_ = reaper_->abort(std::move(dead));
    else if (dead.comm)
        nccl_.abort(dead.comm);
}

}  // namespace rankmesh::detail
