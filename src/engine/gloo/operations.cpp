// SPDX-License-Identifier: Apache-2.0
#include "engine/gloo/channel.hpp"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include "engine/arithmetic.hpp"
#include "engine/combine.hpp"
#include "engine/gloo/transport/connection.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace {

using Byte = std::uint8_t;

// The sizes up to which an all_reduce or all_gather takes one step, and an all_reduce few steps;
// docs/design/0009-gloo.md has the measurements.
constexpr auto most_in_one_step = std::size_t{64} * 1024;  // bytes that a rank sends
constexpr auto most_members_in_one_step = 8;
constexpr auto longest_in_few_steps = std::size_t{1024} * 1024;

Byte* bytes(const void* data) { return static_cast<Byte*>(const_cast<void*>(data)); }

/// Gloo's reduction function: `out = a op b`, where `out` may be one of the two.
auto function_of(const Call& call) {
    return [reduction = call.reduction, dtype = call.dtype](void* out, const void* a, const void* b,
                                                            std::size_t count) {
        detail::reduce(reduction, dtype, out, a, b, count);
    };
}

/// Calls `body` with a pointer to a type of that many bytes, Gloo's unit for splitting buffers.
template <class Body>
void with_width(std::size_t width, Body&& body) {
    switch (width) {
        case 1:
            return body(static_cast<std::uint8_t*>(nullptr));
        case 2:
            return body(static_cast<std::uint16_t*>(nullptr));
        case 4:
            return body(static_cast<std::uint32_t*>(nullptr));
        default:
            return body(static_cast<std::uint64_t*>(nullptr));
    }
}

template <class T>
T* as(const void* data) {
    return static_cast<T*>(const_cast<void*>(data));
}

bool takes_one_step(const Call& call, const CallConnections& connections) {
    return connections.size <= most_members_in_one_step &&
           call.in_bytes() * static_cast<std::size_t>(connections.size - 1) <= most_in_one_step;
}

void all_reduce(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    if (takes_one_step(call, *connections)) return fan_in(call, connections, tag, 0);
    auto options = ::gloo::AllreduceOptions(connections);
    with_width(size_of(call.dtype), [&]<class T>(T*) {
        if (call.in != call.out) options.setInput(as<T>(call.in), call.in_count);
        options.setOutput(as<T>(call.out), call.in_count);
    });
    // Fewer steps for short buffers, fewer bytes for long ones.
    if (call.in_bytes() <= longest_in_few_steps)
        options.setAlgorithm(::gloo::AllreduceOptions::Algorithm::BCUBE);
    options.setReduceFunction(function_of(call));
    options.setTag(tag);
    ::gloo::allreduce(options);
}

void reduce(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    const auto root = call.argument == connections->rank;
    // Every rank collects a part of the result.
    auto scratch = std::vector<Byte>(root ? 0 : call.in_bytes());
    auto* out = root ? call.out : scratch.data();
    auto options = ::gloo::ReduceOptions(connections);
    with_width(size_of(call.dtype), [&]<class T>(T*) {
        if (call.in != out) options.setInput(as<T>(call.in), call.in_count);
        options.setOutput(as<T>(out), call.in_count);
    });
    options.setRoot(call.argument);
    options.setReduceFunction(function_of(call));
    options.setTag(tag);
    ::gloo::reduce(options);
}

void all_gather(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag);

