// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include "convert/rows.hpp"

namespace rankmesh::conversion {

using frameworks::Groups;
using frameworks::Type;
using frameworks::Value;

namespace {

/// True for the size of an axis that another setting counts, too: tp_size that is dp x cp x tp counts that of
/// cp.
bool is_counted(const frameworks::Framework& rows, const frameworks::Setting& setting) {
    return std::ranges::any_of(rows.settings, [&](const auto& other) {
        const auto axes = frameworks::words_of(other.axis);
        return other.name != setting.name && std::ranges::find(axes, setting.axis) != axes.end();
    });
}

/// The value of a setting under one of its names; in a table it has one.
std::optional<Value> said_of(Settings& settings, const frameworks::Setting& row, bool in_table) {
    auto said = in_table ? name_outside(row) : row.name;
    auto value = value_of(settings, row, said);
    if (in_table) return value;
    for (const auto flag : frameworks::words_of(row.flag)) {
        auto other = value_of(settings, row, std::string(flag));
        if (!other) continue;
        if (value && *value != *other && settings.is_flags()) {
            if (settings.is_later(said, flag)) continue;  // the last wins, as in argparse
        } else if (value && *value != *other) {
            throw UsageError(
                cat(settings.shown(said), " and ", settings.shown(flag), " differ; say it once"));
        }
        value = std::move(other);
        said = flag;
    }
    return value;
}

/// Throws UsageError for a table without the setting that it needs, the first of those whose names begin with
/// its own: dp_config needs dp_config.name.
void check_tables(const frameworks::Framework& rows, Settings& settings, const frameworks::Values& values) {
    auto seen = std::set<std::string>{};
    for (const auto& row : rows.settings) {
        const auto name = name_outside(row);
        const auto table = name.substr(0, name.find('.'));
        if (row.apart || table == name || !seen.insert(table).second) continue;
        if (settings.has_table(table) && !frameworks::find_in(values, row.name))
            throw UsageError(cat(name, " is not given; ", table, " needs it"));
    }
}

/// The first mesh in roles, and that of the experts.
std::vector<Mesh> meshes_of(const frameworks::Framework& rows, const Groups& groups) {
    const auto& mesh = groups.mesh();
    const auto& given = frameworks::Access::given(groups);
    if (rows.read)
        if (auto meshes = rows.read(given, mesh); !meshes.empty()) return meshes;
    auto axes = std::vector<std::pair<std::string, int>>{};
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto name = role(rows, mesh.name(AxisId{a}));
        if (const auto same = std::ranges::find(axes, name, &std::pair<std::string, int>::first);
            same != axes.end())
            same->second *= mesh.size(AxisId{a});  // two axes for one role
        // What the framework does not name is not there.
        else if (name == mesh.name(AxisId{a}) || mesh.size(AxisId{a}) > 1)
            axes.emplace_back(name, mesh.size(AxisId{a}));
    }
    if (axes.empty()) axes.emplace_back(role(rows, mesh.name(AxisId{mesh.axis_count() - 1})), 1);
    auto meshes = std::vector<Mesh>{plain_mesh(axes)};
    if (rows.experts)
        if (const auto experts = rows.experts(given, mesh)) meshes.push_back(*experts);
    return meshes;
}

/// Adds as extras the values that change neither meshes nor anything else that others have settings for.
void keep_own(const frameworks::Framework& rows, const Read& read, Arrangement& arrangement) {
    const auto& meshes = arrangement.meshes;
    const auto has_several = [](const Value& value) {  // of which a mesh may show one
        const auto* numbers = std::get_if<std::vector<int>>(&value);
        const auto* words = std::get_if<std::vector<std::string>>(&value);
        return (numbers && numbers->size() > 1) || (words && words->size() > 1);
    };
    for (const auto& [name, value] : read.values) {
        const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
        if (!row->axis.empty() || !row->extra.empty() || row->type == Type::plan || value == row->otherwise ||
            row->otherwise == Value(-1))  // which the world can say as well
            continue;
        auto in_job = false;
        // Others that say the same where the setting is not given, or 1, are in the meshes as well.
        const auto says_nothing = [&](bool as_one) {
            auto others = read.values;
            std::erase_if(others, [&, &own = name](const auto& each) { return each.first == own; });
            if (as_one) others.emplace_back(name, 1);
            try {
                const auto groups = Groups(rows.name, others, read.groups.world_size());
                in_job = rows.serving && rows.serving(frameworks::Access::given(groups)) !=
                                             rows.serving(frameworks::Access::given(read.groups));
                const auto dp_role =
                    rows.dp_role ? rows.dp_role(frameworks::Access::given(groups)) : arrangement.dp_role;
                return meshes_of(rows, groups) == meshes && dp_role == arrangement.dp_role;
            } catch (const UsageError&) {
                return false;
            }
        };
        // A size of 1 that changes nothing is what the others have without it.
        if (has_several(value) || (says_nothing(false) && (value != Value(1) || in_job) &&
                                   (!std::holds_alternative<int>(value) || says_nothing(true))))
            arrangement.extras.push_back({own_name(rows, name), json_of(value).dump(), in_job});
    }
}

}  // namespace

