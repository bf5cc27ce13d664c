// SPDX-License-Identifier: Apache-2.0
// Moves an array from one sharding to another over a communicator.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <ranges>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <rankmesh/core/reshard.hpp>
#include <rankmesh/engine/communicator.hpp>

namespace rankmesh {

namespace detail {

/// Returns the number of contiguous elements of `part`: its size along the last dimension.
inline std::int64_t row_of(const Slice& part) { return part.ranges.empty() ? 1 : part.ranges.back().size(); }

/// Returns the offset, in the row-major array of `whole`, of element `number` of `part`.
inline std::int64_t offset_in(const Slice& part, const Slice& whole, std::int64_t number) {
    auto offset = std::int64_t{0};
    auto stride = std::int64_t{1};
    for (auto d = part.ranges.size(); d-- > 0;) {
        const auto index = number % part.ranges[d].size();
        number /= part.ranges[d].size();
        offset += (part.ranges[d].begin + index - whole.ranges[d].begin) * stride;
        stride *= whole.ranges[d].size();
    }
    return offset;
}

template <class T>
concept Adds = requires(T a, T b) { static_cast<T>(a + b); };

/// An element type that partial sums can have.
template <class T>
concept Summable = Adds<T> || Reduces<ReductionTag<Reduction::sum>, T>;

/// Returns the sum of two elements. Types without `+` are added as floats.
template <Summable T>
T sum_of(const T& a, const T& b) {
    if constexpr (Adds<T>)
        return static_cast<T>(a + b);
    else
        return T(static_cast<float>(a) + static_cast<float>(b));
}

/// Returns the slice of `rank`; an empty slice if the mesh does not contain `rank`.
inline Slice held_by(int rank, const Sharding& sharding) {
    return sharding.mesh().contains(rank) ? sharding.slice(rank) : Slice{{{0, 0}}};
}

/// Executes the transfers of one rank: of its slices, and of slices that it passes on.
template <class T>
class Resharding {
public:
    Resharding(Communicator& over, const Reshard& plan, std::span<const T> in, std::span<T> out)
        : over_(over), plan_(plan), in_(in), out_(out), rank_(over.world_rank(over.rank())) {
        had_ = slice_in(plan.from(), "in", in.size());
        has_ = slice_in(plan.to(), "out", out.size());
        const auto address = [](const T* element) { return reinterpret_cast<std::uintptr_t>(element); };
        if (!in.empty() && !out.empty() && address(in.data()) < address(out.data() + out.size()) &&
            address(out.data()) < address(in.data() + in.size()))
            throw UsageError(cat("reshard on ", over.label(), " was given buffers that overlap; use two"));
        if (!Summable<T> && plan.from().parts() > plan.to().parts())
            throw UsageError(cat("reshard on ", over.label(), " would add ", plan.from().parts(),
                                 " partial sums up to ", plan.to().parts(),
                                 ", and elements of this type cannot be added; add numbers"));
        sends_ = plan.sends(rank_);
        receives_ = plan.receives(rank_);
        for (const auto* transfers : {&sends_, &receives_})
            for (const auto& transfer : *transfers)
                if (!over.group_rank_of(transfer.peer))
                    throw UsageError(cat("reshard of ", to_string(plan.from().mesh()), " to ",
                                         to_string(plan.to().mesh()), " needs rank ", transfer.peer,
                                         ", which is not in ", over.label(),
                                         "; call it on a communicator over both meshes"));
    }

    void run(std::size_t staging) {
        const auto inside = plan_.to().mesh().contains(rank_);
        const auto parts = inside ? (plan_.from().parts() - plan_.to().part(rank_) + plan_.to().parts() - 1) /
                                        plan_.to().parts()
                                  : 0;
        adds_ = parts != 1;
        if (adds_) {
            std::ranges::fill(out_, T{});
            for (const auto& transfer : sends_)
                if (transfer.stage == 1)
                    passed_[{transfer.part, transfer.slice}].resize(
                        static_cast<std::size_t>(transfer.slice.elements()));
        }
        for (const auto& [part, slice] : plan_.keeps(rank_))
            for (std::int64_t at = 0; at < slice.elements(); at += row_of(slice))
                put(slice, at, in_.data() + offset_in(slice, had_, at), row_of(slice));
        const auto each = std::max<std::int64_t>(1, static_cast<std::int64_t>(staging / (2 * sizeof(T))));
        for (auto stage : {0, 1}) exchange(stage, each);
    }

private:
    /// The transfers from or to one rank, as one stream of elements.
    struct Stream {
        std::vector<const Transfer*> transfers = {};
        std::int64_t elements = 0;
        void add(const Transfer& transfer) {
            transfers.push_back(&transfer);
            elements += transfer.slice.elements();
        }
    };

