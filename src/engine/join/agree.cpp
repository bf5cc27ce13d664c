// SPDX-License-Identifier: Apache-2.0
#include "engine/join/agree.hpp"

#include <algorithm>
#include <utility>

#include "engine/channel.hpp"
#include "engine/fields.hpp"
#include "engine/hash.hpp"

namespace rankmesh::detail {

constexpr std::size_t most_classes = 8;  // descriptions that an error lists, which bounds every message

void merge(std::vector<PlanClass>& classes, PlanClass added) {
    const auto found = std::ranges::find(classes, added.description, &PlanClass::description);
    if (found == classes.end()) {
        classes.push_back(std::move(added));
        return;
    }
    found->ranks.insert(found->ranks.end(), added.ranks.begin(), added.ranks.end());
    std::ranges::sort(found->ranks);
}

void fold(std::vector<PlanClass>& classes) {
    std::ranges::stable_sort(classes, [](const PlanClass& a, const PlanClass& b) {
        if (a.description.empty() != b.description.empty()) return b.description.empty();
        return a.ranks.size() > b.ranks.size();
    });
    auto further = PlanClass{};
    while (classes.size() > most_classes) {
        further.ranks.insert(further.ranks.end(), classes[most_classes].ranks.begin(),
                             classes[most_classes].ranks.end());
        classes.erase(classes.begin() + static_cast<std::ptrdiff_t>(most_classes));
    }
    std::ranges::sort(further.ranks);
    if (!further.ranks.empty()) classes.push_back(std::move(further));
}

void throw_different(std::string head, const std::vector<PlanClass>& classes) {
    auto odd = std::vector<int>{};
    for (std::size_t i = 0; i < classes.size(); ++i) {
        const auto& each = classes[i];
        append(head, cat("\n  ", ranks_text(each.ranks), ": ",
                         each.description.empty() ? "further descriptions" : each.description));
        if (i > 0) odd.insert(odd.end(), each.ranks.begin(), each.ranks.end());
    }
    std::ranges::sort(odd);
    throw Disagreement(head, odd);
}

std::string pack(const std::vector<PlanClass>& classes) {
    auto bytes = std::string{};
    for (const auto& each : classes) {
        const auto ranks = ranks_to_string(each.ranks);
        append(bytes, cat(ranks.size(), " ", each.description.size(), " ", ranks, each.description));
    }
    return bytes;
}

std::vector<PlanClass> unpack(std::string_view bytes, int size) {
    auto classes = std::vector<PlanClass>{};
    for (auto fields = Fields(bytes, "what another rank declares"); !fields.at_end();) {
        const auto ranks = fields.number();
        const auto text = fields.number();
        auto read = fields.ranks(fields.part(ranks), static_cast<std::size_t>(size));
        classes.push_back({fields.part(text), std::move(read)});
    }
    return classes;
}

void agree(Exchange& exchange, const std::string& description) {
    const auto a = static_cast<std::int64_t>(hash(description));
    const auto b = static_cast<std::int64_t>(hash(description, 0x9e3779b97f4a7c15U));
    // The complement turns a maximum into a minimum: all ranks are equal exactly if both are this rank's own.
    auto extremes = std::array<std::int64_t, 4>{a, ~a, b, ~b};
    exchange.max(extremes);
    // Every rank decides from the same four numbers, so all decide the same.
    if (extremes[0] == ~extremes[1] && extremes[2] == ~extremes[3]) return;

    auto classes = std::vector<PlanClass>{{description, {exchange.rank()}}};
    const auto bytes = gather(
        exchange,
        [&](const std::string& beneath) {
            for (auto& each : unpack(beneath, exchange.size())) merge(classes, std::move(each));
        },
        [&] {
            fold(classes);
            return pack(classes);
        });
    const auto all = unpack(bytes, exchange.size());
    try {
        exchange.max(extremes);        // no rank throws, and then perhaps leaves, before all have the texts
    } catch (const std::exception&) {  // a rank is lost meanwhile: this one has them
    }
    throw_different("the ranks join different plans; every rank must declare the same:", all);
}

}  // namespace rankmesh::detail
