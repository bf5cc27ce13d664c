// SPDX-License-Identifier: Apache-2.0
// The order checker beside a scheduler that tries every interleaving of small programs. RANKMESH_EXHAUSTIVE=1
// widens the bounds, which takes minutes: to 4 ranks, 3 communicators and 5 collectives, and of all kinds of
// operations to 3, or 4 where there are at most 3 ranks and 2 communicators.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <random>
#include <set>

#include <rankmesh/core/error.hpp>
#include <rankmesh/explain/order.hpp>

namespace rankmesh {
namespace {

/// One operation of a rank, as the scheduler below knows it.
struct Op {
    enum Kind { call, start, wait, send, recv, send_recv } kind;
    int communicator = 0;
    int peer = 0;     // that is sent to, or received from
    int source = 0;   // of a send_recv: that is received from
    int started = 0;  // of a wait: the place of its start in the list
};

struct Program {
    std::vector<std::vector<int>> communicators;
    std::vector<std::vector<Op>> lists;
};

std::string name_of(int communicator) { return "'c" + std::to_string(communicator) + "'"; }

std::string text(const Program& program) {
    auto out = std::string{};
    for (std::size_t c = 0; c < program.communicators.size(); ++c) {
        out += " c" + std::to_string(c) + "={";
        for (auto rank : program.communicators[c]) out += std::to_string(rank);
        out += "}";
    }
    for (const auto& list : program.lists) {
        out += "\n ";
        for (const auto& op : list)
            out += std::string(1, " csw><x"[op.kind + 1]) + std::to_string(op.communicator) + ":" +
                   std::to_string(op.peer) + "/" +
                   std::to_string(op.kind == Op::wait ? op.started : op.source) + " ";
    }
    return out;
}

CallOrder order_of(const Program& program) {
    auto order = CallOrder(static_cast<int>(program.lists.size()));
    auto ids = std::vector<int>{};
    for (std::size_t c = 0; c < program.communicators.size(); ++c)
        ids.push_back(order.communicator(name_of(static_cast<int>(c)), program.communicators[c]));
    for (int rank = 0; rank < static_cast<int>(program.lists.size()); ++rank) {
        auto started = std::vector<int>{};
        for (const auto& op : program.lists[static_cast<std::size_t>(rank)]) {
            const auto on = ids.empty() ? 0 : ids[static_cast<std::size_t>(op.communicator)];
            auto number = -1;
            switch (op.kind) {
                case Op::call:
                    order.call(rank, on, "call");
                    break;
                case Op::start:
                    number = order.start(rank, on, "start");
                    break;
                case Op::wait:
                    order.wait(rank, started[static_cast<std::size_t>(op.started)]);
                    break;
                case Op::send:
                    order.send(rank, on, op.peer);
                    break;
                case Op::recv:
                    order.recv(rank, on, op.peer);
                    break;
                case Op::send_recv: {
                    const auto parts = {MessagePart{MessagePart::Kind::send, op.peer},
                                        MessagePart{MessagePart::Kind::recv, op.source}};
                    order.messages(rank, on, "send_recv", parts);
                    break;
                }
            }
            started.push_back(number);
        }
    }
    return order;
}

/// Tries every order in which ranks can go on, one small step at a time: to begin an operation, to return
/// from it.
class Scheduler {
public:
    explicit Scheduler(const Program& program) : program_(program), at_(program.lists.size()) { visit(); }

    bool blocks() const { return !stuck_.empty(); }
    /// The states in which no rank can go on though not all have ended.
    const std::set<std::vector<int>>& stuck() const { return stuck_; }

