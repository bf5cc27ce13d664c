// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/failure_board.hpp"

#include <utility>

#include "engine/channel.hpp"
#include "engine/fields.hpp"
#include "engine/membership/renewal.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::string FailureNote::text() const {
    return cat(rank, " ", static_cast<std::uint32_t>(failure.kind), " ", where, "\n", to_text(failure), '\0');
}

FailureNote FailureNote::from(std::string_view text, int size) {
    auto fields = Fields(text, "what another rank tells of a failure");
    auto note = FailureNote{};
    const auto rank = fields.number();
    const auto kind = fields.number();
    if (std::cmp_greater_equal(rank, size) || kind > static_cast<std::size_t>(Failure::Kind::renewed))
        fields.throw_unreadable();
    note.rank = static_cast<int>(rank);
    note.where = fields.line();
    note.failure =
        failure_from(static_cast<std::uint32_t>(kind), fields.rest(), static_cast<std::size_t>(size));
    return note;
}

namespace {

/// The most failures on a board. All ranks may fail, and the first tell why.
constexpr auto most_failures = std::size_t{64};

/// The ranks to which a failure is due.
const std::vector<int>& blamed(const Failure& failure) {
    return failure.kind == Failure::Kind::timeout ? failure.missing : failure.lost;
}

template <class Kind>
struct RelayedError final : Kind, RelayedFailure {
    RelayedError(Kind error, Failure relayed) : Kind(std::move(error)), RelayedFailure{std::move(relayed)} {}
};

}  // namespace

void RelayedFailure::raise(const Failure& failure, const std::string& step) {
    if (failure.kind == Failure::Kind::timeout)
        throw RelayedError<Timeout>(Timeout(failure.why, failure.arrived, failure.missing), failure);
    throw RelayedError<PeerLost>(PeerLost(cat(failure.why, "; ", step), failure.lost), failure);
}

void FailureBoard::tell(const std::string& where, const Failure& failure) noexcept {
    if (size_ == 1) return;
    try {
        const auto lock = std::lock_guard(mutex_);
        const auto renews = failure.kind == Failure::Kind::renewed;
        do read();
        while (!(renews && renewal()) && (renews || read_.size() < most_failures) &&
               !store_->set(next_key(), FailureNote{rank_, where, failure}.text(), from_now(request_grace)));
        gave_up_ = failure;
    } catch (const std::exception&) {  // the others wait until their timeout
    }
}

void FailureBoard::leave(const Failure& why) noexcept {
    const auto lock = std::lock_guard(mutex_);
    left_ = why.why;
    // If it leaves because of another rank, that one is the reason.
    tell({}, gave_up_.value_or(why));
}

void FailureBoard::give_up(const std::string& where, const Failure& failure) noexcept {
    try {
        store_->set(gave_up_key(where, rank_), FailureNote{rank_, where, failure}.text(),
                    from_now(request_grace));
        const auto lock = std::lock_guard(mutex_);
        gave_up_ = failure;
    } catch (const std::exception&) {  // it is taken for the cause
    }
}

std::optional<Failure> FailureBoard::cause(const std::string& where, const Failure& failure) const noexcept {
    try {
        auto found = std::optional<Failure>{};
        auto asked = blamed(failure);
        for (auto left = size_; left > 0 && !asked.empty(); --left) {
            const auto each = asked.back();
            asked.pop_back();
            const auto text = store_->get({gave_up_key(where, each)}, from_now(request_grace)).front();
            if (!text) continue;
            auto told = FailureNote::from(*text, size_).failure;
            // Two that wait for each other are no cause of each other's.
            if (contains(blamed(told), each) || contains(blamed(told), rank_)) continue;
            asked = blamed(told);
            found = std::move(told);
        }
        return found;
    } catch (const std::exception&) {  // then it is the failure that is known
        return std::nullopt;
    }
}

std::string FailureBoard::next_key() const {
    const auto lock = std::lock_guard(mutex_);
    return cat(scope_, "failed.", read_.size());
}

bool FailureBoard::has_any() const {
    const auto lock = std::lock_guard(mutex_);
    return left_ || renewal_ || !read_.empty();
}

const Failure* FailureBoard::renewal() const {
    const auto lock = std::lock_guard(mutex_);
    if (renewal_) return &*renewal_;
    const auto found = std::ranges::find(read_, Failure::Kind::renewed,
                                         [](const FailureNote& told) { return told.failure.kind; });
    return found == read_.end() ? nullptr : &found->failure;
}

bool FailureBoard::read(bool all) {
    const auto lock = std::lock_guard(mutex_);
    auto any = false;
    if (all && whole_ && !renewal_) {
        whole_->read(true);
        if (const auto* begun = whole_->renewal()) renewal_ = renewal_in_part(*begun, ranks_);
        any = renewal_.has_value();
    }
    for (;; any = true) {
        const auto text = store_->get({next_key()}, from_now(request_grace)).front();
        if (!text) return any;
        read_.push_back(FailureNote::from(*text, size_));
    }
}

const FailureNote* FailureBoard::first_about(const std::vector<int>& ranks, bool of_this) const {
    const auto concerns = [&](const FailureNote& told) {
        if (told.rank == rank_ || (!of_this && contains(blamed(told.failure), rank_))) return false;
        return std::ranges::any_of(
            ranks, [&](int each) { return each == told.rank || contains(blamed(told.failure), each); });
    };
    const auto found = std::ranges::find_if(read_, concerns);
    return found == read_.end() ? nullptr : &*found;
}

void FailureBoard::throw_if_about(const std::string& phase, const std::vector<int>& ranks, bool of_this) {
    const auto lock = std::lock_guard(mutex_);
    const auto step = cat(phase, " cannot be completed on rank ", rank_);
    if (left_) throw PeerLost(cat(*left_, "; ", step), {rank_});
    if (const auto* begun = renewal()) RelayedFailure::raise(*begun, step);
    const auto* told = first_about(ranks, of_this);
    if (!told) return;
    auto failure = told->failure;
    if (!told->where.empty()) {
        if (auto caused = cause(told->where, failure)) failure = *std::move(caused);
    }
    gave_up_ = std::move(failure);
    RelayedFailure::raise(*gave_up_, step);
}

void FailureBoard::throw_best_about(const std::string& phase, const std::vector<int>& ranks) {
    const auto lock = std::lock_guard(mutex_);
    const auto* told = first_about(ranks, false);
    if (told && told->failure.kind == Failure::Kind::timeout) {
        std::this_thread::sleep_for(telling);
        read();
    }
    throw_if_about(phase, ranks, false);
}

}  // namespace rankmesh::detail