    Slice slice_in(const Sharding& sharding, std::string_view name, std::size_t given) const {
        auto slice = held_by(rank_, sharding);
        if (given != static_cast<std::size_t>(slice.elements()))
            throw UsageError(cat("reshard was given ", counted(given, "element"), " as `", name, "`; rank ",
                                 rank_, " holds ", slice.elements(), " in ", to_string(sharding.mesh()), " (",
                                 to_string(sharding.split()), ")"));
        return slice;
    }

    /// In round k each rank sends to the rank k higher and receives from the rank k lower. No rank waits for
    /// a later round, so ranks cannot deadlock. This holds with any amount of staging memory.
    void exchange(int stage, std::int64_t each) {
        auto rounds = std::map<int, std::pair<Stream, Stream>>{};
        const auto round = [&](int from, int to) { return (to - from + plan_.extent()) % plan_.extent(); };
        for (const auto& transfer : sends_)
            if (transfer.stage == stage) rounds[round(rank_, transfer.peer)].first.add(transfer);
        for (const auto& transfer : receives_)
            if (transfer.stage == stage) rounds[round(transfer.peer, rank_)].second.add(transfer);
        const auto staged = [&](const Stream& stream, std::int64_t at) {
            return static_cast<std::size_t>(std::clamp<std::int64_t>(stream.elements - at, 0, each));
        };
        auto most_sent = std::size_t{0};
        auto most_received = std::size_t{0};
        for (const auto& [number, streams] : rounds) {
            most_sent = std::max(most_sent, staged(streams.first, 0));
            most_received = std::max(most_received, staged(streams.second, 0));
        }
        auto outgoing_memory = std::vector<T>(most_sent);
        auto incoming_memory = std::vector<T>(most_received);
        for (const auto& [number, streams] : rounds) {
            const auto& [sent, received] = streams;
            for (std::int64_t at = 0; at < std::max(sent.elements, received.elements); at += each) {
                const auto outgoing = std::span(outgoing_memory).first(staged(sent, at));
                const auto incoming = std::span(incoming_memory).first(staged(received, at));
                for_each_run(sent, at, outgoing, [&](const Transfer& transfer, std::int64_t from, auto run) {
                    const auto* source = source_of(transfer, from);
                    std::copy(source, source + run.size(), run.begin());
                });
                over_.batch([&] {
                    if (!outgoing.empty())
                        over_.send(outgoing, *over_.group_rank_of(sent.transfers.front()->peer));
                    if (!incoming.empty())
                        over_.recv(incoming, *over_.group_rank_of(received.transfers.front()->peer));
                });
                for_each_run(received, at, incoming,
                             [&](const Transfer& transfer, std::int64_t from, auto run) {
                                 put(transfer.slice, from, run.data(), static_cast<std::int64_t>(run.size()));
                                 if (const auto passed = passed_.find({transfer.part, transfer.slice});
                                     passed != passed_.end())
                                     std::ranges::copy(run, passed->second.begin() + from);
                             });
            }
        }
    }

    /// Visits the staged elements of a stream from element `at` on, at most one row at a time.
    template <class Visit>
    static void for_each_run(const Stream& stream, std::int64_t at, std::span<T> staged, const Visit& visit) {
        auto begin = std::int64_t{0};  // where the transfer begins in the stream
        const auto end = at + static_cast<std::int64_t>(staged.size());
        for (const auto* transfer : stream.transfers) {
            const auto after = begin + transfer->slice.elements();
            const auto row = row_of(transfer->slice);
            for (auto from = std::max(begin, at); from < std::min(after, end);) {
                const auto number = from - begin;
                const auto run = std::min(row - number % row, std::min(after, end) - from);
                visit(*transfer, number,
                      staged.subspan(static_cast<std::size_t>(from - at), static_cast<std::size_t>(run)));
                from += run;
            }
            begin = after;
        }
    }

