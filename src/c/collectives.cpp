// SPDX-License-Identifier: Apache-2.0
// The operations of the C interface. Each makes the same call as a Communicator, on memory whose type is
// known only at run time.
#include <cstddef>
#include <limits>

#include <rankmesh/engine/detail/make_call.hpp>

#include "c/handles.hpp"
#include "engine/access.hpp"

using namespace rankmesh;
using c::Wrong;
using detail::cat;
using Op = detail::Operation;

namespace {

using c::buffer_of;
using c::type_of;

/// Returns `count` elements for each of `ranks`.
std::size_t times(std::size_t count, int ranks, DType dtype) {
    if (__builtin_mul_overflow(count, static_cast<std::size_t>(ranks), &count))
        count = std::numeric_limits<std::size_t>::max();
    c::check_size(count, dtype, cat("a count for ", ranks, " ranks that is"));
    return count;
}

/// Returns the sum of the counts of all ranks.
std::size_t sum_of(std::span<const std::size_t> counts, DType dtype) {
    auto sum = std::size_t{};
    for (auto count : counts) {
        c::check_size(count, dtype);
        c::check_size(sum += count, dtype, "counts that together are");
    }
    return sum;
}

struct Buffers {
    detail::AnyBuffer<const void> in;
    detail::AnyBuffer<void> out;
};
Buffers buffers_of(const Communicator& on, const void* in, std::size_t in_count, void* out,
                   std::size_t out_count, DType dtype) {
    const auto result = buffer_of(out, out_count, dtype, "out", on.space());
    return {buffer_of(in, in_count, dtype, "in", on.space()), result};
}

detail::Call call_of(Op operation, const Buffers& buffers, int argument = 0, Edge edge = Edge::wrap) {
    return detail::make_call(operation, buffers.in, buffers.out, argument, edge);
}
detail::Call reduction_of(Op operation, const Buffers& buffers, rankmesh_reduction reduction, int root = 0) {
    return detail::make_reduction(operation, buffers.in, buffers.out, c::reduction_of(reduction), root);
}

/// Returns where `count` elements lie. `what` names them in an error.
detail::MemoryLayout layout_of(std::span<const std::size_t> extents, const std::ptrdiff_t* strides,
                               std::size_t count, std::size_t bytes, std::string_view what) {
    auto layout = detail::MemoryLayout(bytes);
    auto held = std::size_t{1};
    auto overflows = false;
    for (std::size_t i = 0; i < extents.size(); ++i) {
        add_dimension(layout, static_cast<std::ptrdiff_t>(extents[i]),
                      strides[i] * static_cast<std::ptrdiff_t>(bytes));
        overflows = overflows || __builtin_mul_overflow(held, extents[i], &held);
    }
    end_dimensions(layout);
    if (overflows || held != count)
        throw Wrong{cat("was given ", what, " of ", count, " elements whose extents hold ", held)};
    return layout;
}

/// Returns where the input or output of a call on a handle lies.
detail::MemoryLayout layout_of(const rankmesh_layout& given, std::size_t count, std::size_t bytes,
                               std::string_view what) {
    if (count == 0 || given.extents.empty()) return {};
    return layout_of(given.extents, given.strides.data(), count, bytes / count, what);
}

/// Returns a call whose buffers lie as the handle says.
detail::StridedCall strided(const detail::Call& call, const rankmesh_communicator& handle) {
    const auto& in = call.operation == Op::broadcast ? handle.out : handle.in;  // it has one buffer
    return {call, layout_of(in, call.in_count, call.in_bytes(), "an input"),
            layout_of(handle.out, call.out_count, call.out_bytes(), "an output")};
}

/// Runs the call that `make_call` makes on a communicator, or starts it if the caller passes `pending`. A
/// blocking receive from any rank sets `sender`, unless it is NULL.
template <class MakeCall>
rankmesh_error perform(std::string_view function, rankmesh_communicator* communicator,
                       rankmesh_pending** pending, MakeCall&& make_call, int* sender = nullptr) noexcept {
    if (pending) *pending = nullptr;
    return c::guarded(function, [&] {
        auto& handle = RANKMESH_GIVEN(communicator);
        const auto run = [&](const auto& call) {
            if (pending)
                *pending = new rankmesh_pending{detail::Access::start(handle.it, call)};
            else if (!call.is_from_any())
                detail::Access::run(handle.it, call);
            else if (const auto from = detail::Access::run_from_any(handle.it, call); sender)
                *sender = from;
        };
        const detail::Call call = make_call(handle.it);
        if (handle.is_strided())
            run(strided(call, handle));
        else
            run(call);
    });
}

/// Returns a message whose buffer has strides.
detail::StridedCall strided(const detail::Call& call, const rankmesh_strides& given) {
    const auto extents =
        std::span(&c::given(given.extents, "messages[i].strides->extents"), given.dimensions);
    const auto* strides = &c::given(given.strides, "messages[i].strides->strides");
    const auto layout = layout_of(extents, strides, call.out_count, size_of(call.dtype), "a message");
    return {call, layout, layout};
}

/// One count for each rank.
std::span<const std::size_t> counts_of(const Communicator& on, const std::size_t* counts,
                                       std::string_view name) {
    return {&c::given(counts, name), static_cast<std::size_t>(on.size())};
}

int source_of(int from) { return from == RANKMESH_ANY_RANK ? detail::any_source : from; }

}  // namespace

