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

/// One kind, with its numbers.
struct Kind {
    std::string name;
    std::string brief;   // in a plan
    std::string device;  // of which this one's groups are those on the host, else itself
    bool apart = false;
    Mesh listed;  // the ranks in the framework's order
    Group whole;
    int size;                   // ranks of a group, before some are picked
    int step = 1;               // between them in the list
    int period;                 // of what is cut into groups, one after the other
    Layout along;               // those of a period from its first
    std::optional<Layout> run;  // those of a group from its first, where strides say it
    std::vector<int> at;
    std::optional<Layout> ascending;  // the run of a group whose ranks are sorted
    bool on_host = false;
    bool partial = false;  // outside there may be ranks
    bool rising = false;   // in a communicator
    dialect::Placed placed;

    int parts() const { return (period + size - 1) / size; }
    int count() const { return whole.size() / period * parts(); }
    bool has_shorter() const { return period % size != 0; }

    GroupPart listed_group(int number) const {
        return {whole, number / step * size * step + number % step, step, size, placed};
    }
    GroupPart group(int number) const {
        if (step > 1) return listed_group(number);
        const auto first = number % parts() * size;
        const auto begin = number / parts() * period;
        if (!run) return {Group(whole[begin], along), first, 1, std::min(size, period - first), placed};
        auto group = Group(whole[begin + first], *run);
        if (!at.empty()) group = group.pick(at);
        return {group, 0, 1, group.size(), placed};
    }

    /// The group that is made of the ranks among which `rank` is.
    std::optional<GroupPart> listed_of(int rank) const {
        const auto own = dialect::rank_on(placed, rank);
        const auto position = own ? whole.group_rank(*own) : std::nullopt;
        if (!position) return std::nullopt;
        if (step > 1) return group(*position / (size * step) * step + *position % step);
        return group(*position / period * parts() + *position % period / size);
    }
    std::optional<GroupPart> of(int rank) const {
        auto own = listed_of(rank);
        if (!own || !own->contains(rank)) return std::nullopt;
        if (ascending) own = GroupPart(Group(own->front(), *ascending), 0, 1, size, placed);
        return own;
    }

