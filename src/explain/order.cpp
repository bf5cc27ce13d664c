// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/explain/order.hpp>

#include <deque>
#include <set>

#include <rankmesh/core/detail/quote.hpp>
#include <rankmesh/core/error.hpp>
#include <rankmesh/core/ranks.hpp>

#include "explain/wait_graph.hpp"
#include "explain/words.hpp"

namespace rankmesh {

using detail::cat;
using detail::explaining::at;

namespace of_order {
constexpr auto collective = -1;  // in place of a peer
}
using of_order::collective;

CallOrder::CallOrder(int ranks) {
    if (ranks < 1) throw UsageError(cat("a program of ", ranks, " ranks; it has at least one"));
    lists_.resize(at(ranks));
}

CallOrder::List& CallOrder::list_of(int rank) {
    if (rank < 0 || at(rank) >= lists_.size())
        throw UsageError(cat("rank ", rank, " of a program of ", lists_.size(), " ranks; ranks are 0..",
                             lists_.size() - 1));
    return lists_[at(rank)];
}

int CallOrder::communicator(std::string_view name, std::vector<int> ranks) {
    for (const auto rank : ranks) list_of(rank);
    const auto different = std::set<int>(ranks.begin(), ranks.end());
    if (different.size() != ranks.size())
        throw UsageError(
            cat("the communicator ", detail::excerpt(name), " lists a rank twice: ", ranks_to_string(ranks)));
    communicators_.push_back({std::string(name), std::move(ranks), {}});
    return static_cast<int>(communicators_.size()) - 1;
}

int CallOrder::name_of(std::string_view operation) {
    const auto number = std::ranges::find(names_, operation) - names_.begin();
    if (number == std::ssize(names_)) names_.emplace_back(operation);
    return static_cast<int>(number);
}

int CallOrder::append(int rank, int communicator, std::string_view operation,
                      std::span<const MessagePart> parts, bool waits) {
    auto& list = list_of(rank);
    if (communicator < 0 || at(communicator) >= communicators_.size())
        throw UsageError(cat("communicator number ", communicator, " of ", communicators_.size()));
    const auto& of = communicators_[at(communicator)];
    const auto check = [&](int member) {
        if (std::ranges::find(of.ranks, member) == of.ranks.end())
            throw UsageError(cat("rank ", member, " is not in ", detail::excerpt(of.name), " ",
                                 ranks_to_string(of.ranks)));
    };
    check(rank);
    auto added = Operation{.name = name_of(operation),
                           .communicator = communicator,
                           .first_part = static_cast<std::uint32_t>(list.parts.size()),
                           .parts = 1};
    const auto next = [&](int peer, int kind) { return ++list.counts[{communicator, peer, kind}]; };
    if (parts.empty()) {
        const auto known = of.skipped.find(rank);
        added.number = next(collective, 0) + (known == of.skipped.end() ? 0 : known->second);
        list.parts.push_back({.number = added.number});
    } else {
        for (const auto& part : parts) check(part.peer);
        added.parts = static_cast<std::uint32_t>(parts.size());
        added.number = next(collective, 1);
        for (const auto& part : parts)
            list.parts.push_back({.number = next(part.peer, static_cast<int>(part.kind)),
                                  .peer = part.peer,
                                  .kind = part.kind});
    }
    list.operations.push_back(added);
    const auto number = static_cast<int>(list.operations.size()) - 1;
    list.steps.push_back({.operation = number, .posts = true, .waits = waits});
    return number;
}

void CallOrder::call(int rank, int communicator, std::string_view operation) {
    append(rank, communicator, operation, {}, true);
}
int CallOrder::start(int rank, int communicator, std::string_view operation) {
    return append(rank, communicator, operation, {}, false);
}
void CallOrder::messages(int rank, int communicator, std::string_view operation,
                         std::span<const MessagePart> parts) {
    if (!parts.empty()) append(rank, communicator, operation, parts, true);
}
int CallOrder::start_messages(int rank, int communicator, std::string_view operation,
                              std::span<const MessagePart> parts) {
    if (parts.empty()) throw UsageError("a batch of messages that is started has at least one");
    return append(rank, communicator, operation, parts, false);
}
void CallOrder::send(int rank, int communicator, int to) {
    const auto part = MessagePart{MessagePart::Kind::send, to};
    append(rank, communicator, cat("send to ", to), {&part, 1}, true);
}
void CallOrder::recv(int rank, int communicator, int from) {
    const auto part = MessagePart{MessagePart::Kind::recv, from};
    append(rank, communicator, cat("recv from ", from), {&part, 1}, true);
}
void CallOrder::wait(int rank, int started) {
    auto& list = list_of(rank);
    if (started < 0 || at(started) >= list.operations.size())
        throw UsageError(cat("rank ", rank, " waits for number ", started, ", which it did not start"));
    list.steps.push_back({.operation = started, .waits = true});
}
void CallOrder::skip(int rank, int communicator, std::int64_t calls) {
    list_of(rank);
    communicators_.at(at(communicator)).skipped[rank] = calls;
}
void CallOrder::unknown(int rank) { list_of(rank).is_unknown = true; }

/// Runs the program until it ends or blocks.
class OrderRun {
public:
    explicit OrderRun(const CallOrder& order) : order_(order), states_(order.lists_.size()) {
        for (const auto& of : order.communicators_) {
            auto& earlier = earlier_.emplace_back();
            for (const auto rank : of.ranks) {
                const auto known = of.skipped.find(rank);
                if (order.lists_[at(rank)].is_unknown)
                    earlier.push_back(CallOrder::always);
                else if (known != of.skipped.end())
                    earlier.push_back(known->second);
            }
            std::ranges::sort(earlier);
        }
        for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank) ready_.push_back(rank);
        for (; !ready_.empty(); ready_.pop_front()) advance(ready_.front());
    }