rankmesh_error rankmesh_all_reduce(rankmesh_communicator* communicator, const void* in, void* out,
                                   size_t count, rankmesh_dtype dtype, rankmesh_reduction reduction,
                                   rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto buffers = buffers_of(on, in, count, out, count, type_of(dtype));
        return reduction_of(Op::all_reduce, buffers, reduction);
    });
}

rankmesh_error rankmesh_reduce(rankmesh_communicator* communicator, const void* in, void* out, size_t count,
                               rankmesh_dtype dtype, rankmesh_reduction reduction, int root,
                               rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto out_count = out || on.rank() == root ? count : 0;
        const auto buffers = buffers_of(on, in, count, out, out_count, type_of(dtype));
        return reduction_of(Op::reduce, buffers, reduction, root);
    });
}

rankmesh_error rankmesh_scan(rankmesh_communicator* communicator, const void* in, void* out, size_t count,
                             rankmesh_dtype dtype, rankmesh_reduction reduction, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        return reduction_of(Op::scan, buffers_of(on, in, count, out, count, type_of(dtype)), reduction);
    });
}

rankmesh_error rankmesh_exclusive_scan(rankmesh_communicator* communicator, const void* in, void* out,
                                       size_t count, rankmesh_dtype dtype, rankmesh_reduction reduction,
                                       rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto buffers = buffers_of(on, in, count, out, count, type_of(dtype));
        return reduction_of(Op::exclusive_scan, buffers, reduction);
    });
}

rankmesh_error rankmesh_reproducible_sum(rankmesh_communicator* communicator, const void* in, size_t count,
                                         rankmesh_dtype dtype, double* sum) {
    return c::guarded(__func__, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        auto& result = c::given(sum, "sum");
        const auto type = type_of(dtype);
        const auto buffer = buffer_of(in, count, type, "in");
        const auto layout = layout_of(communicator->in, count, count * size_of(type), "an input");
        result = detail::Access::sum_reproducibly(on, buffer, {}, layout);
    });
}

rankmesh_error rankmesh_reproducible_dot(rankmesh_communicator* communicator, const void* x, const void* y,
                                         size_t count, rankmesh_dtype dtype, double* sum) {
    return c::guarded(__func__, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        auto& result = c::given(sum, "sum");
        const auto type = type_of(dtype);
        const auto first = buffer_of(x, count, type, "x");
        const auto second = buffer_of(y, count, type, "y");
        const auto layout = layout_of(communicator->in, count, count * size_of(type), "an input");
        result = detail::Access::sum_reproducibly(on, first, second, layout, layout);
    });
}

rankmesh_error rankmesh_reduce_scatter(rankmesh_communicator* communicator, const void* in, void* out,
                                       size_t out_count, rankmesh_dtype dtype, rankmesh_reduction reduction,
                                       rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto in_count = times(out_count, on.size(), type);
        const auto buffers = buffers_of(on, in, in_count, out, out_count, type);
        return reduction_of(Op::reduce_scatter, buffers, reduction);
    });
}