    bool has_ended(const std::vector<int>& state, int rank) const {
        return state[static_cast<std::size_t>(rank)] == 2 * static_cast<int>(list(rank).size());
    }
    const Op& at(const std::vector<int>& state, int rank) const {
        return list(rank)[static_cast<std::size_t>(state[static_cast<std::size_t>(rank)] / 2)];
    }
    /// True if `other` has not yet begun what this rank waits for.
    bool waits_for(const std::vector<int>& state, int rank, int other) const {
        auto i = static_cast<std::size_t>(state[static_cast<std::size_t>(rank)] / 2);
        if (list(rank)[i].kind == Op::wait) i = static_cast<std::size_t>(list(rank)[i].started);
        const auto& op = list(rank)[i];
        const auto [sends, receives] = ends(rank, i);
        if (op.kind == Op::call || op.kind == Op::start) {
            const auto& members = program_.communicators[static_cast<std::size_t>(op.communicator)];
            return std::ranges::find(members, other) != members.end() &&
                   begun(state, other, op.communicator) < begun_before(rank, i, op.communicator);
        }
        return (sends >= 0 && other == sends &&
                messages(state, other, op.communicator, rank, false) < message(rank, i, sends, true)) ||
               (receives >= 0 && other == receives &&
                messages(state, other, op.communicator, rank, true) < message(rank, i, receives, false));
    }

private:
    const std::vector<Op>& list(int rank) const { return program_.lists[static_cast<std::size_t>(rank)]; }
    static bool is_collective(const Op& op) { return op.kind == Op::call || op.kind == Op::start; }
    std::pair<int, int> ends(int rank, std::size_t i) const {
        const auto& op = list(rank)[i];
        return {op.kind == Op::send || op.kind == Op::send_recv ? op.peer : -1, op.kind == Op::recv ? op.peer
                                                                                : op.kind == Op::send_recv
                                                                                    ? op.source
                                                                                    : -1};
    }
    /// How many collectives of a communicator stand in a list up to and with place `i`.
    int begun_before(int rank, std::size_t i, int communicator) const {
        auto count = 0;
        for (std::size_t k = 0; k <= i; ++k)
            count += is_collective(list(rank)[k]) && list(rank)[k].communicator == communicator ? 1 : 0;
        return count;
    }
    /// How many of its operations a rank has begun.
    static std::size_t begun(const std::vector<int>& state, int rank) {
        return static_cast<std::size_t>((state[static_cast<std::size_t>(rank)] + 1) / 2);
    }
    int begun(const std::vector<int>& state, int rank, int communicator) const {
        const auto count = begun(state, rank);
        return count == 0 ? 0 : begun_before(rank, count - 1, communicator);
    }
    int message(int rank, std::size_t i, int peer, bool is_send) const {
        auto count = 0;
        const auto communicator = list(rank)[i].communicator;
        for (std::size_t k = 0; k <= i; ++k) {
            const auto [sends, receives] = ends(rank, k);
            count +=
                list(rank)[k].communicator == communicator && (is_send ? sends : receives) == peer ? 1 : 0;
        }
        return count;
    }
    int messages(const std::vector<int>& state, int rank, int communicator, int peer, bool is_send) const {
        auto total = 0;
        for (std::size_t k = 0; k < begun(state, rank); ++k) {
            const auto [sends, receives] = ends(rank, k);
            total +=
                list(rank)[k].communicator == communicator && (is_send ? sends : receives) == peer ? 1 : 0;
        }
        return total;
    }

    bool can_step(const std::vector<int>& state, int rank) const {
        if (has_ended(state, rank)) return false;
        if (state[static_cast<std::size_t>(rank)] % 2 == 0 || at(state, rank).kind == Op::start) return true;
        for (int other = 0; other < static_cast<int>(state.size()); ++other)
            if (waits_for(state, rank, other)) return false;
        return true;
    }

    void visit() {
        if (!seen_.insert(at_).second) return;
        auto goes_on = false;
        auto ended = true;
        for (int rank = 0; rank < static_cast<int>(at_.size()); ++rank) {
            ended = ended && has_ended(at_, rank);
            if (!can_step(at_, rank)) continue;
            goes_on = true;
            ++at_[static_cast<std::size_t>(rank)];
            visit();
            --at_[static_cast<std::size_t>(rank)];
        }
        if (!goes_on && !ended) stuck_.insert(at_);
    }

