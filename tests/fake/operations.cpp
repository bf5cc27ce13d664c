// SPDX-License-Identifier: Apache-2.0
// Every operation, type and reduction against brute force.
#include <cmath>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include "fake/ranks.hpp"

namespace {

using namespace ranks;

template <class T, ncclDataType_t type>
struct Typed {
    using Element = T;
    static constexpr auto name = type;
};
using Types =
    std::tuple<Typed<std::int8_t, ncclInt8>, Typed<std::uint8_t, ncclUint8>, Typed<std::int32_t, ncclInt32>,
               Typed<std::uint32_t, ncclUint32>, Typed<std::int64_t, ncclInt64>,
               Typed<std::uint64_t, ncclUint64>, Typed<__half, ncclFloat16>, Typed<float, ncclFloat32>,
               Typed<double, ncclFloat64>, Typed<__nv_bfloat16, ncclBfloat16>,
               Typed<__nv_fp8_e4m3, ncclFloat8e4m3>, Typed<__nv_fp8_e5m2, ncclFloat8e5m2>>;

template <class T>
T element(double value) {
    if constexpr (std::is_integral_v<T>)
        return static_cast<T>(static_cast<std::int64_t>(value));
    else if constexpr (std::is_same_v<T, double>)
        return value;
    else
        return T(static_cast<float>(value));
}
template <class T>
double number(T value) {
    if constexpr (std::is_arithmetic_v<T>)
        return static_cast<double>(value);
    else
        return static_cast<double>(static_cast<float>(value));
}
template <class T>
std::vector<double> numbers(const Array<T>& array) {
    auto all = std::vector<double>{};
    for (const auto each : array.values()) all.push_back(number(each));
    return all;
}

/// What rank `from` has at `i`: small, and below 0 too where the type knows that.
template <class T>
double at(int from, std::size_t i) {
    const auto value = static_cast<double>((static_cast<std::size_t>(from) * 5 + i * 3) % 7);
    return std::is_unsigned_v<T> ? value : value - 2;
}
template <class T>
std::vector<T> made(int from, std::size_t size) {
    auto values = std::vector<T>{};
    for (std::size_t i = 0; i < size; ++i) values.push_back(element<T>(at<T>(from, i)));
    return values;
}

/// The reduction over all ranks at one index, rounded to the type.
template <class T>
double reduced(ncclRedOp_t reduction, int size, std::size_t i) {
    auto all = at<T>(0, i);
    for (int from = 1; from < size; ++from) {
        const auto next = at<T>(from, i);
        all = reduction == ncclProd  ? all * next
              : reduction == ncclMax ? std::max(all, next)
              : reduction == ncclMin ? std::min(all, next)
                                     : all + next;
    }
    if (reduction == ncclAvg) {
        all /= size;
        if (std::is_integral_v<T>) all = std::trunc(all);
    }
    return number(element<T>(all));
}

constexpr auto count = std::size_t{5};

template <class Type>
void reductions(const Rank& rank) {
    using T = typename Type::Element;
    const auto n = static_cast<std::size_t>(rank.size);
    for (const auto reduction : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
        SCOPED_TRACE(testing::Message() << "type " << Type::name << ", reduction " << reduction);
        const auto root = rank.size - 1;
        const auto in = Array(made<T>(rank.rank, count * n));
        const auto all = Array<T>(count), one = Array<T>(count), part = Array<T>(count);
        EXPECT_NCCL(ncclAllReduce(*in, *all, count, Type::name, reduction, rank.world, rank.stream));
        EXPECT_NCCL(ncclReduce(*in, rank.rank == root ? *one : nullptr, count, Type::name, reduction, root,
                               rank.world, rank.stream));
        EXPECT_NCCL(ncclReduceScatter(*in, *part, count, Type::name, reduction, rank.world, rank.stream));
        rank.synchronize();
        const auto in_all = numbers(all), in_one = numbers(one), in_part = numbers(part);
        for (std::size_t i = 0; i < count; ++i) {
            const auto own = static_cast<std::size_t>(rank.rank) * count + i;
            EXPECT_EQ(in_all[i], reduced<T>(reduction, rank.size, i));
            EXPECT_EQ(in_part[i], reduced<T>(reduction, rank.size, own));
            EXPECT_EQ(in_one[i], rank.rank == root ? reduced<T>(reduction, rank.size, i) : number(T{}));
        }
    }
}

void every_reduction(Rank& rank) {
    [&]<class... Type>(std::tuple<Type...>) { (reductions<Type>(rank), ...); }(Types{});
}

void every_movement(Rank& rank) {
    using T = std::int32_t;
    const auto n = static_cast<std::size_t>(rank.size);
    const auto type = ncclInt32;
    const auto in = Array(made<T>(rank.rank, count * n));
    for (int root = 0; root < rank.size; ++root) {
        const auto is_root = rank.rank == root;
        const auto copy = Array<T>(count), gathered = Array<T>(count * n), part = Array<T>(count);
        EXPECT_NCCL(ncclBroadcast(*in, *copy, count, type, root, rank.world, rank.stream));
        EXPECT_NCCL(
            ncclGather(*in, is_root ? *gathered : nullptr, count, type, root, rank.world, rank.stream));
        EXPECT_NCCL(ncclScatter(is_root ? *in : nullptr, *part, count, type, root, rank.world, rank.stream));
        rank.synchronize();
        const auto in_copy = numbers(copy), in_gathered = numbers(gathered), in_part = numbers(part);
        for (std::size_t i = 0; i < count; ++i) {
            EXPECT_EQ(in_copy[i], at<T>(root, i));
            EXPECT_EQ(in_part[i], at<T>(root, static_cast<std::size_t>(rank.rank) * count + i));
            for (int from = 0; from < rank.size; ++from)
                EXPECT_EQ(in_gathered[static_cast<std::size_t>(from) * count + i],
                          is_root ? at<T>(from, i) : 0);
        }
    }
    const auto all = Array<T>(count * n), turned = Array<T>(count * n);
    EXPECT_NCCL(ncclAllGather(*in, *all, count, type, rank.world, rank.stream));
    EXPECT_NCCL(ncclAlltoAll(*in, *turned, count, type, rank.world, rank.stream));
    rank.synchronize();
    const auto in_all = numbers(all), in_turned = numbers(turned);
    for (int from = 0; from < rank.size; ++from)
        for (std::size_t i = 0; i < count; ++i) {
            const auto here = static_cast<std::size_t>(from) * count + i;
            EXPECT_EQ(in_all[here], at<T>(from, i));
            EXPECT_EQ(in_turned[here], at<T>(from, static_cast<std::size_t>(rank.rank) * count + i));
        }
}

void messages_around_a_ring(Rank& rank) {
    const auto next = (rank.rank + 1) % rank.size, previous = (rank.rank + rank.size - 1) % rank.size;
    const auto in = Array(made<float>(rank.rank, count)), more = Array(made<float>(rank.rank, 2 * count));
    const auto out = Array<float>(count), much = Array<float>(2 * count);
    EXPECT_NCCL(ncclGroupStart());
    EXPECT_NCCL(ncclSend(*in, count, ncclFloat32, next, rank.world, rank.stream));
    EXPECT_NCCL(ncclSend(*more, 2 * count, ncclFloat32, next, rank.world, rank.stream));
    EXPECT_NCCL(ncclRecv(*out, count, ncclFloat32, previous, rank.world, rank.stream));
    EXPECT_NCCL(ncclRecv(*much, 2 * count, ncclFloat32, previous, rank.world, rank.stream));
    EXPECT_NCCL(ncclGroupEnd());
    rank.synchronize();
    for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(numbers(out)[i], at<float>(previous, i));
    for (std::size_t i = 0; i < 2 * count; ++i) EXPECT_EQ(numbers(much)[i], at<float>(previous, i));
}

void in_place(Rank& rank) {
    using T = std::int64_t;
    const auto n = static_cast<std::size_t>(rank.size), own = static_cast<std::size_t>(rank.rank) * count;
    const auto a = Array(made<T>(rank.rank, count)), b = Array(made<T>(rank.rank, count * n));
    const auto c = Array(made<T>(rank.rank, count * n));
    EXPECT_NCCL(ncclAllReduce(*a, *a, count, ncclInt64, ncclSum, rank.world, rank.stream));
    EXPECT_NCCL(ncclReduceScatter(*b, *b + own, count, ncclInt64, ncclSum, rank.world, rank.stream));
    EXPECT_NCCL(ncclAllGather(*c + own, *c, count, ncclInt64, rank.world, rank.stream));
    rank.synchronize();
    const auto in_a = numbers(a), in_b = numbers(b), in_c = numbers(c);
    for (std::size_t i = 0; i < count; ++i) {
        EXPECT_EQ(in_a[i], reduced<T>(ncclSum, rank.size, i));
        EXPECT_EQ(in_b[own + i], reduced<T>(ncclSum, rank.size, own + i));
        for (int from = 0; from < rank.size; ++from) {
            const auto begin = static_cast<std::size_t>(from) * count;
            EXPECT_EQ(in_c[begin + i], at<T>(from, begin + i));
        }
    }
}

void scaled_sums(Rank& rank) {
    auto factor = static_cast<float>(rank.rank + 1);
    const auto on_device = Array(std::vector<float>{factor});
    for (const auto residence : {ncclScalarHostImmediate, ncclScalarDevice}) {
        auto reduction = ncclRedOp_t{};
        EXPECT_NCCL(ncclRedOpCreatePreMulSum(&reduction, residence == ncclScalarDevice ? *on_device : &factor,
                                             ncclFloat32, residence, rank.world));
        const auto in = Array(made<float>(rank.rank, count)), out = Array<float>(count);
        EXPECT_NCCL(ncclAllReduce(*in, *out, count, ncclFloat32, reduction, rank.world, rank.stream));
        EXPECT_NCCL(ncclRedOpDestroy(reduction, rank.world));
        rank.synchronize();
        for (std::size_t i = 0; i < count; ++i) {
            auto sum = 0.0;
            for (int from = 0; from < rank.size; ++from) sum += (from + 1) * at<float>(from, i);
            EXPECT_EQ(numbers(out)[i], sum);
        }
    }
}

void everything(Rank& rank) {
    every_reduction(rank);
    every_movement(rank);
    messages_around_a_ring(rank);
    in_place(rank);
    scaled_sums(rank);
}

const auto named = Named("everything", everything);

}  // namespace

class FakeNcclSizes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, FakeNcclSizes, testing::Range(1, 9));

TEST_P(FakeNcclSizes, DoesEveryOperationOnThreads) { as_threads(GetParam(), everything); }

TEST(FakeNccl, DoesEveryOperationOnProcesses) {
    for (const auto size : {2, 5}) {
        const auto outcome = as_processes(size, "everything");
        for (std::size_t rank = 0; rank < outcome.outputs.size(); ++rank)
            EXPECT_EQ(outcome.exit_codes[rank], 0) << outcome.outputs[rank];
    }
}

TEST(FakeNccl, WrapsIntegersAround) {
    as_threads(3, [](Rank& rank) {
        const auto in = Array<std::int8_t>(2, 100), out = Array<std::int8_t>(2);
        EXPECT_NCCL(ncclAllReduce(*in, *out, 2, ncclInt8, ncclSum, rank.world, rank.stream));
        rank.synchronize();
        EXPECT_EQ(out.values(), std::vector<std::int8_t>(2, 44));
    });
}
