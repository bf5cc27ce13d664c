// SPDX-License-Identifier: Apache-2.0
#include "engine/combine.hpp"

#include <concepts>
#include <limits>

#include "engine/arithmetic.hpp"
#include "engine/exact_sum.hpp"
#include "engine/roles.hpp"

namespace rankmesh::detail {
namespace {

/// What changes nothing in a reduction.
template <class T>
T nothing(Reduction reduction) {
    if (reduction == Reduction::prod || reduction == Reduction::logical_and) return static_cast<T>(1);
    if (reduction == Reduction::bit_and) {
        if constexpr (std::same_as<T, std::byte> || (std::integral<T> && !std::same_as<T, bool>))
            return static_cast<T>(~T{});
    }
    using Limits = std::numeric_limits<T>;
    if constexpr (std::floating_point<T>) {
        if (reduction == Reduction::min) return Limits::infinity();
        if (reduction == Reduction::max) return -Limits::infinity();
    } else if constexpr (std::integral<T>) {
        if (reduction == Reduction::min) return Limits::max();
        if (reduction == Reduction::max) return Limits::lowest();
    }
    return T{};
}

/// The calls of all ranks in one collective.
class CollectiveRound {
public:
    CollectiveRound(std::size_t size, const std::function<const Call&(std::size_t)>& call)
        : size_(size), call_(call), first_(call(0)) {}

    void reduce() const {
        const auto result = reduced(0, first_.in_count);
        each_out([&](std::size_t, const Call& to) { copy(to.out, result.data(), result.size()); });
    }
    void reduce_scatter() const {
        each_out([&](std::size_t p, const Call& to) {
            const auto result = reduced(p * first_.out_count, first_.out_count);
            copy(to.out, result.data(), result.size());
        });
    }
    void scan() const {
        // From the last on: an output may be an input of ranks above.
        for (auto p = size_; p-- > 0;) {
            const auto& to = call_(p);
            if (!to.out) continue;
            const auto members = first_.operation == Operation::scan ? p + 1 : p;
            if (members > 0)
                combine(first_, inputs(members, 0), to.out, first_.in_count);
            else
                fill_with_nothing(to);
            if (members == 1) make_logical(to);
        }
    }
    void broadcast() const {
        each_out([&](std::size_t, const Call& to) { copy(to.out, root().in, first_.in_bytes()); });
    }
    /// Writes the inputs of all ranks one after the other, into each output.
    void gather() const {
        each_out([&](std::size_t, const Call& to) {
            auto at = std::size_t{0};
            for (std::size_t p = 0; p < size_; at += call_(p++).in_bytes())
                copy(offset(to.out, at), call_(p).in, call_(p).in_bytes());
        });
    }
    /// Divides the input of the root among the outputs.
    void scatter() const {
        auto at = std::size_t{0};
        for (std::size_t p = 0; p < size_; at += call_(p++).out_bytes())
            if (call_(p).out) copy(call_(p).out, offset(root().in, at), call_(p).out_bytes());
    }
    /// Divides the input of each rank among the outputs.
    void exchange() const {
        auto out_at = std::vector<std::size_t>(size_);
        for (std::size_t from = 0; from < size_; ++from) {
            const auto& sender = call_(from);
            auto in_at = std::size_t{0};
            for (std::size_t to = 0; to < size_; ++to) {
                const auto bytes = sender.in_counts
                                       ? given_to(sender, static_cast<int>(to)) * size_of(first_.dtype)
                                       : sender.in_bytes() / size_;
                if (call_(to).out) copy(offset(call_(to).out, out_at[to]), offset(sender.in, in_at), bytes);
                in_at += bytes;
                out_at[to] += bytes;
            }
        }
    }
    void shift() const {
        each_out([&](std::size_t p, const Call& to) {
            const auto from = peers_of(first_, static_cast<int>(p), static_cast<int>(size_)).from;
            if (from >= 0) copy(to.out, call_(static_cast<std::size_t>(from)).in, first_.in_bytes());
        });
    }

private:
    /// Calls `body(p, call)` for the rank of each output that the collective writes.
    template <class Body>
    void each_out(Body&& body) const {
        for (std::size_t p = 0; p < size_; ++p)
            if (call_(p).out && writes(first_, static_cast<int>(p))) body(p, call_(p));
    }
    const Call& root() const { return call_(static_cast<std::size_t>(first_.argument)); }
    static void copy(void* out, const void* in, std::size_t bytes) {
        if (bytes > 0) std::memmove(out, in, bytes);
    }
    static const char* offset(const void* data, std::size_t bytes) {
        return static_cast<const char*>(data) + bytes;
    }
    static char* offset(void* data, std::size_t bytes) { return static_cast<char*>(data) + bytes; }
    /// The inputs of the first ranks, from an element on.
    std::vector<const void*> inputs(std::size_t members, std::size_t begin) const {
        auto ins = std::vector<const void*>{};
        for (std::size_t p = 0; p < members; ++p)
            ins.push_back(offset(call_(p).in, begin * size_of(first_.dtype)));
        return ins;
    }

