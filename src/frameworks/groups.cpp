// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/frameworks/groups.hpp>

#include <algorithm>
#include <functional>

#include <rankmesh/core/detail/layout_parts.hpp>
#include <rankmesh/core/detail/number.hpp>
#include <rankmesh/core/name.hpp>

#include "frameworks/rows.hpp"

namespace rankmesh::frameworks {

using detail::cat;

/// One kind, with its numbers. It has no strings and no mesh: a state has 30 kinds, and few are asked about.
struct Kind {
    const KindRow* row;
    std::string_view name;
    std::string_view brief;   // in a plan
    std::string_view device;  // of which this one's groups are those on the host, else itself
    int base;                 // the rank from which `listed` counts
    Layout listed;            // the ranks in the framework's order
    int inside;               // the first of its digits in a period
    int size;                 // ranks of a group, before some are picked
    int step = 1;             // between them in the list
    int period;               // of what is cut into groups, one after the other
    std::vector<int> at;
    dialect::Placed placed;
    bool partial = false;  // outside there may be ranks

    int parts() const { return (period + size - 1) / size; }
    int count() const { return listed.size() / period * parts(); }
    bool has_shorter() const { return period % size != 0; }

    /// The ranks of a period from its first.
    Layout along() const {
        auto along = Layout{};
        for (int k = inside; k < listed.digit_count(); ++k) along.append(listed.digit(k));
        return along;
    }
    /// The same, as a group has them: ascending where its ranks are sorted.
    Layout in_group() const {
        if (!row->sorted) return along();
        auto digits = std::vector<Digit>{};
        for (int k = inside; k < listed.digit_count(); ++k) digits.push_back(listed.digit(k));
        std::ranges::sort(digits, std::greater(), &Digit::stride);
        auto along = Layout{};
        for (const auto& digit : digits) along.append(digit);
        return along;
    }
    /// The ranks of a group from its first, where the group ends between digits.
    std::optional<Layout> run() const {
        if (has_shorter()) return std::nullopt;
        auto parts = detail::LayoutParts(listed);
        return parts.next(listed.size() / size) ? parts.next(size) : std::nullopt;
    }
    GroupPart listed_group(int number) const {
        return {Group(base, listed), number / step * size * step + number % step, step, size, placed};
    }
    GroupPart group(int number) const {
        if (step > 1) return listed_group(number);
        const auto first = number % parts() * size;
        const auto begin = number / parts() * period;
        const auto run = size == period ? std::nullopt : this->run();
        if (size != period && !run)
            return {Group(base + listed.offset_of(begin), along()), first, 1, std::min(size, period - first),
                    placed};
        const auto group = Group(base + listed.offset_of(begin + first), run ? *run : along());
        if (at.empty()) return {group, 0, 1, size, placed};
        const auto picked = group.pick(at);
        return {picked, 0, 1, picked.size(), placed};
    }

    /// The group that is made of the ranks among which `rank` is.
    std::optional<GroupPart> listed_of(int rank) const {
        const auto own = dialect::rank_on(placed, rank);
        const auto position = own ? listed.index_of(std::int64_t{*own} - base) : std::nullopt;
        if (!position) return std::nullopt;
        if (step > 1) return group(*position / (size * step) * step + *position % step);
        return group(*position / period * parts() + *position % period / size);
    }
    std::optional<GroupPart> of(int rank) const {
        auto own = listed_of(rank);
        if (!own || (!at.empty() && !own->contains(rank))) return std::nullopt;
        if (row->sorted) own = GroupPart(Group(own->front(), in_group()), 0, 1, size, placed);
        return own;
    }

