// SPDX-License-Identifier: Apache-2.0
// Programs and payloads that are drawn from a seed.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <random>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;
using operations::Running;
using operations::Suite;
using operations::Values;

namespace {

/// A list of buffers of type T, reduced, broadcast or gathered.
template <class T>
Running run_list(Communicator& on, int me, std::size_t count, std::mt19937& random, bool start) {
    struct Lists {
        std::vector<Values<T>> ins;
        std::vector<Values<T>> outs;
        std::vector<Values<T>> wanted;
    };
    auto lists = std::make_shared<Lists>();
    const auto ranks = on.world_ranks();
    const auto root = static_cast<int>(random() % ranks.size());
    const auto which = random() % 3;
    const auto options = ListOptions{.bucket_bytes = random() % 400};
    for (unsigned b = 0, many = random() % 8; b < many; ++b) {
        const auto n = (count + b * 7) % 50;
        const auto at = [&](std::size_t i) { return i + b; };
        const auto of = [&](int rank) {
            return Values<T>(n, [&](std::size_t i) { return operations::value<T>(rank, at(i)); });
        };
        lists->ins.push_back(of(me));
        lists->outs.push_back(which < 2 ? of(me) : operations::blank<Values<T>>(n * ranks.size()));
        if (which == 0)
            lists->wanted.emplace_back(
                n, [&](std::size_t i) { return operations::reduced<T>(ranks, at(i), Reduction::sum); });
        else if (which == 1)
            lists->wanted.push_back(of(on.world_rank(root)));
        else
            lists->wanted.emplace_back(n * ranks.size(), [&](std::size_t i) {
                return operations::value<T>(ranks[i / n], at(i % n));
            });
    }
    const auto outs = Buffers(lists->outs);
    auto made = Running{};
    if (which == 0 && start)
        made.pending.push_back(on.start().all_reduce(outs, rankmesh::sum, options));
    else if (which == 0)
        on.all_reduce(outs, rankmesh::sum, options);
    else if (which == 1 && start)
        made.pending.push_back(on.start().broadcast(outs, root, options));
    else if (which == 1)
        on.broadcast(outs, root, options);
    else if (start)
        made.pending.push_back(on.start().all_gather(ConstBuffers(lists->ins), outs, options));
    else
        on.all_gather(ConstBuffers(lists->ins), outs, options);
    made.verify = [lists] {
        for (std::size_t b = 0; b < lists->outs.size(); ++b)
            operations::expect_same(lists->outs[b], lists->wanted[b], "list, buffer " + std::to_string(b));
    };
    return made;
}

/// One operation of any kind.
template <class T>
std::vector<Running> draw(Communicator& on, int me, std::mt19937& random) {
    const auto start = random() % 2 == 0;
    const auto root = static_cast<int>(random() % static_cast<unsigned>(on.size()));
    const auto group_rank = [&] { return static_cast<int>(random() % static_cast<unsigned>(on.size())); };
    auto suite = Suite<T>(on, me, random() % 50);
    auto made = std::vector<Running>{};
    const auto which = static_cast<int>(random() % 40);
    if (which < Suite<T>::moves) {
        made.push_back(suite.move(which, root, start));
    } else if (which < 28) {
        auto messages = std::vector<operations::Message>{};
        for (auto left = random() % 20; left > 0; --left) {
            const auto from = group_rank();
            messages.push_back({from, group_rank()});
        }
        made.push_back(suite.messages(messages, start));
    } else if (which < 33) {
        made.push_back(run_list<T>(on, me, random() % 50, random, start));
    } else if (which % 2 == 0) {
        return suite.reduce_by(rankmesh::sum, root, start);
    } else {
        return suite.reduce_by(rankmesh::max, root, start);
    }
    return made;
}

/// Element i of what `rank` has: any number, of any of a few magnitudes.
double fraction(int rank, std::size_t i) {
    auto bits = (static_cast<std::uint64_t>(rank) << 32 | i) * 0x9e3779b97f4a7c15U;
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebU;
    const auto mantissa = static_cast<double>(static_cast<std::int64_t>(bits)) / 9223372036854775808.0;
    return std::ldexp(mantissa, static_cast<int>(bits >> 7 & 7U) - 4);
}

template <class T>
double number_of(T value) {
    if constexpr (std::same_as<T, double>)
        return value;
    else
        return static_cast<double>(static_cast<float>(value));
}

/// Sums of what cannot be added exactly are as close to the truth as n roundings leave them.
template <class T>
void check_tolerance(Communicator& on, double epsilon) {
    constexpr auto count = std::size_t{200};
    const auto n = on.world_ranks().size();
    const auto element = [](int rank, std::size_t i) {
        if constexpr (std::same_as<T, double>)
            return fraction(rank, i);
        else
            return T(static_cast<float>(fraction(rank, i)));
    };
    const auto close = [&](T got, std::size_t i, const std::vector<int>& ranks, const char* what) {
        auto sum = 0.0L;
        auto size = 0.0L;
        for (auto rank : ranks) {
            const auto exact = static_cast<long double>(number_of(element(rank, i)));
            sum += exact;
            size += std::fabs(exact);
        }
        const auto off = std::fabs(static_cast<long double>(number_of(got)) - sum);
        EXPECT_LE(off, static_cast<long double>(ranks.size()) * static_cast<long double>(epsilon) * size)
            << what << " of " << typeid(T).name() << ", element " << i;
    };
    const auto ranks = on.world_ranks();
    const auto before = std::vector<int>(ranks.begin(), ranks.begin() + on.rank() + 1);
    const auto mine = [&](std::size_t i) { return element(ranks[static_cast<std::size_t>(on.rank())], i); };
    const auto in = Values<T>(count * n, mine);
    const auto first = std::span(in.begin(), count);
    auto all = Values<T>(count);
    auto part = Values<T>(count);
    auto prefix = Values<T>(count);
    auto at_root = Values<T>(count);
    auto packed = Values<T>(count, mine);
    on.all_reduce(first, all);
    on.reduce_scatter(in, part);
    on.scan(first, prefix);
    on.reduce(first, at_root, rankmesh::sum, on.size() - 1);
    on.all_reduce(Buffers(packed));
    for (std::size_t i = 0; i < count; ++i) {
        close(all[i], i, ranks, "all_reduce");
        close(part[i], static_cast<std::size_t>(on.rank()) * count + i, ranks, "reduce_scatter");
        close(prefix[i], i, before, "scan");
        if (on.rank() == on.size() - 1) close(at_root[i], i, ranks, "reduce");
        close(packed[i], i, ranks, "all_reduce of a list");
    }
}

}  // namespace

