// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/interop/dlpack.hpp>

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <span>
#include <vector>

#include <rankmesh/engine/threads.hpp>

#include "support/fake_device.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using Numbers = std::vector<std::int64_t>;

namespace {

template <class B>
concept GoesOut = requires(B&& buffer) { dlpack::tensor_of(std::forward<B>(buffer)); };
struct Token {
    int id = 0;
};
static_assert(GoesOut<std::vector<float>&> && GoesOut<std::span<double>> && GoesOut<Memory<bf16>> &&
              GoesOut<Memory<void>> && GoesOut<int&>);
static_assert(!GoesOut<std::vector<float>>, "a temporary would be gone before the tensor");
static_assert(!GoesOut<std::span<const float>> && !GoesOut<Memory<const void>>,
              "a DLManagedTensor has no way to say that it must not be written");
static_assert(!GoesOut<std::vector<Token>&>, "DLPack has no such type");

/// A tensor of the host's memory, for tests to change what it says.
struct Given : DLTensor {
    Numbers lengths;
    Numbers steps;
    Given(void* begin, DLDataType type, Numbers shape_given, Numbers strides_given = {})
        : lengths(std::move(shape_given)), steps(std::move(strides_given)) {
        data = begin;
        device = {kDLCPU, 0};
        ndim = static_cast<int>(lengths.size());
        dtype = type;
        shape = lengths.data();
        strides = steps.empty() ? nullptr : steps.data();
        byte_offset = 0;
    }
    Given(const Given&) = delete;
};
constexpr auto f32_type = DLDataType{kDLFloat, 32, 1};

std::string refusal_of(const DLTensor& tensor) {
    return text_of([&] { (void)dlpack::memory_of(tensor); });
}

/// True if the elements of this shape and these strides lie one after the other, row by row: counted out.
bool lies_in_a_row(const Numbers& shape, const Numbers& strides) {
    for (auto length : shape)
        if (length == 0) return true;
    auto at = Numbers(shape.size(), 0);
    for (std::int64_t number = 0;; ++number) {
        auto offset = std::int64_t{0};
        for (std::size_t i = 0; i < shape.size(); ++i) offset += at[i] * strides[i];
        if (offset != number) return false;
        auto i = shape.size();
        while (i > 0 && ++at[i - 1] == shape[i - 1]) at[--i] = 0;
        if (i == 0) return true;
    }
}

/// What goes out says what DLPack calls it, and comes back as it went.
template <class T>
void check_round_trip(DLDataType type, DType back) {
    SCOPED_TRACE(to_string(dtype_of<T>::value));
    auto values = std::array<T, 6>{};
    const auto same = [&](std::span<T> span, const Numbers& shape, const dlpack::Tensor& tensor) {
        const auto& out = tensor->dl_tensor;
        EXPECT_EQ(out.dtype.code, type.code);
        EXPECT_EQ(out.dtype.bits, type.bits);
        EXPECT_EQ(out.dtype.lanes, 1);
        EXPECT_EQ(out.device.device_type, kDLCPU);
        EXPECT_EQ(out.device.device_id, 0);
        EXPECT_EQ(Numbers(out.shape, out.shape + out.ndim), shape);
        EXPECT_TRUE(lies_in_a_row(shape, Numbers(out.strides, out.strides + out.ndim)));
        const auto memory = dlpack::memory_of(out);
        EXPECT_EQ(memory.data(), span.data());
        EXPECT_EQ(memory.size(), span.size());
        EXPECT_EQ(memory.dtype(), back);
        EXPECT_EQ(memory.space(), Space::host);
        const auto again = dlpack::tensor_of(memory, {.shape = shape, .device = 3});
        EXPECT_EQ(again->dl_tensor.data, span.data());
        EXPECT_EQ(again->dl_tensor.dtype.code, type.code);
        EXPECT_EQ(again->dl_tensor.device.device_id, 0);
    };
    const auto all = std::span<T>(values);
    const auto none = all.first(0);
    same(all, {6}, dlpack::tensor_of(all));
    for (const auto& shape : {Numbers{6}, Numbers{2, 3}, Numbers{1, 6, 1}, Numbers{3, 1, 2}, Numbers{6, 1}})
        same(all, shape, dlpack::tensor_of(values, {.shape = shape}));
    same(none, {0}, dlpack::tensor_of(none));
    for (const auto& shape : {Numbers{2, 0, 3}, Numbers{0, 1L << 62, 1L << 62}})
        same(none, shape, dlpack::tensor_of(none, {.shape = shape}));
    same(all.first(1), {}, dlpack::tensor_of(values[0]));
    same(all.first(1), {1, 1}, dlpack::tensor_of(values[0], {.shape = {1, 1}}));
}

}  // namespace