/// An all_reduce or a reduce whose inputs are combined in the order of ranks: each rank combines a part of
/// them, and all gather the parts.
void reduce_in_order(const Call& given, const std::shared_ptr<CallConnections>& connections,
                     std::uint32_t tag) {
    auto call = given;
    auto scratch = std::vector<Byte>{};
    if (!writes(call, connections->rank)) {
        scratch.resize(call.in_bytes());
        call.out = scratch.data();
    }
    const auto element = call.function ? call.unit : 1;
    const auto parts = static_cast<std::size_t>(connections->size);
    const auto part = call.in_count / element / parts * element;
    const auto whole = part * parts;
    const auto at = [&](const void* data, std::size_t count) {
        return bytes(data) + count * size_of(call.dtype);
    };
    const auto is_short = call.in_bytes() * (parts - 1) <= most_in_one_step;
    if (!is_short && part > 0) {
        auto own = call;
        own.out_count = part;
        own.out = at(call.out, part * static_cast<std::size_t>(connections->rank));
        own.in_count = whole;
        fan_in(own, connections, tag, own.out_bytes());
        own.operation = Operation::all_gather;
        own.in = own.out;
        own.in_count = part;
        own.out = call.out;
        own.out_count = whole;
        all_gather(own, connections, tag);
    }
    const auto done = is_short ? 0 : whole;
    if (done == call.in_count) return;
    auto rest = call;
    rest.in = at(call.in, done);
    rest.out = at(call.out, done);
    rest.in_count = rest.out_count = call.in_count - done;
    fan_in(rest, connections, tag, 0);
}

/// A scan that needs the inputs of all ranks below at once.
void scan_gathered(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto gathered = std::vector<Byte>(call.in_bytes() * static_cast<std::size_t>(connections->size));
    auto gathering = call;
    gathering.operation = Operation::all_gather;
    gathering.out = gathered.data();
    all_gather(gathering, connections, tag);
    const auto members = connections->rank + (call.operation == Operation::scan ? 1 : 0);
    auto ins = std::vector<const void*>{};
    for (int i = 0; i < members; ++i)
        ins.push_back(gathered.data() + static_cast<std::size_t>(i) * call.in_bytes());
    if (ins.empty())
        fill_with_nothing(call);
    else
        combine(call, ins, call.out, call.out_count);
}

/// Sends `sent` to the rank `step` above and receives `received` from the rank `step` below, where there are
/// such. Returns whether it has received.
bool pass_up(CallConnections& connections, int step, std::uint64_t slot, const void* sent, void* received,
             std::size_t size) {
    const auto sends = connections.rank + step < connections.size;
    const auto receives = connections.rank >= step;
    const auto out = connections.buffer(sent, size);
    const auto in = connections.buffer(received, size);
    if (receives) in->recv(connections.rank - step, slot);
    if (sends) out->send(connections.rank + step, slot);
    if (receives) in->waitRecv();
    if (sends) out->waitSend();
    return receives;
}

/// Recursive doubling: in each round a rank adds the partial result of the rank twice as far before it.
void scan(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    if (call.in != call.out) std::memcpy(call.out, call.in, call.in_bytes());
    auto before = std::vector<Byte>(call.in_bytes());
    auto slot = first_slot(SlotKind::scan, tag);
    for (int step = 1; step < connections->size; step *= 2, ++slot)
        if (pass_up(*connections, step, slot, call.out, before.data(), before.size()))
            combine_before(call, before.data(), call.out, call.out_count);
    // A logical result is 0 or 1 also for a single rank.
    if (connections->rank == 0) make_logical(call);
}

/// A scan whose results move to the next rank.
void exclusive_scan(const Call& call, const std::shared_ptr<CallConnections>& connections,
                    std::uint32_t tag) {
    auto inclusive = std::vector<Byte>(call.in_bytes());
    auto scanning = call;
    scanning.out = inclusive.data();
    scan(scanning, connections, tag);
    const auto slot = first_slot(SlotKind::exclusive_scan, tag);
    if (!pass_up(*connections, 1, slot, inclusive.data(), call.out, inclusive.size()))
        fill_with_nothing(call);
}

void gather(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::GatherOptions(connections);
    options.setInput(bytes(call.in), call.in_bytes());
    if (call.argument == connections->rank)
        options.setOutput(bytes(call.out), call.in_bytes() * static_cast<std::size_t>(connections->size));
    options.setRoot(call.argument);
    options.setTag(tag);
    ::gloo::gather(options);
}

