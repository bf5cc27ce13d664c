// SPDX-License-Identifier: Apache-2.0
// The settings of a layout: their words in texts, their names in JSON, and the values that they take.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/plan/search.hpp>
#include <rankmesh/plan/serve.hpp>

#include "plan/csv.hpp"

namespace rankmesh::plan {

using ValueWord = std::pair<std::string_view, int>;

/// A setting of a layout of the type `Of`. Each value is a number, and may have a word.
template <class Of>
struct Setting {
    std::string_view word;  ///< in texts: `mbs`; empty: a part of another setting
    std::string_view name;  ///< in JSON: `micro_batch`
    std::variant<int Of::*, bool Of::*, Recompute Of::*, Schedule Of::*> member;
    Range Options::*range;  ///< of the values that a search compares
    std::vector<ValueWord> words;
    int least;
    int most;
    int Of::*layers;  ///< a number of layers behind the last word, as in `full:3`

    template <class Value>
    Setting(std::string_view word, std::string_view name, Value Of::*member, Range Options::*range = nullptr,
            std::vector<ValueWord> words = {}, int least = 1, int most = std::numeric_limits<int>::max(),
            int Of::*layers = nullptr)
        : word(word),
          name(name),
          member(member),
          range(range),
          words(std::move(words)),
          least(least),
          most(most),
          layers(layers) {}

    int value(const Of& layout) const {
        return std::visit([&](auto at) { return static_cast<int>(layout.*at); }, member);
    }
    void set(Of& layout, int value) const {
        std::visit(
            [&](auto at) { layout.*at = static_cast<std::remove_cvref_t<decltype(layout.*at)>>(value); },
            member);
    }
    /// Returns the word of a value; "" if it has none.
    std::string_view word_of(int value) const {
        const auto known = std::ranges::find(words, value, &ValueWord::second);
        return known == words.end() ? std::string_view{} : known->first;
    }
    /// Returns false for a text that is none of its values.
    bool read(std::string_view text, Of& layout) const {
        if (words.empty()) {
            const auto number = detail::number_in(text);
            if (number) set(layout, *number);
            return number && *number >= least && *number <= most;
        }
        if (const auto colon = text.find(':'); layers != nullptr && colon != std::string_view::npos) {
            const auto number = detail::number_in(text.substr(colon + 1));
            if (!number || *number < 1 || text.substr(0, colon) != words.back().first) return false;
            layout.*layers = *number;
            text = text.substr(0, colon);
        }
        const auto known = std::ranges::find(words, text, &ValueWord::first);
        if (known != words.end()) set(layout, known->second);
        return known != words.end();
    }
    /// Returns `1 or more`, `0 to 3` or `one of 1f1b and zb`.
    std::string accepted() const {
        const auto unlimited = most == std::numeric_limits<int>::max();
        if (words.empty()) return unlimited ? cat(least, " or more") : cat(least, " to ", most);
        auto all = std::vector<std::string>{};
        for (const auto& one : words) all.emplace_back(one.first);
        return cat(all.size() > 1 ? "one of " : "", detail::listed(all),
                   layers == nullptr ? "" : cat(", or ", all.back(), ":N for N layers of each stage"));
    }
};

template <class Of>
struct Settings {
    std::string_view kind;  ///< for errors: `layout`
    std::string_view example;
    int most_ranks;
    std::size_t axes;              ///< the number of axes, which come first
    std::vector<Setting<Of>> all;  ///< in the order of texts

    const Setting<Of>& operator[](std::string_view word) const {
        return *std::ranges::find(all, word, &Setting<Of>::word);
    }
};

RANKMESH_EXPORT const Settings<Layout>& settings_of(const Layout& layout);
RANKMESH_EXPORT const Settings<ServeLayout>& settings_of(const ServeLayout& layout);

/// Returns the product of the axes besides `without`; at least 2^31 if it does not fit in an int.
template <class Of>
std::int64_t ranks_of(const Of& layout, std::string_view without = {}) {
    auto all = std::int64_t{1};
    const auto& settings = settings_of(layout);
    for (std::size_t i = 0; i < settings.axes; ++i)
        if (const auto& one = settings.all[i]; one.word != without)
            all = std::min(all, std::int64_t{1} << 31) * one.value(layout);
    return all;
}

/// Throws UsageError, which begins with `the layout has `, for a number outside the range of its setting.
template <class Of>
void check_numbers(const Of& layout) {
    for (const auto& one : settings_of(layout).all)
        if (const auto value = one.value(layout);
            one.words.empty() && (value < one.least || value > one.most))
            throw UsageError(cat("the layout has ", one.word.empty() ? one.name : one.word, "=", value,
                                 "; it takes ", one.accepted()));
}

/// Sets what a word such as `tp=8` says. Returns its setting. Throws UsageError for any other text.
template <class Of>
const Setting<Of>& read_word(std::string_view word, Of& layout) {
    const auto& settings = settings_of(layout);
    const auto [name, value] = name_and_value(word);
    const auto found = std::ranges::find(settings.all, name, &Setting<Of>::word);
    if (name.empty() || found == settings.all.end()) {
        auto names = std::vector<std::string_view>{};
        for (const auto& one : settings.all)
            if (!one.word.empty()) names.push_back(one.word);
        throw UsageError(cat(in_quotes(word), " is not part of a ", settings.kind, " such as ",
                             settings.example, "; parts are ", listed(names), did_you_mean(name, names)));
    }
    if (!found->read(value, layout))
        throw UsageError(cat("the layout's ", name, " is ", in_quotes(value), "; it must be ",
                             found->words.empty() ? "a whole number of " : "", found->accepted()));
    return *found;
}

}  // namespace rankmesh::plan
