// SPDX-License-Identifier: Apache-2.0
// Settings of every framework that is described by rows.
#include "convert/rows.hpp"

#include <algorithm>
#include <map>
#include <set>

#include <rankmesh/core/detail/number.hpp>

#include "convert/words.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using detail::cat;
using frameworks::Groups;
using frameworks::Type;
using frameworks::Value;

namespace {

/// The value of a setting under one of its names.
std::optional<Value> value_of(Settings& settings, const frameworks::Setting& row, const std::string& name) {
    const auto as_value = [](auto&& found) { return found ? std::optional(Value(*found)) : std::nullopt; };
    switch (row.type) {
        case Type::number:
        case Type::maybe_number:
            return as_value(row.axis.empty() || row.otherwise == Value(-1) || !settings.number(name)
                                ? settings.number(name)
                                : std::optional(settings.size(name)));
        case Type::flag:
            return as_value(settings.flag(name));
        case Type::word:
        case Type::maybe_word:
            return as_value(settings.word(name));
        case Type::numbers:
            return as_value(settings.numbers(name));
        case Type::plan:
            return settings.has(name) ? std::optional(Value("given")) : std::nullopt;
        case Type::words:
        case Type::names:
            return as_value(settings.words(name));
        case Type::mesh:
            break;
    }
    return std::nullopt;
}

/// The part of the layers of virtual stages that an extra names; null for other extras.
int StageLayers::*part_of_stages(std::string_view extra) {
    return extra == "layers of a virtual stage" ? &StageLayers::layers
           : extra == fewer_first               ? &StageLayers::first_less
           : extra == fewer_last                ? &StageLayers::last_less
                                                : nullptr;
}

/// True for a schedule of several virtual stages a rank.
bool has_stages(const Arrangement& arrangement) {
    const auto schedule = extra_of(arrangement, pipeline_schedule);
    return size_of(arrangement.dense(), "pp") > 1 && schedule && schedule != "1F1B" && schedule != "GPipe";
}

/// True for the size of an axis that another setting counts, too: tp_size that is dp x cp x tp counts that of
/// cp.
bool is_counted(const frameworks::Framework& rows, const frameworks::Setting& setting) {
    return std::ranges::any_of(rows.settings, [&](const auto& other) {
        const auto axes = frameworks::words_of(other.axis);
        return other.name != setting.name && std::ranges::find(axes, setting.axis) != axes.end();
    });
}

/// Its name in a table or on a command line.
std::string name_outside(const frameworks::Setting& row) {
    return row.flag.empty() ? row.name : std::string(frameworks::words_of(row.flag).front());
}

/// What was given, and the ranks that are known or counted.
struct Read {
    frameworks::Values values;
    Groups groups;
};

/// The settings, and the tables in them that dotted names are in; each needs the first of its settings.
struct Tables {
    Settings& settings;
    std::map<std::string, std::optional<Settings>, std::less<>> inner = {};

