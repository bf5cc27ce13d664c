// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/detail/rank_set.hpp>
#include <rankmesh/core/detail/reader.hpp>
#include <rankmesh/core/mesh.hpp>

namespace rankmesh {

inline constexpr std::size_t max_dimensions = 16;  ///< of one array

/// The elements `begin` to `end` of one dimension, without `end`.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t size() const { return end - begin; }
    friend bool operator==(const Range&, const Range&) = default;
    friend auto operator<=>(const Range&, const Range&) = default;
};

/// A part of an array: a range of each dimension, `[0:512, 0:4096]`.
struct Slice {
    std::vector<Range> ranges;

    /// The number of elements; 1 of an array without dimensions.
    std::int64_t elements() const {
        auto count = std::int64_t{1};
        for (const auto& range : ranges) count *= range.size();
        return count;
    }
    friend bool operator==(const Slice&, const Slice&) = default;
    friend auto operator<=>(const Slice&, const Slice&) = default;
};

/// The elements that are in both slices; of no elements where there are none.
Slice common(const Slice& a, const Slice& b);
std::string to_string(const Slice& slice);

/// How an array is split over a mesh: the axes that split each dimension, in the order in which they do, and
/// the axes whose ranks hold partial sums; along all others it is replicated.
///
/// A size that does not divide is split as torch's DTensor does: `0=dp,tp` cuts dimension 0 along dp into
/// chunks of the size divided by that of dp, rounded up, so that the last are shorter or empty, then each
/// chunk along tp. `0=tp:megatron` cuts it as Megatron does its vocabulary: padded to a multiple of 128 for
/// each rank; `0=tp:megatron64` of 64. What is padding belongs to no slice.
///
/// Law: `Split::parse(to_string(split)) == split`.
struct Split {
    struct Dimension {
        std::vector<std::string> axes;  ///< the first cuts first; none: not split
        int padded = 0;  ///< 0: torch's chunks; else Megatron's padding to a multiple of it for each rank
        friend bool operator==(const Dimension&, const Dimension&) = default;
    };
    std::vector<Dimension> dimensions;  ///< those beyond its end are not split
    std::vector<std::string> sums;      ///< the axes along which the ranks hold partial sums

    /// Reads `0=dp,tp 1=cp:megatron sum=pp`, and `replicated` for no split at all; throws UsageError.
    static Split parse(std::string_view text);
    friend bool operator==(const Split&, const Split&) = default;
};
std::string to_string(const Split& split);

class Sharding;
namespace detail {
/// The ranks that hold the element at `at`, of partial sum `part`.
RankSet holders_of(const Sharding& sharding, std::span<const std::int64_t> at, int part);
}  // namespace detail

/// An array of one shape, split over one mesh: which slice each rank holds.
///
/// Law: the slices of the ranks that differ only along the axes that split cover the array and do not
/// overlap.
///
///     to_string(Sharding(Mesh{{"dp", 2}, {"tp", 4}}, {1000, 64}, Split::parse("0=tp")).slice(7)) ==
///         "[750:1000, 0:64]"
class Sharding {
public:
    /// Throws UsageError for an axis that the mesh does not have or that is named twice, a dimension that the
    /// shape does not have, more than max_dimensions, a size below 0, or 2^62 elements or more.
    Sharding(const Mesh& mesh, std::vector<std::int64_t> shape, const Split& split);

    const Mesh& mesh() const { return mesh_; }
    std::span<const std::int64_t> shape() const { return shape_; }
    const Split& split() const { return split_; }

    /// What `rank` holds; throws UsageError if the mesh does not contain it.
    Slice slice(Int rank) const;
    /// Which of the partial sums `rank` holds, 0 where there are none.
    int part(Int rank) const { return flat(rank, sums_); }
    /// The number of partial sums that add up to the array, 1 where there are none.
    int parts() const { return parts_; }

    /// The slice of the ranks that hold the element at `at`.
    Slice slice_at(std::span<const std::int64_t> at) const;

private:
    friend detail::RankSet detail::holders_of(const Sharding& sharding, std::span<const std::int64_t> at,
                                              int part);

    struct Cut {
        std::vector<AxisId> axes;
        std::vector<int> counts;  // of each cut, the outermost first
        int multiple = 1;         // each piece is one of it
    };
    /// A piece of a dimension, and its number in mixed radix of `counts`.
    struct Piece {
        Range range;
        int number = 0;
    };

    static std::int64_t length(const Range& range, int count, int multiple) {
        const auto units = std::int64_t{count} * multiple;
        return (range.size() + units - 1) / units * multiple;
    }
    Piece piece_at(std::size_t dimension, std::int64_t at) const;
    int flat(int rank, std::span<const AxisId> axes) const {
        auto number = 0;
        for (auto axis : axes) number = number * mesh_.size(axis) + mesh_.index(rank, axis);
        return number;
    }
    void unflatten(int number, std::span<const AxisId> axes, std::span<int> indices) const {
        for (auto axis = axes.rbegin(); axis != axes.rend(); ++axis) {
            indices[static_cast<std::size_t>(axis->index)] = number % mesh_.size(*axis);
            number /= mesh_.size(*axis);
        }
    }

