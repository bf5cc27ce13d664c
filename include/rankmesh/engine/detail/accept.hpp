// SPDX-License-Identifier: Apache-2.0
// Compile-time checks of the arguments of collectives: each failure says in one sentence what is wrong and
// what to write instead.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <rankmesh/core/int.hpp>
#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

template <class>
inline constexpr bool is_list = false;
/// An argument passed as a buffer, valid or not: anything but a reduction and a list of buffers.
template <class B>
concept BufferArgument = !IsReduction<B> && !is_list<std::remove_cvref_t<B>>;
/// A root or a distance; behind a buffer argument it is not itself a buffer.
template <class N>
concept Integer = std::integral<std::remove_cvref_t<N>> && (sizeof(N) > 1);
/// An argument behind a buffer, passed as another one: an integer there is a root or a distance.
template <class B>
concept NextBufferArgument = BufferArgument<B> && !Integer<B>;

/// An argument passed as a reduction, valid or not.
template <class R>
concept ReductionArgument = IsReduction<R> || !IntLike<R>;

/// A container that broadcast_object can send: a buffer with resize().
template <class Container>
concept Resizable = Buffer<Container> && requires(Container& container) { container.resize(std::size_t{}); };

template <class T>
inline constexpr bool is_reference_wrapper = false;
template <class T>
inline constexpr bool is_reference_wrapper<std::reference_wrapper<T>> = true;

enum class Fault : std::uint8_t {
    none,
    pointer,
    packed_bits,
    reference_wrapper,
    run_time_reduction,
    function,
    counts,
    no_buffer,
    scattered,
    buffers,
    elements,
    sent_temporary,
    temporary,
    constant,
    two_types,
    complex_reduction,
    unknown_reduction,
    mean,
    bitwise,
    logical,
    arithmetic,
    mean_of_scan,
    two_integers,
    strided_in_list,
    function_of_list,
    function_with_state,
    function_of_others,
    location,
    reproducible
};