    const Program& program_;
    std::vector<int> at_;
    std::set<std::vector<int>> seen_;
    std::set<std::vector<int>> stuck_;
};

struct Counts {
    int programs = 0;
    int blocking = 0;
    int cycles = 0;
};

void expect_agreement(const Program& program, Counts& counts) {
    const auto found = order_of(program).deadlock();
    const auto scheduler = Scheduler(program);
    ++counts.programs;
    ASSERT_EQ(found.has_value(), scheduler.blocks()) << text(program);
    if (!found) return;
    ++counts.blocking;
    counts.cycles += found->is_cycle ? 1 : 0;
    // The same ranks are stuck at the same place in whatever order they arrive.
    ASSERT_EQ(scheduler.stuck().size(), 1U) << text(program);
    const auto& state = *scheduler.stuck().begin();
    auto stuck = std::vector<int>{};
    for (int rank = 0; rank < static_cast<int>(state.size()); ++rank)
        if (!scheduler.has_ended(state, rank)) stuck.push_back(rank);
    ASSERT_EQ(found->stuck, stuck) << text(program);
    // Every link of the chain is true, and the chain closes, or ends at a rank that has ended.
    ASSERT_FALSE(found->chain.empty());
    auto seen = std::set<int>{};
    for (std::size_t i = 0; i < found->chain.size(); ++i) {
        const auto& link = found->chain[i];
        ASSERT_TRUE(seen.insert(link.rank).second) << text(program);
        ASSERT_FALSE(scheduler.has_ended(state, link.rank)) << text(program);
        ASSERT_TRUE(scheduler.waits_for(state, link.rank, link.waits_for)) << text(program) << "\n"
                                                                           << to_string(*found);
        ASSERT_EQ(link.communicator, name_of(scheduler.at(state, link.rank).communicator)) << text(program);
        if (i + 1 < found->chain.size()) {
            ASSERT_EQ(link.waits_for, found->chain[i + 1].rank) << text(program);
        }
    }
    const auto last = found->chain.back().waits_for;
    if (found->is_cycle) {
        ASSERT_EQ(last, found->chain.front().rank) << text(program);
    } else {
        ASSERT_TRUE(scheduler.has_ended(state, last)) << text(program) << "\n" << to_string(*found);
    }
}

bool exhaustive() { return std::getenv("RANKMESH_EXHAUSTIVE") != nullptr; }

/// Every choice of `count` communicators of two or more of `ranks` ranks, once of those that differ by the
/// names of ranks.
std::vector<std::vector<std::vector<int>>> all_communicators(int ranks, int count) {
    auto subsets = std::vector<unsigned>{};
    for (unsigned bits = 0; bits < 1U << ranks; ++bits)
        if (std::popcount(bits) >= 2) subsets.push_back(bits);
    auto chosen = std::set<std::vector<unsigned>>{};
    auto choice = std::vector<unsigned>{};
    const std::function<void(std::size_t)> choose = [&](std::size_t from) {
        if (static_cast<int>(choice.size()) == count) {
            auto least = std::vector<unsigned>{};
            auto names = std::vector<int>(static_cast<std::size_t>(ranks));
            std::iota(names.begin(), names.end(), 0);
            do {
                auto renamed = std::vector<unsigned>{};
                for (const auto bits : choice) {
                    auto other = 0U;
                    for (int r = 0; r < ranks; ++r)
                        if ((bits >> r & 1U) != 0) other |= 1U << names[static_cast<std::size_t>(r)];
                    renamed.push_back(other);
                }
                std::ranges::sort(renamed);
                if (least.empty() || renamed < least) least = renamed;
            } while (std::ranges::next_permutation(names).found);
            chosen.insert(least);
            return;
        }
        for (auto i = from; i < subsets.size(); ++i) {
            choice.push_back(subsets[i]);
            choose(i);
            choice.pop_back();
        }
    };
    choose(0);
    auto result = std::vector<std::vector<std::vector<int>>>{};
    for (const auto& sets : chosen) {
        auto& communicators = result.emplace_back();
        for (const auto bits : sets) {
            auto& members = communicators.emplace_back();
            for (int r = 0; r < ranks; ++r)
                if ((bits >> r & 1U) != 0) members.push_back(r);
        }
    }
    return result;
}

/// What a rank may append to its list.
std::vector<Op> choices(const Program& program, int rank, bool every_kind) {
    auto ops = std::vector<Op>{};
    for (int c = 0; c < static_cast<int>(program.communicators.size()); ++c) {
        const auto& members = program.communicators[static_cast<std::size_t>(c)];
        if (std::ranges::find(members, rank) == members.end()) continue;
        ops.push_back({Op::call, c});
        if (!every_kind) continue;
        ops.push_back({Op::start, c});
        for (const auto peer : members) {
            if (peer == rank) continue;
            ops.push_back({Op::send, c, peer});
            ops.push_back({Op::recv, c, peer});
            for (const auto source : members)
                if (source != rank) ops.push_back({Op::send_recv, c, peer, source});
        }
    }
    const auto& list = program.lists[static_cast<std::size_t>(rank)];
    for (std::size_t i = 0; i < list.size(); ++i)
        if (list[i].kind == Op::start && std::ranges::none_of(list, [&](const Op& op) {
                return op.kind == Op::wait && op.started == static_cast<int>(i);
            }))
            ops.push_back(
                {.kind = Op::wait, .communicator = list[i].communicator, .started = static_cast<int>(i)});
    return ops;
}

/// Every program with at most `operations` in all lists together.
void for_each_program(int ranks, int communicators, int operations, bool every_kind,
                      const std::function<void(const Program&)>& visit) {
    for (const auto& chosen : all_communicators(ranks, communicators)) {
        auto program = Program{chosen, std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks))};
        const std::function<void(int, int)> extend = [&](int rank, int left) {
            if (rank == ranks) return visit(program);
            extend(rank + 1, left);
            if (left == 0) return;
            for (const auto& op : choices(program, rank, every_kind)) {
                program.lists[static_cast<std::size_t>(rank)].push_back(op);
                extend(rank, left - 1);
                program.lists[static_cast<std::size_t>(rank)].pop_back();
            }
        };
        extend(0, operations);
    }
}

