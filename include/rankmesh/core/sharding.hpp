// SPDX-License-Identifier: Apache-2.0
// Sharding, which part of an array each rank of a mesh holds.
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

inline constexpr std::size_t max_dimensions = 16;  ///< most dimensions of one array

/// The indices `begin` to `end` of one dimension, without `end`.
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t size() const { return end - begin; }
    friend bool operator==(const Range&, const Range&) = default;
    friend auto operator<=>(const Range&, const Range&) = default;
};

/// A part of an array: one range for each dimension, `[0:512, 0:4096]`.
struct Slice {
    std::vector<Range> ranges;

    /// Returns the number of elements; 1 for an array without dimensions.
    std::int64_t elements() const {
        auto count = std::int64_t{1};
        for (const auto& range : ranges) count *= range.size();
        return count;
    }
    friend bool operator==(const Slice&, const Slice&) = default;
    friend auto operator<=>(const Slice&, const Slice&) = default;
};

/// Returns the intersection of two slices, which may be empty.
///
/// [0:4, 0:6] and [2:8, 0:6] | common -> [2:4, 0:6]
Slice common(const Slice& a, const Slice& b);
std::string to_string(const Slice& slice);

/// How an array is sharded over a mesh: for each dimension the axes that split it, in order, and the axes
/// whose ranks hold partial sums. The array is replicated along all other axes.
///
/// Uneven sizes follow torch's DTensor: `0=dp,tp` splits dimension 0 along dp into chunks of ceil(size / dp),
/// then each chunk along tp. The last chunks may be shorter or empty. `0=tp:megatron` follows Megatron's
/// vocabulary: each rank's part is padded to a multiple of 128 (`0=tp:megatron64`: of 64). Padding belongs to
/// no slice.
///
/// Law: `Split::parse(to_string(split)) == split`.
struct Split {
    struct Dimension {
        std::vector<std::string> axes;  ///< the first splits first; empty: not split
        int padded = 0;  ///< 0: chunks as in torch; else each part is a multiple of this, as in Megatron
        friend bool operator==(const Dimension&, const Dimension&) = default;
    };
    std::vector<Dimension> dimensions;  ///< dimensions beyond the end are not split
    std::vector<std::string> sums;      ///< the axes along which the ranks hold partial sums

    /// Reads `0=dp,tp 1=cp:megatron sum=pp`, or `replicated` for no split. Throws UsageError for any other
    /// text.
    static Split parse(std::string_view text);
    friend bool operator==(const Split&, const Split&) = default;
};
std::string to_string(const Split& split);

class Sharding;
namespace detail {
/// Returns the ranks that hold the element at `at` in partial sum `part`.
RankSet holders_of(const Sharding& sharding, std::span<const std::int64_t> at, int part);
}  // namespace detail

/// An array of one shape, sharded over one mesh: knows the slice of each rank.
///
/// dp=2 tp=4, shape 10, split 0=tp | slice(0..3) -> [0:3] [3:6] [6:9] [9:10]
/// dp=2 tp=4, shape 10x6, split 0=dp,tp | slice(0..3) -> [0:2, 0:6] [2:4, 0:6] [4:5, 0:6] [5:5, 0:6]
/// dp=2 tp=4, shape 10x6, split 1=dp 0=tp | slice(5) -> [3:6, 3:6]
///
/// Law: the slices of ranks that differ only along splitting axes cover the array and do not overlap.
///
///     to_string(Sharding(Mesh{{"dp", 2}, {"tp", 4}}, {1000, 64}, Split::parse("0=tp")).slice(7)) ==
///         "[750:1000, 0:64]"
class Sharding {
public:
    /// Makes a sharding. Throws UsageError for an unknown or repeated axis, a dimension that the shape does
    /// not have, more than max_dimensions dimensions, a size below 0, or 2^62 elements or more.
    Sharding(const Mesh& mesh, std::vector<std::int64_t> shape, const Split& split);

    const Mesh& mesh() const { return mesh_; }
    std::span<const std::int64_t> shape() const { return shape_; }
    const Split& split() const { return split_; }

    /// Returns the slice of `rank`. Throws UsageError if the mesh does not contain `rank`.
    Slice slice(Int rank) const;
    /// Returns the number of the partial sum that `rank` holds; 0 without partial sums.
    int part(Int rank) const { return flat(rank, sums_); }
    /// Returns the number of partial sums that add up to the array; 1 without partial sums.
    int parts() const { return parts_; }

    /// Returns the slice that contains the element at `at`.
    Slice slice_at(std::span<const std::int64_t> at) const;

private:
    friend detail::RankSet detail::holders_of(const Sharding& sharding, std::span<const std::int64_t> at,
                                              int part);

    struct Cut {
        std::vector<AxisId> axes;
        std::vector<int> counts;  // pieces of each cut, the outermost first
        int multiple = 1;         // the length of each piece is a multiple of this
    };
    /// A piece of a dimension, and its number among all pieces; the last of `counts` varies fastest.
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
    std::vector<Cut> cuts_;  // one for each dimension
    std::vector<AxisId> sums_;
    std::vector<Digit> replicas_;  // digits of the axes along which the array is replicated
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

/// Returns the shape as text, `4096x64`; `()` for an array without dimensions.
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
                cut.counts.front() *= count;  // all pieces have one length in Megatron
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
