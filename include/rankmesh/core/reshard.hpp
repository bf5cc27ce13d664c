// SPDX-License-Identifier: Apache-2.0
// Reshard, the messages that move an array from one sharding to another.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/core/detail/rank_set.hpp>
#include <rankmesh/core/sharding.hpp>

namespace rankmesh {

/// One message of a reshard, as one of its two ranks sees it.
struct Transfer {
    int stage = 0;     ///< 0: from a rank that holds the data; 1: inside a host, after stage 0
    int peer = 0;      ///< the other rank
    int part = 0;      ///< the number of the partial sum; the receiver adds them
    Slice slice = {};  ///< in indices of the whole array
    friend bool operator==(const Transfer&, const Transfer&) = default;
    friend auto operator<=>(const Transfer&, const Transfer&) = default;
};

/// A slice that a rank has before and after the reshard, in one partial sum.
struct Kept {
    int part = 0;
    Slice slice = {};
    friend bool operator==(const Kept&, const Kept&) = default;
    friend auto operator<=>(const Kept&, const Kept&) = default;
};

/// The plan for moving an array from one sharding to another in the same world: what each rank sends,
/// receives and keeps.
///
/// shape 8: tp=2, split 0=tp -> tp=4, split 0=tp | receives(2) -> [4:6] from rank 1
/// shape 8: tp=2, split 0=tp -> tp=4, split 0=tp | sends(1) -> [4:6] to rank 2, [6:8] to rank 3
/// shape 8: tp=2, split 0=tp -> tp=4, split 0=tp | keeps(0) -> [0:2]
///
/// Each query is about one world rank. Each `host` consecutive ranks share a host. A query needs no
/// communication and no list of all ranks.
///
/// A rank receives each element that it does not hold once, or once for each partial sum, and adds the
/// partial sums. The sender is on the same host if a rank there holds the element. Otherwise one rank of the
/// host receives the element from another host and passes it on inside the host. With Q partial sums
/// afterwards, partial sum q is the sum of the old partial sums whose number modulo Q is q; without any it is
/// zero.
///
/// The cost of a query grows with the rank's own slices, the slices that overlap them, and the ranks of its
/// host.
///
/// Law: the sends of all ranks are the receives of all ranks, in the same order between any two.
/// Law: a rank receives exactly the elements of its new slice that it did not hold before.
/// Law: a host that holds no copy of a wanted element receives it once; a host that holds a copy never
/// receives it.
/// Law: if no host has ranks of both meshes, and host sizes and strides divide one another, each rank that
/// holds the same slice sends the mean number of elements to other hosts, with a deviation below the largest
/// slice that is sent.
///
///     Reshard(Sharding(Mesh{{"tp", 2}}, {8}, Split::parse("0=tp")),  // rank 0 holds 0 to 4
///             Sharding(Mesh{{"tp", 4}}, {8}, Split::parse("0=tp")))  // rank 1 shall hold 2 to 4
///         .receives(1) == std::vector{Transfer{0, 0, 0, {{{2, 4}}}}}
class Reshard {
public:
    /// Makes a plan. Throws UsageError if the shapes differ, or if `host` is below 1.
    Reshard(const Sharding& from, const Sharding& to, int host = 1);

    /// Returns the reshards that, one after another, move the array with the fewest bytes between hosts.
    /// Returns two if a host holds several partial sums and `to` has none: the first adds the partial sums
    /// inside each host, like a reduce-scatter, and numbers them so that those of one host are added.
    /// Otherwise returns one. Throws UsageError like the constructor.
    ///
    /// Law: each step begins with the sharding with which the previous step ends.
    /// Law: if a host holds n partial sums, the first step makes one of them and sends nothing to other
    /// hosts; the second step sends 1/n of what a single step would send to other hosts.
    static std::vector<Reshard> steps(const Sharding& from, const Sharding& to, int host = 1);

    const Sharding& from() const { return from_; }
    const Sharding& to() const { return to_; }
    int host() const { return host_; }
    /// Returns the highest rank of both meshes plus 1.
    int extent() const { return std::max(from_.mesh().extent(), to_.mesh().extent()); }

