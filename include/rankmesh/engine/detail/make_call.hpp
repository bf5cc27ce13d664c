// SPDX-License-Identifier: Apache-2.0
// From buffers to the call that an engine gets. `make_` functions take buffers whose types are known at run
// time, which C and Python have. The others take those of C++, and fail to compile for what these would
// refuse.
#pragma once

#include <string>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/detail/accept.hpp>
#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/detail/memory_layout.hpp>
#include <rankmesh/engine/tag.hpp>

namespace rankmesh::detail {

/// `a buffer of all_reduce`.
RANKMESH_EXPORT std::string buffer_of(Operation operation);
[[noreturn]] RANKMESH_EXPORT void two_types(Operation operation, const AnyBuffer<const void>& in,
                                            const AnyBuffer<void>& out);

/// An operation that reads `in` and writes `out`, which may be one buffer; throws UsageError for two types.
inline Call make_call(Operation operation, const AnyBuffer<const void>& in, const AnyBuffer<void>& out,
                      int argument = 0, Edge edge = Edge::wrap) {
    if (in.dtype != out.dtype || in.unit != out.unit) two_types(operation, in, out);
    return {.operation = operation,
            .dtype = in.dtype,
            .edge = edge,
            .argument = argument,
            .in = in.data,
            .out = out.data,
            .in_count = in.count,
            .out_count = out.count,
            .in_space = in.space,
            .out_space = out.space,
            .unit = in.unit};
}

/// An operation that reduces; throws UsageError for a reduction that it does not have for these elements. By
/// a location the buffers hold `count` pairs, Located<T> of values of their dtype.
RANKMESH_EXPORT Call make_reduction(Operation operation, const AnyBuffer<const void>& in,
                                    const AnyBuffer<void>& out, Reduction reduction, int root = 0);

inline Call make_send(const AnyBuffer<const void>& in, int to, Tag tag) {
    return {.operation = Operation::send,
            .dtype = in.dtype,
            .argument = to,
            .in = in.data,
            .in_count = in.count,
            .out_count = in.count,
            .in_space = in.space,
            .out_space = in.space,
            .tag = tag.number(),
            .unit = in.unit};
}
inline Call make_recv(const AnyBuffer<void>& out, int from, Tag tag) {
    auto call = make_call(Operation::recv, out, out, from);
    call.tag = tag.number();
    return call;
}
inline Call make_send_recv(const AnyBuffer<const void>& in, int to, const AnyBuffer<void>& out, int from,
                           Tag tag) {
    auto call = make_call(Operation::send_recv, in, out, to);
    call.source = from;
    call.tag = tag.number();
    return call;
}

template <class In, class Out>
auto moving(Operation operation, In&& in, Out&& out, int argument = 0, Edge edge = Edge::wrap) {
    if constexpr (accept<fault_of<In, Out>()>()) {
        const auto what = [&] { return buffer_of(operation); };
        const auto read = any_buffer<const void>(in, what);
        auto written = any_buffer<void>(out, what);
        if constexpr (std::is_void_v<element_t<In>> || std::is_void_v<element_t<Out>>)
            written.unit = read.unit;  // memory without a type may hold complex numbers
        if constexpr (Laid<In> || Laid<Out>)
            return StridedCall(make_call(operation, read, written, argument, edge), layout_of(in),
                               layout_of(out));
        else
            return make_call(operation, read, written, argument, edge);
    } else {
        return Call{};
    }
}

template <class In, class Out, class R>
auto reducing(Operation operation, In&& in, Out&& out, R, int root = 0) {
    if constexpr (accept<fault_of<R, In, Out>()>()) {
        auto call = moving(operation, std::forward<In>(in), std::forward<Out>(out), root);
        call.reduction = R::value;
        if constexpr (Combines<R, element_t<In>>) call.function = &R::template function<element_t<In>>;
        return call;
    } else {
        return Call{};
    }
}
template <class In, class Out, class R>
auto scanning(Operation operation, In&& in, Out&& out, R r) {
    if constexpr (accept<fault_of_scan<R>()>())
        return reducing(operation, std::forward<In>(in), std::forward<Out>(out), r);
    else
        return Call{};
}

/// The reproducible sum of buffers of one type, which `sum` returns as double; double where the type is known
/// only at run time.
template <class X, class Y, class Sum>
auto summed(Sum&& sum) {
    if constexpr (accept<fault_of_sum<X, Y>()>()) {
        using T = element_t<X>;
        const auto value = sum([] { return std::string("a buffer of a reproducible sum"); });
        if constexpr (std::is_void_v<T>)
            return value;
        else if constexpr (std::is_arithmetic_v<T>)
            return static_cast<T>(value);
        else
            return T(static_cast<float>(value));
    } else {
        return 0.0;
    }
}

/// The reduction of a list.
template <class R>
consteval Reduction reduction_of() {
    if constexpr (accept<fault_in_list<R>()>())
        return R::value;
    else
        return {};
}

template <class In>
auto sending(In&& in, int to, Tag tag) {
    const auto what = [] { return buffer_of(Operation::send); };
    if constexpr (!accept<fault_of_in<In>()>())
        return Call{};
    else if constexpr (Laid<In>)
        return StridedCall(make_send(any_buffer<const void>(in, what), to, tag), layout_of(in), {});
    else
        return make_send(any_buffer<const void>(in, what), to, tag);
}
template <class Out>
auto receiving(Out&& out, int from, Tag tag) {
    const auto what = [] { return buffer_of(Operation::recv); };
    if constexpr (!accept<fault_of<Out, Out>()>())
        return Call{};
    else if constexpr (Laid<Out>)
        return StridedCall(make_recv(any_buffer<void>(out, what), from, tag), {}, layout_of(out));
    else
        return make_recv(any_buffer<void>(out, what), from, tag);
}
template <class In, class Out>
auto exchanging(In&& in, int to, Out&& out, int from, Tag tag) {
    auto call = moving(Operation::send_recv, std::forward<In>(in), std::forward<Out>(out), to);
    call.source = from;
    call.tag = tag.number();
    return call;
}

}  // namespace rankmesh::detail
