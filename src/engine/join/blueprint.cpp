// SPDX-License-Identifier: Apache-2.0
#include "engine/join/blueprint.hpp"

#include <functional>
#include <tuple>

#include <rankmesh/core/detail/caller.hpp>
#include <rankmesh/core/name.hpp>
#include <rankmesh/core/placement.hpp>

#include "engine/timeout.hpp"

namespace rankmesh::detail {

std::string to_text(const DeviceSettings& settings) {
    auto text = std::string{};
    const auto add = [&](const std::string& word) { append(text, cat(text.empty() ? "" : " ", word)); };
    if (settings.min_ctas) add(cat("min_ctas=", *settings.min_ctas));
    if (settings.max_ctas) add(cat("max_ctas=", *settings.max_ctas));
    if (settings.traffic_class) add(cat("traffic_class=", *settings.traffic_class));
    if (settings.high_priority) add("high_priority");
    if (!settings.name.empty()) add(cat("name=", settings.name));
    return text;
}

void check_settings(const DeviceSettings& settings, const std::string& whose) {
    const auto refuse = [&](const std::string& what) {
        throw UsageError(cat(whose, " is tuned to ", to_text(settings), "; ", what));
    };
    for (const auto& ctas : {settings.min_ctas, settings.max_ctas})
        if (ctas && (*ctas < 1 || *ctas > most_ctas))
            refuse(cat("an operation takes 1 to ", most_ctas, " CTAs"));
    if (settings.min_ctas && settings.max_ctas && *settings.min_ctas > *settings.max_ctas)
        refuse("the fewest CTAs are at most as many as the most");
    if (settings.traffic_class && *settings.traffic_class < 0) refuse("a traffic class is 0 or more");
    if (!settings.name.empty()) checked_name(settings.name);
}

namespace {

/// The mesh of a declaration, resolved in the world; throws UsageError if it does not fit.
Mesh fit(const Declaration& declaration, int world) {
    const auto mesh = declaration.mesh.resolve(world);
    if (mesh.size() > world)
        throw UsageError(
            cat("mesh ", to_string(mesh), " needs ", mesh.size(), " ranks; the world has ", world));
    if (declaration.placed.empty()) {
        if (mesh.extent() > world)
            throw UsageError(cat("mesh ", to_string(mesh), " reaches rank ", mesh.extent() - 1,
                                 "; the world has ranks 0..", world - 1));
    } else {
        const auto placement = Placement(mesh, declaration.placed);
        const auto last = std::ranges::max(placement.ranks());
        if (last >= world)
            throw UsageError(cat("the placement of mesh ", to_string(mesh), " lists rank ", last,
                                 "; the world has ranks 0..", world - 1));
    }
    if (mesh.size() < world && !declaration.partial)
        throw UsageError(
            cat("mesh ", to_string(mesh), " covers ", mesh.size(), " of the world's ", world, " ranks; ",
                declaration.mesh.has_rest()
                    ? ""
                    : in_python("make a size '*', or ", "make a size rankmesh::rest (in text '*'), or "),
                "set ", in_python("partial=True", ".partial = true"), " to leave ranks out"));
    return mesh;
}

std::vector<int> picked(const Mesh& mesh, const Pick& pick) {
    const auto size = mesh.size(std::string_view(pick.of));
    auto indices = std::vector<int>{};
    for (auto given : pick.at) {
        const auto index = given < 0 ? given + size : given;
        if (index < 0 || index >= size)
            throw UsageError(cat("pick '", pick.as, "' asks for index ", given, " of axis '", pick.of,
                                 "'; it has ", -size, "..", size - 1));
        indices.push_back(index);
    }
    if (indices.empty()) throw UsageError(cat("pick '", pick.as, "' of axis '", pick.of, "' lists no index"));
    std::ranges::sort(indices);
    indices.erase(std::unique(indices.begin(), indices.end()), indices.end());
    if (indices.size() > static_cast<std::size_t>(Group::max_picked))
        throw UsageError(
            cat("pick '", pick.as, "' lists ", indices.size(), " indices; at most ", Group::max_picked));
    return indices;
}

/// The set of a declared list of names; throws UsageError for an unknown or empty one.
AxisSet set_of(const Mesh& mesh, const std::vector<std::string>& names) {
    auto set = AxisSet{};
    for (const auto& name : names) set.insert(mesh.axis(name));
    if (set.empty())
        throw UsageError(cat("a set of axes of mesh ", to_string(mesh), " is empty; name at least one axis"));
    return set;
}

std::vector<std::string> names_of(const Mesh& mesh, const Item& item) {
    auto names = std::vector<std::string>{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        if (item.axes.contains({a})) names.emplace_back(mesh.name(AxisId{a}));
    return names;
}

std::string text_of(const Mesh& mesh, const Item& item) {
    if (!item.name.empty()) return item.name;
    return joined(names_of(mesh, item), ",");
}

void check_name(const Mesh& mesh, const std::vector<Item>& items, const std::string& name) {
    checked_name(name);
    if (mesh.find(name))
        throw UsageError(
            cat("the name '", name, "' is an axis of mesh ", to_string(mesh), "; choose another name"));
    for (const auto& item : items)
        if (item.name == name)
            throw UsageError(cat("the name '", name, "' is declared twice; choose another name"));
}

std::vector<Item> items_of(const Mesh& mesh, const Declaration& declaration) {
    auto items = std::vector<Item>{};
    items.reserve(static_cast<std::size_t>(mesh.axis_count()) + declaration.over.size() +
                  declaration.picks.size() + 1);
    if (declaration.axes)
        for (const auto& name : *declaration.axes) items.push_back({.axes = mesh.axes(name)});
    else
        for (int a = 0; a < mesh.axis_count(); ++a) items.push_back({.axes = mesh.axes(AxisId{a})});
    for (const auto& axes : declaration.over) {
        const auto set = set_of(mesh, axes.names());
        if (!axes.separate_name().empty()) check_name(mesh, items, axes.separate_name());
        if (axes.timeout()) check_timeout(*axes.timeout());
        items.push_back({.axes = set,
                         .name = axes.separate_name(),
                         .timeout = axes.timeout(),
                         .settings = axes.settings()});
    }
    for (const auto& pick : declaration.picks) {
        const auto axis = mesh.axes(pick.of);
        check_name(mesh, items, pick.as);
        items.push_back(
            {.axes = axis, .picked = picked(mesh, pick), .name = pick.as, .settings = pick.tuned});
    }
    if (!declaration.local.empty()) {
        check_name(mesh, items, declaration.local);
        items.push_back({.name = declaration.local, .local = true});
    }
    const auto order = [](const Item& item) {
        return std::make_tuple(item.local, std::cref(item.picked), std::cref(item.name), item.axes.bits());
    };
    const auto before = [&](const Item& a, const Item& b) { return order(a) < order(b); };
    std::ranges::sort(items, before);  // what is equal differs in what is merged below
    auto kept = std::vector<Item>{};
    kept.reserve(items.size());
    for (auto& item : items) {
        if (kept.empty() || !kept.back().same(item)) {
            kept.push_back(std::move(item));
            continue;
        }
        auto& timeout = kept.back().timeout;
        if (timeout && item.timeout && *timeout != *item.timeout)
            throw UsageError(cat("'", text_of(mesh, item), "' of mesh ", to_string(mesh),
                                 " was given two timeouts, ", to_text(*timeout), " and ",
                                 to_text(*item.timeout)));
        if (item.timeout) timeout = item.timeout;
        auto& settings = kept.back().settings;
        if (settings == DeviceSettings{})
            settings = item.settings;
        else if (item.settings != DeviceSettings{} && item.settings != settings)
            throw UsageError(cat("'", text_of(mesh, item), "' of mesh ", to_string(mesh),
                                 " was tuned twice, to ", to_text(settings), " and to ",
                                 to_text(item.settings),
                                 "; .separate(\"name\") gives one a communicator of its own"));
    }
    return kept;
}

}  // namespace

std::vector<std::string> MeshBlueprint::axis_names(const Item& item) const { return names_of(mesh, item); }

std::string MeshBlueprint::axes_text(const Item& item) const { return text_of(mesh, item); }

int MeshBlueprint::group_size(const Item& item) const {
    return item.picked.empty() ? mesh.partition(item.axes).group_size()
                               : static_cast<int>(item.picked.size());
}

std::string MeshBlueprint::item_text(const Item& item) const {
    return cat("'", axes_text(item), "' of mesh ", name.empty() ? text : cat("'", name, "'"));
}

std::string MeshBlueprint::description(std::span<const std::string> words) const {
    auto text = cat(name.empty() ? "" : name + ": ", this->text);
    if (placed) {
        // A long table is described by its hash, so that the messages stay short.
        constexpr auto most = std::size_t{16};
        append(text, cat(" @[", joined(std::span(*placed).first(std::min(placed->size(), most)), ",")));
        if (placed->size() > most) {
            auto hash = std::uint64_t{0xcbf29ce484222325U};
            for (auto rank : *placed) hash = (hash ^ static_cast<std::uint64_t>(rank)) * 0x100000001b3U;
            append(text, cat(",... #", hash));
        }
        append(text, "]");
    }
    auto separator = std::string_view(", over ");
    for (std::size_t number = 0; number < items.size(); ++number) {
        const auto& item = items[number];
        append(text, separator);
        append(text, item.local ? "local ranks" : axes_text({.axes = item.axes}));
        for (std::size_t i = 0; i < item.picked.size(); ++i)
            append(text, cat(i == 0 ? "[" : ",", item.picked[i]));
        if (!item.picked.empty()) append(text, "]");
        if (!item.name.empty()) append(text, cat(" as ", item.name));
        if (item.settings != DeviceSettings{}) append(text, cat(" tuned to ", to_text(item.settings)));
        if (number < words.size()) append(text, words[number]);
        separator = "; ";
    }
    if (lazy) append(text, ", lazy");
    return text;
}

std::vector<MeshBlueprint> make_blueprint(std::span<const Declaration> plan, int world, Duration timeout) {
    if (plan.empty()) throw UsageError("a plan without meshes; declare at least one");
    auto meshes = std::vector<MeshBlueprint>{};
    for (const auto& declaration : plan) {
        if (plan.size() > 1 && declaration.name.empty())
            throw UsageError(cat("mesh ", to_string(declaration.mesh),
                                 " has no name; each of several meshes needs one: ",
                                 in_python("Declaration(..., name='expert')", ".name = \"expert\"")));
        if (!declaration.name.empty()) checked_name(declaration.name);
        for (const auto& other : meshes)
            if (other.name == declaration.name)
                throw UsageError(cat("two meshes of the plan are named '", declaration.name,
                                     "'; give each a name of its own"));
        const auto mesh = fit(declaration, world);
        const auto own = declaration.timeout.value_or(timeout);
        check_timeout(own);
        meshes.push_back({.name = declaration.name,
                          .mesh = mesh,
                          .text = to_string(mesh),
                          .placed = declaration.placed.empty()
                                        ? nullptr
                                        : std::make_shared<const std::vector<int>>(declaration.placed),
                          .items = items_of(mesh, declaration),
                          .lazy = declaration.lazy,
                          .timeout = own});
        const auto& made = meshes.back();
        for (const auto& item : made.items) check_settings(item.settings, made.item_text(item));
    }
    return meshes;
}

std::string description(const std::vector<MeshBlueprint>& meshes) {
    auto lines = std::vector<std::string>{};
    for (const auto& mesh : meshes) lines.push_back(mesh.description());
    std::ranges::sort(lines);
    return joined(lines, " | ");
}

}  // namespace rankmesh::detail