rankmesh_error rankmesh_broadcast(rankmesh_communicator* communicator, void* buffer, size_t count,
                                  rankmesh_dtype dtype, int root, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto both = buffer_of(buffer, count, type_of(dtype), "buffer", on.space());
        return call_of(Op::broadcast, {both, both}, root);
    });
}

rankmesh_error rankmesh_all_gather(rankmesh_communicator* communicator, const void* in, void* out,
                                   size_t in_count, rankmesh_dtype dtype, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto out_count = times(in_count, on.size(), type);
        return call_of(Op::all_gather, buffers_of(on, in, in_count, out, out_count, type));
    });
}

rankmesh_error rankmesh_all_gather_v(rankmesh_communicator* communicator, const void* in, void* out,
                                     const size_t* counts, rankmesh_dtype dtype, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto lengths = counts_of(on, counts, "counts");
        const auto own = lengths[static_cast<size_t>(on.rank())];
        const auto buffers = buffers_of(on, in, own, out, sum_of(lengths, type), type);
        return detail::Access::counted(on, call_of(Op::all_gather_v, buffers), lengths, lengths);
    });
}

rankmesh_error rankmesh_gather(rankmesh_communicator* communicator, const void* in, void* out,
                               size_t in_count, rankmesh_dtype dtype, int root, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto out_count = out || on.rank() == root ? times(in_count, on.size(), type) : 0;
        return call_of(Op::gather, buffers_of(on, in, in_count, out, out_count, type), root);
    });
}

rankmesh_error rankmesh_scatter(rankmesh_communicator* communicator, const void* in, void* out,
                                size_t out_count, rankmesh_dtype dtype, int root,
                                rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto in_count = in || on.rank() == root ? times(out_count, on.size(), type) : 0;
        return call_of(Op::scatter, buffers_of(on, in, in_count, out, out_count, type), root);
    });
}

rankmesh_error rankmesh_gather_v(rankmesh_communicator* communicator, const void* in, size_t in_count,
                                 void* out, const size_t* counts, rankmesh_dtype dtype, int root,
                                 rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        if (on.rank() != root)
            return call_of(Op::gather_v, buffers_of(on, in, in_count, nullptr, 0, type), root);
        const auto lengths = counts_of(on, counts, "counts");
        const auto buffers = buffers_of(on, in, in_count, out, sum_of(lengths, type), type);
        return detail::Access::counted_at_root(on, call_of(Op::gather_v, buffers, root), lengths);
    });
}

rankmesh_error rankmesh_scatter_v(rankmesh_communicator* communicator, const void* in, const size_t* counts,
                                  void* out, size_t out_count, rankmesh_dtype dtype, int root,
                                  rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        if (on.rank() != root)
            return call_of(Op::scatter_v, buffers_of(on, nullptr, 0, out, out_count, type), root);
        const auto lengths = counts_of(on, counts, "counts");
        const auto buffers = buffers_of(on, in, sum_of(lengths, type), out, out_count, type);
        return detail::Access::counted_at_root(on, call_of(Op::scatter_v, buffers, root), lengths);
    });
}

rankmesh_error rankmesh_all_to_all(rankmesh_communicator* communicator, const void* in, void* out,
                                   size_t part_count, rankmesh_dtype dtype, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto count = times(part_count, on.size(), type);
        return call_of(Op::all_to_all, buffers_of(on, in, count, out, count, type));
    });
}

rankmesh_error rankmesh_all_to_all_v(rankmesh_communicator* communicator, const void* in,
                                     const size_t* in_counts, void* out, const size_t* out_counts,
                                     rankmesh_dtype dtype, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto type = type_of(dtype);
        const auto ins = counts_of(on, in_counts, "in_counts");
        const auto in_count = sum_of(ins, type);
        const auto outs = counts_of(on, out_counts, "out_counts");
        const auto buffers = buffers_of(on, in, in_count, out, sum_of(outs, type), type);
        return detail::Access::counted(on, call_of(Op::all_to_all_v, buffers), ins, outs);
    });
}

