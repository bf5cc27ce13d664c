// SPDX-License-Identifier: Apache-2.0
// What compiles as a buffer, and what must not.
#include <rankmesh/engine/buffer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/engine/communicator.hpp>

using namespace rankmesh;

namespace {

struct Token {
    int id = 0;
    float weight = 0;
};

static_assert(Buffer<std::vector<float>&> && Buffer<const std::vector<float>&> &&
              Buffer<std::span<const int>>);
static_assert(Buffer<std::array<double, 3>&> && Buffer<float&> && Buffer<Token&> &&
              Buffer<std::vector<Token>&>);
static_assert(!Buffer<float*> && !Buffer<std::vector<bool>&> && !Buffer<std::vector<std::string>&>);
static_assert(!Buffer<decltype(sum)>, "a reduction is not taken for a buffer");
static_assert(OutBuffer<std::vector<float>&> && OutBuffer<std::span<float>> && OutBuffer<float&>);
static_assert(!OutBuffer<const std::vector<float>&> && !OutBuffer<std::span<const float>> &&
              !OutBuffer<const float&>);
static_assert(Outlives<std::vector<float>&> && Outlives<std::span<float>>);
static_assert(!Outlives<std::vector<float>> && !Outlives<float>,
              "a temporary would be gone before the operation");

static_assert(Reduces<decltype(mean), float> && Reduces<decltype(mean), bf16>);
static_assert(!Reduces<decltype(mean), int> && !Reduces<decltype(sum), bool> &&
              !Reduces<decltype(sum), Token>);
static_assert(!Reduces<decltype(sum), f8e4m3> && !Reduces<decltype(bit_and), float> &&
              Reduces<decltype(bit_or), std::byte>);

template <class... Arguments>
concept AllReduces = requires(Communicator& on, Arguments&&... arguments) {
    on.all_reduce(arguments...);
};
static_assert(AllReduces<std::vector<float>&, decltype(mean)> &&
              !AllReduces<std::vector<int>&, decltype(mean)>);
static_assert(!AllReduces<const std::vector<float>&> && !AllReduces<std::vector<Token>&>);

}  // namespace

TEST(Buffer, ATypeThatEnginesDoNotKnowIsCountedInBytes) {
    auto tokens = std::vector<Token>(3);
    EXPECT_EQ(detail::count_of(tokens), 3 * sizeof(Token));
    EXPECT_EQ(detail::dtype_for<Token>(), DType::byte);
    EXPECT_EQ(detail::count_of(std::vector<bf16>(3)), 3U);
    EXPECT_EQ(detail::dtype_for<long>(), detail::dtype_for<long long>());
    EXPECT_EQ(detail::dtype_for<char>(), DType::i8);
}

TEST(DType, EveryTypeHasItsSizeAndName) {
    const auto check = []<class T>(T, std::string_view name) {
        EXPECT_EQ(size_of(dtype_of<T>::value), sizeof(T)) << name;
        EXPECT_EQ(to_string(dtype_of<T>::value), name);
    };
    check(std::int8_t{}, "i8"), check(std::int16_t{}, "i16"), check(std::int32_t{}, "i32"),
        check(std::int64_t{}, "i64");
    check(std::uint8_t{}, "u8"), check(std::uint16_t{}, "u16"), check(std::uint32_t{}, "u32");
    check(std::uint64_t{}, "u64"), check(true, "bool"), check(std::byte{}, "byte"), check(f16{}, "f16");
    check(bf16{}, "bf16"), check(f8e4m3{}, "f8e4m3"), check(f8e5m2{}, "f8e5m2"), check(1.0f, "f32"),
        check(1.0, "f64");
}