TEST(DLPack, EveryTypeAndShapeComesBackAsItWent) {
    // The numbers of what some headers do not have.
    constexpr std::uint8_t boolean = 6, e4m3fn = 10, e5m2 = 12;
#if defined(DLPACK_MAJOR_VERSION) || DLPACK_VERSION >= 80
    static_assert(boolean == kDLBool);
#endif
#if defined(DLPACK_MAJOR_VERSION) && DLPACK_MAJOR_VERSION * 100 + DLPACK_MINOR_VERSION >= 101
    static_assert(e4m3fn == kDLFloat8_e4m3fn && e5m2 == kDLFloat8_e5m2);
#endif
    check_round_trip<std::int8_t>({kDLInt, 8, 1}, DType::i8);
    check_round_trip<std::int16_t>({kDLInt, 16, 1}, DType::i16);
    check_round_trip<std::int32_t>({kDLInt, 32, 1}, DType::i32);
    check_round_trip<std::int64_t>({kDLInt, 64, 1}, DType::i64);
    check_round_trip<std::uint8_t>({kDLUInt, 8, 1}, DType::u8);
    check_round_trip<std::uint16_t>({kDLUInt, 16, 1}, DType::u16);
    check_round_trip<std::uint32_t>({kDLUInt, 32, 1}, DType::u32);
    check_round_trip<std::uint64_t>({kDLUInt, 64, 1}, DType::u64);
    check_round_trip<bool>({boolean, 8, 1}, DType::boolean);
    check_round_trip<std::byte>({kDLUInt, 8, 1}, DType::u8);
    check_round_trip<f8e4m3>({e4m3fn, 8, 1}, DType::f8e4m3);
    check_round_trip<f8e5m2>({e5m2, 8, 1}, DType::f8e5m2);
    check_round_trip<f16>({kDLFloat, 16, 1}, DType::f16);
    check_round_trip<bf16>({kDLBfloat, 16, 1}, DType::bf16);
    check_round_trip<float>({kDLFloat, 32, 1}, DType::f32);
    check_round_trip<double>({kDLFloat, 64, 1}, DType::f64);
}

TEST(DLPack, StridesAreAcceptedOnlyForContiguousElements) {
    auto values = std::vector<float>(27);
    auto taken = 0;
    for (auto a : {0, 1, 2, 3})
        for (auto b : {0, 1, 2, 3})
            for (auto c : {0, 1, 2, 3})
                for (auto x : {-1, 0, 1, 2, 3, 4, 6, 9})
                    for (auto y : {-1, 0, 1, 2, 3, 4, 6, 9})
                        for (auto z : {-1, 0, 1, 2}) {
                            const auto given = Given(values.data(), f32_type, {a, b, c}, {x, y, z});
                            const auto right = lies_in_a_row(given.lengths, given.steps);
                            ASSERT_EQ(refusal_of(given).empty(), right) << a << b << c << ' ' << x << y << z;
                            taken += right;
                            if (right) {
                                ASSERT_EQ(dlpack::memory_of(given).size(),
                                          static_cast<std::size_t>(a * b * c));
                            }
                        }
    EXPECT_GT(taken, 37 * 256) << "all strides of what is empty";
    const auto one = Given(values.data(), f32_type, {});
    EXPECT_EQ(dlpack::memory_of(one).size(), 1U);
    const auto none = Given(nullptr, f32_type, {0});
    EXPECT_EQ(dlpack::memory_of(none).size(), 0U);
}