    /// Returns the address of element `from` of a transfer that this rank sends.
    const T* source_of(const Transfer& transfer, std::int64_t from) const {
        if (transfer.stage == 0) return in_.data() + offset_in(transfer.slice, had_, from);
        if (!adds_) return out_.data() + offset_in(transfer.slice, has_, from);
        return passed_.at({transfer.part, transfer.slice}).data() + from;
    }

    /// Writes contiguous elements of `slice`, from element `from` on, into the new slice.
    void put(const Slice& slice, std::int64_t from, const T* source, std::int64_t count) {
        auto* target = out_.data() + offset_in(slice, has_, from);
        if constexpr (Summable<T>)
            if (adds_) {
                std::transform(source, source + count, target, target, sum_of<T>);
                return;
            }
        std::copy(source, source + count, target);
    }

    Communicator& over_;
    const Reshard& plan_;
    std::span<const T> in_;
    std::span<T> out_;
    int rank_;
    Slice had_;
    Slice has_;
    std::vector<Transfer> sends_;
    std::vector<Transfer> receives_;
    bool adds_ = false;
    std::map<std::pair<int, Slice>, std::vector<T>>
        passed_;  // with partial sums: slices that other ranks also add
};

}  // namespace detail

/// Moves an array from one sharding to another. `in` is this rank's old slice and `out` its new slice, both
/// row-major; empty on a rank outside the mesh. Collective over `over`, which must contain the ranks of both
/// meshes; `staging` must be equal on all ranks.
///
/// Uses `staging` bytes of extra memory, and with partial sums also the slices that this rank passes on
/// inside its host. Replicas may add partial sums in different orders.
///
/// Throws UsageError for buffers of the wrong length, buffers that overlap, ranks that are not in `over`,
/// partial sums of a type that cannot be added, and device memory.
///
///     void hand_over(Communicator& all, const Reshard& plan, std::vector<float>& had, std::vector<float>&
///     has) {
///         reshard(all, plan, had, has);
///     }
template <std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
void reshard(Communicator& over, const Reshard& plan, const In& in, Out&& out,
             std::size_t staging = std::size_t{64} << 20) {
    using T = std::ranges::range_value_t<Out>;
    static_assert(std::is_same_v<T, std::ranges::range_value_t<In>>, "both slices have elements of one type");
    if (over.space() == Space::device)
        throw UsageError(detail::cat("reshard on ", over.label(),
                                     " works on host memory; pass the communicator's host()"));
    detail::Resharding<T>(over, plan, std::span<const T>(in), std::span<T>(out)).run(staging);
}

/// Runs the reshards of Reshard::steps one after another. Allocates memory for this rank's slices between two
/// steps.
///
///     void hand_over(Communicator& all, const Sharding& from, const Sharding& to,
///                    std::span<const float> own, std::span<float> wanted) {
///         reshard(all, Reshard::steps(from, to, 8), own, wanted);  // eight ranks a host
///     }
template <std::ranges::contiguous_range In, std::ranges::contiguous_range Out>
void reshard(Communicator& over, const std::vector<Reshard>& steps, const In& in, Out&& out,
             std::size_t staging = std::size_t{64} << 20) {
    using T = std::ranges::range_value_t<Out>;
    if (steps.empty())
        throw UsageError(detail::cat("reshard on ", over.label(),
                                     " was given no steps; pass what Reshard::steps returns"));
    auto had = std::vector<T>{};
    for (std::size_t i = 0; i < steps.size(); ++i) {
        const auto before = i == 0 ? std::span<const T>(in) : std::span<const T>(had);
        if (i + 1 == steps.size()) return reshard(over, steps[i], before, out, staging);
        const auto between = detail::held_by(over.world_rank(over.rank()), steps[i].to());
        auto has = std::vector<T>(static_cast<std::size_t>(between.elements()));
        reshard(over, steps[i], before, has, staging);
        had = std::move(has);
    }
}

}  // namespace rankmesh