// What every element must be follows from the numbers of the ranks alone: two engines that both pass have
// computed the same.
TEST(Conformance, RandomSequencesOverSeveralCommunicatorsGiveWhatTheMeshSays) {
    on_every_rank([](World& world) {
        const auto mesh = meshes_of(world.size()).back();
        auto options = Declaration{.over = {Axes(mesh.name(AxisId{0})).separate("other")}};
        for (int a = 1; a < mesh.axis_count(); ++a)
            options.over.push_back(Axes(mesh.name(AxisId{0}), mesh.name(AxisId{a})));
        auto me = world.join(mesh, options);
        auto on = std::vector<Communicator>{};
        on.push_back(me.on("other"));
        for (int a = 0; a < mesh.axis_count(); ++a) on.push_back(me.on(AxisId{a}));
        for (int a = 1; a < mesh.axis_count(); ++a) on.push_back(me.on(AxisId{0}, AxisId{a}));
        for (unsigned seed = 1; seed <= 8; ++seed) {
            SCOPED_TRACE("seed " + std::to_string(seed));
            auto random = std::mt19937(seed);  // every rank draws the same sequence
            auto flying = std::vector<Running>{};
            const auto complete_all = [&] {
                // In the same order on every rank, which is not that of their starts.
                for (std::size_t i = flying.size(); i-- > 0;) flying[i].finish();
                flying.clear();
            };
            for (int step = 0; step < 100; ++step) {
                auto& communicator = on[random() % on.size()];
                auto drawn = random() % 2 == 0 ? draw<std::int64_t>(communicator, world.rank(), random)
                                               : draw<float>(communicator, world.rank(), random);
                for (auto& running : drawn) flying.push_back(std::move(running));
                if (random() % 8 == 0) complete_all();
            }
            complete_all();
        }
    });
}

TEST(Conformance, SumsOfFractionsAreAsCloseAsTheirRoundings) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        check_tolerance<double>(on, std::ldexp(1.0, -52));
        check_tolerance<float>(on, std::ldexp(1.0, -23));
        check_tolerance<f16>(on, std::ldexp(1.0, -10));
        check_tolerance<bf16>(on, std::ldexp(1.0, -7));
    });
}