void report(const std::string& what, const Counts& counts) {
    std::printf("%s: %d programs, of which %d block, %d of them in a cycle\n", what.c_str(), counts.programs,
                counts.blocking, counts.cycles);
    EXPECT_GT(counts.cycles, 0);
    EXPECT_GT(counts.programs, counts.blocking);
    EXPECT_GT(counts.blocking, counts.cycles);
}

TEST(CallOrder, AgreesWithEveryInterleavingOfAllListsOfCollectives) {
    auto counts = Counts{};
    for (int ranks = 2; ranks <= 4; ++ranks)
        for (int communicators = 1; communicators <= 3; ++communicators)
            for_each_program(ranks, communicators, exhaustive() ? 5 : 4, false,
                             [&](const Program& program) { expect_agreement(program, counts); });
    report("collectives", counts);
}

TEST(CallOrder, AgreesWithEveryInterleavingOfAllListsOfAllOperations) {
    auto counts = Counts{};
    for (int ranks = 2; ranks <= (exhaustive() ? 4 : 3); ++ranks)
        for (int communicators = 1; communicators <= (exhaustive() ? 3 : 2); ++communicators)
            for_each_program(ranks, communicators, exhaustive() && ranks <= 3 && communicators <= 2 ? 4 : 3,
                             true, [&](const Program& program) { expect_agreement(program, counts); });
    report("all operations", counts);
}

/// Programs in which each collective is called by all its members, each of which has an order of its own:
/// what blocks is a cycle.
TEST(CallOrder, AgreesWithEveryInterleavingOfEveryOrderOfTheSameCollectives) {
    auto counts = Counts{};
    const auto most = exhaustive() ? 5 : 3;
    for (int ranks = 2; ranks <= 4; ++ranks)
        for (const auto& communicators : all_communicators(ranks, 3))
            for (int a = 0; a <= most; ++a)
                for (int b = 0; a + b <= most; ++b)
                    for (int c = 0; a + b + c <= most; ++c) {
                        const auto calls = std::vector<int>{a, b, c};
                        auto program = Program{communicators,
                                               std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks))};
                        const std::function<void(int)> choose = [&](int rank) {
                            if (rank == ranks) {
                                expect_agreement(program, counts);
                                return;
                            }
                            auto word = std::vector<int>{};
                            for (int k = 0; k < 3; ++k) {
                                const auto& members = communicators[static_cast<std::size_t>(k)];
                                if (std::ranges::find(members, rank) != members.end())
                                    word.insert(word.end(),
                                                static_cast<std::size_t>(calls[static_cast<std::size_t>(k)]),
                                                k);
                            }
                            do {
                                auto& list = program.lists[static_cast<std::size_t>(rank)];
                                list.clear();
                                for (const auto k : word) list.push_back({Op::call, k});
                                choose(rank + 1);
                            } while (std::ranges::next_permutation(word).found);
                        };
                        choose(0);
                    }
    std::printf("orders: %d programs, of which %d block\n", counts.programs, counts.blocking);
    EXPECT_EQ(counts.blocking, counts.cycles);
    EXPECT_GT(counts.blocking, 0);
    EXPECT_GT(counts.programs, counts.blocking);
}

