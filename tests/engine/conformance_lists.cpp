// SPDX-License-Identifier: Apache-2.0
// Lists of buffers: what each gets is what it would get from one call of its own.
#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <functional>
#include <random>

#include <rankmesh/core/text.hpp>

#include "conformance.hpp"
#include "operations.hpp"

using namespace rankmesh;
using operations::bf16;
using operations::Token;
using operations::Types;
using operations::Values;

namespace {

/// Buffers of many types, and what is to come of them.
class List {
public:
    /// Adds `given` to those that are read and written, or to those that are only read if `read` says so.
    template <class T>
    void add(Values<T> given, Values<T> wanted, bool read = false) {
        auto kept = std::make_shared<Values<T>>(std::move(given));
        if (read)
            ins.add(*kept);
        else
            outs.add(*kept);
        checks_.push_back([kept, wanted = std::move(wanted), number = checks_.size()] {
            operations::expect_same(*kept, wanted, "buffer " + std::to_string(number));
        });
    }
    /// Adds `given` to those that are read, and `count` of its elements from `first` on to those that are
    /// written. What the operation leaves undefined of it is not looked at.
    template <class T>
    void add_in_place(Values<T> given, Values<T> wanted, std::size_t first, std::size_t count) {
        auto kept = std::make_shared<Values<T>>(std::move(given));
        ins.add(*kept);
        outs.add(std::span<T>(kept->begin() + first, count));
        checks_.push_back([=, wanted = std::move(wanted), number = checks_.size()] {
            operations::expect_same(*kept, wanted, "buffer " + std::to_string(number), first, first + count);
        });
    }
    void verify() const {
        for (const auto& check : checks_) check();
    }

    ConstBuffers ins;
    Buffers outs;

private:
    std::vector<std::function<void()>> checks_;
};

/// Calls `body` with a type, or a count, that every rank draws alike.
template <class... T, class Body>
void draw(Types<T...>, std::mt19937& random, Body&& body) {
    const auto drawn = random() % sizeof...(T);
    constexpr std::size_t lengths[] = {0, 1, 3, 16, 17, 40};
    const auto length = lengths[random() % std::size(lengths)];
    auto i = std::size_t{0};
    ((i++ == drawn ? body(T{}, length) : void()), ...);
}

using Numbers = Types<float, double, bf16, std::int32_t, std::int64_t>;
using Sums = Types<float, double, bf16, std::int32_t, std::int64_t, std::complex<float>>;
using Truths = Types<std::int32_t, bool, std::int64_t>;
using Floats = Types<float, double, bf16, std::complex<float>, std::complex<double>>;
using Movables = Types<float, double, bf16, std::int32_t, std::int64_t, bool, Token>;

/// Each way to run a list: packed into one, into several, not at all, and started.
void in_every_way(const std::function<void(std::mt19937&, const ListOptions&, bool start)>& body) {
    for (auto bytes : {std::size_t{0}, std::size_t{64}, std::size_t{200}, ListOptions{}.bucket_bytes})
        for (auto start : {false, true})
            for (unsigned seed = 1; seed <= 3; ++seed) {
                SCOPED_TRACE(detail::cat("buckets of ", bytes, " bytes, ", start ? "started" : "blocking",
                                         ", seed ", seed));
                auto random = std::mt19937(seed);
                body(random, {.bucket_bytes = bytes}, start);
            }
}

constexpr auto many = 25;

template <class... T, class R>
void check_all_reduce(Types<T...> types, R, Communicator& on, int me) {
    const auto ranks = on.world_ranks();
    in_every_way([&](std::mt19937& random, const ListOptions& options, bool start) {
        auto list = List();
        for (int b = 0; b < many; ++b)
            draw(types, random, [&]<class Drawn>(Drawn, std::size_t length) {
                const auto at = [&](std::size_t i) { return i + static_cast<std::size_t>(b); };
                list.add<Drawn>(
                    {length, [&](std::size_t i) { return operations::payload<Drawn>(R::value, me, at(i)); }},
                    {length,
                     [&](std::size_t i) { return operations::reduced<Drawn>(ranks, at(i), R::value); }});
            });
        if (start)
            on.start().all_reduce(list.outs, R{}, options).wait();
        else
            on.all_reduce(list.outs, R{}, options);
        list.verify();
    });
}

/// Buffers whose parts are scattered, each into a buffer of its own or, every third, into its own part.
template <class... T, class R>
void check_reduce_scatter(Types<T...> types, R, Communicator& on, int me) {
    const auto ranks = on.world_ranks();
    const auto n = static_cast<std::size_t>(on.size());
    in_every_way([&](std::mt19937& random, const ListOptions& options, bool start) {
        auto list = List();
        for (int b = 0; b < many; ++b)
            draw(types, random, [&]<class Drawn>(Drawn, std::size_t length) {
                const auto first = static_cast<std::size_t>(on.rank()) * length;
                const auto at = [&](std::size_t i) { return i + static_cast<std::size_t>(b); };
                const auto given = [&](std::size_t i) {
                    return operations::payload<Drawn>(R::value, me, at(i));
                };
                const auto result = [&](std::size_t i) {
                    return operations::reduced<Drawn>(ranks, at(i), R::value);
                };
                if (b % 3 == 0)
                    list.add_in_place<Drawn>({n * length, given}, {n * length, result}, first, length);
                else {
                    list.add<Drawn>({n * length, given}, {n * length, given}, true);
                    list.add<Drawn>(operations::blank<Values<Drawn>>(length),
                                    {length, [&](std::size_t i) { return result(first + i); }});
                }
            });
        if (start)
            on.start().reduce_scatter(list.ins, list.outs, R{}, options).wait();
        else
            on.reduce_scatter(list.ins, list.outs, R{}, options);
        list.verify();
    });
}

/// What buffer `b` of world rank `rank` holds.
template <class T>
Values<T> marks(int rank, int b, std::size_t length) {
    return {length,
            [&](std::size_t i) { return operations::mark<T>(rank, i + 50 * static_cast<std::size_t>(b)); }};
}

}  // namespace