    /// Returns what `rank` receives, sorted by stage, then by peer; empty for a rank outside both meshes.
    std::vector<Transfer> receives(int rank) const;
    /// Returns what `rank` sends, in the same order.
    std::vector<Transfer> sends(int rank) const;
    /// Returns the parts of its new slice that `rank` already holds.
    std::vector<Kept> keeps(int rank) const;

private:
    __extension__ using Wide = __int128;

    /// The place of a slice inside another, in elements of the outer slice: how many lie before it, its size,
    /// and all.
    struct Interval {
        std::int64_t before = 0;
        std::int64_t size = 0;
        std::int64_t all = 0;
    };
    /// The ranks, or hosts, that still need a slice: those in `all` that are not in `but`, in ascending
    /// order.
    struct Wanting {
        detail::RankSet all;
        detail::RankSet but;
        int size() const { return all.size() - but.size(); }
        int below(std::int64_t rank) const { return all.below(rank) - but.below(rank); }
        int at(int number) const;
    };
    /// A slice of one holder that overlaps a slice of the other sharding.
    struct Piece {
        std::vector<std::int64_t> at;  // its first element
        Slice slice;
    };

    static bool on_one_host(const Mesh& mesh, AxisId axis, int host);
    static std::optional<Reshard> adding_on_hosts(const Sharding& given, int host);
    static Interval interval_in(const Slice& inner, const Slice& outer);
    static int chosen(int count, int choices, int number, const Interval& interval);
    template <class Visit>
    static void for_each_chosen(int count, int choices, int choice, const Interval& interval,
                                const Visit& visit);
    template <class Visit>
    static void for_each_piece(const Sharding& sharding, const Slice& outer, std::int64_t from, Wide until,
                               const Visit& visit);
    template <class Visit>
    static void for_each_piece(const Sharding& sharding, const Slice& outer, const Visit& visit) {
        for_each_piece(sharding, outer, 0, outer.elements(), visit);
    }

    std::int64_t first_of_host(int rank) const { return rank - rank % host_; }
    int on_host(const detail::RankSet& ranks, int rank) const {
        return ranks.below(first_of_host(rank) + host_) - ranks.below(first_of_host(rank));
    }
    Wanting hosts_that_want(const detail::RankSet& wanters, const detail::RankSet& holders) const;
    int sender_on_host(int rank, const detail::RankSet& wanters, const detail::RankSet& holders,
                       const Interval& interval) const;
    int gateway(int rank, const detail::RankSet& wanters, const Interval& interval) const;
    template <class Visit>
    void for_each_need(int rank, const Visit& visit) const;
    void add_sends_to_host(int rank, std::vector<Transfer>& out) const;
    void add_sends_to_others(int rank, std::vector<Transfer>& out) const;