    std::optional<Value> value(const frameworks::Setting& row, const std::string& name) {
        const auto dot = name.find('.');
        if (dot == std::string::npos) return value_of(settings, row, name);
        const auto [table, fresh] = inner.try_emplace(name.substr(0, dot));
        if (fresh) table->second = settings.table(table->first);
        auto value = table->second ? value_of(*table->second, row, name.substr(dot + 1)) : std::nullopt;
        if (fresh && table->second && !value)
            throw UsageError(cat(name, " is not given; ", table->first, " needs it"));
        return value;
    }
    /// Throws UsageError for what is in them besides `known` names.
    void finish(const std::vector<std::string_view>& known) {
        for (auto& [name, table] : inner) {
            for (const auto each : known)
                if (table && each.starts_with(name + ".")) table->ignore({each.substr(name.size() + 1)});
            if (table) table->finish();
        }
    }
};

/// The value of a setting under one of its names; in a table it has one.
std::optional<Value> said_of(Tables& tables, const frameworks::Setting& row, bool in_table) {
    auto said = in_table ? name_outside(row) : row.name;
    auto value = tables.value(row, said);
    if (in_table) return value;
    for (const auto flag : frameworks::words_of(row.flag)) {
        auto other = tables.value(row, std::string(flag));
        if (!other) continue;
        if (value && *value != *other)
            throw UsageError(cat(tables.settings.shown(said), " and ", tables.settings.shown(flag),
                                 " differ; say it once"));
        value = std::move(other);
        said = flag;
    }
    return value;
}

Read groups_of(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto known = world_of(settings, world);
    const auto others = frameworks::words_of(rows.ignore);
    for (const auto name : others) settings.ignore({name});
    auto values = frameworks::Values{};
    auto product = std::int64_t{1};
    auto tables = Tables{settings};
    const auto is_in_table = [&](const auto& row) { return !rows.table.empty() && !row.apart; };
    const auto read = [&](const frameworks::Setting& row) {
        if (std::ranges::find(others, row.name) != others.end()) return;
        auto value = said_of(tables, row, is_in_table(row));
        if (!value) return;
        if (const auto* size = std::get_if<int>(&*value); size && !row.axis.empty() && !is_counted(rows, row))
            product *= std::max(*size, 1);
        values.emplace_back(row.name, std::move(*value));
    };
    for (const auto& row : rows.settings)
        if (!is_in_table(row)) read(row);
    if (!rows.table.empty()) settings.enter(rows.table);
    for (const auto& row : rows.settings)
        if (is_in_table(row)) read(row);
    tables.finish(others);
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
    if (rows.check_flags) {
        auto given = frameworks::Given(rows.name, rows.settings, values, ranks);
        if (rows.check_first) rows.check_first(given);
        if (rows.check) rows.check(given);
        rows.check_flags(given);
    }
    auto groups = Groups(rows.name, values, ranks);
    return {std::move(values), std::move(groups)};
}

std::string_view role(const frameworks::Framework& rows, std::string_view axis) {
    const auto found = rows.roles.find(std::string(axis));
    return found == rows.roles.end() ? axis : found->second;
}

/// The first mesh in roles, and that of the experts.
std::vector<Mesh> meshes_of(const frameworks::Framework& rows, const Groups& groups) {
    const auto& mesh = groups.mesh();
    const auto& given = frameworks::Access::given(groups);
    if (rows.read) return rows.read(given, mesh);
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
    auto meshes = std::vector<Mesh>{plain_mesh(axes)};
    if (rows.experts)
        if (const auto experts = rows.experts(given, mesh)) meshes.push_back(*experts);
    return meshes;
}

Arrangement read(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto [values, groups] = groups_of(rows, settings, world);
    auto arrangement = Arrangement{meshes_of(rows, groups)};
    if (rows.dp_role) arrangement.dp_role = rows.dp_role(frameworks::Access::given(groups));
    auto stages = StageLayers{};
    for (const auto& row : rows.settings)
        if (const auto part = part_of_stages(row.extra)) {
            const auto said = std::ranges::find(values, row.name, &frameworks::Values::value_type::first);
            const auto* number = std::get_if<int>(said == values.end() ? &row.otherwise : &said->second);
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

std::string text_of(const Json& value) {
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
    return value.dump();
}

/// The settings as flags where the framework has a command line, else as a call.
Document document_of(const frameworks::Framework& rows, const frameworks::Values& values) {
    auto document = Document{Json::object(), {}};
    if (!rows.table.empty()) {
        const auto is_toml = rows.written == frameworks::Written::toml;
        auto& table = rows.written == frameworks::Written::json_without_table ? document.values
                                                                              : document.values[rows.table];
        auto toml = cat("[", rows.table, "]");
        for (const auto& row : rows.settings)
            if (const auto said = std::ranges::find(values, row.name, &frameworks::Values::value_type::first);
                said != values.end()) {
                const auto name = name_outside(row);
                const auto dot = name.find('.');
                (dot == std::string::npos ? table[name] : table[name.substr(0, dot)][name.substr(dot + 1)]) =
                    json_of(said->second);
                toml += cat("\n", name_outside(row), " = ", json_of(said->second).dump());
            }
        document.text = is_toml ? toml : document.values.dump(2);
        return document;
    }
    const auto flags = !rows.is_class() &&
                       std::ranges::any_of(rows.settings, [](const auto& row) { return !row.flag.empty(); });
    const auto say = [&](const frameworks::Setting& row, const Value& value) {
        auto said = flags ? name_outside(row) : row.name;
        const auto json = json_of(value);
        document.values[said] = json;
        const auto* between = document.text.empty() ? "" : flags ? " " : ", ";
        if (flags) std::ranges::replace(said, '_', '-');
        document.text += flags ? cat(between, "--", said, json.is_boolean() ? "" : cat(" ", json.dump()))
                               : cat(between, said, "=", text_of(json));
    };
    for (const auto& [name, value] : values) {
        const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
        if (value != (row->otherwise == Value() ? Value(1) : row->otherwise)) say(*row, value);
    }
    if (document.text.empty()) say(rows.settings.front(), 1);  // at least one
    if (!flags)
        document.text = cat(rows.maker.empty() ? rows.initialize : rows.maker, "(", document.text, ")");
    return document;
}

/// True for settings that the framework does not refuse.
bool takes(const frameworks::Framework& rows, const frameworks::Values& values, int world) {
    try {
        Groups(rows.name, values, world);
        return true;
    } catch (const UsageError&) {
        return false;
    }
}

/// The sizes of the axes of settings, and the experts'.
frameworks::Values sizes_of(const frameworks::Framework& rows, const Arrangement& arrangement) {
    if (rows.write) return rows.write(arrangement.meshes);
    const auto& dense = arrangement.dense();
    auto values = frameworks::Values{};
    const auto replicas_are_apart =
        std::ranges::any_of(rows.roles, [](const auto& each) { return each.second == "dp_replicate"; }) ||
        std::ranges::any_of(rows.settings, [](const auto& row) { return row.axis == "dp_replicate"; });
    auto written = std::set<std::string_view>{};  // of two axes for one role, the first has all
    for (const auto& row : rows.settings) {
        if (row.axis.empty() || !written.insert(role(rows, row.axis)).second) continue;
        auto size = 1;
        for (const auto axis : frameworks::words_of(row.axis)) {
            const auto name = role(rows, axis);
            size *= name != "dp" && name != "dp_shard"
                        ? size_of(dense, name)
                        : data_size(dense) / (replicas_are_apart ? size_of(dense, "dp_replicate") : 1);
        }
        values.emplace_back(row.name, size);
    }
    if (rows.write_experts)
        if (const auto* experts = arrangement.experts())
            for (auto& value : rows.write_experts(*experts)) {
                std::erase_if(values, [&](const auto& said) { return said.first == value.first; });
                values.push_back(std::move(value));
            }
    return values;
}

Document write(const frameworks::Framework& rows, const Arrangement& arrangement) {
    auto values = sizes_of(rows, arrangement);
    const auto can_interleave =
        rows.interleaved_stages > 0 && size_of(arrangement.dense(), "pp") > 1 &&
        extra_of(arrangement, pipeline_schedule).value_or(interleaved) == interleaved &&
        (arrangement.stages || stages_of(arrangement) == rows.interleaved_stages);
    for (const auto& row : rows.settings)
        if (const auto part = part_of_stages(row.extra)) {
            if (can_interleave && arrangement.stages)
                values.emplace_back(row.name, *arrangement.stages.*part);
            else if (const auto said = extra_of(arrangement, row.extra);
                     said && (can_interleave || has_stages(arrangement)))
                values.emplace_back(row.name, detail::number_in(*said).value_or(0));
        } else if (can_interleave && row.extra == pipeline_schedule) {
            values.emplace_back(row.name, interleaved);
        } else if (const auto extra = row.extra.empty() ? std::nullopt : extra_of(arrangement, row.extra)) {
            auto said = values;
            const auto is_number = row.type == Type::number || row.type == Type::maybe_number;
            if (is_number && !detail::number_in(*extra)) continue;
            if (row.words.empty())
                said.emplace_back(row.name, row.type == Type::maybe_word ? Value(*extra)
                                            : row.type == Type::flag     ? Value(true)
                                                                         : Value(std::stoi(*extra)));
            for (const auto& [word, meaning] : row.words)
                if (meaning == *extra) said.emplace_back(row.name, word);
            if (takes(rows, said, arrangement.dense().size())) values = std::move(said);
        }
    return document_of(rows, values);
}

Words words(const frameworks::Framework& rows, const Arrangement& roles, const Document& document) {
    auto settings = Settings(rows.name, document.values, document.text);
    return words_of(groups_of(rows, settings, roles.dense().size()).groups);
}

}  // namespace

Converter of_rows(const frameworks::Framework& rows) {
    auto converter = Converter{
        .name = rows.name,
        .of = rows.settings_of,
        .example = rows.example,
        .read = [&rows](Settings& settings, std::optional<int> world) { return read(rows, settings, world); },
        .write = [&rows](const Arrangement& arrangement) { return write(rows, arrangement); },
        .words = [&rows](const Arrangement& roles,
                         const Document& document) { return words(rows, roles, document); }};
    const auto know = [&converter](std::string_view name) {
        if (name.starts_with("dp_")) name = "dp";
        if (std::ranges::find(converter.roles, name) == converter.roles.end())
            converter.roles.push_back(name);
    };
    for (const auto axis : frameworks::words_of(rows.meshes.front().axes)) know(role(rows, axis));
    for (const auto& row : rows.settings)
        for (const auto axis : frameworks::words_of(row.axis)) know(role(rows, axis));
    for (const auto& [axis, name] : rows.roles) know(name);
    converter.version = rows.version;
    converter.copies_by = rows.copies_by;
    for (const auto& [name, why] : rows.why) converter.why.emplace(name, why);
    return converter;
}

}  // namespace rankmesh::conversion