    Declaration declaration() const {
        auto declared = Declaration{.name = brief, .partial = partial};
        const auto ranks = apart || !at.empty() ? "ranks" : "group";
        auto parts = std::vector<Axis>{{"groups", count() / step}, {ranks, size}};
        if (step > 1) parts.push_back({"between", step});
        auto names = std::vector<std::string_view>{};
        for (int a = 0; a < listed.axis_count(); ++a) names.push_back(listed.name(AxisId{a}));
        auto is_listed = placed || rising;
        try {
            if (!is_listed) declared.mesh = listed.flatten(names, "whole").split("whole", parts);
        } catch (const UsageError&) {  // a group does not end between the digits of the axes
            is_listed = true;
        }
        if (is_listed) {
            declared.mesh = Mesh{{"groups", count()}, {ranks, size}};
            for (int number = 0; number < count(); ++number) {
                const auto group = listed_group(number);
                declared.placed.insert(declared.placed.end(), group.begin(), group.end());
                if (rising) std::sort(declared.placed.end() - size, declared.placed.end());
            }
        }
        declared.axes = std::vector<std::string>{};
        if (!at.empty())
            declared.picks.push_back({ranks, at, "group"});
        else if (apart)
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
    const auto names = words_of(row.axes);
    auto said = std::string{};
    auto rest_at = std::optional<std::size_t>{};
    for (const auto& name : names) {
        const auto size = size_of(framework, given, name);
        if (!size) rest_at = axes.size();
        axes.push_back({name, size.value_or(1)});
        product *= size.value_or(1);
        if (size) said += cat(said.empty() ? "" : " x ", name, " ", *size);
    }
    const auto world = given.world_size();
    const auto is_part = framework.placed || !framework.offset.empty();
    if (rest_at ? world % product != 0 : is_part ? world < product : world != product)
        throw Error(Fault::sizes, cat("a world of ", world, " ranks is not ", rest_at ? "divided by " : "",
                                      said, ", which is ", product));
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

Layout digits_of(const Mesh& mesh) {
    auto digits = Layout{};
    for (int a = 0; a < mesh.axis_count(); ++a)
        for (int d = 0; d < mesh.layout(AxisId{a}).digit_count(); ++d)
            digits.push_back(mesh.layout(AxisId{a}).digit(d));
    return digits;
}

/// The mesh, the order of its axes and where a group begins, of `experts: pp | ep` or `dp tp / size`.
Kind kind_of(const KindRow& row, const Given& given,
             const std::vector<std::pair<std::string, Mesh>>& meshes) {
    auto text = std::string_view(row.groups);
    const auto* mesh = &meshes.front().second;
    if (const auto colon = text.find(':'); colon != std::string_view::npos) {
        for (const auto& [name, one] : meshes)
            if (name == text.substr(0, colon)) mesh = &one;
        text.remove_prefix(colon + 1);
    }
    const auto cut = text.find_first_of("|/");
    auto order = words_of(text.substr(0, cut));
    const auto outside = order.size();
    auto period = 1;
    const auto slash = text.find('/', cut);
    if (text[cut] == '|')
        for (const auto name : words_of(text.substr(cut + 1, slash - cut - 1))) {
            period *= mesh->size(name);
            order.push_back(name);
        }
    auto listed = mesh->permuted(order);
    const auto whole = listed.ranks();
    if (text[cut] == '/') period = whole.size();
    auto size = period, step = 1;
    if (slash != std::string_view::npos) {
        const auto counts = words_of(text.substr(slash + 1));
        size = detail::number_in(counts.at(0)).value_or(0);
        if (size == 0) size = given.number(counts[0]);
        if (counts.size() > 1) step = detail::number_in(counts[1]).value_or(1);
    }
    if (size < 1 || (text[cut] == '/' && whole.size() % size != 0))
        throw Error(Fault::sizes,
                    cat("the ", whole.size(), " ranks are not divided by groups '", row.name, "' of ", size));
    auto kind = Kind{.name = row.name,
                     .brief = row.brief.empty() ? row.name : row.brief,
                     .device = row.name,
                     .apart = row.apart,
                     .listed = listed,
                     .whole = whole,
                     .size = size,
                     .step = step,
                     .period = period,
                     .along = {},
                     .run = {},
                     .at = {},
                     .ascending = {},
                     .rising = row.rising,
                     .placed = {}};
    auto periods = detail::LayoutParts(digits_of(listed)), parts = periods;
    periods.next(whole.size() / period);  // which ends between axes
    kind.along = *periods.next(period);
    if (period % size == 0 && parts.next(whole.size() / size)) kind.run = parts.next(size);
    if (row.sorted) {
        std::ranges::sort(order.begin() + static_cast<std::ptrdiff_t>(outside), order.end(), {},
                          [&](auto axis) { return mesh->axis(axis).index; });
        kind.listed = mesh->permuted(order);
        periods = detail::LayoutParts(digits_of(kind.listed));
        periods.next(whole.size() / period);
        kind.ascending = periods.next(period);
    }
    if (row.at) kind.at = row.at(given);
    return kind;
}

}  // namespace

struct Groups::Made {
    const Framework* framework;
    Given given;
    std::vector<std::pair<std::string, Mesh>> meshes;
    std::vector<Kind> kinds;
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
        Made{&framework, Given(framework.name, framework.settings, settings, world_size), {}, {}, {}});
    if (framework.check_first) framework.check_first(made->given);
    check_sizes(framework, made->given);
    if (framework.check) framework.check(made->given);
    auto meshes = framework.meshes;
    auto kinds = framework.kinds;
    if (framework.extend) framework.extend(made->given, meshes, kinds);
    for (const auto& row : meshes) made->meshes.emplace_back(row.name, mesh_of(framework, made->given, row));
    if (framework.placed)
        if (const auto& ranks = framework.placed(made->given); !ranks.empty())
            made->placed = std::make_shared<const std::vector<int>>(ranks);
    made->kinds.reserve(kinds.size());
    for (const auto& row : kinds) {
        if (row.when && !row.when(made->given)) continue;
        const auto same = row.same ? row.same(made->given) : std::string_view();
        if (const auto* other = same.empty() ? nullptr : made->find(same)) {
            made->kinds.push_back(*other);
            made->kinds.back().name = made->kinds.back().brief = made->kinds.back().device = row.name;
        } else {
            made->kinds.push_back(kind_of(row, made->given, made->meshes));
            made->kinds.back().partial = framework.placed || made->meshes.front().second.size() != world_size;
            made->kinds.back().placed = made->placed;
            made->kinds.back().on_host = row.on_host;
            if (row.on_host)
                made->kinds.back().device = std::ranges::find(kinds, row.groups, &KindRow::groups)->name;
        }
    }
    made_ = std::move(made);
}

int Groups::world_size() const { return made_->given.world_size(); }
const Mesh& Groups::mesh() const { return made_->meshes.front().second; }
std::vector<std::string> Groups::kinds() const {
    auto names = std::vector<std::string>{};
    for (const auto& kind : made_->kinds) names.push_back(kind.name);
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
bool Groups::is_apart(std::string_view kind) const { return made_->at(kind).apart; }
bool Groups::is_on_host(std::string_view kind) const { return made_->at(kind).on_host; }

Plan Groups::plan(std::string_view name) const {
    auto plan = Plan{};
    for (const auto& kind : made_->kinds)
        if (!kind.has_shorter() && !kind.on_host) plan.push_back(kind.declaration());
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
        if (!kind.on_host && kind.brief == name) return kind.name;
    return {};
}
const std::string& Access::device_kind(const Groups& groups, std::string_view kind) {
    return groups.made_->at(kind).device;
}
const dialect::Placed& Access::placed(const Groups& groups) { return groups.made_->placed; }
const Given& Access::given(const Groups& groups) { return groups.made_->given; }
std::optional<GroupPart> Access::listed(const Groups& groups, std::string_view kind, int rank) {
    return groups.made_->at(kind).listed_of(rank);
}

bool Access::is_rising(const Groups& groups, std::string_view kind) { return groups.made_->at(kind).rising; }

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
        add(made->meshes, [](const auto& each) { return each.first; }, std::move(mesh));
    for (const auto& kind : additions.kinds) {
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
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find(' ', begin), text.size());
        if (end > begin) words.emplace_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
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