void scatter(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::ScatterOptions(connections);
    if (call.argument == connections->rank) {
        auto parts = std::vector<Byte*>{};
        for (int i = 0; i < connections->size; ++i)
            parts.push_back(bytes(call.in) + static_cast<std::size_t>(i) * call.out_bytes());
        options.setInputs(parts, call.out_bytes());
    }
    options.setOutput(bytes(call.out), call.out_bytes());
    options.setRoot(call.argument);
    options.setTag(tag);
    ::gloo::scatter(options);
}

void broadcast(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::BroadcastOptions(connections);
    options.setOutput(bytes(call.out), call.out_bytes());
    options.setRoot(call.argument);
    options.setTag(tag);
    ::gloo::broadcast(options);
}

/// Every rank sends its input to each other rank.
void all_gather_in_one_step(const Call& call, const std::shared_ptr<CallConnections>& connections,
                            std::uint32_t tag) {
    const auto size = connections->size;
    const auto rank = connections->rank;
    const auto slot = first_slot(SlotKind::all_gather, tag);
    const auto in = connections->buffer(call.in, call.in_bytes());
    const auto out = connections->buffer(call.out, call.in_bytes() * static_cast<std::size_t>(size));
    for (int i = 1; i < size; ++i) {
        const auto from = (rank + size - i) % size;
        out->recv(from, slot, static_cast<std::size_t>(from) * call.in_bytes(), call.in_bytes());
    }
    for (int i = 1; i < size; ++i) in->send((rank + i) % size, slot);
    if (!is_in_place(call, rank))
        std::memcpy(bytes(call.out) + static_cast<std::size_t>(rank) * call.in_bytes(), call.in,
                    call.in_bytes());
    for (int i = 1; i < size; ++i) out->waitRecv();
    for (int i = 1; i < size; ++i) in->waitSend();
}

void all_gather(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    if (takes_one_step(call, *connections)) return all_gather_in_one_step(call, connections, tag);
    auto options = ::gloo::AllgatherOptions(connections);
    if (!is_in_place(call, connections->rank)) options.setInput(bytes(call.in), call.in_bytes());
    options.setOutput(bytes(call.out), call.in_bytes() * static_cast<std::size_t>(connections->size));
    options.setTag(tag);
    ::gloo::allgather(options);
}

/// The bytes that go to or come from each member.
template <class Count>
std::vector<Count> lengths(const Call& call, const std::size_t* counts, int members) {
    auto list = std::vector<Count>{};
    for (int i = 0; i < members; ++i)
        list.push_back(static_cast<Count>(counts[i] * call.unit * size_of(call.dtype)));
    return list;
}

void all_gather_v(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::AllgathervOptions(connections);
    const auto parts = lengths<std::size_t>(call, call.out_counts, connections->size);
    const auto* own = bytes(call.out);
    for (int i = 0; i < connections->rank; ++i) own += parts[static_cast<std::size_t>(i)];
    if (call.in != own) options.setInput(bytes(call.in), call.in_bytes());
    options.setOutput(bytes(call.out), parts);
    options.setTag(tag);
    ::gloo::allgatherv(options);
}

void all_to_all(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::AlltoallOptions(connections);
    auto held = std::vector<Byte>{};
    auto* in = bytes(call.in);
    if (call.in == call.out) {
        held.assign(in, in + call.in_bytes());
        in = held.data();
    }
    options.setInput(in, call.in_bytes());
    options.setOutput(bytes(call.out), call.out_bytes());
    options.setTag(tag);
    ::gloo::alltoall(options);
}

void all_to_all_v(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::AlltoallvOptions(connections);
    options.setInput(bytes(call.in), lengths<std::int64_t>(call, call.in_counts, connections->size));
    options.setOutput(bytes(call.out), lengths<std::int64_t>(call, call.out_counts, connections->size));
    options.setTag(tag);
    ::gloo::alltoallv(options);
}

