// SPDX-License-Identifier: Apache-2.0
// The checks of a call's lengths and ranks before it reaches an engine.
#include <optional>
#include <string>

#include "engine/channel.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace {

[[noreturn, gnu::noinline]] void wrong_length(const Call& call, const CommunicatorState& state) {
    const auto& operation = traits(call.operation);
    const auto in = call.in_count / call.unit;
    const auto out = call.out_count / call.unit;
    const auto n = static_cast<std::size_t>(state.size);
    auto rule = std::string(operation.is_rooted() ? "at the root " : "");
    if (operation.in_parts == operation.out_parts)
        append(rule, cat("both must be equal", operation.in_parts ? cat(", and a multiple of ", n) : ""));
    else
        append(rule, operation.in_parts ? cat("in must hold ", out * n) : cat("out must hold ", in * n));
    refuse_call(call, state, " (", n, " ranks) was given ", in, " elements in and ", out, " out; ", rule);
}

bool overlap(const Call& call) {
    if (call.in_count == 0 || call.out_count == 0) return false;
    const auto in = reinterpret_cast<std::uintptr_t>(call.in);
    const auto out = reinterpret_cast<std::uintptr_t>(call.out);
    return in < out + call.out_bytes() && out < in + call.in_bytes();
}

void check_group_rank(const Call& call, const CommunicatorState& state, int group_rank,
                      std::string_view preposition) {
    if (group_rank < 0 || group_rank >= state.size)
        refuse_call(call, state, " ", preposition, " group rank ", group_rank, "; group ranks are 0..",
                    state.size - 1);
}

void check_any(const Call& call, const CommunicatorState& state) {
    if (state.space == Space::device)
        refuse_call(call, state, " from any rank of device memory; the device's engine has none, host() has");
    if (state.size == 1)
        refuse_call(call, state, " from any other rank would wait for ever: group rank 0 is the only one");
}

void check_space(const Call& call, const CommunicatorState& state) {
    if (call.in_space != state.space || call.out_space != state.space)
        refuse_call(call, state, " was given ",
                    to_string(call.in_space != state.space ? call.in_space : call.out_space),
                    " memory; this communicator works on ", to_string(state.space), " memory",
                    state.space == Space::device ? ", its host() on the host's"
                                                 : ": copy it there, or join a world with a device");
}

/// The sum of the counts in elements of dtype; nothing if it does not fit.
std::optional<std::size_t> sum_of(const std::size_t* counts, int size, std::size_t unit) {
    auto sum = std::size_t{0};
    for (int i = 0; i < size; ++i) {
        auto more = std::size_t{0};
        if (__builtin_mul_overflow(counts[i], unit, &more) || __builtin_add_overflow(sum, more, &sum))
            return std::nullopt;
    }
    return sum;
}

std::string listed(const std::size_t* counts, int size) {
    constexpr auto most = 16;
    const auto first = std::span(counts, static_cast<std::size_t>(std::min(size, most)));
    return cat("{", joined(first, ", "), size > most ? ", ..." : "", "}");
}

[[noreturn, gnu::noinline]] void wrong_sum(const Call& call, const CommunicatorState& state,
                                           std::string_view which, const std::size_t* counts,
                                           std::size_t given) {
    const auto sum = sum_of(counts, state.size, 1);
    refuse_call(call, state, " was given ", given / call.unit, " elements ", which, "; the counts ",
                listed(counts, state.size), " sum to ", sum ? std::to_string(*sum) : "more than memory has");
}

[[noreturn, gnu::noinline]] void wrong_own_count(const Call& call, const CommunicatorState& state,
                                                 std::size_t own) {
    const auto scatters = call.operation == Operation::scatter_v;
    refuse_call(call, state, " was given ", (scatters ? call.out_count : call.in_count) / call.unit,
                scatters ? " elements out" : " elements in", "; the counts ",
                listed(scatters ? call.in_counts : call.out_counts, state.size),
                scatters ? " have for group rank " : " ask group rank ", state.rank, scatters ? " " : " for ",
                own);
}

[[gnu::noinline]] void check_counts(const Call& call, const CommunicatorState& state) {
    if (call.operation == Operation::scatter_v) {
        if (sum_of(call.in_counts, state.size, call.unit) != call.in_count)
            wrong_sum(call, state, "in", call.in_counts, call.in_count);
        const auto own = call.in_counts[state.rank];
        if (call.out_count != own * call.unit) wrong_own_count(call, state, own);
        return;
    }
    if (sum_of(call.out_counts, state.size, call.unit) != call.out_count)
        wrong_sum(call, state, "out", call.out_counts, call.out_count);
    if (call.operation == Operation::all_to_all_v) {
        if (sum_of(call.in_counts, state.size, call.unit) != call.in_count)
            wrong_sum(call, state, "in", call.in_counts, call.in_count);
        if (call.in_counts[state.rank] != call.out_counts[state.rank])
            refuse_call(call, state, " was given ", call.in_counts[state.rank], " elements from group rank ",
                        state.rank, " to itself and ", call.out_counts[state.rank],
                        " from itself; both must be equal");
        return;
    }
    const auto own = call.out_counts[state.rank];
    if (call.in_count != own * call.unit) wrong_own_count(call, state, own);
}

/// True unless the buffers without counts have the lengths that the operation requires.
bool has_wrong_length(const Call& call, const Traits& operation, std::size_t n) {
    if (operation.in_parts == operation.out_parts)
        return call.in_count != call.out_count || (operation.in_parts && call.in_count / call.unit % n != 0);
    return operation.in_parts ? call.in_count != call.out_count * n : call.out_count != call.in_count * n;
}

[[gnu::always_inline]] inline bool has_both(const Call& call, const CommunicatorState& state) {
    const auto& operation = traits(call.operation);
    check_space(call, state);
    if (operation.reduces && !reduces(call.reduction, call.dtype))
        refuse_call(call, state, ": ", to_string(call.reduction), " makes no sense on ",
                    to_string(call.dtype), " elements");
    if (operation.argument == Argument::peer) {
        if (call.argument == any_source) {
            check_any(call, state);
            return false;
        }
        check_group_rank(call, state, call.argument, preposition(call.operation));
        if (call.operation != Operation::send_recv) return false;
        check_group_rank(call, state, call.source, "from");
    } else {
        if (operation.is_rooted()) {
            check_group_rank(call, state, call.argument, preposition(call.operation));
            if (call.argument != state.rank) return false;  // which has one buffer
        }
        if (operation.counts)
            check_counts(call, state);
        else if (has_wrong_length(call, operation, static_cast<std::size_t>(state.size)))
            wrong_length(call, state);
    }
    return true;
}

}  // namespace

bool check_lengths(const Call& call, const CommunicatorState& state) { return has_both(call, state); }

void check_buffers(const Call& call, const CommunicatorState& state) {
    const auto& operation = traits(call.operation);
    if (!has_both(call, state)) return;
    if (operation.in_place == InPlace::same && call.in == call.out) return;
    if (overlap(call) && !is_in_place(call, state.rank))
        refuse_call(call, state, " was given buffers that overlap; use two",
                    operation.in_place == InPlace::same ? ", or one in place" : "");
}

}  // namespace rankmesh::detail