    Mesh mesh_;
    std::vector<std::int64_t> shape_;
    Split split_;
    std::vector<Cut> cuts_;  // one a dimension
    std::vector<AxisId> sums_;
    std::vector<Digit> replicas_;  // of the axes that neither split nor sum
    int parts_ = 1;
};

inline Slice common(const Slice& a, const Slice& b) {
    auto both = Slice{};
    for (std::size_t d = 0; d < a.ranges.size(); ++d) {
        const auto begin = std::max(a.ranges[d].begin, b.ranges[d].begin);
        both.ranges.push_back({begin, std::max(begin, std::min(a.ranges[d].end, b.ranges[d].end))});
    }
    return both;
}

inline std::string to_string(const Slice& slice) {
    auto out = std::string("[");
    for (const auto& range : slice.ranges)
        detail::append(out, detail::cat(out.size() > 1 ? ", " : "", range.begin, ":", range.end));
    return out + "]";
}

inline std::ostream& operator<<(std::ostream& out, const Slice& slice) { return out << to_string(slice); }

namespace detail {

/// The sizes of an array as in `4096x64`, `()` of one without dimensions.
inline std::string text_of_shape(std::span<const std::int64_t> shape) {
    auto out = std::string{};
    for (auto size : shape) append(out, cat(out.empty() ? "" : "x", size));
    return out.empty() ? "()" : out;
}

}  // namespace detail

inline Split Split::parse(std::string_view text) {
    auto reader = detail::Reader("split", text);
    auto split = Split{};
    auto seen = std::vector<int>{};
    reader.blanks();
    if (reader.accept("replicated")) {
        reader.end();
        return split;
    }
    while (!reader.done()) {
        auto dimension = Dimension{};
        const auto sums = reader.accept("sum=");
        auto number = -1;  // of the sums
        if (!sums) {
            if (reader.peek() < '0' || reader.peek() > '9')
                reader.fail("a dimension such as '0=dp,tp', or 'sum=pp'");
            number = reader.number();
            if (static_cast<std::size_t>(number) >= max_dimensions)
                throw UsageError(detail::cat("the split ", detail::in_quotes(text), " names dimension ",
                                             number, "; an array has at most ", max_dimensions));
            reader.expect("=");
        }
        if (std::ranges::find(seen, number) != seen.end())
            throw UsageError(detail::cat("the split ", detail::in_quotes(text), " says twice what splits ",
                                         sums ? std::string("into sums") : detail::cat("dimension ", number),
                                         "; list its axes together, as in 0=dp,tp"));
        seen.push_back(number);
        do dimension.axes.emplace_back(reader.name());
        while (reader.accept(","));
        if (!sums && reader.accept(":")) {
            reader.expect("megatron");
            dimension.padded = reader.at_separator() ? 128 : reader.number();
            if (dimension.padded < 1) reader.fail("a multiple of 1 or more");
        }
        if (!reader.at_separator()) reader.fail("a blank or the end");
        reader.blanks();
        if (sums) {
            split.sums = dimension.axes;
        } else {
            if (split.dimensions.size() <= static_cast<std::size_t>(number))
                split.dimensions.resize(static_cast<std::size_t>(number) + 1);
            split.dimensions[static_cast<std::size_t>(number)] = std::move(dimension);
        }
    }
    return split;
}

inline std::string to_string(const Split& split) {
    auto out = std::string{};
    const auto entry = [&](std::string_view key, const std::vector<std::string>& axes) {
        if (axes.empty()) return;
        detail::append(out, detail::cat(out.empty() ? "" : " ", key, "="));
        for (std::size_t i = 0; i < axes.size(); ++i)
            detail::append(out, detail::cat(i > 0 ? "," : "", axes[i]));
    };
    for (std::size_t d = 0; d < split.dimensions.size(); ++d) {
        const auto& [axes, padded] = split.dimensions[d];
        entry(std::to_string(d), axes);
        if (padded > 0 && !axes.empty())
            detail::append(out, padded == 128 ? std::string(":megatron") : detail::cat(":megatron", padded));
    }
    entry("sum", split.sums);
    return out.empty() ? "replicated" : out;
}

inline std::ostream& operator<<(std::ostream& out, const Split& split) { return out << to_string(split); }

