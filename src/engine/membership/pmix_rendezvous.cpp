// SPDX-License-Identifier: Apache-2.0
#include "engine/membership/pmix_rendezvous.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include <rankmesh/core/text.hpp>

#include "engine/diagnosis/failure.hpp"
#include "engine/membership/failure_note.hpp"
#include "engine/timeout.hpp"

namespace rankmesh::detail {
namespace {

/// The time that servers have to say which ranks arrived, after something went wrong.
constexpr auto to_say = std::chrono::milliseconds(100);

}  // namespace

PmixRendezvous::PmixRendezvous(std::shared_ptr<PmixClient> client, std::string scope,
                               std::vector<int> members, int rank, Duration timeout)
    : Rendezvous(rank, static_cast<int>(members.size())),
      client_(std::move(client)),
      scope_(std::move(scope)),
      members_(std::move(members)),
      timeout_(timeout) {}

PmixRendezvous::PmixRendezvous(const std::shared_ptr<PmixClient>& client, Duration timeout)
    : PmixRendezvous(client, client->next_world(), timeout) {}

PmixRendezvous::PmixRendezvous(const std::shared_ptr<PmixClient>& client, int world, Duration timeout)
    : PmixRendezvous(client, cat("rankmesh.", world, "."), first_ranks(client->size()), client->rank(),
                     timeout) {
    if (world > 0) start_later(world);
}

std::string PmixRendezvous::all(const std::string& phase, std::string text, const Combine& combine) {
    if (size() == 1) return text;
    const auto until = from_now(timeout_);
    const auto key = full(cat("step.", steps_++));
    const auto everyone = first_ranks(size());
    client_->put(key, text);
    const auto all_came = fence(everyone, until);
    auto others = everyone;
    std::erase(others, rank());
    for (const auto& other : read(phase, key, others, everyone, all_came, until)) text = combine(text, other);
    return text;
}

void PmixRendezvous::publish(const std::string& name, const std::string& text) {
    client_->put(full(name), text);
    fresh_ = true;
}

std::vector<std::string> PmixRendezvous::fetch(const std::string& phase, std::span<const int> from,
                                               const std::string& name, std::span<const int> ranks,
                                               Instant until) {
    const auto all_came = !fresh_ || fence(ranks, until);
    return read(phase, full(name), from, ranks, all_came, until);
}

void PmixRendezvous::send(int to, const std::string& text) {
    const auto until = from_now(timeout_);
    client_->put(full(cat("message.", to, ".", sent_[to]++)), text);
    if (!fence({{rank(), to}}, until)) throw_timeout("join", timeout_, {rank()}, {to});
}

std::string PmixRendezvous::receive(int from, const std::string&) {
    const auto until = from_now(timeout_);
    const auto both = std::vector{from, rank()};
    const auto all_came = fence(both, until);
    return read("join", full(cat("message.", rank(), ".", received_[from]++)), {&from, 1}, both, all_came,
                until)
        .front();
}

void PmixRendezvous::post(int to, const std::string& text) {
    client_->put(full(cat("post.", to, ".", posted_[to]++)), text);
    client_->commit();
}

/// The servers are asked again and again: a fence would be one of all ranks that are waited for.
std::vector<std::pair<int, std::string>> PmixRendezvous::collect(const std::string& phase,
                                                                 std::span<const int> from, Instant until) {
    constexpr auto longest_pause = std::chrono::milliseconds(20);
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(2 * pause, longest_pause)) {
        auto asked = std::vector<PmixClient::Name>{};
        for (auto each : from) {
            const auto member = members_[static_cast<std::size_t>(each)];
            asked.emplace_back(member, full(cat("post.", rank(), ".", collected_[each])));
        }
        for (auto each : from) asked.emplace_back(members_[static_cast<std::size_t>(each)], full("left"));
        const auto found = client_->ask(asked, std::max(until, from_now(to_say)));
        auto heard = std::vector<std::pair<int, std::string>>{};
        for (std::size_t i = 0; i < from.size(); ++i) {
            if (!found[i]) continue;
            heard.emplace_back(from[i], *found[i]);
            ++collected_[from[i]];
        }
        if (!heard.empty()) return heard;
        for (std::size_t i = 0; i < from.size(); ++i)
            if (const auto& left = found[from.size() + i]) throw_relayed(phase, *left);
        const auto now = std::chrono::steady_clock::now();
        if (now >= until) return {};
        std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(pause, until - now));
    }
}

