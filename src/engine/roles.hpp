// SPDX-License-Identifier: Apache-2.0
// What one rank does in a call: which buffers it uses, and the ranks at the other ends of its messages.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include <rankmesh/engine/detail/call.hpp>

namespace rankmesh::detail {

/// True if a rank is one of the `users` of a buffer of the call.
inline bool is_one_of(Users users, const Call& call, int group_rank) {
    if (users == Users::root) return call.argument == group_rank;
    if (users == Users::others) return call.argument != group_rank;
    return users == Users::all;
}
inline bool reads(const Call& call, int group_rank) {
    return is_one_of(traits(call.operation).reads, call, group_rank);
}
inline bool writes(const Call& call, int group_rank) {
    return is_one_of(traits(call.operation).writes, call, group_rank);
}

/// The length of the buffer that every rank has; all have the same one unless there are counts.
constexpr std::size_t common_length(const Call& call) {
    return traits(call.operation).reads == Users::all ? call.in_count : call.out_count;
}

/// The elements of dtype that a rank gives to a group rank in an operation with counts.
inline std::size_t given_to(const Call& call, int group_rank) {
    switch (call.operation) {
        case Operation::all_gather_v:
            return call.in_count;
        case Operation::gather_v:
            return group_rank == call.argument ? call.in_count : 0;
        default:  // all_to_all_v, scatter_v
            return call.in_counts ? call.in_counts[group_rank] * call.unit : 0;
    }
}
/// The elements of dtype that a rank expects from a group rank in an operation with counts.
inline std::size_t expected_from(const Call& call, int group_rank) {
    if (call.operation == Operation::scatter_v) return group_rank == call.argument ? call.out_count : 0;
    return call.out_counts ? call.out_counts[group_rank] * call.unit : 0;
}

/// True if input and output are one buffer, or the shorter one is this rank's part of the longer one.
inline bool is_in_place(const Call& call, int group_rank) {
    const auto& operation = traits(call.operation);
    if (operation.in_place != InPlace::own_part)
        return operation.in_place == InPlace::same && call.in == call.out;
    const auto* in = static_cast<const char*>(call.in);
    const auto* out = static_cast<const char*>(call.out);
    const auto r = static_cast<std::size_t>(group_rank);
    return operation.out_parts ? in == out + r * call.in_bytes() : out == in + r * call.out_bytes();
}

/// The group rank that is `by` ranks above `rank` in a shift; -1 past an open edge.
inline int shifted(int rank, std::int64_t by, int size, Edge edge) {
    const auto at = rank + by;
    if (edge == Edge::wrap) return static_cast<int>((at % size + size) % size);
    return at < 0 || at >= size ? -1 : static_cast<int>(at);
}

/// The group ranks that a rank sends to and receives from; -1: none.
struct Peers {
    int to = -1;
    int from = -1;  ///< or any_source
};
/// The peers of a rank in a message or a shift.
inline Peers peers_of(const Call& call, int group_rank, int size) {
    switch (call.operation) {
        case Operation::send:
            return {.to = call.argument};
        case Operation::recv:
        case Operation::probe:
            return {.from = call.argument};
        case Operation::shift:
            return {shifted(group_rank, call.argument, size, call.edge),
                    shifted(group_rank, -std::int64_t{call.argument}, size, call.edge)};
        default:  // send_recv
            return {call.argument, call.source};
    }
}

/// What the ranks of a group must agree on in a collective, without padding.
struct Agreed {
    Operation operation = Operation::barrier;
    DType dtype = DType::i32;
    Reduction reduction = Reduction::sum;
    Edge edge = Edge::wrap;
    std::int32_t argument = 0;
    std::uint64_t length = 0;  // that is the same on all ranks, 0 with counts
    std::uint32_t list = 0;    // as in a Call
    std::uint32_t tag = 0;     // of a message

    static Agreed of(const Call& call) {
        const auto& operation = traits(call.operation);
        auto agreed =
            Agreed{.operation = call.operation, .length = operation.counts ? 0 : common_length(call)};
        if (call.operation == Operation::barrier) return agreed;
        agreed.dtype = call.dtype;
        agreed.list = call.list;
        if (operation.reduces) agreed.reduction = call.reduction;
        if (operation.argument == Argument::distance) agreed.edge = call.edge;
        if (operation.argument != Argument::none) agreed.argument = call.argument;
        return agreed;
    }
    std::string_view bytes() const { return {reinterpret_cast<const char*>(this), sizeof *this}; }
};
static_assert(sizeof(Agreed) == 24);

/// `all_reduce of 4 f32 by sum`, `gather_v of f32 to 2`; `unit` as in a Call.
inline std::string to_string(const Agreed& agreed, std::uint64_t unit) {
    const auto& operation = traits(agreed.operation);
    if (operation.counts)
        return cat(to_string(agreed.operation), " of ", to_string(agreed.dtype),
                   operation.argument == Argument::none
                       ? std::string{}
                       : cat(" ", preposition(agreed.operation), " ", agreed.argument));
    auto call = Call{.operation = agreed.operation,
                     .dtype = agreed.dtype,
                     .reduction = agreed.reduction,
                     .edge = agreed.edge,
                     .argument = agreed.argument,
                     .unit = unit};
    call.in_count = call.out_count = agreed.length;
    return to_string(call) + list_text(agreed.list);
}

/// A call that owns its counts, and so may outlive the caller's.
struct OwnedCall : Call {
    /// `size` is that of the group, and so the number of counts.
    OwnedCall(const Call& call, std::size_t size) : Call(call) {
        if (call.in_counts) in_counts = own(own_in_counts_, call.in_counts, size);
        if (call.out_counts) out_counts = own(own_out_counts_, call.out_counts, size);
    }
    OwnedCall(OwnedCall&&) noexcept = default;  // the memory of the vectors stays where it is
    OwnedCall& operator=(OwnedCall&&) noexcept = default;

    /// Reads from a copy of the input from now on: for operations that write their buffer before they have
    /// read all of it.
    void copy_input() {
        const auto* bytes = static_cast<const char*>(in);
        input_.assign(bytes, bytes + in_bytes());
        in = input_.data();
    }

private:
    static const std::size_t* own(std::vector<std::size_t>& counts, const std::size_t* given,
                                  std::size_t size) {
        counts.assign(given, given + size);
        return counts.data();
    }
    std::vector<std::size_t> own_in_counts_;
    std::vector<std::size_t> own_out_counts_;
    std::vector<char> input_;
};

}  // namespace rankmesh::detail
