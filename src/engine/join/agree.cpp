// SPDX-License-Identifier: Apache-2.0
#include "engine/join/agree.hpp"

#include <algorithm>
#include <exception>
#include <limits>

#include <rankmesh/core/text.hpp>

#include "engine/fields.hpp"
#include "engine/hash.hpp"
#include "engine/join/gather.hpp"

namespace rankmesh::detail {
namespace {

constexpr std::size_t most_classes = 8;  // descriptions that an error lists, which bounds every message

struct Class {
    std::string description;  // "" for all classes beyond the bound
    std::vector<int> ranks;
};

/// Adds the ranks of `added` to the class of the same description.
void merge(std::vector<Class>& classes, Class added) {
    const auto found = std::ranges::find(classes, added.description, &Class::description);
    if (found == classes.end()) {
        classes.push_back(std::move(added));
        return;
    }
    found->ranks.insert(found->ranks.end(), added.ranks.begin(), added.ranks.end());
    std::ranges::sort(found->ranks);
}

/// Sorts the classes for the error, largest first, and merges those beyond the bound into a last one.
void fold(std::vector<Class>& classes) {
    std::ranges::stable_sort(classes, [](const Class& a, const Class& b) {
        if (a.description.empty() != b.description.empty()) return b.description.empty();
        return a.ranks.size() > b.ranks.size();
    });
    auto further = Class{};
    while (classes.size() > most_classes) {
        further.ranks.insert(further.ranks.end(), classes[most_classes].ranks.begin(),
                             classes[most_classes].ranks.end());
        classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(most_classes));
    }
    std::ranges::sort(further.ranks);
    if (!further.ranks.empty()) classes.push_back(std::move(further));
}

/// Ranks are sent in the notation of groups, which is short however many there are.
std::string pack(const std::vector<Class>& classes) {
    auto bytes = std::string{};
    for (const auto& each : classes) {
        const auto ranks = ranks_to_string(each.ranks);
        append(bytes, cat(ranks.size(), " ", each.description.size(), " ", ranks, each.description));
    }
    return bytes;
}

std::vector<Class> unpack(const std::string& bytes) {
    auto classes = std::vector<Class>{};
    for (auto fields = Fields(bytes, "what another rank declares"); !fields.at_end();) {
        const auto ranks = fields.number();
        const auto text = fields.number();
        try {
            auto read = parse_ranks(fields.part(ranks), std::numeric_limits<int>::max());
            classes.push_back({fields.part(text), std::move(read)});
        } catch (const UsageError&) {
            fields.throw_unreadable();
        }
    }
    return classes;
}

/// All classes, on every rank.
std::vector<Class> classes_of(Exchange& exchange, const std::string& description) {
    auto classes = std::vector<Class>{{description, {exchange.rank()}}};
    return unpack(gather(
        exchange,
        [&](const std::string& bytes) {
            for (auto& each : unpack(bytes)) merge(classes, std::move(each));
        },
        [&] {
            fold(classes);
            return pack(classes);
        }));
}

}  // namespace

void agree(Exchange& exchange, const std::string& description) {
    const auto a = static_cast<std::int64_t>(hash(description));
    const auto b = static_cast<std::int64_t>(hash(description, 0x9e3779b97f4a7c15U));
    // The complement turns a maximum into a minimum: all ranks are equal exactly if both are this rank's own.
    auto extremes = std::array<std::int64_t, 4>{a, ~a, b, ~b};
    exchange.max(extremes);
    // Every rank decides from the same four numbers, so all decide the same.
    if (extremes[0] == ~extremes[1] && extremes[2] == ~extremes[3]) return;

    const auto classes = classes_of(exchange, description);
    try {
        exchange.max(extremes);        // no rank throws, and then perhaps leaves, before all have the texts
    } catch (const std::exception&) {  // a rank is lost meanwhile: this one has them
    }
    auto text = cat("the ranks join different plans; every rank must declare the same:");
    auto odd = std::vector<int>{};
    for (std::size_t i = 0; i < classes.size(); ++i) {
        const auto& each = classes[i];
        append(text, cat("\n  ", each.ranks.size() == 1 ? "rank " : "ranks ", ranks_to_string(each.ranks),
                         ": ", each.description.empty() ? "further descriptions" : each.description));
        if (i > 0) odd.insert(odd.end(), each.ranks.begin(), each.ranks.end());
    }
    std::ranges::sort(odd);
    throw Disagreement(text, odd);
}

}  // namespace rankmesh::detail
