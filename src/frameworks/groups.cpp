// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/groups.hpp>

#include <rankmesh/core/name.hpp>

#include "frameworks/kinds.hpp"

namespace rankmesh::frameworks {

namespace {

Mesh mesh_of(const Framework& framework, const Given& given, const MeshRow& row) {
    auto axes = std::vector<Axis>{};
    auto product = std::int64_t{1};
    auto rest_at = std::optional<std::size_t>{};
    each_word(row.axes, [&](std::string_view name) {
        const auto setting = std::ranges::find(framework.settings, name, &Setting::axis);
        auto size = std::optional<int>{};  // else it takes the rest of the world
        if (given.has(name) || setting != framework.settings.end())
            size = given.number(given.has(name) ? name : setting->name);
        else
            rest_at = axes.size();
        axes.push_back({name, size.value_or(1)});
        product *= size.value_or(1);
    });
    const auto world = given.world_size();
    const auto is_part = framework.placed || !framework.offset.empty();
    if (rest_at ? world % product != 0 : is_part ? world < product : world != product) {
        auto said = std::string{};
        for (std::size_t a = 0; a < axes.size(); ++a)
            if (rest_at != a) said += cat(said.empty() ? "" : " x ", axes[a].name, " ", axes[a].size.size());
        throw Error(Fault::sizes, "a world of ", world, " ranks is not ", rest_at ? "divided by " : "", said,
                    ", which is ", product);
    }
    if (rest_at) axes[*rest_at].size = static_cast<int>(world / product);
    const auto mesh = Mesh(std::span<const Axis>(axes));
    return framework.offset.empty() ? mesh : mesh.shifted(given.number(framework.offset));
}

}  // namespace

Given accepted(const Framework& framework, const Values& settings, int world_size) {
    auto given = Given(framework.name, framework.settings, settings, world_size);
    if (framework.check_first) framework.check_first(given);
    for (const auto& setting : framework.settings)
        if (!setting.axis.empty() && given.value(setting.name) != setting.otherwise &&
            !given.is_none(setting.name))
            check_size(setting.name, given.number(setting.name));
    if (framework.check) framework.check(given);
    return given;
}

Groups::Groups(std::string_view name, const Values& settings, int world_size) {
    const auto& framework = framework_named(name);
    refuse_if(world_size < 1, Fault::sizes, "a world of ", world_size, " ranks; it has 1 or more");
    auto made = std::make_shared<Made>(Made{&framework, accepted(framework, settings, world_size)});
    auto meshes = framework.meshes;
    auto kinds = Kinds{};
    kinds.rows.reserve(framework.kinds.size());
    for (const auto& row : framework.kinds) kinds.rows.push_back(&row);
    if (framework.extend) framework.extend(made->given, meshes, kinds);
    made->owned = std::move(kinds.owned);
    made->meshes.reserve(meshes.size());
    for (const auto& row : meshes) made->meshes.emplace_back(row.name, mesh_of(framework, made->given, row));
    if (framework.placed)
        if (const auto& ranks = framework.placed(made->given); !ranks.empty())
            made->placed = std::make_shared<const std::vector<int>>(ranks);
    made->kinds.reserve(kinds.rows.size());
    const auto same = [&](const KindRow& row) {  // the kind whose groups it has; null: it has its own
        const auto found = kinds_in(row.same, made->given);
        return found.empty() ? nullptr : made->find(found.front());
    };
    for (const auto* row : kinds.rows) {
        if (!row->when.empty() && !made->given.holds(row->when)) continue;
        const auto is_device = [&](const Kind& kind) { return kind.row->groups == row->groups; };
        const auto device = row->on_host ? std::ranges::find_if(made->kinds, is_device) : made->kinds.end();
        const auto* other = device == made->kinds.end() ? same(*row) : std::to_address(device);
        auto& kind = made->kinds.emplace_back(other ? *other : kind_of(*row, made->given, made->meshes));
        if (other) {
            kind.name = kind.brief = row->name;
            kind.device = row->on_host ? other->name : kind.name;
            if (row->on_host) kind.row = row;
            continue;
        }
        kind.partial = framework.placed || made->meshes.front().second.size() != world_size;
        kind.placed = made->placed;
    }
    made_ = std::move(made);
}

int Groups::world_size() const { return made_->given.world_size(); }
const Mesh& Groups::mesh() const { return made_->meshes.front().second; }
std::vector<std::string> Groups::kinds() const { return known_names<std::string>(made_->kinds); }
bool Groups::has(std::string_view kind) const { return made_->find(kind) != nullptr; }
int Groups::count(std::string_view kind) const { return made_->at(kind).count(); }
GroupPart Groups::group(std::string_view kind, int number) const {
    const auto& made = made_->at(kind);
    if (number < 0 || number >= made.count())
        throw Error(Fault::out_of_range, "group ", number, " of ", made.count(), " groups ",
                    detail::in_quotes(kind), "; they are numbered 0..", made.count() - 1);
    return made.group(number);
}
std::optional<GroupPart> Groups::of(std::string_view kind, int rank) const {
    return made_->at(kind).of(rank);
}
bool Groups::is_apart(std::string_view kind) const { return made_->at(kind).row->apart; }
bool Groups::is_on_host(std::string_view kind) const { return made_->at(kind).row->on_host; }

Plan Groups::plan(std::string_view name) const {
    auto plan = Plan{};
    for (const auto& kind : made_->kinds)
        if (!kind.has_shorter() && !kind.row->on_host) plan.push_back(kind.declaration());
    const auto gives_all = [](const auto& row) {
        return row.quantity == Quantity::group &&
               (row.kind == "*" || row.among.ends_with("*") || (row.choose && row.kind.empty()));
    };
    if (std::ranges::any_of(made_->framework->accessors, gives_all)) plan.push_back({.name = "world"});
    for (auto& declared : plan) declared.name = name_in_plan(name, declared.name);
    return plan;
}

Groups Access::with(const Groups& groups, const AccessorRow& row, const Given& options,
                    std::vector<std::string>& kinds) {
    auto made = std::make_shared<Groups::Made>(*groups.made_);
    auto additions = Additions();
    row.adds(made->given, options, additions);
    for (auto& mesh : additions.meshes) {
        std::erase_if(made->meshes, [&](const auto& other) { return other.first == mesh.first; });
        made->meshes.push_back(std::move(mesh));
    }
    for (auto& row : additions.kinds) {
        const auto& kind = *made->owned.emplace_back(std::make_shared<const KindRow>(std::move(row)));
        std::erase_if(made->kinds, [&](const auto& other) { return other.name == kind.name; });
        made->kinds.push_back(kind_of(kind, made->given, made->meshes));
        made->given.derive(kind.name, true);
        kinds.push_back(kind.name);
    }
    auto with = groups;
    with.made_ = std::move(made);
    return with;
}

std::vector<std::string_view> words_of(std::string_view text) {
    auto words = std::vector<std::string_view>{};
    each_word(text, [&](std::string_view word) { words.push_back(word); });
    return words;
}

std::vector<std::string_view> kinds_in(std::string_view text, const Given& given) {
    constexpr std::string_view between = ", ", where = " if ";
    auto kinds = std::vector<std::string_view>{};
    while (!text.empty()) {
        const auto one = text.substr(0, text.find(between)), kind = one.substr(0, one.find(where));
        if (kind == one || given.holds(one.substr(kind.size() + where.size()))) kinds.push_back(kind);
        text.remove_prefix(std::min(text.size(), one.size() + between.size()));
    }
    return kinds;
}

const Framework& framework_named(std::string_view name) {
    for (const auto& framework : all())
        if (framework.name == name) return framework;
    const auto known = known_names(all());
    throw UsageError(cat("unknown framework ", detail::in_quotes(name),
                         "; one of: ", detail::with_commas(known), did_you_mean(name, known)));
}

std::vector<std::string> names() {
    auto names = std::vector<std::string>{};
    for (const auto& framework : all())
        if (!framework.settings.empty()) names.push_back(framework.name);
    return names;
}

}  // namespace rankmesh::frameworks