std::optional<Value> value_of(Settings& settings, const frameworks::Setting& row, const std::string& name) {
    const auto as_value = [](auto&& found) { return found ? std::optional(Value(*found)) : std::nullopt; };
    if (row.type == Type::flag) return as_value(settings.flag(name));
    if (row.type == Type::word || row.type == Type::maybe_word) return as_value(settings.word(name));
    if (row.type == Type::words || row.type == Type::names) return as_value(settings.words(name));
    if (row.type == Type::numbers)
        return as_value(settings.numbers(name, row.otherwise == Value(std::vector{0}) ? 0 : 1));
    if (row.type == Type::plan) return settings.has(name) ? std::optional(Value("given")) : std::nullopt;
    if (row.type == Type::mesh) return std::nullopt;
    const auto is_size = !row.axis.empty() && row.otherwise != Value(-1);
    return as_value(is_size && settings.number(name) ? std::optional(settings.size(name))
                                                     : settings.number(name));
}

int StageLayers::*part_of_stages(std::string_view extra) {
    return extra == "layers of a virtual stage" ? &StageLayers::layers
           : extra == fewer_first               ? &StageLayers::first_less
           : extra == fewer_last                ? &StageLayers::last_less
                                                : nullptr;
}

bool has_stages(const Arrangement& arrangement) {
    const auto schedule = extra_of(arrangement, pipeline_schedule);
    return size_of(arrangement.dense(), "pp") > 1 && schedule && schedule != "1F1B" && schedule != "GPipe";
}

std::string name_outside(const frameworks::Setting& row) {
    return row.flag.empty() ? row.name : std::string(frameworks::words_of(row.flag).front());
}

Read groups_of(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto known = world_of(settings, world);
    const auto others = frameworks::words_of(rows.ignore);
    for (const auto name : others) settings.ignore({name});
    auto values = frameworks::Values{};
    auto product = std::int64_t{1};
    const auto is_in_table = [&](const auto& row) { return !rows.table.empty() && !row.apart; };
    const auto read = [&](const frameworks::Setting& row) {
        if (std::ranges::find(others, row.name) != others.end()) return;
        auto value = said_of(settings, row, is_in_table(row));
        if (!value) return;
        if (const auto* size = std::get_if<int>(&*value); size && !row.axis.empty() && !is_counted(rows, row))
            product *= std::max(*size, 1);
        values.emplace_back(row.name, std::move(*value));
    };
    for (const auto& row : rows.settings)
        if (!is_in_table(row)) read(row);
    const auto stands = [&](bool inside) {
        return std::ranges::any_of(rows.settings, [&](const auto& row) {
            if (std::ranges::find(others, row.name) != others.end()) return false;
            return inside ? is_in_table(row) && settings.has(cat(rows.table, ".", name_outside(row)))
                          : settings.has(name_outside(row));
        });
    };
    const auto stand_outside =
        rows.written == frameworks::Written::json_without_table && !stands(true) && stands(false);
    if (!rows.table.empty() && !stand_outside) settings.enter(rows.table);
    for (const auto& row : rows.settings)
        if (is_in_table(row)) read(row);
    if (!rows.table.empty()) check_tables(rows, settings, values);
    const auto is_configured = [&](const auto& each) {
        return std::ranges::find(rows.settings, each.first, &frameworks::Setting::name)->only_configured;
    };
    if (rows.configure && settings.has_entered())
        rows.configure(values, needed_world(settings, world, cat(rows.name, "'s data parallel size")));
    else if (rows.configure && std::ranges::any_of(values, is_configured))
        rows.configure(values, known.value_or(0));
    // 0 where the settings leave it to the world
    const auto said = rows.ranks
                          ? rows.ranks(frameworks::Given(rows.name, rows.settings, values, 1)).value_or(0)
                      : rows.leaves.empty() ? product
                                            : 0;
    if (std::max(said, product) > Mesh::max_size)
        throw UsageError(cat("the sizes make more than ", Mesh::max_size, " ranks"));
    const auto ranks = known      ? *known
                       : said > 0 ? static_cast<int>(said)
                                  : needed_world(settings, known, rows.leaves);
    if (rows.check_flags) rows.check_flags(frameworks::accepted(rows, values, ranks));
    auto groups = Groups(rows.name, values, ranks);
    return {std::move(values), std::move(groups)};
}

