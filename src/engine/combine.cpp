// SPDX-License-Identifier: Apache-2.0
#include "engine/combine.hpp"

#include <algorithm>
#include <concepts>
#include <cstring>
#include <limits>
#include <vector>

#include "engine/arithmetic.hpp"
#include "engine/exact_sum.hpp"

namespace rankmesh::detail {
namespace {

/// What changes nothing in a reduction.
template <class T>
T nothing(Reduction reduction) {
    if (reduction == Reduction::prod || reduction == Reduction::logical_and) return static_cast<T>(1);
    if (reduction == Reduction::bit_and) {
        if constexpr (std::same_as<T, std::byte> || (std::integral<T> && !std::same_as<T, bool>))
            return static_cast<T>(~T{});
    }
    using Limits = std::numeric_limits<T>;
    if constexpr (std::floating_point<T>) {
        if (reduction == Reduction::min) return Limits::infinity();
        if (reduction == Reduction::max) return -Limits::infinity();
    } else if constexpr (std::integral<T>) {
        if (reduction == Reduction::min) return Limits::max();
        if (reduction == Reduction::max) return Limits::lowest();
    }
    return T{};
}

}  // namespace

void combine(const Call& call, std::span<const void* const> ins, void* out, std::size_t count) {
    if (count == 0) return;
    if (call.reduction == Reduction::reproducible_sum) return sum_exactly(call.dtype, ins, out, count);
    const auto bytes = count * size_of(call.dtype);
    auto result = std::vector<char>(bytes);
    if (call.function) {
        std::memcpy(result.data(), ins.back(), bytes);
        for (auto p = ins.size() - 1; p-- > 0;)
            call.function->apply(ins[p], result.data(), count / call.unit);
    } else {
        std::memcpy(result.data(), ins.front(), bytes);
        for (const auto* in : ins.subspan(1))
            reduce_into(call.reduction, call.dtype, in, result.data(), count);
    }
    std::memcpy(out, result.data(), bytes);
}

void combine_before(const Call& call, const void* before, void* into, std::size_t count) {
    if (call.function)
        call.function->apply(before, into, count / call.unit);
    else
        reduce_into(call.reduction, call.dtype, before, into, count);
}

void fill_with_nothing(const Call& call) {
    if (call.function) return;
    with_type(call.dtype, [&]<class T>(T*) {
        auto* out = static_cast<T*>(call.out);
        auto value = T{};
        if constexpr (Half<T>)
            value = T(nothing<float>(call.reduction));
        else
            value = nothing<T>(call.reduction);
        std::fill_n(out, call.out_count, value);
    });
}

void make_logical(const Call& call) {
    if (traits(call.reduction).is_logical)
        reduce_into(Reduction::logical_or, call.dtype, call.out, call.out, call.out_count);
}

}  // namespace rankmesh::detail
