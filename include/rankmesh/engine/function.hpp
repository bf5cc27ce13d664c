// SPDX-License-Identifier: Apache-2.0
// Reductions by a function of yours, like MPI_Op_create: commutative(f) and ordered(f).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include <rankmesh/engine/detail/accept.hpp>
#include <rankmesh/engine/element.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh {

namespace detail {

/// Applies F to elements at any address.
template <class F, class T>
void apply_function(const void* before, void* into, std::size_t count) {
    auto f = F{};
    const auto* from = static_cast<const char*>(before);
    auto* to = static_cast<char*>(into);
    for (std::size_t i = 0; i < count; ++i, from += sizeof(T), to += sizeof(T)) {
        auto a = T{};
        auto b = T{};
        std::memcpy(&a, from, sizeof(T));
        std::memcpy(&b, to, sizeof(T));
        const T combined = f(static_cast<const T&>(a), static_cast<const T&>(b));
        std::memcpy(to, &combined, sizeof(T));
    }
}

template <class F, class T>
concept CombinesTwo = Element<T> && std::default_initializable<T> && requires(F& f, const T& element) {
    { f(element, element) } -> std::convertible_to<T>;
};

template <class F, bool Commutes>
struct FunctionTag {
    static constexpr auto value = Reduction::user_defined;
    template <class T>
    static constexpr bool combines = CombinesTwo<F, T>;
    template <class T>
    static constexpr auto function = Function{&apply_function<F, T>, Commutes};
};

template <class F>
consteval Fault fault_of_function() {
    return std::is_empty_v<F> && std::default_initializable<F> ? Fault::none : Fault::function_with_state;
}

}  // namespace detail

/// A reduction by `f(a, b)`, which is associative and commutative: `f` may combine the ranks' elements in any
/// order. `f` is a lambda without captures or a function object without state, and returns the combination
/// of two elements. The elements are of any type that can be sent. Only host engines support it.
///
///     void spread(auto& dp, double x) {
///         struct Range { double least, most; };
///         auto range = Range{x, x};
///         dp.all_reduce(range, commutative([](const Range& a, const Range& b) {
///             return Range{std::min(a.least, b.least), std::max(a.most, b.most)};
///         }));
///     }
template <class F>
constexpr auto commutative(F) {
    (void)detail::accept<detail::fault_of_function<F>()>();
    return detail::FunctionTag<F, true>{};
}

/// A reduction by `f(a, b)`, which is associative, but need not commute: `a` combines lower group ranks than
/// `b`. Otherwise like commutative.
///
///     void compose(auto& dp, double scale, double offset) {
///         struct Affine { double scale, offset; };
///         auto map = Affine{scale, offset};
///         dp.scan(map, ordered([](const Affine& first, const Affine& then) {
///             return Affine{first.scale * then.scale, first.offset * then.scale + then.offset};
///         }));
///     }
template <class F>
constexpr auto ordered(F) {
    (void)detail::accept<detail::fault_of_function<F>()>();
    return detail::FunctionTag<F, false>{};
}

}  // namespace rankmesh
