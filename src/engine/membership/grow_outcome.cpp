// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/grow_outcome.hpp"

#include "engine/diagnosis/attendance.hpp"
#include "engine/fields.hpp"
#include "engine/membership/failure_board.hpp"

namespace rankmesh::detail {

// What an outcome begins with.
constexpr auto entered = "entered";  // a world
constexpr auto refused = "refused call";
constexpr auto failed = "failed";

int read_number(const std::string& text) {
    return static_cast<int>(Fields(text + " ", "what another rank says").number());
}

std::string to_text(const Listed& listed) {
    auto parts = std::vector<std::string>{entered, listed.world.common, listed.world.scope};
    for (std::size_t i = 0; i < listed.secrets.size(); ++i)
        parts.insert(parts.end(),
                     {std::to_string(listed.world.places[i]), listed.secrets[i], listed.world.abouts[i]});
    return pack_texts(parts);
}

std::optional<Listed> read_listed(const std::vector<std::string>& parts, const std::string& scope) {
    if (parts.size() < 3 || parts[0] != entered || parts.size() % 3 != 0) return std::nullopt;
    auto listed = Listed{};
    listed.world.common = parts[1];
    listed.world.scope = parts[2];
    for (std::size_t i = 3; i < parts.size(); i += 3) {
        listed.world.places.push_back(read_number(parts[i]));
        listed.secrets.push_back(parts[i + 1]);
        listed.world.abouts.push_back(parts[i + 2]);
    }
    listed.world.outcome = cat(scope, "outcome");
    return listed;
}

std::string GrowOutcome::fail(const Failure& failure) const {
    return set(pack_texts({failed, FailureNote{rank, "", failure}.text()}));
}

std::string GrowOutcome::refuse(const std::string& why) const { return set(pack_texts({refused, why})); }

std::string GrowOutcome::lose(const std::vector<int>& ranks) const {
    return fail({.kind = Failure::Kind::gone,
                 .why = cat(ranks_text(ranks), ranks.size() == 1 ? " has" : " have",
                            " ended; grow cannot be completed, and ", as_before()),
                 .lost = ranks});
}

std::string GrowOutcome::expire(Duration timeout, const std::vector<int>& missing,
                                const std::string& seen) const {
    auto arrived = first_ranks(size);
    std::erase_if(arrived, [&](int each) { return contains(missing, each); });
    return fail(
        Failure::of(timeout_error_in("grow", timeout, rank, arrived, missing, ranks_text(missing), seen)));
}

Listed GrowOutcome::read(const std::string& outcome) const {
    const auto parts = unpack_texts(outcome);
    if (auto listed = read_listed(parts, scope)) return *std::move(listed);
    if (parts.size() != 2) Fields({}, "how a world has grown").throw_unreadable();
    if (parts[0] == refused) throw UsageError(parts[1]);
    std::rethrow_exception(FailureNote::from(parts[1], size).failure.error());
}

Duration wait_of(const Growth& asked) {
    constexpr auto longest = Duration(std::chrono::hours(87660));  // twice that is still a time
    return asked.timeout > Duration::zero() ? std::min(asked.timeout, longest) : longest_patience;
}

Duration patience_of(const Growth& asked) {
    return std::clamp<Duration>(asked.timeout, std::chrono::milliseconds(1), longest_patience);
}

}  // namespace rankmesh::detail