TEST(DLPack, WhatRankmeshHasNoTypeForIsRefused) {
    auto values = std::vector<float>(8);
    const auto known =
        " was given; what can be carried is int and uint of 8, 16, 32 and 64 bits, bool, float of 16, 32 and "
        "64, "
        "bfloat of 16, float8_e4m3fn and float8_e5m2. View it as one of these, as uint of 8 bits to move it";
    const auto refusal = [&](DLDataType type) { return refusal_of(Given(values.data(), type, {2})); };
    EXPECT_EQ(refusal({kDLComplex, 64, 1}), detail::cat("a tensor of complex of 64 bits", known));
    EXPECT_EQ(refusal({kDLInt, 4, 1}), detail::cat("a tensor of int of 4 bits", known));
    EXPECT_EQ(refusal({kDLFloat, 128, 1}), detail::cat("a tensor of float of 128 bits", known));
    EXPECT_EQ(refusal({kDLOpaqueHandle, 64, 1}), detail::cat("a tensor of opaque handle of 64 bits", known));
    EXPECT_EQ(refusal({11, 8, 1}), detail::cat("a tensor of float8_e4m3fnuz of 8 bits", known));
    EXPECT_EQ(refusal({17, 4, 1}), detail::cat("a tensor of float4_e2m1fn of 4 bits", known));
    EXPECT_EQ(refusal({99, 8, 1}), detail::cat("a tensor of type code 99 of 8 bits", known));
    EXPECT_EQ(
        refusal({kDLFloat, 32, 4}),
        "a tensor was given whose elements have 4 lanes of float of 32 bits; give the lanes as its last "
        "dimension");
}

TEST(DLPack, WhatIsNoMemoryForAnOperationIsRefused) {
    auto values = std::vector<float>(16);
    EXPECT_EQ(refusal_of(Given(values.data(), f32_type, {4, 3}, {1, 4})),
              "a tensor of shape [4, 3] and strides [1, 4] was given, whose elements do not lie one after "
              "the other; "
              "strides of [3, 1] would do: make it contiguous first, as tensor.contiguous() does");
    EXPECT_EQ(refusal_of(Given(values.data(), f32_type, {4, -3})), "the shape [4, -3] has a negative length");
    EXPECT_EQ(refusal_of(Given(values.data(), f32_type, {std::numeric_limits<std::int64_t>::max() / 2})),
              "the shape [4611686018427387903] has more elements than memory has room for");
    EXPECT_EQ(refusal_of(Given(nullptr, f32_type, {2})), "a tensor of shape [2] was given without its data");
    auto tensor = Given(values.data(), f32_type, {2});
    tensor.byte_offset = 2;
    EXPECT_EQ(
        refusal_of(tensor),
        "a tensor of f32 was given that does not begin at a multiple of 4 bytes: copy it to where it does");
    tensor.byte_offset = 0;
    tensor.device.device_type = kDLROCM;
    EXPECT_EQ(refusal_of(tensor),
              "a tensor on device type 10 of DLPack was given; ranks work on the host's memory (1 kDLCPU, 3 "
              "kDLCUDAHost) and CUDA's (2 kDLCUDA, 13 kDLCUDAManaged): copy it there");
    tensor.device.device_type = kDLCPU;
    tensor.shape = nullptr;
    EXPECT_EQ(refusal_of(tensor), "a tensor of 1 dimensions was given, and no shape");
    tensor.ndim = -1;
    EXPECT_EQ(refusal_of(tensor), "a tensor of -1 dimensions was given, and no shape");
}

TEST(DLPack, ATensorIsABufferForEveryOperation) {
    threads::run(3, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto expected = std::vector<float>(5, static_cast<float>(world.rank()));
        auto values = expected;
        const auto rest_of_it = [](std::vector<float>& all) { return std::span(all).subspan(1); };
        auto tensor = Given(values.data(), f32_type, {2, 1, 2}, {2, 77, 1});
        tensor.byte_offset = sizeof(float);
        on.all_reduce(rest_of_it(expected), mean);
        on.all_reduce(dlpack::memory_of(tensor), mean);
        EXPECT_EQ(values, expected);

        on.broadcast(rest_of_it(expected), 2);
        on.start().broadcast(dlpack::memory_of(tensor), 2).wait();
        EXPECT_EQ(values, expected);

        on.all_reduce(Buffers(rest_of_it(expected)));
        on.all_reduce(Buffers(std::vector{dlpack::memory_of(tensor)}));
        EXPECT_EQ(values, expected);

        auto gathered = std::vector<float>(12);
        auto of_tensors = gathered;
        const auto room = dlpack::tensor_of(of_tensors, {.shape = {3, 4}});
        on.all_gather(rest_of_it(expected), gathered);
        on.all_gather(dlpack::memory_of(tensor), dlpack::memory_of(room->dl_tensor));
        EXPECT_EQ(of_tensors, gathered);

        auto whole = Given(values.data(), {kDLInt, 32, 1}, {2});
        EXPECT_EQ(text_of([&] { on.all_reduce(dlpack::memory_of(whole), mean); }),
                  "all_reduce on 'dp' of mesh dp=3: mean makes no sense on i32 elements");
    });
}