rankmesh_error rankmesh_shift(rankmesh_communicator* communicator, const void* in, void* out, size_t count,
                              rankmesh_dtype dtype, int by, rankmesh_edge edge, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto buffers = buffers_of(on, in, count, out, count, type_of(dtype));
        return call_of(Op::shift, buffers, by, c::edge_of(edge));
    });
}

rankmesh_error rankmesh_barrier(rankmesh_communicator* communicator, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [](const Communicator&) { return detail::Call{}; });
}

rankmesh_error rankmesh_monitored_barrier(rankmesh_communicator* communicator, rankmesh_pending** pending) {
    if (pending) *pending = nullptr;
    return c::guarded(__func__, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        if (pending)
            *pending = new rankmesh_pending{on.start().monitored_barrier()};
        else
            on.monitored_barrier();
    });
}

rankmesh_error rankmesh_send(rankmesh_communicator* communicator, const void* in, size_t count,
                             rankmesh_dtype dtype, int to, int tag, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        return detail::make_send(buffers_of(on, in, count, nullptr, 0, type_of(dtype)).in, to, tag);
    });
}

rankmesh_error rankmesh_recv(rankmesh_communicator* communicator, void* out, size_t count,
                             rankmesh_dtype dtype, int from, int tag, int* sender,
                             rankmesh_pending** pending) {
    const auto make = [&](const Communicator& on) {
        const auto buffers = buffers_of(on, nullptr, 0, out, count, type_of(dtype));
        return detail::make_recv(buffers.out, source_of(from), tag);
    };
    return perform(__func__, communicator, pending, make, sender);
}

rankmesh_error rankmesh_probe(rankmesh_communicator* communicator, int from, int tag, int* sender,
                              size_t* bytes) {
    return c::guarded(__func__, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        RANKMESH_GIVEN(sender), RANKMESH_GIVEN(bytes);
        const auto found = detail::Access::probe(on, source_of(from), tag, true);
        *sender = found->from;
        *bytes = found->bytes;
    });
}

rankmesh_error rankmesh_try_probe(rankmesh_communicator* communicator, int from, int tag, int* found,
                                  int* sender, size_t* bytes) {
    return c::guarded(__func__, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        RANKMESH_GIVEN(found), RANKMESH_GIVEN(sender), RANKMESH_GIVEN(bytes);
        const auto message = detail::Access::probe(on, source_of(from), tag, false);
        *found = message ? 1 : 0;
        if (!message) return;
        *sender = message->from;
        *bytes = message->bytes;
    });
}

rankmesh_error rankmesh_send_recv(rankmesh_communicator* communicator, const void* in, size_t in_count,
                                  int to, void* out, size_t out_count, int from, int tag,
                                  rankmesh_dtype dtype, rankmesh_pending** pending) {
    return perform(__func__, communicator, pending, [&](const Communicator& on) {
        const auto buffers = buffers_of(on, in, in_count, out, out_count, type_of(dtype));
        return detail::make_send_recv(buffers.in, to, buffers.out, from, tag);
    });
}

rankmesh_error rankmesh_batch(rankmesh_communicator* communicator, const rankmesh_message* messages,
                              size_t count, rankmesh_pending** pending) {
    if (pending) *pending = nullptr;
    return c::guarded(__func__, [&] {
        auto& on = RANKMESH_GIVEN(communicator).it;
        if (communicator->is_strided())
            throw Wrong{"was given a strided handle; give each message its strides"};
        if (count > 0) RANKMESH_GIVEN(messages);
        const auto body = [&] {
            for (const auto& message : std::span(messages, count)) {
                const auto buffer = buffer_of(message.buffer, message.count, type_of(message.dtype),
                                              "messages[i].buffer", on.space());
                const auto call = message.sends ? detail::make_send(buffer, message.peer, message.tag)
                                                : detail::make_recv(buffer, message.peer, message.tag);
                if (message.strides)
                    detail::Access::run(on, strided(call, *message.strides));
                else
                    detail::Access::run(on, call);
            }
        };
        if (pending)
            *pending = new rankmesh_pending{on.start().batch(body)};
        else
            on.batch(body);
    });
}