    Sharding from_;
    Sharding to_;
    int host_;
};

inline Reshard::Reshard(const Sharding& from, const Sharding& to, int host)
    : from_(from), to_(to), host_(host) {
    if (!std::ranges::equal(from_.shape(), to_.shape()))
        throw UsageError(detail::cat("an array of shape ", detail::text_of_shape(from_.shape()),
                                     " cannot become one of shape ", detail::text_of_shape(to_.shape()),
                                     "; give both shardings the same shape"));
    if (host_ < 1) throw UsageError(detail::cat("a host has ", host_, " ranks; give 1 or more"));
}

/// Returns true if the strides show that ranks that differ only along `axis` share a host.
inline bool Reshard::on_one_host(const Mesh& mesh, AxisId axis, int host) {
    const auto along = mesh.layout(axis);
    for (int k = 0; k < along.digit_count(); ++k) {
        const auto digit = along.digit(k);
        const auto end = std::int64_t{digit.size} * digit.stride;
        if (host % end != 0 || mesh.offset() % end != 0) return false;
        for (int a = 0; a < mesh.axis_count(); ++a) {
            const auto other = mesh.layout(AxisId{a});
            for (int j = 0; j < other.digit_count(); ++j)
                if (other.digit(j).stride > digit.stride && other.digit(j).stride % end != 0) return false;
        }
    }
    return true;
}

/// Returns the reshard that adds the partial sums inside each host, or nullopt if no host holds several.
/// Afterwards the axes that held these sums split the longest dimension that is not padded. These axes become
/// the first of the sums, because the partial sums of one host must have the same number modulo Q.
inline std::optional<Reshard> Reshard::adding_on_hosts(const Sharding& given, int host) {
    const auto& mesh = given.mesh();
    auto split = given.split();
    split.dimensions.resize(given.shape().size());
    const auto ranges = given.slice(mesh.offset()).ranges;
    auto longest = std::optional<std::size_t>{};
    for (std::size_t d = 0; d < ranges.size(); ++d)
        if ((split.dimensions[d].axes.empty() || split.dimensions[d].padded == 0) &&
            (!longest || ranges[d].size() > ranges[*longest].size()))
            longest = d;
    if (!longest) return std::nullopt;
    const auto far = std::ranges::stable_partition(
        split.sums, [&](const std::string& axis) { return on_one_host(mesh, mesh.axis(axis), host); });
    const auto shape = std::vector(given.shape().begin(), given.shape().end());
    const auto from = Sharding(mesh, shape, split);
    auto& further = split.dimensions[*longest];
    further.padded = 0;
    further.axes.insert(further.axes.end(), split.sums.begin(), far.begin());
    split.sums.erase(split.sums.begin(), far.begin());
    const auto to = Sharding(mesh, shape, split);
    if (to.parts() == from.parts()) return std::nullopt;
    return Reshard(from, to, host);
}

inline std::vector<Reshard> Reshard::steps(const Sharding& from, const Sharding& to, int host) {
    if (to.parts() == 1)
        if (const auto first = adding_on_hosts(from, host)) return {*first, Reshard(first->to(), to, host)};
    return {Reshard(from, to, host)};
}

inline int Reshard::Wanting::at(int number) const {
    auto low = 0;
    auto high = all.size() - 1;
    while (low < high) {
        const auto middle = low + (high - low) / 2;
        if (below(std::int64_t{all.at(middle)} + 1) > number)
            high = middle;
        else
            low = middle + 1;
    }
    return all.at(low);
}

inline Reshard::Interval Reshard::interval_in(const Slice& inner, const Slice& outer) {
    auto interval = Interval{0, inner.elements(), outer.elements()};
    auto rows = std::int64_t{1};  // the number of rows of the inner slice in the outer dimensions
    auto inner_size = interval.all;
    for (std::size_t d = 0; d < inner.ranges.size(); ++d) {
        inner_size /= outer.ranges[d].size();
        interval.before += rows * (inner.ranges[d].begin - outer.ranges[d].begin) * inner_size;
        rows *= inner.ranges[d].size();
    }
    return interval;
}

/// Returns which of `choices` equal senders serves request `number` of `count` for the slice at `interval`.
/// Full rounds go to the senders in turn. The remaining requests are spread in proportion to the elements
/// before the slice in the sender's slice.
inline int Reshard::chosen(int count, int choices, int number, const Interval& interval) {
    const auto left = count % choices;
    if (number < count - left) return number % choices;
    const auto before = Wide{interval.before} * left + Wide{number - (count - left)} * interval.size;
    return static_cast<int>(before * choices / (Wide{interval.all} * left));
}

/// The inverse of `chosen`: visits the requests that sender `choice` serves.
template <class Visit>
void Reshard::for_each_chosen(int count, int choices, int choice, const Interval& interval,
                              const Visit& visit) {
    const auto left = count % choices;
    for (std::int64_t number = choice; number < count - left; number += choices)
        visit(static_cast<int>(number));
    if (left == 0) return;
    const auto first = [&](int of) {  // the first remaining request that sender `of` or a later sender serves
        const auto from =
            (Wide{interval.all} * left * of + choices - 1) / choices - Wide{interval.before} * left;
        return from <= 0 ? 0
                         : static_cast<int>(std::min<Wide>((from + interval.size - 1) / interval.size, left));
    };
    for (auto number = first(choice); number < first(choice + 1); ++number) visit(count - left + number);
}

/// Visits the slices of `sharding` that overlap `outer`, cut to `outer`, row by row. Visits only slices with
/// elements number `from` to `until` of `outer`.
template <class Visit>
void Reshard::for_each_piece(const Sharding& sharding, const Slice& outer, std::int64_t from, Wide until,
                             const Visit& visit) {
    if (outer.elements() == 0) return;
    const auto dimensions = outer.ranges.size();
    auto piece = Piece{std::vector<std::int64_t>(dimensions), {}};
    for (std::size_t d = 0; d < dimensions; ++d) piece.at[d] = outer.ranges[d].begin;
    auto rows = std::int64_t{1};
    auto inner_size = outer.elements();
    for (std::size_t d = 0; d < dimensions; ++d) {
        inner_size /= outer.ranges[d].size();
        piece.at[d] += std::min(from / (rows * inner_size), outer.ranges[d].size() - 1);
        const auto range = common(sharding.slice_at(piece.at), outer).ranges[d];
        piece.at[d] = range.begin;
        from -= (range.begin - outer.ranges[d].begin) * rows * inner_size;
        rows *= range.size();
    }
    while (true) {
        piece.slice = common(sharding.slice_at(piece.at), outer);
        const auto interval = interval_in(piece.slice, outer);
        if (interval.before >= until) return;
        visit(piece, interval);
        auto d = dimensions;
        for (; d > 0; --d) {
            piece.at[d - 1] = piece.slice.ranges[d - 1].end;
            if (piece.at[d - 1] < outer.ranges[d - 1].end) break;
            piece.at[d - 1] = outer.ranges[d - 1].begin;
        }
        if (d == 0) return;
    }
}

/// Returns the hosts of `wanters` on which no rank is in `holders`. If strides do not divide one another, a
/// host is represented by its first wanter.
inline Reshard::Wanting Reshard::hosts_that_want(const detail::RankSet& wanters,
                                                 const detail::RankSet& holders) const {
    const auto hosts = hosts_of(wanters, host_);
    if (!hosts) return {wanters, {}};
    const auto others = hosts_of(holders, host_);
    const auto both = others ? common(*hosts, *others) : std::nullopt;
    return {*hosts, both.value_or(detail::RankSet())};
}

/// Returns the holder on the host of `rank` that sends to `rank`; the host must have a holder.
inline int Reshard::sender_on_host(int rank, const detail::RankSet& wanters, const detail::RankSet& holders,
                                   const Interval& interval) const {
    const auto begin = first_of_host(rank);
    const auto wanting = Wanting{wanters, common(wanters, holders).value_or(detail::RankSet())};
    const auto before = wanting.below(begin);
    return holders.at(holders.below(begin) + chosen(wanting.below(begin + host_) - before,
                                                    on_host(holders, rank), wanting.below(rank) - before,
                                                    interval));
}

/// Returns the wanter on the host of `rank` that receives the slice from another host.
inline int Reshard::gateway(int rank, const detail::RankSet& wanters, const Interval& in_wanted) const {
    return wanters.at(wanters.below(first_of_host(rank)) + chosen(1, on_host(wanters, rank), 0, in_wanted));
}

/// Visits each piece of the new slice of `rank`, in each partial sum: the piece, the partial sum, its
/// interval in the slice of its holders and in the new slice, and its holders.
template <class Visit>
void Reshard::for_each_need(int rank, const Visit& visit) const {
    if (!to_.mesh().contains(rank)) return;
    const auto wanted = to_.slice(rank);
    for_each_piece(from_, wanted, [&](const Piece& piece, const Interval& in_wanted) {
        const auto in_held = interval_in(piece.slice, from_.slice_at(piece.at));
        for (auto part = to_.part(rank); part < from_.parts(); part += to_.parts())
            visit(piece, part, in_held, in_wanted, detail::holders_of(from_, piece.at, part));
    });
}

inline std::vector<Kept> Reshard::keeps(int rank) const {
    auto out = std::vector<Kept>{};
    for_each_need(rank, [&](const Piece& piece, int part, const Interval&, const Interval&,
                            const detail::RankSet& holders) {
        if (holders.contains(rank)) out.push_back({part, piece.slice});
    });
    std::ranges::sort(out);
    return out;
}

inline std::vector<Transfer> Reshard::receives(int rank) const {
    auto out = std::vector<Transfer>{};
    for_each_need(rank, [&](const Piece& piece, int part, const Interval& in_held, const Interval& in_wanted,
                            const detail::RankSet& holders) {
        if (holders.contains(rank)) return;
        const auto wanters = detail::holders_of(to_, piece.at, to_.part(rank));
        if (on_host(holders, rank) > 0) {
            out.push_back({0, sender_on_host(rank, wanters, holders, in_held), part, piece.slice});
        } else if (const auto first = gateway(rank, wanters, in_wanted); first != rank) {
            out.push_back({1, first, part, piece.slice});
        } else {
            const auto hosts = hosts_that_want(wanters, holders);
            const auto sender =
                chosen(hosts.size(), holders.size(), hosts.below(first_of_host(rank)), in_held);
            out.push_back({0, holders.at(sender), part, piece.slice});
        }
    });
    std::ranges::sort(out);
    return out;
}

inline std::vector<Transfer> Reshard::sends(int rank) const {
    auto out = std::vector<Transfer>{};
    if (from_.mesh().contains(rank) && from_.slice(rank).elements() > 0) {
        add_sends_to_host(rank, out);
        add_sends_to_others(rank, out);
    }
    for_each_need(rank, [&](const Piece& piece, int part, const Interval&, const Interval& in_wanted,
                            const detail::RankSet& holders) {
        if (on_host(holders, rank) > 0) return;
        const auto wanters = detail::holders_of(to_, piece.at, to_.part(rank));
        if (gateway(rank, wanters, in_wanted) != rank) return;
        const auto begin = wanters.below(first_of_host(rank));
        for (int i = 0; i < on_host(wanters, rank); ++i)
            if (const auto peer = wanters.at(begin + i); peer != rank)
                out.push_back({1, peer, part, piece.slice});
    });
    std::ranges::sort(out);
    return out;
}

/// Adds what holder `rank` sends to ranks of its own host.
inline void Reshard::add_sends_to_host(int rank, std::vector<Transfer>& out) const {
    const auto held = from_.slice(rank);
    const auto part = from_.part(rank);
    const auto begin = first_of_host(rank);
    for (auto r = begin; r < begin + host_ && r < to_.mesh().extent(); ++r) {
        const auto peer = static_cast<int>(r);
        if (peer == rank || !to_.mesh().contains(peer) || part % to_.parts() != to_.part(peer)) continue;
        const auto slice = common(held, to_.slice(peer));
        if (slice.elements() == 0) continue;
        auto at = std::vector<std::int64_t>{};
        for (const auto& range : slice.ranges) at.push_back(range.begin);
        const auto holders = detail::holders_of(from_, at, part);
        if (holders.contains(peer)) continue;
        const auto wanters = detail::holders_of(to_, at, to_.part(peer));
        if (sender_on_host(peer, wanters, holders, interval_in(slice, held)) == rank)
            out.push_back({0, peer, part, slice});
    }
}

/// Adds what holder `rank` sends to hosts that hold no copy.
inline void Reshard::add_sends_to_others(int rank, std::vector<Transfer>& out) const {
    const auto held = from_.slice(rank);
    const auto part = from_.part(rank);
    const auto wanted_part = part % to_.parts();
    auto first = std::vector<std::int64_t>{};
    for (const auto& range : held.ranges) first.push_back(range.begin);
    const auto holders = detail::holders_of(from_, first, part);
    const auto choices = holders.size();
    const auto choice = holders.below(rank);
    // With fewer requests than holders, a holder serves only some pieces; skip all others.
    const auto all = held.elements();
    const auto some = detail::holders_of(to_, first, wanted_part).size() < choices;
    const auto from = some ? static_cast<std::int64_t>(Wide{all} * choice / choices) : 0;
    const auto until = some ? (Wide{all} * (choice + 1) + choices - 1) / choices : Wide{all};
    for_each_piece(to_, held, from, until, [&](const Piece& piece, const Interval& interval) {
        const auto wanters = detail::holders_of(to_, piece.at, wanted_part);
        const auto hosts = hosts_that_want(wanters, holders);
        for_each_chosen(hosts.size(), choices, choice, interval, [&](int number) {
            const auto there = hosts.at(number);
            if (hosts.below(first_of_host(there)) != number || on_host(holders, there) > 0) return;
            const auto wanted = to_.slice_at(piece.at);
            out.push_back({0, gateway(there, wanters, interval_in(piece.slice, wanted)), part, piece.slice});
        });
    });
}

}  // namespace rankmesh
