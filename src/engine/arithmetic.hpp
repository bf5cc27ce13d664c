// SPDX-License-Identifier: Apache-2.0
// Element-wise arithmetic by DType, for reductions that an engine cannot do itself.
#pragma once

#include <algorithm>
#include <cstring>
#include <tuple>
#include <utility>

#include <rankmesh/engine/dtype.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

/// Calls `body` with a null pointer to the C++ type that is reduced as `dtype`; throws nothing, calls nothing
/// for types that cannot be reduced.
template <class Body>
void with_type(DType dtype, Body&& body) {
    const auto of_any = [&]<class... T>(std::tuple<T...>*) {
        static_cast<void>(((dtype == dtype_of<T>::value && (body(static_cast<T*>(nullptr)), true)) || ...));
    };
    of_any(static_cast<
           std::tuple<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t, std::uint16_t,
                      std::uint32_t, std::uint64_t, bool, std::byte, f16, bf16, float, double>*>(nullptr));
}

template <class T>
concept Half = std::same_as<T, f16> || std::same_as<T, bf16>;

/// Combines two elements; integer results wrap around, as the engines' do. A mean is a sum until it is
/// divided.
template <Reduction R, class T>
T combine(T a, T b) {
    if constexpr (Half<T>) {
        return T(combine<R>(static_cast<float>(a), static_cast<float>(b)));
    } else if constexpr (R == Reduction::min) {
        return std::min(a, b);
    } else if constexpr (R == Reduction::max) {
        return std::max(a, b);
    } else if constexpr (R == Reduction::logical_and) {
        return static_cast<T>(a && b);
    } else if constexpr (R == Reduction::logical_or) {
        return static_cast<T>(a || b);
    } else if constexpr (R == Reduction::logical_xor) {
        return static_cast<T>(!a != !b);
    } else if constexpr (R == Reduction::bit_and) {
        return static_cast<T>(a & b);
    } else if constexpr (R == Reduction::bit_or) {
        return static_cast<T>(a | b);
    } else if constexpr (R == Reduction::bit_xor) {
        return static_cast<T>(a ^ b);
    } else if constexpr (std::integral<T>) {
        using Wide = std::make_unsigned_t<std::common_type_t<T, int>>;
        const auto x = static_cast<Wide>(a);
        const auto y = static_cast<Wide>(b);
        return static_cast<T>(R == Reduction::prod ? x * y : x + y);
    } else {
        return R == Reduction::prod ? a * b : a + b;
    }
}

/// Replaces each of `count` elements of `into` by its combination with that of `from`.
template <Reduction R>
void reduce_into(DType dtype, const void* from, void* into, std::size_t count) {
    with_type(dtype, [&]<class T>(T*) {
        if constexpr (reduces(R, dtype_of<T>::value)) {
            const auto* a = static_cast<const T*>(from);
            auto* b = static_cast<T*>(into);
            for (std::size_t i = 0; i < count; ++i) b[i] = combine<R>(b[i], a[i]);
        }
    });
}

/// Reduces by a reduction that is known only at run time; does nothing for those that are not of two
/// elements, which combine.hpp has.
inline void reduce_into(Reduction reduction, DType dtype, const void* from, void* into, std::size_t count) {
    if (reduction == Reduction::mean) reduction = Reduction::sum;
    const auto by_any = [&]<Reduction... R>(std::integer_sequence<Reduction, R...>) {
        static_cast<void>(((reduction == R && (reduce_into<R>(dtype, from, into, count), true)) || ...));
    };
    using enum Reduction;
    by_any(std::integer_sequence<Reduction, sum, prod, min, max, bit_and, bit_or, bit_xor, logical_and,
                                 logical_or, logical_xor>());
}

/// Combines `count` elements of `a` with those of `b` in `out`, which may be one of the two.
inline void reduce(Reduction reduction, DType dtype, void* out, const void* a, const void* b,
                   std::size_t count) {
    if (out == b) return reduce_into(reduction, dtype, a, out, count);
    if (out != a) std::memcpy(out, a, count * size_of(dtype));
    reduce_into(reduction, dtype, b, out, count);
}

/// Divides `count` floating elements by `divisor`: what turns a sum into a mean.
inline void divide(DType dtype, void* data, std::size_t count, int divisor) {
    with_type(dtype, [&]<class T>(T*) {
        auto* values = static_cast<T*>(data);
        for (std::size_t i = 0; i < count; ++i) {
            if constexpr (Half<T>)
                values[i] = T(static_cast<float>(values[i]) / static_cast<float>(divisor));
            else if constexpr (std::floating_point<T>)
                values[i] /= static_cast<T>(divisor);
        }
    });
}

}  // namespace rankmesh::detail
