// SPDX-License-Identifier: Apache-2.0
// What is wrong with a call can be said before it reaches an engine.
#include <optional>

#include "engine/channel.hpp"

namespace rankmesh::detail {
namespace {

[[noreturn]] void wrong_length(const Call& call, const Line& line, std::string_view rule) {
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " (", line.size,
                     " ranks) was given ", call.in_count, " elements in and ", call.out_count, " out; ",
                     rule));
}

bool overlap(const Call& call) {
    const auto in = reinterpret_cast<std::uintptr_t>(call.in);
    const auto out = reinterpret_cast<std::uintptr_t>(call.out);
    return in < out + call.out_bytes() && out < in + call.in_bytes();
}

void check_position(const Call& call, const Line& line, int position, std::string_view preposition) {
    if (position < 0 || position >= line.size)
        throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " ", preposition,
                         " position ", position, "; positions are 0..", line.size - 1));
}

void check_space(const Call& call, const Line& line) {
    for (auto space : {call.in_space, call.out_space})
        if (space != line.space)
            throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " was given ",
                             to_string(space), " memory; this communicator works on ", to_string(line.space),
                             " memory",
                             line.space == Space::device ? ", its host() on the host's"
                                                         : ": copy it there, or join a world with a device"));
}

/// The sum of the counts in elements of dtype; nothing if it does not fit.
std::optional<std::size_t> sum_of(const std::size_t* counts, int size, std::size_t unit) {
    auto sum = std::size_t{0};
    for (int i = 0; i < size; ++i) {
        const auto more = counts[i] * unit;
        if (more / unit != counts[i] || sum + more < sum) return std::nullopt;
        sum += more;
    }
    return sum;
}

std::string listed(const std::size_t* counts, int size) {
    auto text = std::string("{");
    constexpr auto most = 16;
    for (int i = 0; i < size && i < most; ++i) append(text, cat(i > 0 ? ", " : "", counts[i]));
    return cat(text, size > most ? ", ..." : "", "}");
}

void check_counts(const Call& call, const Line& line) {
    const auto wrong = [&](std::string_view which, const std::size_t* counts, std::size_t given) {
        if (sum_of(counts, line.size, call.unit) == given) return;
        throw Misuse(cat(to_string(call.operation), " on ", line.label->text(), " was given ",
                         given / call.unit, " elements ", which, "; the counts ", listed(counts, line.size),
                         " ask for their sum"));
    };
    wrong("out", call.out_counts, call.out_count);
    if (call.operation == Operation::all_to_all_v) return wrong("in", call.in_counts, call.in_count);
    const auto own = call.out_counts[line.rank];
    if (call.in_count != own * call.unit)
        throw Misuse(cat("all_gather_v on ", line.label->text(), " was given ", call.in_count / call.unit,
                         " elements in; the counts ", listed(call.out_counts, line.size), " ask position ",
                         line.rank, " for ", own));
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

void check(const Call& call, const Line& line) {
    if (call.operation == Operation::barrier || call.operation == Operation::monitored_barrier) return;
    check_space(call, line);
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
                wrong_length(call, line, cat("at the root out must hold ", call.in_count * n));
            break;
        case Operation::scatter:
            check_position(call, line, call.argument, "from");
            if (!is_root) return;
            if (call.in_count != call.out_count * n)
                wrong_length(call, line, cat("at the root in must hold ", call.out_count * n));
            break;
        case Operation::all_gather:
            if (call.out_count != call.in_count * n)
                wrong_length(call, line, cat("out must hold ", call.in_count * n));
            break;
        case Operation::reduce_scatter:
            if (call.in_count != call.out_count * n)
                wrong_length(call, line, cat("in must hold ", call.out_count * n));
            break;
        case Operation::all_to_all:
            if (call.in_count != call.out_count || call.in_count % n != 0)
                wrong_length(call, line, cat("both must be equal, and a multiple of ", line.size));
            break;
        case Operation::all_gather_v:
        case Operation::all_to_all_v:
            check_counts(call, line);
            break;
        default:  // all_reduce, scan, shift
            if (call.in_count != call.out_count) wrong_length(call, line, "both must be equal");
    }
    if (!overlap(call)) return;
    if ((may_be_in_place(call.operation) && call.in == call.out) || is_own_part(call, line.rank)) return;
    throw Misuse(cat(to_string(call.operation), " on ", line.label->text(),
                     " was given buffers that overlap; use two",
                     may_be_in_place(call.operation) ? ", or one in place" : ""));
}

}  // namespace rankmesh::detail