TEST(Conformance, WhetherItWorksInPlaceIsEachMembersOwnChoice) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto ranks = on.world_ranks();
        const auto n = ranks.size();
        const auto r = static_cast<std::size_t>(on.rank());
        for (auto start : {false, true})
            for (auto count : {std::size_t{1}, std::size_t{7}, std::size_t{3000}})
                for (int step = 0; step < 2; ++step) {
                    SCOPED_TRACE(detail::cat(start ? "started" : "blocking", ", ", count, " elements"));
                    const auto in_place = (world.rank() + step) % 2 == 0;
                    const auto marks = [](int rank, std::size_t length) {
                        return Values<int>(length,
                                           [&](std::size_t i) { return operations::mark<int>(rank, i); });
                    };
                    const auto run = [&](auto&& call, auto&& started) {
                        if (start)
                            started().wait();
                        else
                            call();
                    };
                    auto sum = marks(world.rank(), count);
                    auto total = Values<int>(count);
                    run([&] { in_place ? on.all_reduce(sum) : on.all_reduce(sum, total); },
                        [&] {
                            return in_place ? on.start().all_reduce(sum) : on.start().all_reduce(sum, total);
                        });
                    const auto wanted = Values<int>(count, [&](std::size_t i) {
                        auto all = 0;
                        for (auto rank : ranks) all += operations::mark<int>(rank, i);
                        return all;
                    });
                    operations::expect_same(in_place ? sum : total, wanted, "all_reduce");

                    auto crossed = marks(world.rank(), count * n);
                    auto across = Values<int>(count * n);
                    run([&] { in_place ? on.all_to_all(crossed) : on.all_to_all(crossed, across); },
                        [&] {
                            return in_place ? on.start().all_to_all(crossed)
                                            : on.start().all_to_all(crossed, across);
                        });
                    operations::expect_same(in_place ? crossed : across,
                                            Values<int>(count * n,
                                                        [&](std::size_t i) {
                                                            return operations::mark<int>(
                                                                ranks[i / count], r * count + i % count);
                                                        }),
                                            "all_to_all");

                    const auto own = marks(world.rank(), count);
                    auto gathered = operations::blank<Values<int>>(count * n);
                    if (in_place) std::ranges::copy(own, gathered.begin() + r * count);
                    run([&] { in_place ? on.all_gather(gathered) : on.all_gather(own, gathered); },
                        [&] {
                            return in_place ? on.start().all_gather(gathered)
                                            : on.start().all_gather(own, gathered);
                        });
                    operations::expect_same(gathered,
                                            Values<int>(count * n,
                                                        [&](std::size_t i) {
                                                            return operations::mark<int>(ranks[i / count],
                                                                                         i % count);
                                                        }),
                                            "all_gather");
                }
    });
}

TEST(Conformance, WhetherACallIsStartedIsEachMembersOwnChoice) {
    on_every_rank([](World& world) {
        if (world.engine() == "mpi" && !is_checked()) return;  // which the MPI standard forbids
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = on.size();
        auto sizes = std::mt19937(7);  // every rank draws the same ones
        auto choices = std::mt19937(static_cast<unsigned>(world.rank()));
        for (auto step = 0; step < 300; ++step) {
            const auto count = std::array{1, 2, 100, 1023, 1024, 1025, 20'000}[sizes() % 7];
            const auto repeats = sizes() % 20 == 0 ? 70 : 1;  // long enough that calls bring less data
            const auto root = static_cast<int>(sizes() % static_cast<unsigned>(n));
            for (auto repeat = 0; repeat < repeats; ++repeat) {
                SCOPED_TRACE(detail::cat("step ", step, ", ", count, " elements"));
                const auto starts = choices() % 2 == 0;
                const auto all = [&](int value) {
                    return Values<int>(static_cast<std::size_t>(count), [=](std::size_t) { return value; });
                };
                auto sum = all(on.rank() + step);
                starts ? on.start().all_reduce(sum).wait() : on.all_reduce(sum);
                operations::expect_same(sum, all(n * (n - 1) / 2 + n * step), "all_reduce");
                auto copy = all(on.rank() == root ? step : -1);
                starts ? on.start().broadcast(copy, root).wait() : on.broadcast(copy, root);
                operations::expect_same(copy, all(step), "broadcast");
            }
        }
    });
}
