// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/report/text.hpp>

#include <algorithm>
#include <array>
#include <cstdio>

#include <rankmesh/view/terms.hpp>

#include "report/columns.hpp"

namespace rankmesh::report {

using detail::cat;
using detail::counted;

namespace {

/// Returns a number with so many significant digits, like `%g`.
std::string brief_number(double number, int digits) {
    char text[64];
    std::snprintf(text, sizeof text, "%.*g", digits, number);
    return text;
}

/// Returns whether a set has its own communicator, shares one, or has none, with the reason.
std::string note_on(const JoinCost& cost, std::size_t number) {
    const auto& set = cost.sets[number];
    if (!set.communicator) return "none: one rank per group";
    const auto first = std::ranges::find(cost.sets, set.communicator, &JoinCost::Set::communicator);
    const auto own = first == cost.sets.begin() + static_cast<std::ptrdiff_t>(number);
    return own ? "own" : "shared with " + first->text;
}

std::string padded(std::string text, std::size_t width) {
    if (text.size() < width) text.append(width - text.size(), ' ');
    return text;
}

std::string_view said_of(Placed::Search search) {
    constexpr std::string_view texts[] = {"the best of some placements that were tried",
                                          "it is the fastest of all orders whose strides divide each other",
                                          "no placement is better"};
    return texts[static_cast<std::size_t>(search)];
}

/// Returns `8`, or `8 -> 16` if the sides differ.
std::string text_of(const view::Both& both) {
    return both.a == both.b ? std::to_string(both.a) : cat(both.a, " -> ", both.b);
}

std::string place_of(const view::Side& side, int rank) {
    if (!side.placement.contains(rank)) return "-";
    auto text = to_string(side.placement.coord(rank));
    if (side.cluster) text += " on " + host_text(*side.cluster, rank);
    return text;
}

std::string brief(const std::vector<int>& group) {
    return group.empty() ? "-" : view::brief(view::first_terms(group, 0, 8), std::ssize(group));
}

std::string more(std::size_t shown, std::int64_t all, std::string_view what) {
    const auto left = all - static_cast<std::int64_t>(shown);
    return left > 0 ? cat("  ... ", counted(left, cat("more ", what)), "\n") : "";
}

/// Returns how the groups of each axis differ, and how many are not listed.
std::string text_of_axes(const view::Side& a, const view::Side& b, const view::Difference& found) {
    auto rows = std::vector<std::vector<std::string>>{
        {"  axis", "size", "groups", "same", "other order", "other ranks"}};
    for (const auto& level : found.levels) rows.front().push_back("inside one " + level.level);
    for (const auto& axis : found.axes) {
        const auto kept = axis.same + axis.reordered;
        rows.push_back({"  " + axis.axis, text_of(axis.size), text_of(axis.groups), std::to_string(axis.same),
                        std::to_string(axis.reordered),
                        text_of(view::Both{axis.groups.a - kept, axis.groups.b - kept})});
        for (const auto& inside : axis.inside) rows.back().push_back(text_of(inside));
    }
    auto text = "\n" + table(rows, 0, rows.front().size());
    for (const auto& axis : found.axes) {
        if (axis.groups.a == axis.same) continue;
        text += cat("\n  ", axis.axis, "\n");
        auto groups = std::vector<std::vector<std::string>>{};
        for (auto rank : axis.changed)
            groups.push_back({"  ", brief(a.group(rank, axis.axis)), "->", brief(b.group(rank, axis.axis))});
        if (!groups.empty()) text += table(groups, 0, groups.front().size());
        text += more(axis.changed.size(), axis.groups.a - axis.same, "group");
    }
    return text;
}

std::string held(const Sharding& sharding, int rank) {
    return sharding.mesh().contains(rank) ? to_string(sharding.slice(rank)) : "-";
}

}  // namespace

std::optional<std::string> host_name(const Cluster& cluster, int rank) {
    for (int level = cluster.level_count() - 1; level >= 0; --level)
        if (!cluster.levels()[static_cast<std::size_t>(level)].units.empty())
            return cluster.unit_name(cluster.unit(rank, level), level);
    return std::nullopt;
}

std::string host_text(const Cluster& cluster, int rank) {
    const auto name = host_name(cluster, rank);
    return to_string(cluster.path(rank)) + (name ? cat(" (", *name, ")") : std::string{});
}

// --- check

std::string text_of(std::string_view mesh, const JoinCost& cost, const std::vector<EngineNeed>& needs,
                    int outside, std::size_t width) {
    auto text = cat(mesh, " · ", counted(cost.world - outside, "rank"));
    if (outside > 0) text += cat(" of ", cost.world);
    auto rows = std::vector<std::vector<std::string>>{{"axes", "groups x ranks", "communicator"}};
    for (std::size_t i = 0; i < cost.sets.size(); ++i)
        rows.push_back(
            {cost.sets[i].text, cat(cost.sets[i].groups, " x ", cost.sets[i].group_size), note_on(cost, i)});
    text += "\n\n" + table(rows, 1, 1);
    auto held = "each rank has " + counted(cost.communicators, "communicator");
    if (outside > 0) {
        held += cat("; the ", counted(outside, "rank"), " outside the mesh ", outside == 1 ? "has" : "have",
                    " none");
        for (const auto& need : needs)
            if (!need.outside.empty()) held += " but " + need.outside;
        held +=
            ". join refuses a mesh that leaves ranks out, unless the program sets partial (partial=True in "
            "Python)";
    }
    text += cat("\n", folded(held, 0, width), "\n\n");
    for (const auto& need : needs)
        text += folded(cat(padded(need.engine, 4), " ", need.fits ? "ok" : "NO", " ", need.text), 8, width) +
                "\n";
    return text;
}

// --- place

std::string text_of(const Placed& placed, std::int64_t bytes) {
    auto rows = std::vector<std::vector<std::string>>{{"axes", "operation", "weight", "given", "placed"}};
    for (const auto& [traffic, before, after] : placed.axes)
        rows.push_back({traffic.axis, std::string(to_string(traffic.operation)),
                        brief_number(traffic.weight, 6), time_text(before), time_text(after)});
    rows.push_back({"sum by weight", "", "", time_text(placed.before), time_text(placed.after)});
    const auto gain = placed.before > placed.after ? brief_number(placed.before / placed.after, 3) +
                                                         " times as fast as the given order"
                                                   : std::string("nothing found that beats the given order");
    return cat(to_string(placed.order), "\n\n", table(rows, 2, 0), "\n",
               bytes_text(static_cast<std::size_t>(bytes)), " of each rank, all groups at once: ", gain, "; ",
               said_of(placed.search), "\n");
}

// --- diff

std::string text_of(const view::Side& a, const view::Side& b, const view::Difference& found) {
    auto text = std::string{};
    for (const auto& [name, side] : {std::pair("a", &a), std::pair("b", &b)})
        text += cat(name, "  ", to_string(side->placement),
                    side->cluster ? " on " + to_string(*side->cluster) : "", "\n");
    text += "\n";
    if (found.is_none()) return text + "nothing differs\n";
    text += cat(found.moved, " of ", counted(found.common, "rank"), " at another coordinate\n");
    for (const auto& level : found.levels)
        if (level.moved > 0) text += cat(level.moved, " in another ", level.level, "\n");
    for (const auto& [name, all] : {std::pair("a", found.ranks.a), std::pair("b", found.ranks.b)})
        if (all > found.common) text += cat(counted(all - found.common, "rank"), " only in ", name, "\n");
    if (!found.first.empty()) {
        auto rows = std::vector<std::vector<std::string>>{{"  rank", "a", "b"}};
        for (auto rank : found.first)
            rows.push_back({"  " + std::to_string(rank), place_of(a, rank), place_of(b, rank)});
        text +=
            "\n" + table(rows, 0, rows.front().size()) + more(found.first.size(), found.differing, "rank");
    }
    return text + text_of_axes(a, b, found);
}

// --- reshard

Traffic& Traffic::operator+=(const Traffic& other) {
    keeps += other.keeps;
    receives += other.receives;
    between += other.between;
    sends += other.sends;
    bound += other.bound;
    return *this;
}

Traffic traffic_of(const std::vector<Reshard>& steps, int rank) {
    const auto& from = steps.front().from();
    const auto& to = steps.back().to();
    const auto host = steps.front().host();
    auto traffic = Traffic{};
    for (const auto& [part, slice] : steps.back().keeps(rank)) traffic.keeps += slice.elements();
    for (const auto& step : steps) {
        for (const auto& transfer : step.receives(rank)) {
            traffic.receives += transfer.slice.elements();
            if (transfer.peer / host != rank / host) traffic.between += transfer.slice.elements();
        }
        for (const auto& transfer : step.sends(rank)) traffic.sends += transfer.slice.elements();
    }
    if (to.mesh().contains(rank)) {
        const auto parts = (from.parts() - to.part(rank) + to.parts() - 1) / to.parts();
        const auto all = to.slice(rank).elements();
        traffic.bound = parts > 1 ? all : parts == 1 ? all - traffic.keeps : 0;
    }
    return traffic;
}

std::string ReshardText::operator()(const std::vector<Reshard>& steps) const {
    constexpr auto most = 64;
    const auto& from = steps.front().from();
    const auto& to = steps.back().to();
    auto rows = std::vector<std::vector<std::string>>{};
    const auto add = [&](std::vector<std::string> row) {
        if (!hosts) row.erase(row.begin() + 3);
        rows.push_back(std::move(row));
    };
    add({"rank", "keeps", "receives", "from other hosts", "sends", "had", "shall have"});
    const auto number = [this](std::int64_t elements) { return std::to_string(elements * bytes); };
    auto all = Traffic{};
    auto ranks = 0;
    for (int rank = 0; rank < std::max(steps.front().extent(), steps.back().extent()); ++rank) {
        if (at) at(rank);
        if (!from.mesh().contains(rank) && !to.mesh().contains(rank)) continue;
        const auto traffic = traffic_of(steps, rank);
        all += traffic;
        if (++ranks <= most)
            add({std::to_string(rank), number(traffic.keeps), number(traffic.receives),
                 number(traffic.between), number(traffic.sends), held(from, rank), held(to, rank)});
    }
    auto text = table(rows, 0, 2);
    if (ranks > most) text += cat("... ", ranks - most, " more", hint, "\n");
    const auto between = hosts ? cat(", ", number(all.between), " of them from other hosts") : std::string{};
    return cat(text, "\n", number(all.receives), " ", unit, " are received", between, "; the lower bound is ",
               number(all.bound), "\n");
}

}  // namespace rankmesh::report
