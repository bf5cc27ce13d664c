// SPDX-License-Identifier: Apache-2.0
// From typed buffers to the call that an engine gets.
#pragma once

#include <string>
#include <utility>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/detail/accept.hpp>
#include <rankmesh/engine/detail/call.hpp>
#include <rankmesh/engine/tag.hpp>

namespace rankmesh::detail {

[[noreturn]] RANKMESH_EXPORT void two_types(Operation operation, DType in, DType out);
/// `a buffer of all_reduce`.
RANKMESH_EXPORT std::string buffer_of(Operation operation);

/// The part of a call that says what is read.
template <class In>
Call reading(Operation operation, const In& in, int argument) {
    check_refusal(in, [&] { return buffer_of(operation); });
    auto call = Call{};
    call.operation = operation;
    call.dtype = dtype_in(in);
    call.argument = argument;
    call.in = data_of(in);
    call.in_count = count_of(in);
    call.in_space = space_of(in);
    call.unit = unit_of<element_t<In>>;
    return call;
}

/// An operation that moves the elements of `in`, or reads and writes one buffer given twice.
template <class In, class Out>
Call moving(Operation operation, In&& in, Out&& out, int argument = 0, Edge edge = {}) {
    auto call = Call{};
    if constexpr (accept<fault_of<In, Out>()>()) {
        call = reading(operation, in, argument);
        if constexpr (std::is_void_v<element_t<In>> || std::is_void_v<element_t<Out>>)
            if (call.dtype != dtype_in(out)) two_types(operation, call.dtype, dtype_in(out));
        check_refusal(out, [&] { return buffer_of(operation); });
        call.edge = edge;
        call.out = data_of(out);
        call.out_count = count_of(out);
        call.out_space = space_of(out);
    }
    return call;
}

template <class In, class Out, class R>
Call reducing(Operation operation, In&& in, Out&& out, R, int root = 0) {
    auto call = Call{};
    if constexpr (accept<fault_of<R, In, Out>()>()) {
        call = moving(operation, std::forward<In>(in), std::forward<Out>(out), root);
        call.reduction = R::value;
    }
    return call;
}
template <class In, class Out, class R>
Call scanning(In&& in, Out&& out, R r) {
    if constexpr (accept < Scans<R, void> || !IsReduction<R> ? Fault::none : Fault::mean_of_scan > ())
        return reducing(Operation::scan, std::forward<In>(in), std::forward<Out>(out), r);
    else
        return {};
}

/// The reduction of a list.
template <class R>
consteval Reduction reduction_of() {
    if constexpr (accept<fault_of_tag<R>()>())
        return R::value;
    else
        return {};
}

template <class In>
Call sending(In&& in, int to, Tag tag) {
    auto call = Call{};
    if constexpr (accept<fault_of_in<In>()>()) {
        call = reading(Operation::send, in, to);
        call.out_count = call.in_count;
        call.out_space = call.in_space;
        call.tag = tag.number();
    }
    return call;
}

template <class Out>
Call receiving(Out&& out, int from, Tag tag) {
    auto call = moving(Operation::recv, out, std::forward<Out>(out), from);
    call.tag = tag.number();
    return call;
}

template <class In, class Out>
Call exchanging(In&& in, int to, Out&& out, int from, Tag tag) {
    auto call = moving(Operation::send_recv, std::forward<In>(in), std::forward<Out>(out), to);
    call.source = from;
    call.tag = tag.number();
    return call;
}

}  // namespace rankmesh::detail