TEST(Conformance, AListIsReducedAsItsBuffersByThemselves) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        check_all_reduce(Sums{}, rankmesh::sum, on, world.rank());
        check_all_reduce(Numbers{}, rankmesh::max, on, world.rank());
        check_all_reduce(Floats{}, rankmesh::mean, on, world.rank());
        if (operations::takes(rankmesh::detail::Operation::all_reduce, Reduction::logical_xor,
                              DType::boolean))
            check_all_reduce(Truths{}, rankmesh::logical_xor, on, world.rank());
    });
}

TEST(Conformance, AListOfAnyTypesIsBroadcastFromEveryRoot) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (int root = 0; root < world.size(); ++root)
            in_every_way([&](std::mt19937& random, const ListOptions& options, bool start) {
                auto list = List();
                for (int b = 0; b < many; ++b)
                    draw(Movables{}, random, [&]<class T>(T, std::size_t length) {
                        list.add(marks<T>(world.rank(), b, length), marks<T>(root, b, length));
                    });
                if (start)
                    on.start().broadcast(list.outs, root, options).wait();
                else
                    on.broadcast(list.outs, root, options);
                list.verify();
            });
    });
}

TEST(Conformance, AListOfAnyTypesIsGathered) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto ranks = on.world_ranks();
        in_every_way([&](std::mt19937& random, const ListOptions& options, bool start) {
            auto list = List();
            for (int b = 0; b < many; ++b)
                draw(Movables{}, random, [&]<class T>(T, std::size_t length) {
                    const auto mine = marks<T>(world.rank(), b, length);
                    const auto number = static_cast<std::size_t>(b);
                    list.add(mine, mine, true);
                    const auto all = length * static_cast<std::size_t>(world.size());
                    list.add(operations::blank<Values<T>>(all), Values<T>(all, [&](std::size_t i) {
                                 return operations::mark<T>(ranks[i / length], i % length + 50 * number);
                             }));
                });
            if (start)
                on.start().all_gather(list.ins, list.outs, options).wait();
            else
                on.all_gather(list.ins, list.outs, options);
            list.verify();
        });
    });
}

TEST(Conformance, AListIsReducedAndScatteredAsItsBuffersByThemselves) {
    on_every_rank([](World& world) {
        auto me = world.join({{"dp", rest}, {"tp", world.size() % 2 == 0 ? 2 : 1}}, {.over = {{"dp", "tp"}}});
        auto on = me.on("dp", "tp");
        check_reduce_scatter(Numbers{}, rankmesh::sum, on, world.rank());
        check_reduce_scatter(Floats{}, rankmesh::mean, on, world.rank());
        auto part = me.on("dp");
        check_reduce_scatter(Numbers{}, rankmesh::max, part, world.rank());
    });
}