/// A gather_v or scatter_v, which Gloo lacks: a message between the root and each other rank.
void parts_of_root(const Call& call, const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    const auto gathers = call.operation == Operation::gather_v;
    const auto slot = first_slot(SlotKind::parts_of_root, tag);
    const auto width = size_of(call.dtype);
    const auto rank = connections->rank;
    auto* own = gathers ? bytes(call.in) : bytes(call.out);
    const auto own_bytes = gathers ? call.in_bytes() : call.out_bytes();
    if (rank != call.argument) {
        if (own_bytes == 0) return;  // as the root knows by its counts
        const auto buffer = connections->buffer(own, own_bytes);
        gathers ? buffer->send(call.argument, slot) : buffer->recv(call.argument, slot);
        gathers ? buffer->waitSend() : buffer->waitRecv();
        return;
    }
    auto buffers = std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>>{};
    auto* part = gathers ? bytes(call.out) : bytes(call.in);
    for (int i = 0; i < connections->size; ++i) {
        const auto length = (gathers ? expected_from(call, i) : given_to(call, i)) * width;
        if (length > 0 && i == rank) std::memcpy(gathers ? part : own, gathers ? own : part, length);
        if (length > 0 && i != rank) {
            const auto& buffer = buffers.emplace_back(connections->buffer(part, length));
            gathers ? buffer->recv(i, slot) : buffer->send(i, slot);
        }
        part += length;
    }
    for (const auto& buffer : buffers) gathers ? buffer->waitRecv() : buffer->waitSend();
}

void barrier(const std::shared_ptr<CallConnections>& connections, std::uint32_t tag) {
    auto options = ::gloo::BarrierOptions(connections);
    options.setTag(tag);
    ::gloo::barrier(options);
}

}  // namespace

void run_collective(const Call& call, const std::shared_ptr<CallConnections>& connections,
                    std::uint32_t tag) {
    const auto& operation = traits(call.operation);
    // Without counts lengths are equal on all ranks: where one has no elements, none has.
    const auto has_buffers = operation.has_in() || operation.has_out();
    if (has_buffers && !operation.counts && call.in_count == 0 && call.out_count == 0) return;
    switch (call.operation) {
        case Operation::barrier:
        case Operation::monitored_barrier:
            return barrier(connections, tag);
        case Operation::all_gather_v:
            return all_gather_v(call, connections, tag);
        case Operation::all_to_all_v:
            return all_to_all_v(call, connections, tag);
        case Operation::gather_v:
        case Operation::scatter_v:
            return parts_of_root(call, connections, tag);
        case Operation::all_reduce:
            if (is_own(call.reduction)) return reduce_in_order(call, connections, tag);
            all_reduce(call, connections, tag);
            break;
        case Operation::reduce:
            if (is_own(call.reduction)) return reduce_in_order(call, connections, tag);
            reduce(call, connections, tag);
            break;
        case Operation::scan:
        case Operation::exclusive_scan:
            if (needs_all(call.reduction)) return scan_gathered(call, connections, tag);
            if (call.operation == Operation::scan) return scan(call, connections, tag);
            return exclusive_scan(call, connections, tag);
        case Operation::reduce_scatter:
            fan_in(call, connections, tag,
                   call.out_bytes());  // Gloo has this operation for its legacy buffers only
            break;
        case Operation::broadcast:
            return broadcast(call, connections, tag);
        case Operation::all_gather:
            return all_gather(call, connections, tag);
        case Operation::gather:
            return gather(call, connections, tag);
        case Operation::scatter:
            return scatter(call, connections, tag);
        case Operation::all_to_all:
            return all_to_all(call, connections, tag);
        default:
            return;
    }
    if (call.reduction == Reduction::mean && writes(call, connections->rank))
        divide(call.dtype, call.out, call.out_count, connections->size);
}

}  // namespace rankmesh::detail