/// Fails to compile with the sentence for `fault`; true if there is none.
template <Fault fault>
consteval bool accept() {
    using enum Fault;
    static_assert(fault != pointer, "a raw pointer has no length: pass std::span(pointer, count)");
    static_assert(fault != packed_bits,
                  "std::vector<bool> stores packed bits and cannot be a buffer: use std::vector<char>");
    static_assert(fault != reference_wrapper, "std::ref(x) cannot be a buffer: pass x itself");
    static_assert(fault != run_time_reduction,
                  "a run-time rankmesh::Reduction is not supported here: pass a tag such as rankmesh::sum");
    static_assert(fault != function,
                  "a function as a reduction says whether it commutes: pass rankmesh::commutative(f) or "
                  "rankmesh::ordered(f) of <rankmesh/engine/function.hpp>, or a tag such as rankmesh::sum");
    static_assert(fault != counts,
                  "counts are integers, one for each rank: pass a std::vector<int> or another range of them");
    static_assert(fault != no_buffer,
                  "this type cannot be a buffer: pass a contiguous range or a single element without "
                  "pointers, or specialize rankmesh::enable_element or rankmesh::buffer_traits for it");
    static_assert(fault != scattered,
                  "a buffer must be contiguous in memory: copy the elements into a std::vector");
    static_assert(fault != buffers,
                  "this is a range of buffers, not one buffer: pass rankmesh::Buffers(range)");
    static_assert(fault != elements,
                  "this element type cannot be sent: use numbers, enums or aggregates of them without "
                  "pointers, or specialize rankmesh::enable_element for it");
    static_assert(fault != sent_temporary,
                  "the input buffer is a temporary that would be destroyed before it is sent: pass a named "
                  "buffer or a view");
    static_assert(
        fault != temporary,
        "the output buffer is a temporary, so the result would be lost: pass a named buffer or a view");
    static_assert(fault != constant, "the output buffer is const: pass a writable one");
    static_assert(fault != two_types,
                  "the input and output buffers have different element types: convert one of them first");
    static_assert(fault != complex_reduction,
                  "complex numbers can be reduced only with rankmesh::sum and rankmesh::mean");
    static_assert(fault != unknown_reduction,
                  "elements of this type can be sent, but rankmesh::sum and the other tags reduce numbers "
                  "only: pass rankmesh::commutative(f) or rankmesh::ordered(f) with your own function f");
    static_assert(
        fault != mean,
        "rankmesh::mean needs a floating-point type: convert the elements, or use rankmesh::sum and divide");
    static_assert(fault != bitwise, "bitwise reductions need an integer type or std::byte");
    static_assert(fault != logical, "logical reductions need an integer type or bool");
    static_assert(fault != arithmetic,
                  "sum, prod, min and max are not defined for this type: use logical reductions for bool and "
                  "bitwise ones for std::byte; 8-bit floats cannot be reduced");
    static_assert(fault != mean_of_scan,
                  "scan does not support rankmesh::mean: use rankmesh::sum and divide by rank() + 1");
    static_assert(
        fault != two_integers,
        "ambiguous: the second integer could be an output, a root or a distance: write (x, y, sum) or (x, y, "
        "distance) for an output, (x, sum, root) or (x, +distance) for an operation in place");
    static_assert(fault != strided_in_list,
                  "a list takes buffers that are contiguous in memory: pass each strided buffer to a call of "
                  "its own, which may be started");
    static_assert(fault != function_of_list,
                  "a list of buffers cannot be reduced by a function or a location: pass a tag such as "
                  "rankmesh::sum, or reduce each buffer in a call of its own");
    static_assert(fault != function_with_state,
                  "a function as a reduction cannot hold state, a pointer to a function included: pass a "
                  "lambda without captures that calls it");
    static_assert(fault != function_of_others,
                  "this function does not combine two elements of the buffer into one: it takes (const T&, "
                  "const T&) and returns T, where T is the buffer's element type");
    static_assert(fault != location,
                  "rankmesh::min_location and max_location reduce a value with its index: pass "
                  "rankmesh::Located{value, index}, or a range of them");
    static_assert(fault != reproducible,
                  "rankmesh::reproducible_sum needs a floating-point type: sums of integers are "
                  "reproducible, so use rankmesh::sum");
    return fault == none;
}

template <class Range>
consteval Fault fault_of_counts() {
    if constexpr (!std::ranges::input_range<const Range>)
        return Fault::counts;
    else
        return std::integral<std::ranges::range_value_t<const Range>> ? Fault::none : Fault::counts;
}

template <class B>
consteval Fault fault_of_buffer() {
    using T = std::remove_cvref_t<B>;
    if constexpr (Buffer<B>)
        return Fault::none;
    else if constexpr (std::is_pointer_v<T>)
        return Fault::pointer;
    else if constexpr (std::same_as<T, std::vector<bool>>)
        return Fault::packed_bits;
    else if constexpr (is_reference_wrapper<T>)
        return Fault::reference_wrapper;
    else if constexpr (!std::ranges::range<B>)
        return Fault::no_buffer;
    else if constexpr (!std::ranges::contiguous_range<B>)
        return Fault::scattered;
    else if constexpr (Buffer<std::ranges::range_reference_t<B>>)
        return Fault::buffers;
    else
        return Fault::elements;
}

template <class In>
consteval Fault fault_of_in() {
    constexpr auto fault = fault_of_buffer<In>();
    return fault == Fault::none && !Outlives<In> ? Fault::sent_temporary : fault;
}

template <class Out>
consteval Fault fault_of_out() {
    constexpr auto fault = fault_of_buffer<Out>();
    if constexpr (std::same_as<std::remove_cvref_t<Out>, Reduction>)
        return Fault::run_time_reduction;
    else if constexpr (fault != Fault::none || OutBuffer<Out>)
        return fault;
    else
        return Outlives<Out> ? Fault::constant : Fault::temporary;
}

/// True if F is what other libraries reduce the elements of In by.
template <class F, class In>
consteval bool is_function_of() {
    if constexpr (!Buffer<In>)
        return false;
    else if constexpr (std::is_void_v<element_t<In>>)
        return false;
    else
        return std::invocable<F&, element_t<In>&, element_t<In>&>;
}

