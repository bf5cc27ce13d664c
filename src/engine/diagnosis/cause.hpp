// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "engine/diagnosis/failure.hpp"

namespace rankmesh::detail {

/// The end of what the other ranks are told when one makes a new world.
inline constexpr auto every_rank = ", which every rank must call";

/// Why calls of one rank fail, until one is complete again: a rank that ends passes it on, so that it is not
/// taken for the cause itself.
class Cause {
public:
    /// The first failure that names a rank stays.
    void set(std::optional<Failure> failure) {
        const auto lock = std::lock_guard(mutex_);
        if (failure_ || !failure || (failure->lost.empty() && failure->missing.empty())) return;
        failure_ = std::move(failure);
        is_set_ = true;
    }
    /// Sets the failure of the exception that is being handled, if peers are its reason.
    void set_by_exception() {
        try {
            throw;
        } catch (const PeerLost& lost) {
            set(Failure::of(lost));
        } catch (const Timeout& timeout) {
            set(Failure::of(timeout));
        } catch (const Disagreement& differs) {
            set(Failure::of(differs));
        } catch (...) {  // this rank's own
        }
    }
    void clear() noexcept {
        if (!is_set_.load(std::memory_order_relaxed)) return;
        const auto lock = std::lock_guard(mutex_);
        failure_ = std::nullopt;
        is_set_ = false;
    }
    /// What the peers of `rank` are told when it ends for the reason `why`, or for the cause if there is one.
    Failure of_leaving(int rank, const std::string& why) const {
        const auto lock = std::lock_guard(mutex_);
        if (!failure_) return {.kind = Failure::Kind::left, .why = why, .lost = {rank}};
        auto told = *failure_;
        // However many ranks pass it on, one of them is named.
        constexpr auto so = "; so rank ";
        told.why.resize(std::min(told.why.rfind(so), told.why.size()));
        append(told.why, cat(so, rank, " left by an exception"));
        return told;
    }
    /// What the other ranks are told when `rank` calls survivors(): the cause; else that it has lost `lost`;
    /// else that it has lost nobody, and then it is named itself.
    Failure of_survivors(int rank, std::vector<int> lost) const {
        const auto lock = std::lock_guard(mutex_);
        auto why = std::string{};
        if (failure_) {
            why = cat(failure_->why, "; ");
            lost = failure_->lost.empty() ? failure_->missing : failure_->lost;
        } else if (!lost.empty()) {
            why = cat(ranks_text(lost), lost.size() == 1 ? " is gone; " : " are gone; ");
        }
        append(why, cat("rank ", rank, lost.empty() ? " has lost no rank, and" : "",
                        " has called survivors()", every_rank));
        if (lost.empty()) lost = {rank};
        return {.kind = Failure::Kind::renewed, .why = std::move(why), .lost = std::move(lost)};
    }

private:
    mutable std::mutex mutex_;
    std::atomic<bool> is_set_ = false;
    std::optional<Failure> failure_;
};

}  // namespace rankmesh::detail