    /// All ranks on one axis `whole`, those of a group ascending where a group has them so.
    Mesh whole() const {
        auto digits = Layout{};
        for (int k = 0; k < inside; ++k) digits.push_back(listed.digit(k));
        const auto along = in_group();
        for (int k = 0; k < along.digit_count(); ++k) digits.push_back(along.digit(k));
        auto names = std::vector<std::string>{"first"};
        for (int k = 0; k < digits.digit_count(); ++k) names.push_back(cat("d", k));
        auto axes = std::vector<Axis>{{names[0], 1}};
        for (int k = 0; k < digits.digit_count(); ++k)
            axes.push_back({names[axes.size()], digits.digit(k).size, digits.digit(k).stride});
        const auto all = std::vector<std::string_view>(names.begin(), names.end());
        return Mesh(std::span<const Axis>(axes)).shifted(base).flatten(all, "whole");
    }
    Declaration declaration() const {
        auto declared = Declaration{.name = std::string(brief), .partial = partial};
        const auto ranks = row->apart || !at.empty() ? "ranks" : "group";
        auto parts = std::vector<Axis>{{"groups", count() / step}, {ranks, size}};
        if (step > 1) parts.push_back({"between", step});
        auto is_listed = placed || row->rising;
        try {
            if (!is_listed) declared.mesh = whole().split("whole", parts);
        } catch (const UsageError&) {  // a group does not end between the digits of the axes
            is_listed = true;
        }
        if (is_listed) {
            declared.mesh = Mesh{{"groups", count()}, {ranks, size}};
            for (int number = 0; number < count(); ++number) {
                const auto group = listed_group(number);
                declared.placed.insert(declared.placed.end(), group.begin(), group.end());
                if (row->rising) std::sort(declared.placed.end() - size, declared.placed.end());
            }
        }
        declared.axes = std::vector<std::string>{};
        if (!at.empty())
            declared.picks.push_back({ranks, at, "group"});
        else if (row->apart)
            declared.over.push_back(Axes(ranks).separate("group"));
        else
            declared.axes->emplace_back(ranks);
        return declared;
    }
};

namespace {

/// The size of an axis; nothing where it takes the rest of the world.
std::optional<int> size_of(const Framework& framework, const Given& given, std::string_view axis) {
    if (given.has(axis)) return given.number(axis);
    const auto setting = std::ranges::find(framework.settings, axis, &Setting::axis);
    return setting == framework.settings.end() ? std::nullopt : std::optional(given.number(setting->name));
}

Mesh mesh_of(const Framework& framework, const Given& given, const MeshRow& row) {
    auto axes = std::vector<Axis>{};
    auto product = std::int64_t{1};
    auto rest_at = std::optional<std::size_t>{};
    each_word(row.axes, [&](std::string_view name) {
        const auto size = size_of(framework, given, name);
        if (!size) rest_at = axes.size();
        axes.push_back({name, size.value_or(1)});
        product *= size.value_or(1);
    });
    const auto world = given.world_size();
    const auto is_part = framework.placed || !framework.offset.empty();
    if (rest_at ? world % product != 0 : is_part ? world < product : world != product) {
        auto said = std::string{};
        for (std::size_t a = 0; a < axes.size(); ++a)
            if (rest_at != a) said += cat(said.empty() ? "" : " x ", axes[a].name, " ", axes[a].size.size());
        throw Error(Fault::sizes, cat("a world of ", world, " ranks is not ", rest_at ? "divided by " : "",
                                      said, ", which is ", product));
    }
    if (rest_at) axes[*rest_at].size = static_cast<int>(world / product);
    const auto mesh = Mesh(std::span<const Axis>(axes));
    return framework.offset.empty() ? mesh : mesh.shifted(given.number(framework.offset));
}

void check_sizes(const Framework& framework, const Given& given) {
    for (const auto& setting : framework.settings)
        if (!setting.axis.empty() && given.number(setting.name) < 1 &&
            given.value(setting.name) != setting.otherwise && !given.is_none(setting.name))
            throw dialect::Refusal(
                Fault::sizes, "sizes-below-one",
                cat(setting.name, " is ", given.number(setting.name), "; every size is 1 or more"));
}

/// The kind whose groups a kind has; empty for its own.
std::string_view same_of(const KindRow& row, const Given& given) {
    constexpr std::string_view between = ", ", where = " if ";
    for (auto left = std::string_view(row.same); !left.empty();) {
        const auto one = left.substr(0, left.find(between)), kind = one.substr(0, one.find(where));
        if (given.holds(one.substr(kind.size() + where.size()))) return kind;
        left.remove_prefix(std::min(left.size(), one.size() + between.size()));
    }
    return {};
}

/// The ranks as `experts: * | ep` or `dp tp / size` lists them.
Kind kind_of(const KindRow& row, const Given& given,
             const std::vector<std::pair<std::string, Mesh>>& meshes) {
    auto text = std::string_view(row.groups);
    const auto* mesh = &meshes.front().second;
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
        for (const auto& [name, one] : meshes)
            if (name == text.substr(0, colon)) mesh = &one;
        text.remove_prefix(colon + 1);
    }
    const auto slash = std::min(text.find('/'), text.size());
    const auto axes = text.substr(0, slash);
    const auto has_rest = axes.find('*') != std::string_view::npos;
    auto named = AxisSet{}, along = AxisSet{}, seen = AxisSet{};
    const auto axis_of = [&](std::string_view word) {  // throws for an unknown one
        return has_rest ? mesh->find(word) : std::optional(mesh->axis(word));
    };
    each_word(axes, [&](std::string_view word) {
        if (has_rest && word != "*" && word != "|")
            if (const auto axis = axis_of(word)) named.insert(*axis);
    });
    auto kind = Kind{.row = &row,
                     .name = row.name,
                     .brief = row.brief.empty() ? row.name : row.brief,
                     .device = row.name,
                     .base = mesh->offset(),
                     .listed = {},
                     .inside = 0,
                     .size = 0,
                     .period = 0,
                     .at = {},
                     .placed = {}};
    const auto list = [&](AxisId axis) {
        if (seen.contains(axis))
            throw UsageError(cat("groups '", row.name, "' list an axis twice: ", row.groups));
        seen.insert(axis);
        if (mesh->size(axis) == 1) return;
        const auto digits = mesh->layout(axis);
        for (int d = 0; d < digits.digit_count(); ++d) kind.listed.push_back(digits.digit(d));
    };
    const auto list_those = [&](auto is_one) {
        for (int a = 0; a < mesh->axis_count(); ++a)
            if (is_one(AxisId{a})) list(AxisId{a});
    };
    auto groups = 1;
    auto is_inside = false, in_mesh_order = false;
    each_word(axes, [&](std::string_view word) {
        if (word == "|") {
            is_inside = true;
            kind.inside = kind.listed.digit_count();
            groups = kind.listed.size();
        } else if (word == "*") {
            in_mesh_order = !is_inside;
            list_those([&](AxisId axis) { return !named.contains(axis); });
        } else if (const auto axis = axis_of(word)) {
            if (is_inside && in_mesh_order)
                along.insert(*axis);
            else
                list(*axis);
        }
    });
    list_those([&](AxisId axis) { return along.contains(axis); });
    const auto total = kind.listed.size();
    if (total != mesh->size())
        throw UsageError(cat("groups '", row.name, "' leave out axes of their mesh: ", row.groups));
    kind.size = kind.period = total / groups;
    if (slash < text.size()) {
        const auto counts = words_of(text.substr(slash + 1));
        kind.size = detail::number_in(counts.at(0)).value_or(0);
        if (kind.size == 0) kind.size = given.number(counts[0]);
        if (counts.size() > 1) kind.step = detail::number_in(counts[1]).value_or(1);
    }
    if (kind.size < 1 || (!is_inside && total % kind.size != 0))
        throw Error(Fault::sizes,
                    cat("the ", total, " ranks are not divided by groups '", row.name, "' of ", kind.size));
    if (row.at) kind.at = row.at(given);
    return kind;
}

}  // namespace

