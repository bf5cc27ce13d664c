// SPDX-License-Identifier: Apache-2.0
#include "engine/perform.hpp"

#include <cstring>
#include <vector>

#include "engine/arithmetic.hpp"
#include "engine/combine.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace {

void copy(void* out, const void* in, std::size_t bytes) {
    if (bytes > 0) std::memmove(out, in, bytes);
}
const char* at(const void* data, std::size_t bytes) { return static_cast<const char*>(data) + bytes; }

/// The bytes of the first `members` counts.
std::size_t offset(const Call& call, const std::size_t* counts, std::size_t members) {
    auto sum = std::size_t{0};
    for (std::size_t i = 0; i < members; ++i) sum += counts[i];
    return sum * call.unit * size_of(call.dtype);
}

}  // namespace

void perform(std::size_t n, const std::function<const Call&(std::size_t)>& call) {
    const auto& first = call(0);
    const auto width = size_of(first.dtype);
    const auto root = static_cast<std::size_t>(first.argument);
    const auto each_out = [&](auto&& body) {
        for (std::size_t p = 0; p < n; ++p)
            if (call(p).out) body(p, static_cast<char*>(call(p).out));
    };
    // Those of the first members, from an element on.
    const auto inputs = [&](std::size_t members, std::size_t begin) {
        auto ins = std::vector<const void*>{};
        for (std::size_t p = 0; p < members; ++p) ins.push_back(at(call(p).in, begin * width));
        return ins;
    };
    // The reduction over all members of the elements begin..begin+count of their inputs, in member order.
    const auto reduced = [&](std::size_t begin, std::size_t count) {
        auto result = std::vector<char>(count * width);
        combine(first, inputs(n, begin), result.data(), count);
        if (first.reduction == Reduction::mean)
            divide(first.dtype, result.data(), count, static_cast<int>(n));
        return result;
    };
    switch (first.operation) {
        case Operation::all_reduce: {
            const auto result = reduced(0, first.in_count);
            each_out([&](std::size_t, char* out) { copy(out, result.data(), result.size()); });
            break;
        }
        case Operation::reduce: {
            if (!call(root).out) break;
            const auto result = reduced(0, first.in_count);
            copy(call(root).out, result.data(), result.size());
            break;
        }
        case Operation::scan:
        case Operation::exclusive_scan:
            // From the last on: an output may be an input of ranks above.
            for (auto p = n; p-- > 0;) {
                if (!call(p).out) continue;
                const auto members = first.operation == Operation::scan ? p + 1 : p;
                if (members > 0)
                    combine(first, inputs(members, 0), call(p).out, first.in_count);
                else
                    fill_with_nothing(call(p));
                if (members == 1) make_logical(call(p));
            }
            break;
        case Operation::reduce_scatter:
            each_out([&](std::size_t p, char* out) {
                const auto result = reduced(p * first.out_count, first.out_count);
                copy(out, result.data(), result.size());
            });
            break;
        case Operation::broadcast:
            each_out([&](std::size_t, char* out) { copy(out, call(root).in, first.in_bytes()); });
            break;
        case Operation::all_gather:
            each_out([&](std::size_t, char* out) {
                for (std::size_t p = 0; p < n; ++p)
                    copy(out + p * first.in_bytes(), call(p).in, first.in_bytes());
            });
            break;
        case Operation::all_gather_v:
            each_out([&](std::size_t to, char* out) {
                for (std::size_t p = 0; p < n; ++p)
                    copy(out + offset(first, call(to).out_counts, p), call(p).in, call(p).in_bytes());
            });
            break;
        case Operation::gather_v:
            if (auto* out = static_cast<char*>(call(root).out))
                for (std::size_t p = 0; p < n; ++p)
                    copy(out + offset(first, call(root).out_counts, p), call(p).in, call(p).in_bytes());
            break;
        case Operation::scatter_v:
            each_out([&](std::size_t p, char* out) {
                copy(out, at(call(root).in, offset(first, call(root).in_counts, p)), call(p).out_bytes());
            });
            break;
        case Operation::gather:
            if (auto* out = static_cast<char*>(call(root).out))
                for (std::size_t p = 0; p < n; ++p)
                    copy(out + p * first.in_bytes(), call(p).in, first.in_bytes());
            break;
        case Operation::scatter:
            each_out([&](std::size_t p, char* out) {
                copy(out, at(call(root).in, p * first.out_bytes()), first.out_bytes());
            });
            break;
        case Operation::all_to_all: {
            const auto part = first.in_bytes() / n;
            each_out([&](std::size_t to, char* out) {
                for (std::size_t from = 0; from < n; ++from)
                    copy(out + from * part, at(call(from).in, to * part), part);
            });
            break;
        }
        case Operation::all_to_all_v:
            each_out([&](std::size_t to, char* out) {
                for (std::size_t from = 0; from < n; ++from) {
                    const auto& sender = call(from);
                    copy(out + offset(first, call(to).out_counts, from),
                         at(sender.in, offset(first, sender.in_counts, to)),
                         sender.in_counts[to] * sender.unit * width);
                }
            });
            break;
        case Operation::shift:
            each_out([&](std::size_t to, char* out) {
                const auto from = peers_of(first, static_cast<int>(to), static_cast<int>(n)).from;
                if (from >= 0) copy(out, call(static_cast<std::size_t>(from)).in, first.in_bytes());
            });
            break;
        case Operation::barrier:
        case Operation::monitored_barrier:
        case Operation::send:
        case Operation::recv:
        case Operation::send_recv:
        case Operation::probe:
            break;
    }
}

}  // namespace rankmesh::detail
