// SPDX-License-Identifier: Apache-2.0
// Memory of a type that is known only at run time is a buffer like those whose type the compiler knows.
#include <rankmesh/engine/device.hpp>

#include <gtest/gtest.h>

#include <numeric>

#include <rankmesh/engine/threads.hpp>

#include "operations.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;

namespace {

static_assert(Buffer<Memory<void>> && OutBuffer<Memory<void>> && Outlives<Memory<void>>);
static_assert(Buffer<Memory<const void>> && !OutBuffer<Memory<const void>>);
static_assert(Reduces<decltype(mean), void> && !Scans<decltype(mean), void>);
static_assert(std::same_as<decltype(Memory(std::declval<const void*>(), 1, DType::f32)), Memory<const void>>);

/// The elements of a vector by a type that is said at run time.
template <class T>
Memory<void> untyped(std::vector<T>& values) {
    return {values.data(), values.size(), dtype_of<T>::value, Space::host};
}
template <class T>
Memory<const void> untyped(const std::vector<T>& values) {
    return {values.data(), values.size(), dtype_of<T>::value, Space::host};
}

template <class T>
std::vector<T> marks(int rank, std::size_t count) {
    auto values = std::vector<T>{};
    for (std::size_t i = 0; i < count; ++i) values.push_back(operations::mark<T>(rank, i));
    return values;
}

constexpr auto world_size = 3;
constexpr auto count = std::size_t{12};

/// What all_reduce makes of two vectors, and of the same by a type of run time: results, or a refusal.
template <class T, class R>
void check_reduction(Communicator& on, R reduction) {
    auto given = std::vector<T>{};
    for (std::size_t i = 0; i < count; ++i) given.push_back(operations::payload<T>(R::value, on.rank(), i));
    const auto in = given;
    auto out = std::vector<T>(count);
    auto listed = in;
    const auto of_one = [&] { on.all_reduce(untyped(in), untyped(out), reduction); };
    const auto of_a_list = [&] { on.all_reduce(Buffers(untyped(listed)), reduction); };
    if constexpr (Reduces<R, T>) {
        on.all_reduce(given, reduction);
        of_one();
        of_a_list();
        EXPECT_EQ(out, given);
        EXPECT_EQ(listed, given);
    } else {
        const auto refusal = detail::cat("all_reduce on 'dp' of mesh dp=3: ", to_string(R::value),
                                         " makes no sense on ", to_string(dtype_of<T>::value), " elements");
        EXPECT_EQ(text_of(of_one), refusal);
        EXPECT_EQ(text_of(of_a_list), "buffer 0 of a list: " + refusal);
    }
}

/// What moves, with one side by a type of run time, and both.
template <class T>
void check_moves(Communicator& on) {
    const auto in = marks<T>(on.rank(), count);
    const auto counts = std::vector<std::size_t>(world_size, count / world_size);
    const auto both = [&](auto&& operation) {
        auto expected = std::vector<T>(count);
        auto out = expected;
        auto mixed = expected;
        operation(in, expected);
        operation(untyped(in), untyped(out));
        operation(untyped(in), mixed);
        EXPECT_EQ(out, expected);
        EXPECT_EQ(mixed, expected);
    };
    both([&](const auto& from, auto&& to) { on.all_to_all(from, to); });
    both([&](const auto& from, auto&& to) { on.all_to_all_v(from, counts, to, counts); });
    both([&](const auto& from, auto&& to) { on.start().shift(from, to).wait(); });
    both([&](const auto& from, auto&& to) {
        on.send_recv(from, (on.rank() + 1) % world_size, to, (on.rank() + 2) % world_size);
    });
    auto everything = std::vector<T>(count * world_size);
    auto listed = everything;
    on.all_gather(untyped(in), everything);
    on.all_gather(ConstBuffers(untyped(in)), Buffers(untyped(listed)));
    for (std::size_t i = 0; i < everything.size(); ++i)
        EXPECT_EQ(everything[i], operations::mark<T>(static_cast<int>(i / count), i % count));
    EXPECT_EQ(listed, everything);
}

}  // namespace

TEST(Memory, OfATypeThatIsKnownAtRunTimeGivesWhatThatTypeGives) {
    threads::run(world_size, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto check = [&]<class T>(T) {
            SCOPED_TRACE(to_string(dtype_of<T>::value));
            check_moves<T>(on);
            check_reduction<T>(on, sum);
            check_reduction<T>(on, prod);
            check_reduction<T>(on, rankmesh::max);
            check_reduction<T>(on, mean);
            check_reduction<T>(on, rankmesh::bit_or);
            check_reduction<T>(on, rankmesh::logical_and);
        };
        check(std::int8_t{}), check(std::int16_t{}), check(std::int32_t{}), check(std::int64_t{});
        check(std::uint8_t{}), check(std::uint16_t{}), check(std::uint32_t{}), check(std::uint64_t{});
        check(std::byte{}), check(f8e4m3{}), check(f8e5m2{}), check(f16{}), check(bf16{});
        check(1.0f), check(1.0);
    });
}

TEST(Memory, OfTwoTypesInOneOperationIsAUsageError) {
    threads::run(1, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto floats = std::vector<float>(2);
        auto integers = std::vector<int>(2);
        const auto refusal = "all_reduce was given f32 elements in and i32 out; both must be of one type";
        EXPECT_EQ(text_of([&] { on.all_reduce(untyped(floats), untyped(integers)); }), refusal);
        EXPECT_EQ(text_of([&] { on.all_reduce(floats, untyped(integers)); }), refusal);
        EXPECT_EQ(text_of([&] { on.all_reduce(untyped(floats), integers); }), refusal);
        EXPECT_EQ(text_of([&] { on.all_gather(ConstBuffers(untyped(floats)), Buffers(integers)); }),
                  "buffer 0 of a list: it holds f32 in and i32 out");
    });
}