struct Groups::Made {
    const Framework* framework;
    Given given;
    std::vector<std::pair<std::string, Mesh>> meshes;
    std::vector<Kind> kinds;
    std::vector<std::shared_ptr<const KindRow>> owned;  // of kinds that are not rows of the framework
    dialect::Placed placed;

    const Kind* find(std::string_view name) const {
        const auto found = std::ranges::find(kinds, name, &Kind::name);
        return found == kinds.end() ? nullptr : &*found;
    }
    const Kind& at(std::string_view name) const {
        if (const auto* kind = find(name)) return *kind;
        const auto row = std::ranges::find(framework->kinds, name, &KindRow::name);
        if (row == framework->kinds.end()) {
            auto known = std::vector<std::string_view>{};
            for (const auto& each : framework->kinds) known.push_back(each.name);
            throw Error(Fault::unknown, cat(framework->name, " has no groups ", detail::in_quotes(name),
                                            did_you_mean(name, known)));
        }
        throw Error(Fault::not_initialised,
                    row->missing.empty() ? cat("these settings give no groups ", detail::in_quotes(name))
                                         : row->missing);
    }
};

Groups::Groups(std::string_view name, const Values& settings, int world_size) {
    const auto& framework = framework_named(name);
    if (world_size < 1) throw Error(Fault::sizes, cat("a world of ", world_size, " ranks; it has 1 or more"));
    auto made = std::make_shared<Made>(
        Made{&framework, Given(framework.name, framework.settings, settings, world_size), {}, {}, {}, {}});
    if (framework.check_first) framework.check_first(made->given);
    check_sizes(framework, made->given);
    if (framework.check) framework.check(made->given);
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
    for (const auto* row : kinds.rows) {
        if (!row->when.empty() && !made->given.holds(row->when)) continue;
        const auto* other = made->find(same_of(*row, made->given));
        auto& kind = made->kinds.emplace_back(other ? *other : kind_of(*row, made->given, made->meshes));
        if (other) {
            kind.name = kind.brief = kind.device = row->name;
            continue;
        }
        kind.partial = framework.placed || made->meshes.front().second.size() != world_size;
        kind.placed = made->placed;
        if (row->on_host) kind.device = (*std::ranges::find(kinds.rows, row->groups, &KindRow::groups))->name;
    }
    made_ = std::move(made);
}

