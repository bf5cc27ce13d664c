// SPDX-License-Identifier: Apache-2.0
// What compiles as a buffer, and what must not.
#include <rankmesh/engine/buffer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <complex>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <rankmesh/engine/threads.hpp>

#include "support/text_of.hpp"

using namespace rankmesh;

namespace {

struct Token {
    int id = 0;
    float weight = 0;
};
struct Row {
    float* data;
    int size;
};

static_assert(Buffer<std::vector<float>&> && Buffer<const std::vector<float>&> &&
              Buffer<std::span<const int>>);
static_assert(Buffer<std::array<double, 3>&> && Buffer<float&> && Buffer<Token&> &&
              Buffer<std::vector<Token>&>);
static_assert(!Buffer<float*> && !Buffer<std::vector<bool>&> && !Buffer<std::vector<std::string>&>);
static_assert(!Buffer<Row&> && !Buffer<std::vector<Row>&> && !Buffer<std::reference_wrapper<float>>);
static_assert(!Buffer<std::vector<std::span<float>>&>, "a range of views is a list");
static_assert(!Buffer<decltype(sum)>, "a reduction is not taken for a buffer");
static_assert(OutBuffer<std::vector<float>&> && OutBuffer<std::span<float>> && OutBuffer<float&>);
static_assert(!OutBuffer<const std::vector<float>&> && !OutBuffer<std::span<const float>> &&
              !OutBuffer<const float&>);
static_assert(!OutBuffer<std::vector<float>> && !OutBuffer<int>, "the result would be lost");
static_assert(Outlives<std::vector<float>&> && Outlives<std::span<float>>);
static_assert(!Outlives<std::vector<float>> && !Outlives<float>,
              "a temporary would be gone before the operation");

static_assert(Reduces<decltype(mean), float> && Reduces<decltype(mean), bf16>);
static_assert(!Reduces<decltype(mean), int> && !Reduces<decltype(sum), bool> &&
              !Reduces<decltype(sum), Token>);
static_assert(!Reduces<decltype(sum), f8e4m3> && !Reduces<decltype(bit_and), float> &&
              Reduces<decltype(bit_or), std::byte>);

static_assert(Reduces<decltype(sum), std::complex<float>> && Reduces<decltype(mean), std::complex<double>>);
static_assert(!Reduces<decltype(prod), std::complex<float>> && !Scans<decltype(mean), std::complex<float>>);

/// What std::mdspan is of two dimensions: a pointer, extents, and strides that may leave gaps.
template <class T>
struct Mdspan {
    T* handle = nullptr;
    std::array<std::size_t, 2> extents = {};
    std::size_t row_stride = 0;

    T* data_handle() const { return handle; }
    std::size_t size() const { return extents[0] * extents[1]; }
    bool is_exhaustive() const { return row_stride == extents[1]; }
};

/// What Kokkos::View is: it shares the memory that it shows, and says where that lies.
template <class T, Space where>
class View {
public:
    explicit View(std::size_t size) : owned_(std::make_shared<std::vector<T>>(size)) {}
    T* data() const { return owned_->data(); }
    std::size_t size() const { return owned_->size(); }
    bool span_is_contiguous() const { return true; }

private:
    std::shared_ptr<std::vector<T>> owned_;
};

/// A matrix that owns its elements, whose const gives const ones.
class Matrix {
public:
    Matrix(std::size_t rows, std::size_t columns) : elements_(rows * columns) {}
    double* data() { return elements_.data(); }
    const double* data() const { return elements_.data(); }
    std::size_t size() const { return elements_.size(); }

private:
    std::vector<double> elements_;
};

}  // namespace

template <class T>
struct rankmesh::buffer_traits<Mdspan<T>> {
    static constexpr bool is_view = true;
    static T* data(const Mdspan<T>& span) { return span.data_handle(); }
    static std::size_t size(const Mdspan<T>& span) { return span.size(); }
    static std::string refusal(const Mdspan<T>& span) {
        if (span.is_exhaustive()) return "";
        return rankmesh::detail::cat("its rows lie ", span.row_stride, " elements apart, not ",
                                     span.extents[1]);
    }
};
template <class T, Space where>
struct rankmesh::buffer_traits<View<T, where>> {
    static constexpr bool is_view = true;
    static T* data(const View<T, where>& view) { return view.data(); }
    static std::size_t size(const View<T, where>& view) { return view.size(); }
    static Space space(const View<T, where>&) { return where; }
};
template <>
struct rankmesh::buffer_traits<Matrix> {
    static auto* data(auto& matrix) { return matrix.data(); }
    static std::size_t size(const Matrix& matrix) { return matrix.size(); }
};

namespace {

using HostView = View<float, Space::host>;
static_assert(OutBuffer<Mdspan<float>> && OutBuffer<const Mdspan<float>&>, "a const view shows what is not");
static_assert(Buffer<Mdspan<const float>> && !OutBuffer<Mdspan<const float>&>);
static_assert(!Buffer<Mdspan<Row>>, "a matrix of pointers");
static_assert(OutBuffer<HostView> && std::same_as<element_t<HostView>, float>);
static_assert(OutBuffer<Matrix&> && Buffer<const Matrix&> && !OutBuffer<const Matrix&> && !OutBuffer<Matrix>);

}  // namespace