TEST(Conformance, AListIsMadeOfNamedBuffersOrOfARangeOfThem) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        auto layers = std::vector<std::vector<float>>{};
        for (std::size_t i = 0; i < 10; ++i) layers.emplace_back(i * i, static_cast<float>(i));
        auto counter = 1;
        auto array = std::array<double, 3>{1, 2, 3};
        on.all_reduce(Buffers(layers));
        on.all_reduce(Buffers(counter, array, std::span(layers[2]).first(2)), rankmesh::max);
        auto list = Buffers(layers);
        list.add(counter);
        EXPECT_EQ(list.size(), 11U);
        auto pending = on.start().all_reduce(list, rankmesh::sum, {.bucket_bytes = 100});
        list = Buffers();  // what was started needs the buffers, not the list
        pending.wait();
        for (std::size_t i = 0; i < 10; ++i)
            EXPECT_EQ(layers[i],
                      std::vector<float>(i * i, static_cast<float>(i) * static_cast<float>(n * n)));
        EXPECT_EQ(counter, n);
        EXPECT_EQ(array, (std::array<double, 3>{1, 2, 3}));

        const auto mine = std::vector<int>{world.rank()};
        const auto half = static_cast<float>(world.rank()) / 2;
        auto all = std::vector<int>(static_cast<std::size_t>(n));
        auto halves = std::vector<float>(static_cast<std::size_t>(n));
        on.all_gather(ConstBuffers(mine, half), Buffers(all, halves));
        for (std::size_t i = 0; i < all.size(); ++i) {
            EXPECT_EQ(all[i], static_cast<int>(i));
            EXPECT_EQ(halves[i], static_cast<float>(i) / 2);
        }
    });
}

TEST(Conformance, AListMayHoldLargeBuffersAmongSmallOnes) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto ranks = on.world_ranks();
        const auto lengths = {std::size_t{3}, std::size_t{16384}, std::size_t{16385}, std::size_t{5}};
        for (auto start : {false, true}) {
            auto list = List();
            for (auto length : lengths)
                list.add<float>(
                    {length, [&](std::size_t i) { return operations::mark<float>(world.rank(), i); }},
                    {length, [&](std::size_t i) { return operations::mark<float>(ranks.back(), i); }});
            const auto root = on.size() - 1;
            if (start)
                on.start().broadcast(list.outs, root).wait();
            else
                on.broadcast(list.outs, root);
            list.verify();
        }
    });
}

TEST(Conformance, AnEmptyListAndOneOfEmptyBuffersDoNothing) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto none = std::vector<float>{};
        auto no_numbers = std::vector<int>{};
        for (auto bytes : {std::size_t{0}, std::size_t{64}}) {
            const auto options = ListOptions{.bucket_bytes = bytes};
            for (const auto& list : {Buffers(), Buffers(none), Buffers(none, no_numbers, none)}) {
                on.all_reduce(list, rankmesh::sum, options);
                on.broadcast(list, 0, options);
                on.all_gather(list, list, options);
                on.reduce_scatter(list, list, rankmesh::sum, options);
                on.start().reduce_scatter(list, list, rankmesh::sum, options).wait();
                on.start().all_reduce(list, rankmesh::sum, options).wait();
                on.start().broadcast(list, 0, options).wait();
                on.start().all_gather(list, list, options).wait();
            }
        }
        operations::check_all<float>(on, world.rank(), 3);
    });
}

TEST(Conformance, AListThatIsDroppedIsWaitedForAndCopiedBack) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto x = std::vector<float>(10, 1);
        auto y = std::vector<float>(20, 1);
        { const auto dropped = on.start().all_reduce(Buffers(x, y)); }
        const auto n = static_cast<float>(world.size());
        EXPECT_EQ(x, std::vector<float>(10, n));
        EXPECT_EQ(y, std::vector<float>(20, n));
        auto first = on.start().all_reduce(Buffers(x, y));
        auto second = on.start().broadcast(Buffers(y), 0);
        auto moved = std::move(first);
        second.wait();
        while (!moved.done()) on.size();
        moved.wait();
        EXPECT_EQ(x, std::vector<float>(10, n * n));
    });
}

