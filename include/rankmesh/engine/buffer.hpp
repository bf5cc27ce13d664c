// SPDX-License-Identifier: Apache-2.0
// Buffers: which types a collective reads and writes, and how to make your own type a buffer.
#pragma once

#include <concepts>
#include <cstddef>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/device.hpp>
#include <rankmesh/engine/element.hpp>

namespace rankmesh {

/// Makes a matrix, array or view of another library a buffer. Specialise it with these static members:
///
/// - `data(buffer)`: pointer to the first element; pointer to const for a const buffer that owns its
/// elements.
/// - `size(buffer)`: the number of elements.
/// - `refusal(buffer)`, optional: why this buffer cannot be used, for example because it is not contiguous;
/// "" if it can. The operation throws UsageError with this text.
/// - `is_view = true`, optional: something else owns the memory; a temporary may then be an output.
/// - `space(buffer)`, optional: where the memory is; default: the host.
/// - `dtype(buffer)`: the element type if `data` returns a pointer to void.
/// - `extents(buffer)` and `strides(buffer)`, optional, for elements that do not lie one after the other:
/// arrays of the lengths of the dimensions and of the distances between neighbours in elements, outermost
/// dimension first. `data` points to the element whose indices are all 0.
template <class B>
struct buffer_traits {};

template <class T>
struct buffer_traits<Memory<T>> {
    static constexpr bool is_view = true;
    static constexpr T* data(const Memory<T>& memory) { return memory.data(); }
    static constexpr std::size_t size(const Memory<T>& memory) { return memory.size(); }
    static constexpr Space space(const Memory<T>& memory) { return memory.space(); }
    static constexpr DType dtype(const Memory<T>& memory)
        requires std::is_void_v<T>
    {
        return memory.dtype();
    }
};

namespace detail {

template <class B>
using traits_of = buffer_traits<std::remove_cvref_t<B>>;
template <class B>
using described_t =
    std::remove_pointer_t<decltype(traits_of<B>::data(std::declval<std::remove_reference_t<B>&>()))>;

/// A type with buffer_traits.
template <class B>
concept Described = requires(std::remove_reference_t<B>& buffer) {
    { traits_of<B>::size(buffer) } -> std::convertible_to<std::size_t>;
    requires std::is_void_v<described_t<B>> || Element<std::remove_const_t<described_t<B>>>;
};
/// A buffer whose elements lie at distances that its traits give.
template <class B>
concept Laid = Described<B> && requires(std::remove_reference_t<B>& buffer) {
    traits_of<B>::extents(buffer);
    traits_of<B>::strides(buffer);
};
template <class B>
concept ElementRange = !Described<B> && std::ranges::contiguous_range<B> && std::ranges::sized_range<B> &&
                       Element<std::ranges::range_value_t<B>>;
template <class B>
concept OneElement = !Described<B> && !std::ranges::range<B> && Element<std::remove_cvref_t<B>>;

}  // namespace detail

/// An input of a collective: a contiguous range of elements, a single element, device memory, or a type with
/// buffer_traits.
template <class B>
concept Buffer = detail::Described<B> || detail::ElementRange<B> || detail::OneElement<B>;

namespace detail {

template <class B>
struct element_of {
    using type = std::remove_cvref_t<B>;
};
template <ElementRange B>
struct element_of<B> {
    using type = std::ranges::range_value_t<B>;
};
template <Described B>
struct element_of<B> {
    using type = std::remove_const_t<described_t<B>>;
};

}  // namespace detail

/// The element type of a buffer; void if it is known only at run time.
template <Buffer B>
using element_t = typename detail::element_of<B>::type;

namespace detail {

/// Returns the DType that an engine uses for T: the real type for a complex T, bytes for an unknown T.
template <class T>
constexpr DType dtype_for() {
    if constexpr (Known<T>)
        return dtype_of<T>::value;
    else if constexpr (Complex<T>)
        return dtype_of<typename T::value_type>::value;
    else
        return DType::byte;
}

/// Returns the DType that an engine uses for a buffer's elements.
template <Buffer B>
constexpr DType dtype_in(B&& buffer) {
    if constexpr (std::is_void_v<element_t<B>>)
        return traits_of<B>::dtype(buffer);
    else
        return dtype_for<element_t<B>>();
}

template <Buffer B>
constexpr auto data_of(B&& buffer) {
    if constexpr (Described<B>)
        return traits_of<B>::data(buffer);
    else if constexpr (ElementRange<B>)
        return std::ranges::data(buffer);
    else
        return &buffer;
}

/// The number of elements of `dtype_for<T>()` in one T.
template <class T>
inline constexpr std::size_t unit_of = Known<T>     ? 1
                                       : Complex<T> ? 2
                                                    : sizeof(T);
template <>
inline constexpr std::size_t unit_of<void> = 1;

/// Returns the length of a buffer in elements of `dtype_for`.
template <Buffer B>
constexpr std::size_t count_of(B&& buffer) {
    if constexpr (Described<B>)
        return static_cast<std::size_t>(traits_of<B>::size(buffer)) * unit_of<element_t<B>>;
    else if constexpr (ElementRange<B>)
        return std::ranges::size(buffer) * unit_of<element_t<B>>;
    else
        return unit_of<element_t<B>>;
}

template <Buffer B>
constexpr Space space_of(B&& buffer) {
    if constexpr (requires { traits_of<B>::space(buffer); })
        return traits_of<B>::space(buffer);
    else
        return Space::host;
}

/// Throws UsageError that says why `what` cannot be used.
[[noreturn]] RANKMESH_EXPORT void refuse(std::string_view what, std::string_view reason);
/// Throws UsageError if the buffer's `refusal` is not "".
template <Buffer B, class What>
void check_refusal(const B& buffer, What&& what) {
    if constexpr (requires { traits_of<B>::refusal(buffer); })
        if (const auto reason = std::string(traits_of<B>::refusal(buffer)); !reason.empty())
            refuse(what(), reason);
}

/// A buffer whose elements have a type that is known at run time; `Void` is const where they are only read.
template <class Void>
struct AnyBuffer {
    Void* data = nullptr;
    std::size_t count = 0;  // of dtype
    DType dtype = DType::byte;
    std::size_t unit = 1;  // elements of dtype in one of the caller's: two are a complex number
    Space space = Space::host;
    bool known = true;  // an engine can reduce its type

    operator AnyBuffer<const void>() const
        requires(!std::is_const_v<Void>)
    {
        return {data, count, dtype, unit, space, known};
    }
};

/// The same buffer without its type; throws UsageError if buffer_traits refuse it, as `what()`.
template <class Void, Buffer B, class What>
AnyBuffer<Void> any_buffer(B&& buffer, What&& what) {
    using T = element_t<B>;
    check_refusal(buffer, what);
    return {data_of(buffer), count_of(buffer), dtype_in(buffer),
            unit_of<T>,      space_of(buffer), Known<T> || Complex<T> || std::is_void_v<T>};
}

template <class B>
concept View = requires { requires traits_of<B>::is_view; };

}  // namespace detail

/// A buffer that outlives the call: an lvalue or a view. Required for outputs, and for all buffers of
/// started calls, which return before the operation ends.
template <class B>
concept Outlives = std::is_lvalue_reference_v<B> || std::ranges::borrowed_range<B> || detail::View<B>;

/// An output of a collective: a buffer that outlives the call and whose elements are not const.
template <class B>
concept OutBuffer = Buffer<B> && Outlives<B> && requires(B&& buffer) {
    requires !std::is_const_v<std::remove_pointer_t<decltype(detail::data_of(buffer))>>;
};

}  // namespace rankmesh