int Groups::world_size() const { return made_->given.world_size(); }
const Mesh& Groups::mesh() const { return made_->meshes.front().second; }
std::vector<std::string> Groups::kinds() const {
    auto names = std::vector<std::string>{};
    names.reserve(made_->kinds.size());
    for (const auto& kind : made_->kinds) names.emplace_back(kind.name);
    return names;
}
bool Groups::has(std::string_view kind) const { return made_->find(kind) != nullptr; }
int Groups::count(std::string_view kind) const { return made_->at(kind).count(); }
GroupPart Groups::group(std::string_view kind, int number) const {
    const auto& made = made_->at(kind);
    if (number < 0 || number >= made.count())
        throw Error(Fault::out_of_range,
                    cat("group ", number, " of ", made.count(), " groups ", detail::in_quotes(kind),
                        "; they are numbered 0..", made.count() - 1));
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
        return row.quantity == Quantity::group && (row.kind == "*" || (row.choose && row.kind.empty()));
    };
    if (std::ranges::any_of(made_->framework->accessors, gives_all)) plan.push_back({.name = "world"});
    for (auto& declared : plan) declared.name = name_in_plan(name, declared.name);
    return plan;
}

const Framework& Access::framework(const Groups& groups) { return *groups.made_->framework; }
std::string Access::kind_in_plan(const Groups& groups, std::string_view name) {
    for (const auto& kind : groups.made_->kinds)
        if (!kind.row->on_host && kind.brief == name) return std::string(kind.name);
    return {};
}
std::string Access::device_kind(const Groups& groups, std::string_view kind) {
    return std::string(groups.made_->at(kind).device);
}
const dialect::Placed& Access::placed(const Groups& groups) { return groups.made_->placed; }
const Given& Access::given(const Groups& groups) { return groups.made_->given; }
std::optional<GroupPart> Access::listed(const Groups& groups, std::string_view kind, int rank) {
    return groups.made_->at(kind).listed_of(rank);
}

bool Access::is_rising(const Groups& groups, std::string_view kind) {
    return groups.made_->at(kind).row->rising;
}

Groups Access::with(const Groups& groups, const AccessorRow& row, const Given& options,
                    std::vector<std::string>& kinds) {
    auto made = std::make_shared<Groups::Made>(*groups.made_);
    auto additions = Additions();
    row.adds(made->given, options, additions);
    const auto add = [](auto& all, const auto& name, auto&& each) {
        std::erase_if(all, [&](const auto& other) { return name(other) == name(each); });
        all.push_back(std::forward<decltype(each)>(each));
    };
    for (auto& mesh : additions.meshes)
        add(
            made->meshes, [](const auto& each) { return each.first; }, std::move(mesh));
    for (auto& row : additions.kinds) {
        const auto& kind = *made->owned.emplace_back(std::make_shared<const KindRow>(std::move(row)));
        add(made->kinds, std::mem_fn(&Kind::name), kind_of(kind, made->given, made->meshes));
        made->given.derive(kind.name, true);
        kinds.push_back(kind.name);
    }
    auto with = groups;
    with.made_ = std::move(made);
    return with;
}

const std::vector<std::pair<std::string, Mesh>>& Access::meshes(const Groups& groups) {
    return groups.made_->meshes;
}

std::vector<std::string_view> words_of(std::string_view text) {
    auto words = std::vector<std::string_view>{};
    each_word(text, [&](std::string_view word) { words.push_back(word); });
    return words;
}

std::string axes_of(const Mesh& mesh) {
    auto axes = std::string(mesh.name(AxisId{0}));
    for (int a = 1; a < mesh.axis_count(); ++a) axes += cat(" ", mesh.name(AxisId{a}));
    return axes;
}

const Framework& framework_named(std::string_view name) {
    auto known = std::vector<std::string_view>{};
    for (const auto& framework : all()) {
        if (framework.name == name) return framework;
        known.push_back(framework.name);
    }
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