std::string_view role(const frameworks::Framework& rows, std::string_view axis) {
    const auto found = rows.roles.find(std::string(axis));
    return found == rows.roles.end() ? axis : found->second;
}

std::string own_name(const frameworks::Framework& rows, std::string_view name) {
    return cat(rows.name, "'s ", name);
}

Arrangement read(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto found = groups_of(rows, settings, world);
    const auto& [values, groups] = found;
    auto arrangement = Arrangement{meshes_of(rows, groups)};
    if (rows.experts && arrangement.meshes.size() > 1)
        arrangement.has_experts = size_of(arrangement.meshes[1], "ep") > 1;
    if (rows.serving)
        if (const auto servers = rows.serving(frameworks::Access::given(groups)); !servers.empty()) {
            auto& part = arrangement.job.parts.emplace_back();
            part.meshes.assign(arrangement.meshes.begin(), arrangement.meshes.end());
            part.meshes.insert(part.meshes.end(), servers.begin(), servers.end());
        }
    if (rows.dp_role) arrangement.dp_role = rows.dp_role(frameworks::Access::given(groups));
    keep_own(rows, found, arrangement);
    auto stages = StageLayers{};
    for (const auto& row : rows.settings)
        if (const auto part = part_of_stages(row.extra)) {
            const auto* said = frameworks::find_in(values, row.name);
            const auto* number = std::get_if<int>(said ? said : &row.otherwise);
            stages.*part = number ? *number : 0;
        }
    for (const auto& [name, value] : values) {
        const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
        if (part_of_stages(row->extra)) continue;
        // A number or flag that is the default says nothing.
        if (row->extra.empty() || (!std::holds_alternative<std::string>(value) && value == row->otherwise))
            continue;
        if (std::holds_alternative<bool>(value)) arrangement.extras.push_back({row->extra, {}});
        if (const auto* number = std::get_if<int>(&value))
            arrangement.extras.push_back({row->extra, std::to_string(*number)});
        for (const auto& [word, meaning] : row->words)
            if (value == Value(word)) arrangement.extras.push_back({row->extra, meaning});
        if (const auto* word = std::get_if<std::string>(&value); word && row->words.empty())
            arrangement.extras.push_back({row->extra, schedule_named(*word)});
    }
    if (!has_stages(arrangement)) return arrangement;
    const auto is_interleaved = extra_of(arrangement, pipeline_schedule) == interleaved;
    if (is_interleaved && stages.layers > 0) {
        arrangement.stages = stages;
        arrangement.extras.push_back(uncounted(stages));
        return arrangement;
    }
    if (is_interleaved && rows.interleaved_stages > 0)
        arrangement.extras.push_back({std::string(virtual_stages), std::to_string(rows.interleaved_stages)});
    for (const auto& [name, value] : values)
        if (const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
            part_of_stages(row->extra))
            arrangement.extras.push_back({row->extra, std::to_string(std::get<int>(value))});
    return arrangement;
}

}  // namespace rankmesh::conversion
