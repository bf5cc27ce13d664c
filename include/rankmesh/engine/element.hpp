// SPDX-License-Identifier: Apache-2.0
// The element types that collectives can send: values that are fully described by their bytes, without
// pointers.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

#include <rankmesh/engine/dtype.hpp>

namespace rankmesh {

/// Specialise as true for a trivially copyable class whose bytes are its value: `template <> inline constexpr
/// bool rankmesh::enable_element<Id> = true;`. Required for a class that is not an aggregate or has more than
/// 256 members, and if a member is const, empty or without a default constructor.
template <class T>
inline constexpr bool enable_element = false;

namespace detail {

template <class T>
concept HasParts = requires(const T& number) {
    { number.real() } -> std::convertible_to<typename T::value_type>;
    { number.imag() } -> std::convertible_to<typename T::value_type>;
    T{number.real(), number.imag()};  // not a type that refers to its parts
};
/// A complex number of any library: two consecutive floats or doubles.
template <class T>
concept Complex = std::is_class_v<T> && HasParts<T> && std::floating_point<typename T::value_type> &&
                  Known<typename T::value_type> && sizeof(T) == 2 * sizeof(typename T::value_type) &&
                  std::is_trivially_copyable_v<T>;

/// The element type of an array; T itself if T is not an array.
template <class T>
struct ArrayOf {
    using type = std::remove_cv_t<std::remove_all_extents_t<T>>;
};
template <class T, std::size_t N>
struct ArrayOf<std::array<T, N>> {
    using type = std::remove_cv_t<T>;
};

template <class T>
consteval bool is_element();
template <class T, class Outer>
concept OtherElement = !std::same_as<T, Outer> && is_element<T>();
template <class T>
concept RefusedClass =
    (std::is_union_v<T> || (std::is_class_v<T> && !std::is_aggregate_v<T>)) && !is_element<T>();
template <class T, class Outer>
concept Other = !std::same_as<T, Outer>;

/// What a member of an Outer can be initialised from if it is an element. A union, and a class that may
/// convert from anything, would take it by a member or a constructor of its own: the second conversion, which
/// is not noexcept, makes that ambiguous or tells it.
template <class Outer, std::size_t = 0>
struct AnElement {
    template <OtherElement<Outer> T>
    operator T() const noexcept {
        std::terminate();  // never called
    }
    template <RefusedClass T>
    operator T() {
        std::terminate();
    }
};
/// Converts to any type; initialises any member.
template <class Outer>
struct Anything {
    template <Other<Outer> T>
    operator T() const {
        std::terminate();
    }
};

template <class T, class... Initial>
concept BeginsWith = requires { T{std::declval<Initial>()...}; };
template <class T, class... Initial>
concept GoesOnBehind = BeginsWith<T, Initial..., Anything<T>> || requires {
    T{std::declval<Initial>()..., {}};
};
template <class T, class... Initial>
concept ConsistsOf = noexcept(T{std::declval<Initial>()...}) && !GoesOnBehind<T, Initial...>;

template <class T, std::size_t... I>
consteval bool begins_with_elements(std::index_sequence<I...>) {
    return BeginsWith<T, AnElement<T, I>...>;
}
template <class T, std::size_t... I>
consteval bool consists_of_elements(std::index_sequence<I...>) {
    return ConsistsOf<T, AnElement<T, I>...>;
}

/// Returns true if all members of the aggregate T are elements. Bisection: the first `least` members are
/// elements, the first `below` are not.
template <class T, std::size_t least, std::size_t below>
consteval bool holds_elements() {
    constexpr auto middle = (least + below) / 2;
    if constexpr (middle == least)
        return consists_of_elements<T>(std::make_index_sequence<least>());
    else if constexpr (begins_with_elements<T>(std::make_index_sequence<middle>()))
        return holds_elements<T, middle, below>();
    else
        return holds_elements<T, least, middle>();
}

template <class T>
consteval bool is_element() {
    constexpr auto most_members = std::size_t{256};  // elements of member arrays count one by one
    if constexpr (Known<T> || Complex<T>)
        return true;
    else if constexpr (!std::is_trivially_copyable_v<T> || std::is_empty_v<T>)
        return false;
    else if constexpr (!std::same_as<typename ArrayOf<T>::type, T>)
        return is_element<typename ArrayOf<T>::type>();
    else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T> || enable_element<T>)
        return true;
    else if constexpr (std::is_aggregate_v<T> && std::is_class_v<T> && std::is_copy_assignable_v<T>)
        return begins_with_elements<T>(std::index_sequence<>()) &&
               holds_elements<T, 0, std::min(8 * sizeof(T), most_members) + 1>();  // bit-fields
    else
        return false;
}

}  // namespace detail

/// A type that collectives can send: a number, an enum, a type with a DType, a complex number, an array of
/// elements, an aggregate of elements, or a trivially copyable class with `enable_element`.
///
/// Never a pointer, a reference, a union, or a view such as std::span; send the elements that it refers to.
template <class T>
concept Element = detail::is_element<T>();

}  // namespace rankmesh