inline Sharding::Sharding(const Mesh& mesh, std::vector<std::int64_t> shape, const Split& split)
    : mesh_(mesh), shape_(std::move(shape)), split_(split) {
    if (shape_.size() > max_dimensions)
        throw UsageError(detail::cat("an array of shape ", detail::text_of_shape(shape_), " has ",
                                     shape_.size(), " dimensions; at most ", max_dimensions,
                                     " can be split"));
    auto elements = std::int64_t{1};
    for (auto size : shape_) {
        if (size < 0)
            throw UsageError(detail::cat("an array of shape ", detail::text_of_shape(shape_),
                                         " has a dimension of size ", size, "; sizes are 0 or more"));
        if (size > 0 && elements > ((std::int64_t{1} << 62) - 1) / size)
            throw UsageError(detail::cat("an array of shape ", detail::text_of_shape(shape_),
                                         " has 2^62 elements or more; fewer can be counted"));
        elements *= std::max(size, std::int64_t{1});
    }
    auto used = AxisSet{};
    const auto take = [&](const std::string& name) {
        const auto axis = mesh_.axis(name);
        if (used.contains(axis))
            throw UsageError(detail::cat("the split ", detail::in_quotes(to_string(split_)), " names axis '",
                                         name, "' twice; an axis splits one dimension, or into sums"));
        used.insert(axis);
        return axis;
    };
    cuts_.resize(shape_.size());
    for (std::size_t d = 0; d < split_.dimensions.size(); ++d) {
        const auto& [axes, padded] = split_.dimensions[d];
        if (axes.empty()) continue;
        if (d >= shape_.size())
            throw UsageError(detail::cat("the split ", detail::in_quotes(to_string(split_)),
                                         " splits dimension ", d, " of an array of ",
                                         detail::counted(shape_.size(), "dimension")));
        if (padded < 0)
            throw UsageError(detail::cat("dimension ", d, " is padded to a multiple of ", padded,
                                         "; multiples are 1 or more, and 0 is torch's chunks"));
        auto& cut = cuts_[d];
        for (const auto& name : axes) {
            cut.axes.push_back(take(name));
            const auto count = mesh_.size(cut.axes.back());
            if (padded > 0 && !cut.counts.empty())
                cut.counts.front() *= count;  // Megatron's pieces are all of one length
            else
                cut.counts.push_back(count);
        }
        cut.multiple = std::max(padded, 1);
    }
    for (const auto& name : split_.sums) {
        sums_.push_back(take(name));
        parts_ *= mesh_.size(sums_.back());
    }
    for (int a = 0; a < mesh_.axis_count(); ++a) {
        if (used.contains({a})) continue;
        const auto layout = mesh_.layout(AxisId{a});
        for (int k = 0; k < layout.digit_count(); ++k) replicas_.push_back(layout.digit(k));
    }
}

inline Slice Sharding::slice(Int rank) const {
    if (!mesh_.contains(rank)) static_cast<void>(mesh_.coord(rank));  // throws
    auto slice = Slice{};
    for (std::size_t d = 0; d < shape_.size(); ++d) {
        const auto& cut = cuts_[d];
        auto range = Range{0, shape_[d]};
        auto inner = 1;
        for (auto count : cut.counts) inner *= count;
        const auto number = flat(rank, cut.axes);
        for (auto count : cut.counts) {
            inner /= count;
            const auto each = length(range, count, cut.multiple);
            const auto begin = std::min(range.begin + number / inner % count * each, range.end);
            range = {begin, std::min(begin + each, range.end)};
        }
        slice.ranges.push_back(range);
    }
    return slice;
}

inline Sharding::Piece Sharding::piece_at(std::size_t dimension, std::int64_t at) const {
    auto piece = Piece{{0, shape_[dimension]}, 0};
    for (auto count : cuts_[dimension].counts) {
        const auto each = length(piece.range, count, cuts_[dimension].multiple);
        const auto index = (at - piece.range.begin) / each;
        const auto begin = piece.range.begin + index * each;
        piece = {{begin, std::min(begin + each, piece.range.end)},
                 piece.number * count + static_cast<int>(index)};
    }
    return piece;
}

inline Slice Sharding::slice_at(std::span<const std::int64_t> at) const {
    auto slice = Slice{};
    for (std::size_t d = 0; d < shape_.size(); ++d) slice.ranges.push_back(piece_at(d, at[d]).range);
    return slice;
}

inline detail::RankSet detail::holders_of(const Sharding& sharding, std::span<const std::int64_t> at,
                                          int part) {
    auto indices = std::array<int, max_axes>{};
    for (std::size_t d = 0; d < sharding.shape_.size(); ++d)
        sharding.unflatten(sharding.piece_at(d, at[d]).number, sharding.cuts_[d].axes, indices);
    sharding.unflatten(part, sharding.sums_, indices);
    const auto count = static_cast<std::size_t>(sharding.mesh_.axis_count());
    return {sharding.mesh_.rank_at(std::span<const int>(indices.data(), count)), sharding.replicas_};
}

}  // namespace rankmesh
