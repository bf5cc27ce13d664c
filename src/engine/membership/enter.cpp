// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/enter.hpp"

#include <algorithm>
#include <chrono>
#include <utility>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "engine/fields.hpp"
#include "engine/membership/grow_outcome.hpp"
#include "engine/random_bytes.hpp"
#include "engine/texts.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

using Clock = std::chrono::steady_clock;

/// A process that waits to enter, under one secret.
class Candidacy {
public:
    Candidacy(Store& store, std::optional<int> place, const std::string& about, Store::Instant until)
        : store_(store), begin_(Clock::now()), until_(until), secret_(new_secret()) {
        text_ = pack_texts({secret_, place ? std::to_string(*place) : "", about});
        auto names = std::vector<std::string>{};
        for (int slot = 0; slot < most_candidates; ++slot) names.push_back(slot_key(slot));
        while (slot_ < 0 && !expired()) {
            const auto found = store_.get(names, until_);
            for (int slot = 0; slot < most_candidates && slot_ < 0; ++slot)
                if (!found[static_cast<std::size_t>(slot)] && store_.set(slot_key(slot), text_, until_))
                    slot_ = slot;
            if (slot_ < 0) pause_for(store_, begin_);
        }
    }
    ~Candidacy() {
        if (slot_ >= 0) store_.remove({slot_key(slot_)}, soon());
    }
    Candidacy(const Candidacy&) = delete;
    Candidacy& operator=(const Candidacy&) = delete;

    bool expired() const { return Clock::now() >= until_; }

    /// The world that it has entered; nothing if it must come again, or the timeout has expired.
    std::optional<NextWorld> wait() {
        if (slot_ < 0) return std::nullopt;
        for (;;) {
            const auto found = store_.get({slot_key(slot_), offer_key(secret_)}, soon());
            if (found[1]) {
                auto fields = Fields(*found[1], "what a world offers");
                const auto round = static_cast<int>(fields.number());
                return follow(fields.rest(), round);
            }
            if (!found[0] || *found[0] != text_) {
                slot_ = -1;  // another's by now
                return std::nullopt;
            }
            if (expired()) return std::nullopt;
            pause_for(store_, begin_);
        }
    }

private:
    /// Confirms what the world asks until it is decided who enters it.
    std::optional<NextWorld> follow(const std::string& scope, int round) {
        const auto outcome = cat(scope, "outcome");
        const auto begin = Clock::now();
        auto until = until_;
        for (;;) {
            const auto found = store_.get({outcome, cat(scope, "round.", round), slot_key(slot_)}, soon());
            if (found[0]) return listed(*found[0], scope);
            const auto now = Clock::now();
            if (found[1]) {
                const auto secrets = unpack_texts(*found[1]);
                if (std::ranges::find(secrets, secret_) != secrets.end()) {
                    store_.set(yes_key(scope, round, secret_), "", soon());
                    until = std::max(until_, now + 2 * longest_patience);  // it may be taken at its word
                }
                ++round;
                continue;
            }
            if (!found[2] || *found[2] != text_) {
                slot_ = -1;
                // What was decided is written first.
                const auto decided = store_.get({outcome}, soon()).front();
                return decided ? listed(*decided, scope) : std::nullopt;
            }
            if (now >= until) return std::nullopt;
            pause_for(store_, begin);
        }
    }

    std::optional<NextWorld> listed(const std::string& outcome, const std::string& scope) {
        auto listed = read_listed(unpack_texts(outcome), scope);
        if (!listed) return std::nullopt;
        const auto own = std::ranges::find(listed->secrets, secret_);
        if (own == listed->secrets.end()) return std::nullopt;
        listed->world.rank = static_cast<int>(own - listed->secrets.begin());
        return std::move(listed->world);
    }
    /// Until when a request is waited for.
    Store::Instant soon() const { return std::max(until_, Clock::now() + longest_patience); }

    Store& store_;
    const Clock::time_point begin_;
    const Store::Instant until_;
    const std::string secret_;
    std::string text_;
    int slot_ = -1;
};

}  // namespace

NextWorld enter(Store& store, std::optional<int> place, const std::string& about, Duration timeout) {
    const auto until = from_now(timeout);
    for (;;) {
        auto candidacy = Candidacy(store, place, about, until);
        if (auto world = candidacy.wait()) return std::move(*world);
        if (!candidacy.expired()) continue;
        throw Timeout(
            cat("the timeout of ", to_text(timeout), " expired in rejoin: the ranks of the job '",
                store.job(), "' in ", store.text(), " have let no process in",
                place ? cat(" that asks for place ", *place) : "", "; they do when all of them call grow()"),
            {}, {});
    }
}

}  // namespace rankmesh::detail
