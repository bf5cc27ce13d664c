// SPDX-License-Identifier: Apache-2.0
#include "engine/checked/collectives.hpp"

#include <algorithm>
#include <cstring>

#include <rankmesh/engine/detail/make_call.hpp>

#include "engine/combine.hpp"
#include "engine/diagnosis/failure.hpp"
#include "engine/hash.hpp"

namespace rankmesh::detail {

std::string CheckedCall::text() const {
    auto called = Call(call);
    if (from_any) called.argument = any_source;
    return numbered(called, number, &label->ranks);
}

namespace {

constexpr std::size_t most_listed = 8;  // classes, or pairs of ranks, that an error lists

// Up to these, ranks gather all calls instead of reducing their hashes, and short calls are then complete;
// docs/design/0012-checked-mode.md has what that costs.
constexpr int most_ranks_that_gather = 8;
constexpr std::size_t most_gathered = 131'072;  // bytes that come with the calls of all ranks
constexpr std::size_t most_of_root = 4096;      // if only one rank has data
constexpr auto before_data = sizeof(Agreed) + sizeof(std::int64_t);
constexpr auto alignment = std::size_t{16};  // of each rank's data
static_assert(before_data % alignment == 0);
constexpr auto too_long = ~std::size_t{0};
constexpr auto calls_of_window = 32;  // after so many, calls bring as much data as the longest of them had

CallFingerprint fingerprint_of(const Call& call) { return {.call = Agreed::of(call), .unit = call.unit}; }

/// The bytes that ranks compare, without padding.
std::string_view compared(const CallFingerprint& fingerprint) {
    static_assert(offsetof(CallFingerprint, unit) == 48);
    return {reinterpret_cast<const char*>(&fingerprint), offsetof(CallFingerprint, unit)};
}

struct Calling {
    const CallFingerprint* fingerprint;
    std::vector<int> ranks;
};

/// The ranks by what they call, largest class first.
std::vector<Calling> classes_of(const std::vector<CallFingerprint>& all, const Ranks& ranks) {
    auto classes = std::vector<Calling>{};
    for (std::size_t i = 0; i < all.size(); ++i) {
        const auto same = [&](const Calling& each) {
            return compared(*each.fingerprint) == compared(all[i]);
        };
        auto found = std::ranges::find_if(classes, same);
        if (found == classes.end()) found = classes.insert(found, {&all[i], {}});
        found->ranks.push_back(ranks[static_cast<int>(i)]);
    }
    std::ranges::stable_sort(
        classes, [](const Calling& a, const Calling& b) { return a.ranks.size() > b.ranks.size(); });
    for (auto& each : classes) std::ranges::sort(each.ranks);
    return classes;
}

bool is_message(const CallFingerprint& fingerprint) { return is_point_to_point(fingerprint.call.operation); }

/// True for what most ranks call: of all messages together and the largest class of a collective, the larger
/// one; of two that are as large, that of the first rank.
auto usual_of(const std::vector<Calling>& classes, const CallFingerprint& first) {
    const auto* collective =
        &*std::ranges::find_if(classes, [](const Calling& each) { return !is_message(*each.fingerprint); });
    auto messages = std::size_t{0};
    for (const auto& each : classes)
        if (is_message(*each.fingerprint)) messages += each.ranks.size();
    const auto are_messages =
        messages > collective->ranks.size() || (messages == collective->ranks.size() && is_message(first));
    return [=](const Calling& each) {
        return are_messages ? is_message(*each.fingerprint) : &each == collective;
    };
}

}  // namespace

Collectives::Collectives(Channel& channel, const Ranks& ranks, int group_rank, bool on_host, Parts parts)
    : channel_(channel),
      ranks_(ranks),
      group_rank_(group_rank),
      gathers_calls_(on_host && ranks.size() <= most_ranks_that_gather),
      brought_(most_of_root),
      parts_(std::move(parts)) {}

void Collectives::advance() {
    while (!queue_.empty()) {
        if (!ticket_) begin();
        if (!ticket_) continue;
        if (!channel_.done(*ticket_)) return;
        wait(Duration::max(), nullptr);
    }
}

void Collectives::wait(Duration timeout, std::function<bool()> is_interrupted) {
    if (!ticket_) begin();
    if (!ticket_) return;  // it needs no comparison
    const auto& part = *queue_.front();
    if (!channel_.wait_for(*ticket_, *part.label, timeout,
                           {&part.call, part.number, std::move(is_interrupted)}))
        return;
    ticket_ = std::nullopt;
    conclude();
}

void Collectives::begin() {
    const auto& part = *queue_.front();
    // A monitored barrier reports missing ranks itself; a comparison would wait for them first.
    if (part.call.operation == Operation::monitored_barrier) return settle(nullptr);
    fingerprints_ = fingerprint_of(part.call);
    if (gathers_calls_)
        gather_calls();
    else
        compare_hashes(Step::hashes);
}

void Collectives::gather_calls() {
    const auto& call = queue_.front()->call;
    own_.resize(before_data + brought_);
    gathered_.resize(own_.size() * static_cast<std::size_t>(ranks_.size()));
    const auto agreed = fingerprints_.call.bytes();
    const auto starts = std::int64_t{!queue_.front()->blocks};
    std::memcpy(own_.data(), agreed.data(), agreed.size());
    std::memcpy(own_.data() + agreed.size(), &starts, sizeof starts);
    if (data() <= brought_ && reads(call, group_rank_) && call.in_bytes() > 0)
        std::memcpy(own_.data() + before_data, call.in, call.in_bytes());
    start(Step::calls, moving(Operation::all_gather, own_, gathered_));
}

bool Collectives::calls_are_equal() {
    const auto own = fingerprints_.call.bytes();
    extremes_[2] = 0;
    for (auto at = std::size_t{0}; at < gathered_.size(); at += own_.size()) {
        if (std::string_view(gathered_.data() + at, own.size()) != own) return false;
        auto starts = std::int64_t{};
        std::memcpy(&starts, gathered_.data() + at + own.size(), sizeof starts);
        extremes_[2] = std::max(extremes_[2], starts);
    }
    return true;
}

/// The bytes that a rank brings with its call, or `too_long`: the same on all ranks whose calls are equal.
std::size_t Collectives::data() const {
    const auto& agreed = fingerprints_.call;
    const auto& operation = traits(agreed.operation);
    const auto n = static_cast<std::size_t>(ranks_.size());
    const auto is_roots = operation.reads == Users::root;
    const auto most = is_roots ? most_of_root : most_gathered / n;
    const auto element = size_of(agreed.dtype) * (is_roots && operation.in_parts ? n : 1);
    if (operation.counts || queue_.front()->meets || agreed.length > most / element) return too_long;
    return agreed.length * element;
}

/// Where calls are equal, all ranks choose alike how much data the next ones bring.
void Collectives::learn(std::size_t data) {
    if (data != too_long) longest_ = std::max(longest_, data);
    if (longest_ <= brought_ && ++calls_in_window_ < calls_of_window) return;
    brought_ = (std::exchange(longest_, 0) + alignment - 1) / alignment * alignment;
    calls_in_window_ = 0;
}

/// Completes the first part from the data that came with the calls.
void Collectives::complete() {
    auto& part = *queue_.front();
    auto calls = std::vector<Call>(static_cast<std::size_t>(ranks_.size()), part.call);
    for (std::size_t i = 0; i < calls.size(); ++i) {
        calls[i].in = gathered_.data() + i * own_.size() + before_data;
        if (static_cast<int>(i) != group_rank_ || !writes(part.call, group_rank_)) calls[i].out = nullptr;
    }
    perform(calls.size(), [&](std::size_t i) -> const Call& { return calls[i]; });
    part.complete = true;
}

/// The complement turns a maximum into a minimum, so that all ranks decide the same from the same numbers.
void Collectives::compare_hashes(Step step) {
    const auto own = static_cast<std::int64_t>(hash(compared(fingerprints_)));
    extremes_ = {own, ~own, !queue_.front()->blocks};
    start(step, reducing(Operation::all_reduce, extremes_, extremes_, rankmesh::max));
}

void Collectives::exchange_counts() {
    const auto& call = queue_.front()->call;
    const auto gathers = call.operation == Operation::all_gather_v;
    const auto n = static_cast<std::size_t>(ranks_.size());
    expected_.resize(n);
    giving_.resize(gathers ? 1 : n);
    given_.resize(n);
    for (std::size_t i = 0; i < n; ++i) expected_[i] = expected_from(call, static_cast<int>(i));
    for (std::size_t i = 0; i < giving_.size(); ++i) giving_[i] = given_to(call, static_cast<int>(i));
    start(Step::counts, moving(gathers ? Operation::all_gather : Operation::all_to_all, giving_, given_));
}

void Collectives::complain() {
    const auto n = static_cast<std::size_t>(ranks_.size());
    for (std::size_t i = 0; i < n && fingerprints_.from < 0; ++i)
        if (given_[i] != expected_[i]) {
            fingerprints_.from = static_cast<std::int64_t>(i);
            fingerprints_.given = given_[i];
            fingerprints_.expected = expected_[i];
        }
    compare_hashes(Step::complaints);
}

void Collectives::gather_details() {
    all_.resize(static_cast<std::size_t>(ranks_.size()));
    start(Step::details, moving(Operation::all_gather, std::as_bytes(std::span(&fingerprints_, 1)),
                                std::as_writable_bytes(std::span(all_))));
}

/// Tells each rank which of the messages between them this one gives up. No rank throws, and then perhaps
/// leaves, before all have the details.
void Collectives::give_up() {
    giving_up_ = parts_.gives_up();
    given_up_.resize(giving_up_.size());
    try {
        start(Step::informed, moving(Operation::all_to_all, std::as_bytes(std::span(giving_up_)),
                                     std::as_writable_bytes(std::span(given_up_))));
    } catch (const UsageError&) {
        throw;
    } catch (...) {  // a rank is lost meanwhile
        settle(disagreement());
    }
}

void Collectives::conclude() {
    const auto equal = extremes_[0] == ~extremes_[1];
    switch (step_) {
        case Step::calls:
            return calls_are_equal() ? agree() : gather_details();
        case Step::hashes:
            return equal ? agree() : gather_details();
        case Step::counts:
            return complain();
        case Step::complaints:
            return equal ? match() : gather_details();
        case Step::details:
            return give_up();
        case Step::informed:
            settle(disagreement());
            return parts_.drop(given_up_);  // which hears of a rank that is lost meanwhile
    }
}

std::exception_ptr Collectives::disagreement() const {
    const auto& part = *queue_.front();
    const auto where = cat(part.label->text(), ", group ", to_string(ranks_));
    auto lines = std::vector<std::string>{};
    auto odd = std::vector<int>{};
    if (std::ranges::all_of(all_, [](const CallFingerprint& fingerprint) { return fingerprint.from < 0; })) {
        const auto classes = classes_of(all_, ranks_);
        const auto is_usual = usual_of(classes, all_.front());
        for (const auto& each : classes) {
            lines.push_back(cat(part.label->named(each.ranks), ": ",
                                to_string(each.fingerprint->call, each.fingerprint->unit)));
            if (!is_usual(each)) odd.insert(odd.end(), each.ranks.begin(), each.ranks.end());
        }
    } else {
        for (std::size_t i = 0; i < all_.size(); ++i) {
            const auto& fingerprint = all_[i];
            if (fingerprint.from < 0) continue;
            const auto from = ranks_[static_cast<int>(fingerprint.from)];
            const auto to = ranks_[static_cast<int>(i)];
            // In elements of the receiver, unless what is sent does not divide into those.
            const auto unit = fingerprint.given % fingerprint.unit == 0 ? fingerprint.unit : 1;
            lines.push_back(cat(part.label->named({from}), " sends ",
                                elements_text(fingerprint.given, fingerprint.call.dtype, unit), " to ",
                                part.label->named({to}), ", which expects ", fingerprint.expected / unit));
            odd.insert(odd.end(), {from, to});
        }
    }
    auto text = cat("call number ", part.number, " on ", where,
                    ", is not the same on all its ranks; nothing was sent:");
    for (std::size_t i = 0; i < std::min(lines.size(), most_listed); ++i) append(text, cat("\n  ", lines[i]));
    if (lines.size() > most_listed) append(text, cat("\n  and ", lines.size() - most_listed, " more"));
    std::ranges::sort(odd);
    odd.erase(std::unique(odd.begin(), odd.end()), odd.end());
    return std::make_exception_ptr(Disagreement(text, odd));
}

}  // namespace rankmesh::detail