    std::optional<Deadlock> deadlock() const {
        auto graph = detail::explaining::WaitGraph(states_.size());
        auto calls = std::map<Key, int>{};
        for (int rank = 0; rank < static_cast<int>(states_.size()); ++rank) {
            if (states_[at(rank)].step == list(rank).steps.size()) continue;
            const auto [call, is_new] = calls.try_emplace(states_[at(rank)].held_by);
            if (is_new) call->second = graph.call(missing(rank));
            graph.hold(rank, call->second);
        }
        auto result = Deadlock{};
        result.stuck = graph.held();
        if (result.stuck.empty()) return std::nullopt;
        auto ranks = graph.cycle();
        result.is_cycle = !ranks.empty();
        if (!result.is_cycle) ranks = graph.path(result.stuck.front());
        // The last rank of a cycle waits for the first; the last rank of a path is not blocked.
        const auto links = result.is_cycle ? ranks.size() : ranks.size() - 1;
        for (std::size_t i = 0; i < links; ++i)
            result.chain.push_back(wait_of(ranks[i], ranks[(i + 1) % ranks.size()]));
        return result;
    }

private:
    // Identifies a collective by communicator and number, or a message by communicator, sender, receiver and
    // number.
    using Key = std::tuple<int, int, int, std::int64_t>;
    struct Instance {
        int here = 0;
        int needed = 0;
        std::vector<int> came;
        std::vector<int> waiting;
    };
    struct State {
        std::size_t step = 0;
        bool posted = false;  // the step's operation
        Key held_by{};        // the instance at which the rank waits
    };

    const CallOrder::List& list(int rank) const { return order_.lists_[at(rank)]; }

    static Key key_of(int rank, int communicator, const CallOrder::Part& part) {
        if (part.peer == collective) return {communicator, collective, collective, part.number};
        return part.kind == MessagePart::Kind::send ? Key{communicator, rank, part.peer, part.number}
                                                    : Key{communicator, part.peer, rank, part.number};
    }

    Instance& instance(const Key& key) {
        const auto [place, is_new] = instances_.try_emplace(key);
        if (is_new) {
            const auto [communicator, from, to, number] = key;
            const auto& earlier = earlier_[at(communicator)];
            if (from == collective) {
                const auto came = earlier.end() - std::ranges::lower_bound(earlier, number);
                place->second.needed =
                    static_cast<int>(order_.communicators_[at(communicator)].ranks.size()) -
                    static_cast<int>(came);
            } else {
                place->second.needed = list(from).is_unknown || list(to).is_unknown ? 1 : 2;
            }
        }
        return place->second;
    }

    void post(int rank, const CallOrder::Operation& operation) {
        for (std::uint32_t i = 0; i < operation.parts; ++i) {
            auto& one =
                instance(key_of(rank, operation.communicator, list(rank).parts[operation.first_part + i]));
            one.came.push_back(rank);
            if (++one.here < one.needed) continue;
            ready_.insert(ready_.end(), one.waiting.begin(), one.waiting.end());
            one.waiting = {};
            one.came = {};
        }
    }

    void advance(int rank) {
        auto& state = states_[at(rank)];
        const auto& steps = list(rank).steps;
        for (; state.step < steps.size(); ++state.step, state.posted = false) {
            const auto& step = steps[state.step];
            const auto& operation = list(rank).operations[at(step.operation)];
            if (step.posts && !state.posted) post(rank, operation);
            state.posted = true;
            for (std::uint32_t i = 0; step.waits && i < operation.parts; ++i) {
                const auto key =
                    key_of(rank, operation.communicator, list(rank).parts[operation.first_part + i]);
                auto& one = instance(key);
                if (one.here >= one.needed) continue;
                one.waiting.push_back(rank);
                state.held_by = key;
                return;
            }
        }
    }

    /// Returns the ranks that a blocked rank waits for.
    std::vector<int> missing(int rank) const {
        const auto& key = states_[at(rank)].held_by;
        const auto [communicator, from, to, number] = key;
        if (from != collective) return {from == rank ? to : from};
        auto came = instances_.at(key).came;
        std::ranges::sort(came);
        auto absent = std::vector<int>{};
        const auto& of = order_.communicators_[at(communicator)];
        for (const auto member : of.ranks) {
            const auto known = of.skipped.find(member);
            const auto was_earlier =
                list(member).is_unknown || (known != of.skipped.end() && known->second >= number);
            if (!was_earlier && !std::ranges::binary_search(came, member)) absent.push_back(member);
        }
        return absent;
    }

    Deadlock::Wait wait_of(int rank, int waits_for) const {
        const auto& operation = list(rank).operations[at(list(rank).steps[states_[at(rank)].step].operation)];
        const auto& of = order_.communicators_[at(operation.communicator)];
        return {.rank = rank,
                .operation = order_.names_[at(operation.name)],
                .communicator = of.name,
                .group = of.ranks,
                .number = operation.number,
                .is_message = list(rank).parts[operation.first_part].peer != collective,
                .waits_for = waits_for};
    }

    const CallOrder& order_;
    std::vector<State> states_;
    std::vector<std::vector<std::int64_t>> earlier_;  // by communicator, of its members, ascending
    std::map<Key, Instance> instances_;
    std::deque<int> ready_;
};

std::optional<Deadlock> CallOrder::deadlock() const { return OrderRun(*this).deadlock(); }

std::string to_string(const Deadlock& deadlock) { return detail::explaining::text_of(deadlock, {}); }

}  // namespace rankmesh