TEST(Buffer, TheViewsOfOtherLibrariesGiveWhatTheirElementsGive) {
    threads::run(3, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto elements = std::vector<float>{1, 2, 3, 4, 5, 6};
        const auto span = Mdspan<float>{elements.data(), {2, 3}, 3};
        on.all_reduce(span);
        EXPECT_EQ(elements, (std::vector<float>{3, 6, 9, 12, 15, 18}));
        on.all_reduce(Mdspan<float>{elements.data(), {1, 3}, 3}, rankmesh::max);

        auto view = HostView(6);
        on.all_reduce(span, view, mean);
        EXPECT_EQ(std::vector<float>(view.data(), view.data() + 6), elements);
        on.start().broadcast(view, 1).wait();

        auto matrix = Matrix(2, 2);
        std::fill_n(matrix.data(), 4, world.rank());
        on.shift(matrix, 1);
        EXPECT_EQ(matrix.data()[3], (world.rank() + 2) % 3);
        on.all_reduce(Buffers(span, view, matrix));
        EXPECT_EQ(elements[0], 9);
        EXPECT_EQ(view.data()[5], 54);
        EXPECT_EQ(matrix.data()[0], 3);
    });
}

TEST(Buffer, AStridedViewIsRefusedInWords) {
    threads::run(1, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto elements = std::vector<float>(15);
        const auto part = Mdspan<float>{elements.data(), {3, 2}, 5};
        auto whole = std::vector<float>(6);
        const auto refusal = std::string(
            " cannot be used as it lies in memory: its rows lie 5 elements apart, not 2; copy it to where "
            "its "
            "elements lie one after the other");
        EXPECT_EQ(text_of<UsageError>([&] { on.all_reduce(part); }), "a buffer of all_reduce" + refusal);
        EXPECT_EQ(text_of<UsageError>([&] { on.all_gather(whole, part); }),
                  "a buffer of all_gather" + refusal);
        EXPECT_EQ(text_of<UsageError>([&] { on.start().send(part, 0).wait(); }),
                  "a buffer of send" + refusal);
        EXPECT_EQ(text_of<UsageError>([&] { Buffers(whole, part); }), "buffer 1 of a list" + refusal);
    });
}

TEST(Buffer, OfADeviceIsRefusedWhereCallsWorkOnTheHosts) {
    threads::run(1, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto view = View<float, Space::device>(3);
        EXPECT_EQ(text_of<UsageError>([&] { on.broadcast(view); }),
                  "broadcast on 'dp' of mesh dp=1 was given device memory; this communicator works on host "
                  "memory: copy it there, or join a world with a device");
    });
}

TEST(Buffers, ARangeOfViewsGivesABufferForEach) {
    threads::run(2, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        auto a = std::vector<float>{1, 2, 3};
        auto b = std::vector<float>{4};
        auto c = std::vector<std::vector<int>>{{1}, {2, 3}};
        on.all_reduce(Buffers(std::vector<std::span<float>>{a, b}, c));
        EXPECT_EQ(a, (std::vector<float>{2, 4, 6}));
        EXPECT_EQ(b, (std::vector<float>{8}));
        EXPECT_EQ(c, (std::vector<std::vector<int>>{{2}, {4, 6}}));
    });
}

TEST(Buffer, ANumberBehindOneBufferIsTheRootOrTheDistance) {
    threads::run(3, [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        for (auto root = 0; root < 3; ++root) {
            auto x = std::vector<float>{1, 2};
            on.reduce(x, root);
            EXPECT_EQ(x, (on.rank() == root ? std::vector<float>{3, 6} : std::vector<float>{1, 2}));
            auto out = std::vector<float>(2);
            on.reduce(std::vector<float>{1, 2}, out, root);
            EXPECT_EQ(out, (on.rank() == root ? std::vector<float>{3, 6} : std::vector<float>{0, 0}));
            auto n = 5;
            on.start().reduce(n, std::as_const(root)).wait();
            EXPECT_EQ(n, on.rank() == root ? 15 : 5);
            on.reduce(n, 2L);
        }
        for (auto by : {-1, 0, 1, 2}) {
            auto x = std::vector<int>{on.rank()};
            on.shift(x, by);
            EXPECT_EQ(x[0], (on.rank() - by + 3) % 3);
            auto n = on.rank();
            on.start().shift(n, +by, Edge::open).wait();
            EXPECT_EQ(n, on.rank() - by >= 0 && on.rank() - by < 3 ? on.rank() - by : on.rank());
            auto from = 0;
            on.shift(on.rank(), from, by);
            EXPECT_EQ(from, (on.rank() - by + 3) % 3);
        }
    });
}

TEST(Buffer, ATypeThatEnginesDoNotKnowIsCountedInBytes) {
    auto tokens = std::vector<Token>(3);
    EXPECT_EQ(detail::count_of(tokens), 3 * sizeof(Token));
    EXPECT_EQ(detail::dtype_for<Token>(), DType::byte);
    EXPECT_EQ(detail::count_of(std::vector<bf16>(3)), 3U);
    EXPECT_EQ(detail::count_of(std::vector<std::complex<double>>(3)), 6U);
    EXPECT_EQ(detail::dtype_for<std::complex<double>>(), DType::f64);
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
