// SPDX-License-Identifier: Apache-2.0
// Names of axes: their rules, lists of names, and suggestions for misspelled names.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/core/error.hpp>

namespace rankmesh {

inline constexpr int max_axes = 16;         ///< most axes of one mesh
inline constexpr int max_name_length = 31;  ///< most characters of one name
inline constexpr int name_pool_size = 192;  ///< most characters of all names of one mesh together

/// Returns true for the characters of a name: letters, digits, `_`, `-` and `.`.
constexpr bool is_name_character(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/// Returns `name`. Throws UsageError unless it is 1 to 31 letters, digits, `_`, `-` or `.`.
constexpr std::string_view checked_name(std::string_view name) {
    if (name.empty())
        throw UsageError("an axis has an empty name; names are 1 to 31 letters, digits, '_', '-' or '.'");
    if (name.size() > max_name_length)
        throw UsageError(detail::cat("the name ", detail::in_quotes(name), " has ", name.size(),
                                     " characters; at most ", max_name_length, " fit"));
    for (std::size_t i = 0; i < name.size(); ++i)
        if (!is_name_character(name[i]))
            throw UsageError(detail::cat("the name ", detail::in_quotes(name), " holds the character ",
                                         detail::in_quotes(detail::first_character(name.substr(i))),
                                         "; names are letters, digits, '_', '-' or '.'"));
    return name;
}

/// An ordered list of at most 16 distinct names, stored in one array of characters.
class Names {
public:
    constexpr int size() const { return count_; }

    constexpr std::string_view operator[](int i) const {
        const auto at = static_cast<std::size_t>(i);
        return {pool_.data() + begin_[at], static_cast<std::size_t>(begin_[at + 1] - begin_[at])};
    }

    /// Returns the position of `name`, or -1 if it is not in the list.
    constexpr int find(std::string_view name) const {
        for (int i = 0; i < count_; ++i)
            if ((*this)[i] == name) return i;
        return -1;
    }

    /// Appends `name`. Throws UsageError if it is invalid or already in the list, or if the list is full.
    constexpr void push_back(std::string_view name) {
        checked_name(name);
        if (find(name) >= 0)
            throw UsageError(detail::cat("the axis '", name, "' is listed twice; every name stands once"));
        if (count_ == max_axes)
            throw UsageError(detail::cat("the axis '", name, "' is number ", max_axes + 1,
                                         "; a mesh has at most ", max_axes));
        const auto begin = begin_[static_cast<std::size_t>(count_)];
        if (begin + name.size() > pool_.size())
            throw UsageError(detail::cat("the names up to '", name, "' have ", begin + name.size(),
                                         " characters together; a mesh has room for ", name_pool_size));
        std::copy(name.begin(), name.end(), pool_.begin() + begin);
        ++count_;
        begin_[static_cast<std::size_t>(count_)] = static_cast<std::uint8_t>(begin + name.size());
    }

    friend constexpr bool operator==(const Names&, const Names&) = default;

private:
    std::array<char, name_pool_size> pool_{};
    std::array<std::uint8_t, max_axes + 1> begin_{};
    std::uint8_t count_ = 0;
};

/// Returns the fewest insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`.
/// Upper and lower case are equal.
inline int edit_distance(std::string_view a, std::string_view b) {
    const auto same = [](char x, char y) {
        const auto small = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
        return small(x) == small(y);
    };
    auto before = std::vector<int>(b.size() + 1);
    auto last = before;
    auto now = before;
    for (std::size_t j = 0; j <= b.size(); ++j) last[j] = static_cast<int>(j);
    for (std::size_t i = 1; i <= a.size(); ++i) {
        now[0] = static_cast<int>(i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            now[j] =
                std::min({last[j] + 1, now[j - 1] + 1, last[j - 1] + (same(a[i - 1], b[j - 1]) ? 0 : 1)});
            if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
                now[j] = std::min(now[j], before[j - 2] + 1);
        }
        before = last;
        last = now;
    }
    return last[b.size()];
}

/// Returns the candidate with the smallest edit distance to `word`, or "" if none is near. Near means that at
/// most a third of the letters of `word` change, but at least one may, and never all letters of the
/// candidate. Of equally near candidates, one with the first letter of `word` wins.
///
///     nearest("ttp", {"pp", "dp", "tp"}) == "tp"
inline std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
    const auto most = std::max(1, static_cast<int>(word.size()) / 3);
    auto best = std::string_view{};
    auto least = 2 * most + 2;
    for (auto candidate : candidates) {
        const auto distance = edit_distance(word, candidate);
        if (distance > most || distance >= static_cast<int>(candidate.size())) continue;
        const auto score = 2 * distance + (word.substr(0, 1) == candidate.substr(0, 1) ? 0 : 1);
        if (score >= least) continue;
        least = score;
        best = candidate;
    }
    return best;
}

/// Returns `; did you mean 'tp'?`, or "" if no candidate is near.
inline std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
    const auto best = nearest(word, candidates);
    return best.empty() ? std::string{} : detail::cat("; did you mean '", best, "'?");
}

namespace detail {

/// `mpi, gloo, nccl`
inline std::string with_commas(const auto& words) {
    auto text = std::string{};
    for (const auto& word : words) append(text, cat(text.empty() ? "" : ", ", word));
    return text;
}

/// `mpi, gloo and nccl`
inline std::string listed(const std::vector<std::string>& words) {
    auto text = std::string{};
    for (std::size_t i = 0; i < words.size(); ++i)
        append(text, cat(i == 0 ? "" : i + 1 == words.size() ? " and " : ", ", words[i]));
    return text;
}

}  // namespace detail

}  // namespace rankmesh
