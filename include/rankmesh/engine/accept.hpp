// SPDX-License-Identifier: Apache-2.0
// What operations do not compile with, each with one sentence that says why and what does.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <ranges>
#include <type_traits>
#include <vector>

#include <rankmesh/engine/buffer.hpp>
#include <rankmesh/engine/reduction.hpp>

namespace rankmesh::detail {

template <class>
inline constexpr bool is_list = false;
/// What stands where a buffer should: anything but a reduction and a list of buffers.
template <class B>
concept Given = !IsReduction<B> && !is_list<std::remove_cvref_t<B>>;
/// A root or a distance rather than a buffer.
template <class N>
concept Integer = std::integral<std::remove_cvref_t<N>> &&(sizeof(N) > 1);
/// What stands where a buffer should, and no integer, which behind one buffer is a root or a distance.
template <class B>
concept GivenNext = Given<B> && !Integer<B>;

/// What broadcast_object carries.
template <class Container>
concept Resizable = Buffer<Container> && requires(Container& container) {
    container.resize(std::size_t{});
};

/// Counts by another integer than std::size_t.
template <class Counts>
concept OtherCounts = std::ranges::range<Counts> && std::integral<std::ranges::range_value_t<Counts>> &&
    !std::same_as<std::ranges::range_value_t<Counts>, std::size_t>;
template <class A, class B>
concept EitherOtherCounts = OtherCounts<A> || OtherCounts<B>;

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
    two_integers
};

template <Fault fault>
inline constexpr bool accepted = fault == Fault::none;

/// Fails to compile with one sentence for what is wrong; true if nothing is.
template <Fault fault>
consteval bool accept() {
    using enum Fault;
    if constexpr (fault == pointer)
        static_assert(accepted<fault>,
                      "a pointer is no buffer, as it has no length: pass std::span(pointer, count)");
    else if constexpr (fault == packed_bits)
        static_assert(accepted<fault>,
                      "std::vector<bool> is no buffer, as it packs bits: use std::vector<char>");
    else if constexpr (fault == reference_wrapper)
        static_assert(accepted<fault>, "std::ref is no buffer: pass the buffer itself");
    else if constexpr (fault == run_time_reduction)
        static_assert(accepted<fault>,
                      "a rankmesh::Reduction is no argument: pass a tag, such as rankmesh::sum");
    else if constexpr (fault == no_buffer)
        static_assert(accepted<fault>,
                      "this is no buffer: pass elements one after the other, or one, none holding a pointer; "
                      "enable_element and buffer_traits say what else is");
    else if constexpr (fault == scattered)
        static_assert(accepted<fault>,
                      "a buffer's elements lie one after the other: copy these into a std::vector");
    else if constexpr (fault == buffers)
        static_assert(accepted<fault>, "a range of buffers is a list: pass rankmesh::Buffers(range)");
    else if constexpr (fault == elements)
        static_assert(accepted<fault>,
                      "elements that hold pointers cannot be sent: numbers, enums and aggregates of them "
                      "can, and classes for which rankmesh::enable_element is true");
    else if constexpr (fault == sent_temporary)
        static_assert(
            accepted<fault>,
            "what is sent is a temporary, and gone before it is sent: pass a named buffer, or a view");
    else if constexpr (fault == temporary)
        static_assert(accepted<fault>,
                      "the result would go into a temporary: pass a named buffer, or a view");
    else if constexpr (fault == constant)
        static_assert(accepted<fault>,
                      "the result would go into a const buffer: pass one that may be written");
    else if constexpr (fault == two_types)
        static_assert(accepted<fault>, "the buffers hold elements of two types: convert one of them first");
    else if constexpr (fault == complex_reduction)
        static_assert(accepted<fault>,
                      "complex numbers are reduced by rankmesh::sum and rankmesh::mean only");
    else if constexpr (fault == unknown_reduction)
        static_assert(accepted<fault>, "elements of this type can be moved, but not reduced: reduce numbers");
    else if constexpr (fault == mean)
        static_assert(accepted<fault>,
                      "rankmesh::mean is of floating elements: convert these, or take the sum and divide");
    else if constexpr (fault == bitwise)
        static_assert(accepted<fault>, "bitwise reductions are of integers and std::byte only");
    else if constexpr (fault == logical)
        static_assert(accepted<fault>, "logical reductions are of integers and bool only");
    else if constexpr (fault == arithmetic)
        static_assert(accepted<fault>,
                      "sum, prod, min and max are of numbers only: bool has logical reductions, std::byte "
                      "bitwise ones, eight-bit floats none");
    else if constexpr (fault == mean_of_scan)
        static_assert(accepted<fault>, "a scan has no mean: scan by rankmesh::sum, and divide by rank() + 1");
    else if constexpr (fault == two_integers)
        static_assert(accepted<fault>,
                      "of two integers the second may be a result, or a root or distance: write (x, y, sum), "
                      "(x, sum, root), (x, y, by) or (x, +by)");
    return accepted<fault>;
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

template <class In, class Out>
consteval Fault fault_of() {
    constexpr auto in = fault_of_in<In>();
    constexpr auto out = fault_of_out<Out>();
    if constexpr (in != Fault::none || out != Fault::none) {
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

/// Of a reduction of elements of T.
template <class R, class T>
consteval Fault fault_of_reduction() {
    if constexpr (Reduces<R, T>) return Fault::none;
    if constexpr (Complex<T>) return Fault::complex_reduction;
    if constexpr (!Known<T>) return Fault::unknown_reduction;
    if constexpr (R::value == Reduction::mean) return Fault::mean;
    if constexpr (R::value >= Reduction::logical_and) return Fault::logical;
    return R::value >= Reduction::bit_and ? Fault::bitwise : Fault::arithmetic;
}
template <class R, class In, class Out>
consteval Fault fault_of() {
    constexpr auto fault = fault_of<In, Out>();
    if constexpr (fault != Fault::none)
        return fault;
    else
        return fault_of_reduction<R, element_t<In>>();
}

/// `n`, which stands behind one buffer, as the root or the distance that it is. Behind one integer it could
/// be the result as well.
template <class B, class N>
constexpr int integer_behind(const std::remove_reference_t<N>& n) {
    if constexpr (OneElement<B>)
        (void)accept<std::same_as<N, element_t<B>&> ? Fault::two_integers : Fault::none>();
    return static_cast<int>(n);
}

}  // namespace rankmesh::detail