TEST(DLPack, ATensorOfADeviceIsMemoryThere) {
    threads::run(2, [](World& host) {
        auto world = fake::World(host);
        auto on = world.join({{"dp", rest}}).on("dp");
        const auto there = fake::Array<float>(6, 1.0f + static_cast<float>(world.rank()));
        const auto tensor = dlpack::tensor_of(*there, {.shape = {2, 3}, .device = 5});
        EXPECT_EQ(tensor->dl_tensor.device.device_type, kDLCUDA);
        EXPECT_EQ(tensor->dl_tensor.device.device_id, 5);
        on.all_reduce(dlpack::memory_of(tensor->dl_tensor));
        tensor->dl_tensor.device = {kDLCUDAManaged, 0};
        on.all_reduce(dlpack::memory_of(tensor->dl_tensor), rankmesh::max);
        world.queue().synchronize();
        EXPECT_EQ(there.values(), std::vector<float>(6, 3));

        auto here = std::vector<float>(2, 1.0f);
        auto pinned = Given(here.data(), f32_type, {2});
        pinned.device.device_type = kDLCUDAHost;
        EXPECT_EQ(text_of([&] { on.all_reduce(dlpack::memory_of(pinned)); }),
                  "all_reduce on 'dp' of mesh dp=2 was given host memory; this communicator works on device "
                  "memory, "
                  "its host() on the host's");
        on.host().all_reduce(dlpack::memory_of(pinned));
        EXPECT_EQ(here, std::vector<float>(2, 2));
        EXPECT_EQ(text_of([&] { (void)dlpack::tensor_of(*there); }),
                  "memory of a device was given to tensor_of; say in .device which one holds it");
    });
    EXPECT_EQ(fake::take_faults(), std::vector<std::string>{});
}

TEST(DLPack, ADeleterEndsTheDescriptionAndLetsGoOfTheOwnerAlone) {
    const auto owner = std::make_shared<std::vector<float>>(6, 1.0f);
    {
        const auto kept = dlpack::tensor_of(*owner, {.owner = owner});
        EXPECT_EQ(owner.use_count(), 2);
    }
    EXPECT_EQ(owner.use_count(), 1);
    auto* lent = dlpack::tensor_of(*owner, {.owner = owner}).release();
    EXPECT_EQ(owner.use_count(), 2);
    lent->deleter(lent);
    EXPECT_EQ(owner.use_count(), 1);
    { const auto unowned = dlpack::tensor_of(*owner); }
    EXPECT_EQ(*owner, std::vector<float>(6, 1));
}

TEST(DLPack, AShapeHoldsWhatTheMemoryHolds) {
    auto values = std::vector<float>(5);
    const auto refusal = [&](Numbers shape) {
        return text_of([&] { (void)dlpack::tensor_of(values, {.shape = std::move(shape)}); });
    };
    EXPECT_EQ(refusal({2, 3}), "the shape [2, 3] holds 6 elements, and the memory 5");
    EXPECT_EQ(refusal({0, 5}), "the shape [0, 5] holds 0 elements, and the memory 5");
    EXPECT_EQ(refusal({-1, -5}), "the shape [-1, -5] has a negative length");
}

#ifdef DLPACK_MAJOR_VERSION
TEST(DLPack, RefusesToWriteAReadOnlyTensorAndToReadAnotherVersion) {
    auto values = std::vector<float>(2);
    auto tensor = DLManagedTensorVersioned{};
    tensor.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION + 1};
    auto given = Given(values.data(), f32_type, {2});
    tensor.dl_tensor = given;
    EXPECT_EQ(dlpack::memory_of(tensor).data(), values.data());
    static_assert(!OutBuffer<decltype(dlpack::const_memory_of(tensor))>);
    tensor.flags = DLPACK_FLAG_BITMASK_READ_ONLY;
    EXPECT_EQ(dlpack::const_memory_of(tensor).data(), values.data());
    EXPECT_EQ(text_of([&] { (void)dlpack::memory_of(tensor); }),
              "a read-only tensor was given to be written; const_memory_of gives it to be read");
    tensor.version.major = DLPACK_MAJOR_VERSION + 1;
    const auto other = detail::cat("a tensor of DLPack ", DLPACK_MAJOR_VERSION + 1,
                                   " was given to a program that knows version ", DLPACK_MAJOR_VERSION,
                                   "; ask its producer for that one, and call the deleter of this");
    EXPECT_EQ(text_of([&] { (void)dlpack::memory_of(tensor); }), other);
    EXPECT_EQ(text_of([&] { (void)dlpack::const_memory_of(tensor); }), other);
}
#endif