TEST(CallOrder, AgreesWithEveryInterleavingOfRandomProgramsOfFiveOperations) {
    auto counts = Counts{};
    auto random = std::mt19937(16);
    const auto upto = [&](std::size_t most) {
        return std::uniform_int_distribution<std::size_t>(0, most - 1)(random);
    };
    for (int i = 0; i < (exhaustive() ? 200'000 : 3'000); ++i) {
        const auto ranks = 2 + static_cast<int>(upto(3));
        const auto sets = all_communicators(ranks, 1 + static_cast<int>(upto(3)));
        auto program =
            Program{sets[upto(sets.size())], std::vector<std::vector<Op>>(static_cast<std::size_t>(ranks))};
        // Most random lists block at once: begin with calls that fit, and change a few.
        for (int n = 0; n < 5; ++n) {
            const auto c = static_cast<int>(upto(program.communicators.size()));
            for (const auto rank : program.communicators[static_cast<std::size_t>(c)])
                if (program.lists[static_cast<std::size_t>(rank)].size() < 5)
                    program.lists[static_cast<std::size_t>(rank)].push_back({Op::call, c});
        }
        for (std::size_t changes = upto(4); changes > 0; --changes) {
            const auto rank = static_cast<int>(upto(static_cast<std::size_t>(ranks)));
            auto& list = program.lists[static_cast<std::size_t>(rank)];
            const auto ops = choices(program, rank, true);
            if (list.empty() || ops.empty()) continue;
            const auto place = upto(list.size());
            // A wait names a place in the list, so it is only appended.
            if (const auto& op = ops[upto(ops.size())]; op.kind == Op::wait)
                list.size() < 5 ? list.push_back(op) : void();
            else if (std::ranges::none_of(list, [](const Op& other) { return other.kind == Op::wait; }))
                list[place] = op;
        }
        expect_agreement(program, counts);
    }
    report("random", counts);
}

TEST(CallOrder, SaysTheCycleInWords) {
    auto order = CallOrder(3);
    const auto ab = order.communicator("'ab'", {0, 1});
    const auto bc = order.communicator("'bc'", {1, 2});
    const auto ca = order.communicator("'ca'", {0, 2});
    order.call(0, ab, "all_reduce"), order.call(0, ca, "barrier");
    order.call(1, bc, "all_gather"), order.call(1, ab, "all_reduce");
    order.recv(2, ca, 0), order.call(2, bc, "all_gather"), order.call(2, ca, "barrier");
    EXPECT_EQ(to_string(order.deadlock().value()),
              "rank 0 waits in all_reduce, call 1 on 'ab' {0, 1}, for rank 1, which waits in all_gather, "
              "call 1 on 'bc' "
              "{1, 2}, for rank 2, which waits in recv from 0, message 1 on 'ca' {0, 2}, for rank 0");
}

TEST(CallOrder, SaysWhatTheDocumentShows) {
    auto order = CallOrder(2);
    const auto tp = order.communicator("'tp'", {0, 1});
    const auto dp = order.communicator("'dp'", {0, 1});
    order.call(0, tp, "all_reduce"), order.call(0, dp, "barrier");
    order.call(1, dp, "barrier"), order.call(1, tp, "all_reduce");
    EXPECT_EQ(
        to_string(order.deadlock().value()),
        "rank 0 waits in all_reduce, call 1 on 'tp' {0, 1}, for rank 1, which waits in barrier, call 1 on "
        "'dp' {0, 1}, for rank 0");
}

TEST(CallOrder, SaysThatAListEndsWithoutTheCall) {
    auto order = CallOrder(2);
    const auto tp = order.communicator("'tp'", {0, 1});
    order.call(0, tp, "barrier"), order.call(0, tp, "all_reduce");
    order.call(1, tp, "barrier");
    EXPECT_EQ(to_string(order.deadlock().value()),
              "rank 0 waits in all_reduce, call 2 on 'tp' {0, 1}, for rank 1, whose list ends without it");
}

TEST(CallOrder, TakesListsThatBeginLaterAndRanksOfWhichNothingIsKnown) {
    auto order = CallOrder(3);
    const auto all = order.communicator("'all'", {0, 1, 2});
    order.call(0, all, "barrier"), order.call(0, all, "barrier");
    order.skip(1, all, 1), order.call(1, all, "barrier");
    order.unknown(2);
    EXPECT_FALSE(order.deadlock());
    order.call(1, all, "barrier");
    ASSERT_TRUE(order.deadlock());
    EXPECT_EQ(order.deadlock()->chain.front().number, 3);
    EXPECT_EQ(order.deadlock()->chain.front().waits_for, 0);
}

TEST(CallOrder, RefusesWhatNoProgramCanDo) {
    EXPECT_THROW(CallOrder(0), UsageError);
    auto order = CallOrder(3);
    EXPECT_THROW(order.communicator("'x'", {0, 3}), UsageError);
    EXPECT_THROW(order.communicator("'x'", {0, 0}), UsageError);
    const auto tp = order.communicator("'tp'", {0, 1});
    EXPECT_THROW(order.call(2, tp, "barrier"), UsageError);
    EXPECT_THROW(order.call(0, tp + 1, "barrier"), UsageError);
    EXPECT_THROW(order.send(0, tp, 2), UsageError);
    EXPECT_THROW(order.wait(0, 0), UsageError);
    EXPECT_THROW(order.start_messages(0, tp, "batch", {}), UsageError);
}

}  // namespace
}  // namespace rankmesh