void PmixRendezvous::leave(const Failure& why) noexcept {
    if (size() == 1) return;
    try {
        client_->put(full("left"), FailureNote{rank(), {}, why}.text());
        client_->begin_fence(members_);  // tells ranks that wait for this one
    } catch (const std::exception&) {    // they notice when the process ends
    }
}

void PmixRendezvous::throw_relayed(const std::string& phase, const std::string& left) const {
    RelayedFailure::raise(FailureNote::from(left, size()).failure,
                          cat(phase, " cannot be completed on rank ", rank()));
}

std::unique_ptr<Rendezvous> PmixRendezvous::sub(const std::vector<int>& ranks) {
    const auto group_rank = static_cast<int>(std::ranges::find(ranks, rank()) - ranks.begin());
    auto members = std::vector<int>{};
    for (auto each : ranks) members.push_back(members_[static_cast<std::size_t>(each)]);
    auto part = std::unique_ptr<PmixRendezvous>(
        new PmixRendezvous(client_, full(scope_of_next(ranks)), std::move(members), group_rank, timeout_));
    part->start_of_part(ranks);
    return part;
}

bool PmixRendezvous::fence(std::span<const int> ranks, Instant until) {
    fresh_ = false;
    auto members = std::vector<int>{};
    for (auto each : ranks) members.push_back(members_[static_cast<std::size_t>(each)]);
    return client_->fence(std::move(members), until);
}

std::vector<PmixClient::Name> PmixRendezvous::names(std::span<const int> ranks,
                                                    const std::string& key) const {
    auto names = std::vector<PmixClient::Name>{};
    for (auto each : ranks) names.emplace_back(members_[static_cast<std::size_t>(each)], key);
    return names;
}

/// The entries under one key of `from`, a subset of `ranks`, which all wrote one before a fence. `all_came`:
/// the fence completed, which it also does if ranks have ended.
std::vector<std::string> PmixRendezvous::read(const std::string& phase, const std::string& key,
                                              std::span<const int> from, std::span<const int> ranks,
                                              bool all_came, Instant until) {
    auto texts = std::vector<std::string>{};
    for (auto& entry : client_->read(names(from, key), std::max(until, from_now(to_say))))
        if (entry) texts.push_back(std::move(*entry));
    if (texts.size() == from.size()) return texts;

    auto questions = names(ranks, key);
    for (auto& name : names(ranks, full("left"))) questions.push_back(std::move(name));
    const auto entries =
        all_came ? client_->read(questions, from_now(to_say)) : client_->ask(questions, from_now(to_say));
    auto arrived = std::vector<int>{};
    auto missing = std::vector<int>{};
    for (std::size_t i = 0; i < ranks.size(); ++i) {
        (ranks[i] == rank() || entries[i] ? arrived : missing).push_back(ranks[i]);
        if (const auto& left = entries[ranks.size() + i]; left && !entries[i]) throw_relayed(phase, *left);
    }
    if (!all_came) throw_timeout(phase, timeout_, arrived, missing);
    throw PeerLost(
        cat(ranks_text(missing), " ended, or took part in another world of the same ranks meanwhile; ", phase,
            " cannot be completed on rank ", rank()),
        missing);
}

Rendezvous::Survivors PmixRendezvous::survivors(Duration, const std::function<std::vector<int>()>&,
                                                const std::function<void()>&) {
    throw UsageError(
        cat("rank ", rank(),
            " asks for the survivors of a world whose rendezvous was PMIx, whose launcher ends all "
            "processes with the first; ",
            what_survives));
}

Rendezvous::Grown PmixRendezvous::grow(const Growth&, const std::function<std::vector<int>()>&) {
    throw UsageError(
        cat("rank ", rank(),
            " asks for more ranks of a world whose rendezvous was PMIx, whose launcher starts all "
            "processes at once; ",
            what_grows));
}

}  // namespace rankmesh::detail
