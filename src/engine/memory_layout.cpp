// SPDX-License-Identifier: Apache-2.0
#include "engine/memory_layout.hpp"

#include <algorithm>
#include <cstring>
#include <ranges>

#include <rankmesh/core/error.hpp>
#include <rankmesh/engine/strided.hpp>

namespace rankmesh::detail {
namespace of_memory_layout {

/// A dimension along which elements are copied, with the strides on both sides.
struct Step {
    std::ptrdiff_t extent;
    std::ptrdiff_t from;
    std::ptrdiff_t to;
};

template <std::size_t fixed = 0>
void copy_runs(const Step& step, std::size_t run, const char* from, char* to) {
    for (std::ptrdiff_t i = 0; i < step.extent; ++i) {
        std::memcpy(to, from, fixed > 0 ? fixed : run);
        from += step.from;
        to += step.to;
    }
}

void copy(std::span<const Step> steps, std::size_t run, const char* from, char* to) {
    const auto& outer = steps.front();
    if (steps.size() > 1) {
        for (std::ptrdiff_t i = 0; i < outer.extent; ++i)
            copy(steps.subspan(1), run, from + i * outer.from, to + i * outer.to);
        return;
    }
    switch (run) {  // a copy of a known length is one instruction
        case 1:
            return copy_runs<1>(outer, run, from, to);
        case 2:
            return copy_runs<2>(outer, run, from, to);
        case 4:
            return copy_runs<4>(outer, run, from, to);
        case 8:
            return copy_runs<8>(outer, run, from, to);
        case 16:
            return copy_runs<16>(outer, run, from, to);
        default:
            return copy_runs(outer, run, from, to);
    }
}

/// Copies the elements of a layout; on a side that is packed they lie one after the other.
void copy(const MemoryLayout& layout, const char* from, bool from_packed, char* to, bool to_packed) {
    auto steps = std::array<Step, MemoryLayout::most>();
    const auto dimensions = layout.dimensions();
    auto packed = static_cast<std::ptrdiff_t>(layout.run());
    for (auto i = dimensions.size(); i-- > 0;) {
        const auto [extent, stride] = dimensions[i];
        steps[i] = {extent, from_packed ? packed : stride, to_packed ? packed : stride};
        packed *= extent;
    }
    copy({steps.data(), dimensions.size()}, layout.run(), from, to);
}

/// A multiple of `stride`, from `least` times to `most` times.
struct Term {
    std::ptrdiff_t stride;
    std::ptrdiff_t least;
    std::ptrdiff_t most;
};

/// Whether a sum of multiples lies between two bounds, excluding both.
class Search {
public:
    explicit Search(std::vector<Term> terms) : terms_(std::move(terms)), rest_(terms_.size() + 1) {
        for (auto i = terms_.size(); i-- > 0;)
            rest_[i] = {rest_[i + 1].low + terms_[i].stride * terms_[i].least,
                        rest_[i + 1].high + terms_[i].stride * terms_[i].most};
    }
    bool reaches(std::ptrdiff_t low, std::ptrdiff_t high, std::size_t from = 0) {
        if (rest_[from].low >= high || rest_[from].high <= low) return false;
        if (from == terms_.size() || --steps_ < 0) return true;
        const auto& term = terms_[from];
        const auto& rest = rest_[from + 1];
        const auto first = std::max(term.least, (low - rest.high) / term.stride - 1);
        const auto last = std::min(term.most, (high - rest.low) / term.stride + 1);
        for (auto times = first; times <= last; ++times)
            if (reaches(low - times * term.stride, high - times * term.stride, from + 1)) return true;
        return false;
    }

private:
    struct Bounds {
        std::ptrdiff_t low = 0;
        std::ptrdiff_t high = 0;
    };
    std::vector<Term> terms_;
    std::vector<Bounds> rest_;  // the least and the greatest sum of the terms from each on
    int steps_ = 10'000;        // then they may overlap
};

/// Adds the offsets of a layout, or of their negatives; returns the offset of the lowest element.
std::ptrdiff_t add_terms(std::vector<Term>& terms, const MemoryLayout& layout, bool negative) {
    auto lowest = std::ptrdiff_t{0};
    for (auto [extent, stride] : layout.dimensions()) {
        if (stride == 0) continue;
        if (stride < 0) lowest += stride * (extent - 1);
        const auto range = Term{std::abs(stride), negative ? 1 - extent : 0, negative ? 0 : extent - 1};
        const auto found = std::ranges::find(terms, range.stride, &Term::stride);
        if (found == terms.end()) {
            terms.push_back(range);
        } else {
            found->least += range.least;
            found->most += range.most;
        }
    }
    return lowest;
}

}  // namespace of_memory_layout

void wrong_slice(std::size_t axis, std::ptrdiff_t first, std::ptrdiff_t count, std::size_t dimensions,
                 std::ptrdiff_t extent) {
    if (axis >= dimensions)
        throw UsageError(cat("slice along dimension ", axis, " of a view of ", dimensions,
                             " dimensions, which are 0..", dimensions - 1));
    throw UsageError(cat("slice of ", count, " indices from ", first, " on along dimension ", axis,
                         ", which has ", extent));
}

void add_dimension(MemoryLayout& to, std::ptrdiff_t extent, std::ptrdiff_t stride) {
    if (extent < 0)
        throw UsageError(cat("a strided buffer has an extent of ", extent, "; extents are 0 or more"));
    if (extent == 1) return;
    if (to.rank_ > 0) {
        auto& outer = to.dimensions_[to.rank_ - 1];
        if (outer.stride == extent * stride) {
            outer = {outer.extent * extent, stride};
            return;
        }
    }
    if (to.rank_ == MemoryLayout::most)
        throw UsageError(cat("a strided buffer has more than ", MemoryLayout::most,
                             " dimensions that do not lie like fewer; copy it to contiguous memory"));
    to.dimensions_[to.rank_++] = {extent, stride};
}

void end_dimensions(MemoryLayout& of) {
    auto& rank = of.rank_;
    if (std::ranges::any_of(of.dimensions(), [](const auto& each) { return each.extent == 0; })) rank = 0;
    if (rank == 0 || of.dimensions_[rank - 1].stride != static_cast<std::ptrdiff_t>(of.run_)) return;
    of.run_ *= static_cast<std::size_t>(of.dimensions_[--rank].extent);
}

bool operator==(const MemoryLayout& a, const MemoryLayout& b) {
    return a.run_ == b.run_ && std::ranges::equal(a.dimensions(), b.dimensions());
}

void pack(const MemoryLayout& layout, const char* from, char* to) {
    of_memory_layout::copy(layout, from, false, to, true);
}
void unpack(const MemoryLayout& layout, const char* from, char* to) {
    of_memory_layout::copy(layout, from, true, to, false);
}
void copy(const MemoryLayout& layout, std::size_t bytes, const char* from, char* to) {
    if (!layout.is_contiguous())
        of_memory_layout::copy(layout, from, false, to, false);
    else if (bytes > 0)
        std::memcpy(to, from, bytes);
}

bool overlap(const Place& a, const Place& b) {
    if (a.bytes == 0 || b.bytes == 0) return false;
    const auto run = [](const Place& of) {
        return static_cast<std::ptrdiff_t>(of.layout.is_contiguous() ? of.bytes : of.layout.run());
    };
    auto terms = std::vector<of_memory_layout::Term>{};
    auto apart = static_cast<std::ptrdiff_t>(reinterpret_cast<std::uintptr_t>(a.data) -
                                             reinterpret_cast<std::uintptr_t>(b.data));
    apart += of_memory_layout::add_terms(terms, a.layout, false);
    apart -= of_memory_layout::add_terms(terms, b.layout, true);
    std::ranges::sort(terms, std::ranges::greater(), &of_memory_layout::Term::stride);
    // A run of a and one of b, `sum + apart` bytes further, meet.
    return of_memory_layout::Search(std::move(terms)).reaches(-run(a) - apart, run(b) - apart);
}

bool overlaps_itself(const MemoryLayout& layout) {
    // Each dimension must reach beyond the elements of those inside it.
    const auto nests = [&](const auto& from_the_innermost) {
        auto reach = static_cast<std::ptrdiff_t>(layout.run());
        for (auto [extent, stride] : from_the_innermost) {
            if (std::abs(stride) < reach) return false;
            reach += std::abs(stride) * (extent - 1);
        }
        return true;
    };
    if (nests(std::views::reverse(layout.dimensions()))) return false;
    auto sorted = std::vector(layout.dimensions().begin(), layout.dimensions().end());
    std::ranges::sort(sorted, {}, [](const auto& of) { return std::abs(of.stride); });
    return !nests(sorted);
}

}  // namespace rankmesh::detail