TEST(Conformance, AListWithAWrongBufferIsRefusedByItsNumberBeforeSending) {
    on_every_rank([](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto n = world.size();
        const auto where = detail::cat("on 'dp' of mesh dp=", n);
        const auto given = std::vector<float>{1, 2, 3};
        auto x = given;
        auto whole = std::vector<int>{4, 5};
        auto truth = true;
        auto token = Token{1, 2};
        auto phase = std::complex<float>(1, 2);
        auto room = std::vector<float>(static_cast<std::size_t>(3 * n), 7);
        auto wrong = std::vector<int>(static_cast<std::size_t>(2 * n + 1), 7);
        const auto options = ListOptions{.bucket_bytes = 0};
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(Buffers(x, whole), mean, options); }),
            detail::cat("buffer 1 of a list: all_reduce ", where, ": mean makes no sense on i32 elements"));
        EXPECT_EQ(
            text_of<UsageError>([&] { on.start().all_reduce(Buffers(x, whole), mean, options).wait(); }),
            detail::cat("buffer 1 of a list: all_reduce ", where, ": mean makes no sense on i32 elements"));
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(Buffers(x, truth)); }),
            detail::cat("buffer 1 of a list: all_reduce ", where, ": sum makes no sense on bool elements"));
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(Buffers(x, x, token)); }),
                  "buffer 2 of a list: sum makes no sense on struct elements");
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(Buffers(token), rankmesh::bit_or); }),
                  "buffer 0 of a list: bit_or makes no sense on struct elements");
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(Buffers(x, phase), rankmesh::prod); }),
                  "buffer 1 of a list: prod makes no sense on complex elements");
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_reduce(Buffers(whole, x), rankmesh::bit_or); }),
            detail::cat("buffer 1 of a list: all_reduce ", where, ": bit_or makes no sense on f32 elements"));
        EXPECT_EQ(text_of<UsageError>([&] { on.all_gather(ConstBuffers(x, whole), Buffers(room), options); }),
                  detail::cat("a list all_gather ", where,
                              " was given 2 buffers in and 1 out; both must be equal"));
        EXPECT_EQ(
            text_of<UsageError>(
                [&] { on.all_gather(ConstBuffers(x, whole), Buffers(room, wrong), options); }),
            detail::cat("buffer 1 of a list: all_gather ", where, " (", n,
                        " ranks) was given 2 elements in and ", 2 * n + 1, " out; out must hold ", 2 * n));
        EXPECT_EQ(
            text_of<UsageError>([&] { on.all_gather(ConstBuffers(x, whole), Buffers(room, room), options); }),
            "buffer 1 of a list: it holds i32 in and f32 out");
        EXPECT_EQ(
            text_of<UsageError>([&] { on.reduce_scatter(ConstBuffers(room, wrong), Buffers(x, whole)); }),
            detail::cat("buffer 1 of a list: reduce_scatter ", where, " (", n, " ranks) was given ",
                        2 * n + 1, " elements in and 2 out; in must hold ", 2 * n));
        EXPECT_EQ(text_of<UsageError>([&] { on.reduce_scatter(ConstBuffers(room), Buffers(x, whole)); }),
                  detail::cat("a list reduce_scatter ", where,
                              " was given 1 buffers in and 2 out; both must be equal"));
        EXPECT_EQ(text_of<UsageError>([&] {
                      on.start().reduce_scatter(ConstBuffers(whole), Buffers(whole), mean, options).wait();
                  }),
                  detail::cat("buffer 0 of a list: reduce_scatter ", where,
                              ": mean makes no sense on i32 elements"));
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(Buffers(x, room, std::span(x).last(1))); }),
                  "buffers 0 and 2 of a list overlap; name what they share once");
        EXPECT_EQ(x, given);
        EXPECT_EQ(whole, (std::vector<int>{4, 5}));
        EXPECT_EQ(room, std::vector<float>(static_cast<std::size_t>(3 * n), 7));
        on.all_reduce(Buffers(x), rankmesh::max);
        EXPECT_EQ(x, given);
        operations::check_all<float>(on, world.rank(), 3);
    });
}

TEST(Conformance, ListsOfOneLengthWhosePartsDifferDisagreeOnEveryRank) {
    on_every_rank([](World& world) {
        if (world.size() == 1) return;
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto is_odd = world.rank() == world.size() - 1;
        auto a = std::vector<float>(is_odd ? 3 : 2, 1.0F);
        auto b = std::vector<float>(is_odd ? 2 : 3, 10.0F);
        try {
            on.all_reduce(Buffers(a, b));
            ADD_FAILURE() << "the lists agreed";
        } catch (const Disagreement& error) {
            const auto text = std::string(error.what());
            EXPECT_NE(text.find("all_reduce of 5 f32 by sum, a list of layout "), std::string::npos) << text;
            EXPECT_TRUE(text.ends_with(is_odd ? "; the list of this rank: 3 f32, 2 f32"
                                              : "; the list of this rank: 2 f32, 3 f32"))
                << text;
        }
    });
}
