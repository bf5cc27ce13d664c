// SPDX-License-Identifier: Apache-2.0
// A reduction for C gives the bytes, and refuses with the words, of the same one for C++.
#include <rankmesh/rankmesh.h>

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <vector>

#include <rankmesh/engine/threads.hpp>

using namespace rankmesh;

namespace {

constexpr auto ranks = 3;
constexpr auto count = std::size_t{5};

/// Bytes of elements that are no NaN of any type, and bools.
std::vector<unsigned char> payload(int rank, DType dtype) {
    auto bytes = std::vector<unsigned char>(count * size_of(dtype));
    for (std::size_t i = 0; i < bytes.size(); ++i)
        bytes[i] = static_cast<unsigned char>(dtype == DType::boolean
                                                  ? (i + static_cast<std::size_t>(rank)) % 2
                                                  : (17 * i + 5 * static_cast<std::size_t>(rank)) % 60);
    return bytes;
}

struct Outcome {
    rankmesh_error code = RANKMESH_OK;
    std::string text;
    std::vector<unsigned char> bytes;
    friend bool operator==(const Outcome&, const Outcome&) = default;
};

template <class Body>
void each_rank_of_c(Body body) {
    const auto program = [](rankmesh_world* world, void* user) {
        const auto plan = rankmesh_declaration{.mesh = "dp=*"};
        rankmesh_member* me = nullptr;
        rankmesh_communicator* dp = nullptr;
        auto rank = 0;
        EXPECT_EQ(rankmesh_world_rank(world, &rank), RANKMESH_OK);
        EXPECT_EQ(rankmesh_world_join(world, &plan, 1, &me), RANKMESH_OK);
        EXPECT_EQ(rankmesh_member_on(me, "dp", &dp), RANKMESH_OK);
        (*static_cast<Body*>(user))(rank, dp);
        rankmesh_communicator_free(dp);
        rankmesh_member_free(me);
        return 0;
    };
    ASSERT_EQ(rankmesh_threads_run(ranks, program, &body, nullptr), RANKMESH_OK) << rankmesh_error_text();
}

template <class R>
void compare(R reduction) {
    auto expected = std::vector<std::vector<Outcome>>(ranks, std::vector<Outcome>(RANKMESH_F64 + 1));
    auto actual = expected;
    threads::run(ranks, [&](World& world) {
        auto dp = world.join({{"dp", rest}}).on("dp");
        for (int d = 0; d <= RANKMESH_F64; ++d) {
            auto& outcome = expected[static_cast<std::size_t>(world.rank())][static_cast<std::size_t>(d)];
            outcome.bytes = payload(world.rank(), static_cast<DType>(d));
            const auto memory =
                Memory(static_cast<void*>(outcome.bytes.data()), count, static_cast<DType>(d), Space::host);
            try {
                dp.all_reduce(memory, reduction);
            } catch (const UsageError& error) {
                outcome.code = RANKMESH_USAGE_ERROR;
                outcome.text = error.what();
            }
        }
    });
    each_rank_of_c([&](int rank, rankmesh_communicator* dp) {
        for (int d = 0; d <= RANKMESH_F64; ++d) {
            auto& outcome = actual[static_cast<std::size_t>(rank)][static_cast<std::size_t>(d)];
            outcome.bytes = payload(rank, static_cast<DType>(d));
            outcome.code = rankmesh_all_reduce(dp, outcome.bytes.data(), outcome.bytes.data(), count, d,
                                               static_cast<rankmesh_reduction>(R::value), nullptr);
            if (outcome.code != RANKMESH_OK) outcome.text = rankmesh_error_text();
        }
    });
    for (std::size_t rank = 0; rank < ranks; ++rank)
        for (std::size_t d = 0; d <= RANKMESH_F64; ++d)
            EXPECT_EQ(actual[rank][d], expected[rank][d])
                << to_string(R::value) << " of " << to_string(static_cast<DType>(d)) << ": "
                << actual[rank][d].text;
}

TEST(CollectivesInC, ReduceEveryTypeByEveryReductionAsInCpp) {
    compare(sum);
    compare(prod);
    compare(min);
    compare(max);
    compare(mean);
    compare(bit_and);
    compare(bit_or);
    compare(bit_xor);
    compare(logical_and);
    compare(logical_or);
    compare(logical_xor);
    compare(reproducible_sum);
}

TEST(CollectivesInC, KnowTheSizeOfEveryType) {
    for (int d = 0; d <= RANKMESH_F64; ++d) EXPECT_EQ(rankmesh_dtype_size(d), size_of(static_cast<DType>(d)));
    EXPECT_EQ(rankmesh_dtype_size(-1), 0U);
    EXPECT_EQ(rankmesh_dtype_size(RANKMESH_F64 + 1), 0U);
}

TEST(CollectivesInC, SayWhatIsWrongWithACall) {
    each_rank_of_c([](int, rankmesh_communicator* dp) {
        constexpr auto huge = ~std::size_t{0};
        float in[ranks] = {};
        float out[ranks] = {};
        const std::size_t counts[ranks] = {huge / 4, huge / 4, huge / 4};
        const std::size_t few[ranks] = {1, 1, 1};
        const auto says = [](rankmesh_error code, const std::string& text) {
            EXPECT_EQ(code, RANKMESH_USAGE_ERROR);
            EXPECT_EQ(rankmesh_error_text(), text);
        };
        says(rankmesh_all_reduce(dp, in, nullptr, 3, RANKMESH_F32, RANKMESH_SUM, nullptr),
             "rankmesh_all_reduce was given NULL as 'out', which it needs");
        says(rankmesh_all_reduce(dp, nullptr, out, 3, RANKMESH_F32, RANKMESH_SUM, nullptr),
             "rankmesh_all_reduce was given NULL as 'in', which it needs");
        says(
            rankmesh_all_reduce(dp, in, out, 3, 16, RANKMESH_SUM, nullptr),
            "rankmesh_all_reduce was given the dtype 16; there are RANKMESH_I8, which is 0, to RANKMESH_F64, "
            "which is 15");
        says(rankmesh_all_reduce(dp, in, out, 3, RANKMESH_F32, -1, nullptr),
             "rankmesh_all_reduce was given the reduction -1; there are RANKMESH_SUM, which is 0, to "
             "RANKMESH_MAX_LOCATION, which is 13");
        says(rankmesh_scan(dp, in, out, 3, RANKMESH_F32, RANKMESH_MEAN, nullptr),
             "a scan by mean; scans have every reduction but mean");
        says(rankmesh_all_reduce(dp, in, in + 1, 2, RANKMESH_F32, RANKMESH_SUM, nullptr),
             "all_reduce on 'dp' of mesh dp=3 was given buffers that overlap; use two, or one in place");
        says(rankmesh_all_gather(dp, in, out, huge, RANKMESH_F32, nullptr),
             "rankmesh_all_gather was given a count for 3 ranks that is more than memory has room for");
        for (const auto count : {~std::size_t{0}, std::size_t{1} << 62, std::size_t{1} << 61}) {
            const auto text = std::string(" was given a count that is more than memory has room for");
            says(rankmesh_all_reduce(dp, in, out, count, RANKMESH_F32, RANKMESH_SUM, nullptr),
                 "rankmesh_all_reduce" + text);
            says(rankmesh_broadcast(dp, in, count, RANKMESH_F32, 0, nullptr), "rankmesh_broadcast" + text);
            says(rankmesh_send(dp, in, count, RANKMESH_F32, 0, 0, nullptr), "rankmesh_send" + text);
            auto sum = 0.0;
            says(rankmesh_reproducible_sum(dp, in, count, RANKMESH_F32, &sum),
                 "rankmesh_reproducible_sum" + text);
        }
        says(rankmesh_all_gather_v(dp, in, out, counts, RANKMESH_BYTE, nullptr),
             "rankmesh_all_gather_v was given counts that together are more than memory has room for");
        says(rankmesh_all_gather_v(dp, in, out, nullptr, RANKMESH_F32, nullptr),
             "rankmesh_all_gather_v was given NULL as 'counts', which it needs");
        says(rankmesh_all_to_all_v(dp, in, few, out, nullptr, RANKMESH_F32, nullptr),
             "rankmesh_all_to_all_v was given NULL as 'out_counts', which it needs");
        says(rankmesh_broadcast(dp, in, 1, RANKMESH_F32, 3, nullptr),
             "broadcast on 'dp' of mesh dp=3 from group rank 3; group ranks are 0..2");
        says(rankmesh_shift(dp, in, out, 1, RANKMESH_F32, 1, 2, nullptr),
             "rankmesh_shift was given the edge 2; there are RANKMESH_OPEN, which is 0, and RANKMESH_WRAP, "
             "which is 1");
        // One that is wrong is not started either, and leaves nothing to free.
        auto* pending = reinterpret_cast<rankmesh_pending*>(&in);
        says(rankmesh_broadcast(dp, nullptr, 1, RANKMESH_F32, 0, &pending),
             "rankmesh_broadcast was given NULL as 'buffer', which it needs");
        EXPECT_EQ(pending, nullptr);
        const rankmesh_message messages[] = {{1, 0, in, 1, RANKMESH_F32, 0, nullptr},
                                             {0, 7, out, 1, RANKMESH_F32, 0, nullptr}};
        says(rankmesh_batch(dp, messages, 2, nullptr),
             "recv on 'dp' of mesh dp=3 from group rank 7; group ranks are 0..2");
        const auto extents = std::array{std::size_t{2}, std::size_t{2}};
        const auto strides = std::array{std::ptrdiff_t{1}, std::ptrdiff_t{1}};
        const rankmesh_strides layout = {2, extents.data(), strides.data()};
        const rankmesh_strides none = {2, extents.data(), nullptr};
        const auto batch_of = [&](std::size_t count, const rankmesh_strides& lies) {
            const rankmesh_message one = {0, 1, out, count, RANKMESH_F32, 0, &lies};
            return rankmesh_batch(dp, &one, 1, nullptr);
        };
        says(batch_of(1, layout), "rankmesh_batch was given a message of 1 elements whose extents hold 4");
        says(batch_of(4, layout),
             "recv on 'dp' of mesh dp=3 was given a strided output in which elements overlap; give each "
             "element an address of its own");
        says(batch_of(4, none),
             "rankmesh_batch was given NULL as 'messages[i].strides->strides', which it needs");
        // So is an operation of a handle of strided buffers.
        rankmesh_communicator* columns = nullptr;
        says(rankmesh_communicator_strided(dp, &none, nullptr, &columns),
             "rankmesh_communicator_strided was given NULL as 'in->strides', which it needs");
        const rankmesh_strides no_dimension = {0, extents.data(), strides.data()};
        says(rankmesh_communicator_strided(dp, nullptr, &no_dimension, &columns),
             "rankmesh_communicator_strided was given strides without dimensions; pass NULL for a contiguous "
             "buffer");
        EXPECT_EQ(rankmesh_communicator_strided(dp, nullptr, &layout, &columns), RANKMESH_OK);
        says(rankmesh_all_reduce(columns, in, out, 3, RANKMESH_F32, RANKMESH_SUM, nullptr),
             "rankmesh_all_reduce was given an output of 3 elements whose extents hold 4");
        says(
            rankmesh_all_reduce(columns, in, out, 4, RANKMESH_F32, RANKMESH_SUM, nullptr),
            "all_reduce on 'dp' of mesh dp=3 was given a strided output in which elements overlap; give each "
            "element an address of its own");
        says(rankmesh_batch(columns, messages, 1, nullptr),
             "rankmesh_batch was given a strided handle; give each message its strides");
        auto* received = static_cast<rankmesh_received*>(nullptr);
        says(rankmesh_sparse_all_to_all(columns, nullptr, nullptr, nullptr, 0, RANKMESH_F32, &received),
             "rankmesh_sparse_all_to_all was given a strided handle; its messages lie one element after the "
             "other");
        rankmesh_communicator_free(columns);
        // A root is asked for what only it has.
        auto rank = 0;
        EXPECT_EQ(rankmesh_communicator_rank(dp, &rank), RANKMESH_OK);
        if (rank == 1) {
            says(rankmesh_gather(dp, in, nullptr, 1, RANKMESH_F32, 1, nullptr),
                 "rankmesh_gather was given NULL as 'out', which it needs");
            says(rankmesh_scatter(dp, nullptr, out, 1, RANKMESH_F32, 1, nullptr),
                 "rankmesh_scatter was given NULL as 'in', which it needs");
        }
    });
}

}  // namespace