template <class In, class Out>
consteval Fault fault_of() {
    constexpr auto in = fault_of_in<In>();
    constexpr auto out = fault_of_out<Out>();
    if constexpr (in == Fault::none && !Buffer<Out> && is_function_of<Out, In>()) {
        return Fault::function;
    } else if constexpr (in != Fault::none || out != Fault::none) {
        return in != Fault::none ? in : out;
    } else {
        using A = element_t<In>;
        using B = element_t<Out>;
        if constexpr (std::is_void_v<A> || std::is_void_v<B>)
            return Fault::none;
        else
            return dtype_for<A>() == dtype_for<B>() && sizeof(A) == sizeof(B) ? Fault::none
                                                                              : Fault::two_types;
    }
}

/// The fault in reducing elements of T by R.
template <class R, class T>
consteval Fault fault_of_reduction() {
    if constexpr (Reduces<R, T>) return Fault::none;
    if constexpr (R::value == Reduction::user_defined) return Fault::function_of_others;
    if constexpr (by_function(R::value)) return Fault::location;
    if constexpr (Complex<T>) return Fault::complex_reduction;
    if constexpr (!Known<T>) return Fault::unknown_reduction;
    if constexpr (R::value == Reduction::reproducible_sum) return Fault::reproducible;
    if constexpr (R::value == Reduction::mean) return Fault::mean;
    if constexpr (traits(R::value).elements == ReducedElements::integers_and_bools) return Fault::logical;
    return traits(R::value).elements == ReducedElements::integers_and_bytes ? Fault::bitwise
                                                                            : Fault::arithmetic;
}
/// The fault in scanning by R.
template <class R>
consteval Fault fault_of_scan() {
    if constexpr (!IsReduction<R>)
        return Fault::none;  // that is another
    else
        return R::value == Reduction::mean ? Fault::mean_of_scan : Fault::none;
}
/// The fault in reducing a list by R.
template <class R>
consteval Fault fault_in_list() {
    if constexpr (!IsReduction<R>)
        return std::same_as<R, Reduction> ? Fault::run_time_reduction : Fault::function;
    else
        return by_function(R::value) ? Fault::function_of_list : Fault::none;
}
/// The fault in passing R as a reduction.
template <class R>
consteval Fault fault_of_tag() {
    if constexpr (IsReduction<R>)
        return Fault::none;
    else
        return std::same_as<R, Reduction> ? Fault::run_time_reduction : Fault::function;
}
template <class R, class In, class Out>
consteval Fault fault_of() {
    constexpr auto fault = fault_of<In, Out>();
    if constexpr (fault != Fault::none)
        return fault;
    else if constexpr (!IsReduction<R>)
        return fault_of_tag<R>();
    else
        return fault_of_reduction<R, element_t<In>>();
}

/// The fault in summing buffers of X, or products of X and Y, reproducibly into one number.
template <class X, class Y>
consteval Fault fault_of_sum() {
    constexpr auto x = fault_of_buffer<X>();
    constexpr auto y = fault_of_buffer<Y>();
    if constexpr (x != Fault::none || y != Fault::none) {
        return x != Fault::none ? x : y;
    } else {
        using A = element_t<X>;
        using B = element_t<Y>;
        if constexpr (std::is_void_v<A> && std::is_void_v<B>) return Fault::none;
        if constexpr (!std::same_as<A, B>) return Fault::two_types;
        if constexpr (!Known<A>)
            return Fault::unknown_reduction;
        else
            return is_floating(dtype_of<A>::value) ? Fault::none : Fault::reproducible;
    }
}

/// The root or distance `n` that follows the only buffer of a call; does not compile where that buffer is a
/// single integer, since `n` could then be the output. Throws UsageError if it is no int.
template <class B, class N>
constexpr int integer_behind(const std::remove_reference_t<N>& n) {
    if constexpr (OneElement<B>)
        (void)accept<std::same_as<N, element_t<B>&> ? Fault::two_integers : Fault::none>();
    return Int(n);
}

}  // namespace rankmesh::detail
