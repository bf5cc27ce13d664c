// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/diagnosis/failure.hpp"
#include "engine/store/store.hpp"

namespace rankmesh::detail {

/// A failure as an entry of a store says it.
struct FailureNote {
    int rank = -1;      // the rank that tells it
    std::string where;  // the connections that the rank was making, "" if none
    Failure failure;

    /// `3 2 connections.join 1\n{}\n{0..3}\n{4}\nthe timeout of ...`: rank, kind, where, the failure's lists
    /// and reason.
    std::string text() const;
    /// Reads such a text in a world of `size` ranks; throws EngineFailure for any other.
    static FailureNote from(std::string_view text, int size);
};

/// The part of an error that is the same on all ranks: a failure that one rank tells the others.
struct RelayedFailure {
    Failure failure;

    /// Throws the failure as an error of this rank; `step` is the end of its text.
    [[noreturn]] static void raise(const Failure& failure, const std::string& step);
};

/// The time in which ranks whose timeouts expire together tell each other why.
inline constexpr auto telling = std::chrono::milliseconds(50);

/// The failures that the ranks of a world tell each other through its store.
///
/// Steps of all ranks end with the first failure on the board that concerns them. Connections end with the
/// failure of the rank that gave up first. Any thread may call `leave`.
class FailureBoard {
public:
    /// `scope` is the prefix of the world's keys.
    FailureBoard(std::shared_ptr<Store> store, std::string scope, int rank, int size)
        : store_(std::move(store)), scope_(std::move(scope)), rank_(rank), size_(size) {}
    /// The world was made of these ranks of the world of `whole`: a renewal of that one is one of both.
    void be_part_of(std::shared_ptr<FailureBoard> whole, std::vector<int> ranks) {
        whole_ = std::move(whole);
        ranks_ = std::move(ranks);
    }
    bool is_of_part() const { return whole_ != nullptr; }

    /// Tells all ranks that a step of this one has failed. `where` names the connections that the step makes,
    /// "" for others. A renewal is told once.
    void tell(const std::string& where, const Failure& failure) noexcept;
    /// Tells all ranks that this one leaves: all its later steps fail.
    void leave(const Failure& why) noexcept;
    /// Notes that this rank gives up to make the connections `where`.
    void give_up(const std::string& where, const Failure& failure) noexcept;
    /// The failure for which the ranks that `failure` lacks have given up to make the connections `where`.
    std::optional<Failure> cause(const std::string& where, const Failure& failure) const noexcept;
    /// Forgets for what this rank gave up: it has completed a later step.
    void forget_cause() {
        const auto lock = std::lock_guard(mutex_);
        gave_up_ = std::nullopt;
    }

    /// The key of the next failure that this rank reads.
    std::string next_key() const;
    /// Reads new failures; returns whether there were any. `all`: also those of the world that this one was
    /// made of.
    bool read(bool all = false);
    /// The renewal of the world, null if none has begun as far as was read.
    const Failure* renewal() const;
    /// True if `throw_if_about` may have something to throw.
    bool has_any() const;
    /// Throws the first failure that one of `ranks` has told or has caused, as a RelayedFailure error,
    /// and PeerLost if this rank has left. `of_this`: also a failure that is due to this rank. A renewal
    /// concerns all.
    void throw_if_about(const std::string& phase, const std::vector<int>& ranks, bool of_this);
    /// Throws as `throw_if_about` does, but reads once more before a timeout: the timeouts of ranks that wait
    /// for each other expire together, and only one of these ranks knows who is missing.
    void throw_best_about(const std::string& phase, const std::vector<int>& ranks);

private:
    const FailureNote* first_about(const std::vector<int>& ranks, bool of_this) const;
    std::string gave_up_key(const std::string& where, int rank) const {
        return cat(scope_, "gave_up.", where, ".", rank);
    }

    const std::shared_ptr<Store> store_;
    const std::string scope_;
    const int rank_;
    const int size_;
    mutable std::recursive_mutex mutex_;
    std::vector<FailureNote> read_;  // in their order
    std::shared_ptr<FailureBoard> whole_;
    std::vector<int> ranks_;           // in that world
    std::optional<Failure> renewal_;   // of that world
    std::optional<Failure> gave_up_;   // for which this rank has thrown
    std::optional<std::string> left_;  // why this rank has left
};

}  // namespace rankmesh::detail
