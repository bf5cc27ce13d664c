// SPDX-License-Identifier: Apache-2.0
// What is wrong with a call can be said before it reaches an engine.
#include <optional>

#include <rankmesh/engine/make_call.hpp>

#include "engine/channel.hpp"

namespace rankmesh::detail {
namespace {

// The texts stand apart from the tests, which then are small enough to be inlined.

/// `number`, if given, ends the rule.
[[noreturn]] void wrong_length(const Call& call, const Line& line, std::string_view rule,
                               std::optional<std::size_t> number = std::nullopt) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " (", line.size,
                     " ranks) was given ", call.in_count, " elements in and ", call.out_count, " out; ", rule,
                     number ? std::to_string(*number) : ""));
}

bool overlap(const Call& call) {
    if (call.in_count == 0 || call.out_count == 0) return false;
    const auto in = reinterpret_cast<std::uintptr_t>(call.in);
    const auto out = reinterpret_cast<std::uintptr_t>(call.out);
    return in < out + call.out_bytes() && out < in + call.in_bytes();
}

[[noreturn]] void wrong_position(const Call& call, const Line& line, int position,
                                 std::string_view preposition) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " ", preposition, " position ",
                     position, "; positions are 0..", line.size - 1));
}

[[noreturn]] void wrong_space(const Call& call, const Line& line) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " was given ",
                     to_string(call.in_space != line.space ? call.in_space : call.out_space),
                     " memory; this communicator works on ", to_string(line.space), " memory",
                     line.space == Space::device ? ", its host() on the host's"
                                                 : ": copy it there, or join a world with a device"));
}

[[noreturn]] void wrong_reduction(const Call& call, const Line& line) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), ": ", to_string(call.reduction),
                     " makes no sense on ", to_string(call.dtype), " elements"));
}

[[noreturn]] void wrong_overlap(const Call& call, const Line& line, bool may_be_in_place) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(),
                     " was given buffers that overlap; use two", may_be_in_place ? ", or one in place" : ""));
}

void check_position(const Call& call, const Line& line, int position, std::string_view preposition) {
    if (position < 0 || position >= line.size) wrong_position(call, line, position, preposition);
}

void check_space(const Call& call, const Line& line) {
    if (call.in_space != line.space || call.out_space != line.space) wrong_space(call, line);
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
    auto text = std::string("{");
    constexpr auto most = 16;
    for (int i = 0; i < size && i < most; ++i) append(text, cat(i > 0 ? ", " : "", counts[i]));
    return cat(text, size > most ? ", ..." : "", "}");
}

[[noreturn]] void wrong_sum(const Call& call, const Line& line, std::string_view which,
                            const std::size_t* counts, std::size_t given) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " was given ", given / call.unit,
                     " elements ", which, "; the counts ", listed(counts, line.size), " ask for their sum"));
}

[[noreturn]] void wrong_own_count(const Call& call, const Line& line, std::size_t own) {
    throw Misuse(cat("all_gather_v on ", line.label->text(), " was given ", call.in_count / call.unit,
                     " elements in; the counts ", listed(call.out_counts, line.size), " ask position ",
                     line.rank, " for ", own));
}

[[noreturn]] void wrong_own_counts(const Call& call, const Line& line) {
    throw Misuse(cat("all_to_all_v on ", line.label->text(), " was given ", call.in_counts[line.rank],
                     " elements from position ", line.rank, " to itself and ", call.out_counts[line.rank],
                     " from itself; both must be equal"));
}

void check_counts(const Call& call, const Line& line) {
    if (sum_of(call.out_counts, line.size, call.unit) != call.out_count)
        wrong_sum(call, line, "out", call.out_counts, call.out_count);
    if (call.operation == Operation::all_to_all_v) {
        if (sum_of(call.in_counts, line.size, call.unit) != call.in_count)
            wrong_sum(call, line, "in", call.in_counts, call.in_count);
        if (call.in_counts[line.rank] != call.out_counts[line.rank]) wrong_own_counts(call, line);
        return;
    }
    const auto own = call.out_counts[line.rank];
    if (call.in_count != own * call.unit) wrong_own_count(call, line, own);
}

/// True if the shorter buffer is this member's part of the longer one.
bool is_own_part(const Call& call, int rank) {
    const auto* in = static_cast<const char*>(call.in);
    const auto* out = static_cast<const char*>(call.out);
    const auto r = static_cast<std::size_t>(rank);
    if (call.operation == Operation::all_gather) return in == out + r * call.in_bytes();
    return call.operation == Operation::reduce_scatter && out == in + r * call.out_bytes();
}

bool may_be_in_place(Operation operation) {
    return operation == Operation::all_reduce || operation == Operation::reduce ||
           operation == Operation::scan || operation == Operation::all_to_all ||
           operation == Operation::shift;
}

}  // namespace

void two_types(Operation operation, DType in, DType out) {
    throw Misuse(cat(to_string(operation), " was given ", to_string(in), " elements in and ", to_string(out),
                     " out; both must be of one type"));
}

void check(const Call& call, const Line& line) {
    if (call.operation == Operation::barrier || call.operation == Operation::monitored_barrier) return;
    check_space(call, line);
    if (reduces(call.operation) && !reduces(call.reduction, call.dtype)) wrong_reduction(call, line);
    const auto n = static_cast<std::size_t>(line.size);
    const auto is_root = call.argument == line.rank;
    switch (call.operation) {
        case Operation::broadcast:
            return check_position(call, line, call.argument, "from");
        case Operation::send:
            return check_position(call, line, call.argument, "to");
        case Operation::recv:
            return check_position(call, line, call.argument, "from");
        case Operation::send_recv:
            check_position(call, line, call.argument, "to");
            check_position(call, line, call.source, "from");
            break;
        case Operation::reduce:
            check_position(call, line, call.argument, "to");
            if (!is_root) return;
            if (call.in_count != call.out_count) wrong_length(call, line, "at the root both must be equal");
            break;
        case Operation::gather:
            check_position(call, line, call.argument, "to");
            if (!is_root) return;
            if (call.out_count != call.in_count * n)
                wrong_length(call, line, "at the root out must hold ", call.in_count * n);
            break;
        case Operation::scatter:
            check_position(call, line, call.argument, "from");
            if (!is_root) return;
            if (call.in_count != call.out_count * n)
                wrong_length(call, line, "at the root in must hold ", call.out_count * n);
            break;
        case Operation::all_gather:
            if (call.out_count != call.in_count * n)
                wrong_length(call, line, "out must hold ", call.in_count * n);
            break;
        case Operation::reduce_scatter:
            if (call.in_count != call.out_count * n)
                wrong_length(call, line, "in must hold ", call.out_count * n);
            break;
        case Operation::all_to_all:
            if (call.in_count != call.out_count || call.in_count % n != 0)
                wrong_length(call, line, "both must be equal, and a multiple of ", n);
            break;
        case Operation::all_gather_v:
        case Operation::all_to_all_v:
            check_counts(call, line);
            break;
        default:  // all_reduce, scan, shift
            if (call.in_count != call.out_count) wrong_length(call, line, "both must be equal");
    }
    if (!overlap(call)) return;
    const auto in_place = may_be_in_place(call.operation);
    if ((in_place && call.in == call.out) || is_own_part(call, line.rank)) return;
    wrong_overlap(call, line, in_place);
}

}  // namespace rankmesh::detail
