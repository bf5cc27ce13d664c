// SPDX-License-Identifier: Apache-2.0
// From typed buffers to the call that an engine gets.
#pragma once

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/call.hpp>

namespace rankmesh::detail {

[[noreturn]] RANKMESH_EXPORT void two_types(Operation operation, DType in, DType out);

/// An operation that moves the elements of `in`, or reads and writes one buffer given twice.
template <class In, class Out>
Call moving(Operation operation, In& in, Out& out, int argument = 0, Edge edge = {}) {
    if constexpr (std::is_void_v<element_t<In>> || std::is_void_v<element_t<Out>>) {
        if (dtype_in(in) != dtype_in(out)) two_types(operation, dtype_in(in), dtype_in(out));
    } else {
        static_assert(dtype_for<element_t<In>>() == dtype_for<element_t<Out>>() &&
                          sizeof(element_t<In>) == sizeof(element_t<Out>),
                      "both buffers hold the same type of element");
    }
    auto call = Call{};
    call.operation = operation;
    call.dtype = dtype_in(in);
    call.edge = edge;
    call.argument = argument;
    call.in = data_of(in);
    if constexpr (OutBuffer<Out&>) call.out = data_of(out);  // a send has none
    call.in_count = count_of(in);
    call.out_count = count_of(out);
    call.in_space = space_of(in);
    call.out_space = space_of(out);
    return call;
}

template <class In, class Out, class R>
Call reducing(Operation operation, In& in, Out& out, R, int root = 0) {
    auto call = moving(operation, in, out, root);
    call.reduction = R::value;
    return call;
}

template <class In, class Out>
Call exchanging(In& in, int to, Out& out, int from) {
    auto call = moving(Operation::send_recv, in, out, to);
    call.source = from;
    return call;
}

}  // namespace rankmesh::detail