    /// The reduction over all ranks, in their order, of elements from `begin` on.
    std::vector<char> reduced(std::size_t begin, std::size_t count) const {
        auto result = std::vector<char>(count * size_of(first_.dtype));
        combine(first_, inputs(size_, begin), result.data(), count);
        if (first_.reduction == Reduction::mean)
            divide(first_.dtype, result.data(), count, static_cast<int>(size_));
        return result;
    }

    const std::size_t size_;
    const std::function<const Call&(std::size_t)>& call_;
    const Call& first_;
};

}  // namespace

void combine(const Call& call, std::span<const void* const> ins, void* out, std::size_t count) {
    if (count == 0) return;
    if (call.reduction == Reduction::reproducible_sum) return sum_exactly(call.dtype, ins, out, count);
    const auto bytes = count * size_of(call.dtype);
    auto result = std::vector<char>(bytes);
    if (call.function) {
        std::memcpy(result.data(), ins.back(), bytes);
        for (auto p = ins.size() - 1; p-- > 0;)
            call.function->apply(ins[p], result.data(), count / call.unit);
    } else {
        std::memcpy(result.data(), ins.front(), bytes);
        for (const auto* in : ins.subspan(1))
            reduce_into(call.reduction, call.dtype, in, result.data(), count);
    }
    std::memcpy(out, result.data(), bytes);
}

void combine_before(const Call& call, const void* before, void* into, std::size_t count) {
    if (call.function)
        call.function->apply(before, into, count / call.unit);
    else
        reduce_into(call.reduction, call.dtype, before, into, count);
}

void fill_with_nothing(const Call& call) {
    if (call.function) return;
    with_type(call.dtype, [&]<class T>(T*) {
        auto* out = static_cast<T*>(call.out);
        auto value = T{};
        if constexpr (Half<T>)
            value = T(nothing<float>(call.reduction));
        else
            value = nothing<T>(call.reduction);
        std::fill_n(out, call.out_count, value);
    });
}

void make_logical(const Call& call) {
    if (traits(call.reduction).is_logical)
        reduce_into(Reduction::logical_or, call.dtype, call.out, call.out, call.out_count);
}

void perform(std::size_t n, const std::function<const Call&(std::size_t)>& call) {
    const auto round = CollectiveRound(n, call);
    switch (call(0).operation) {
        case Operation::all_reduce:
        case Operation::reduce:
            return round.reduce();
        case Operation::scan:
        case Operation::exclusive_scan:
            return round.scan();
        case Operation::reduce_scatter:
            return round.reduce_scatter();
        case Operation::broadcast:
            return round.broadcast();
        case Operation::all_gather:
        case Operation::all_gather_v:
        case Operation::gather:
        case Operation::gather_v:
            return round.gather();
        case Operation::scatter:
        case Operation::scatter_v:
            return round.scatter();
        case Operation::all_to_all:
        case Operation::all_to_all_v:
            return round.exchange();
        case Operation::shift:
            return round.shift();
        default:  // no data moves between ranks
            return;
    }
}

}  // namespace rankmesh::detail
