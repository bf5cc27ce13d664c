// SPDX-License-Identifier: Apache-2.0
// How settings of a framework that is described by rows are written.
#include "convert/rows.hpp"

#include <algorithm>
#include <set>

#include <rankmesh/core/detail/number.hpp>

namespace rankmesh::conversion {

using frameworks::Groups;
using frameworks::Type;
using frameworks::Value;

namespace {

/// The settings as flags where the framework has a command line, else as a call.
Document document_of(const frameworks::Framework& rows, const frameworks::Values& values) {
    auto document = Document{Json::object(), {}};
    if (!rows.table.empty()) {
        const auto is_toml = rows.written == frameworks::Written::toml;
        auto& table = rows.written == frameworks::Written::json_without_table ? document.values
                                                                              : document.values[rows.table];
        auto toml = cat("[", rows.table, "]");
        for (const auto& row : rows.settings)
            if (const auto* said = frameworks::find_in(values, row.name)) {
                const auto name = name_outside(row);
                const auto dot = name.find('.');
                (dot == std::string::npos ? table[name] : table[name.substr(0, dot)][name.substr(dot + 1)]) =
                    json_of(*said);
                toml += cat("\n", name_outside(row), " = ", json_of(*said).dump());
            }
        document.text = is_toml ? toml : document.values.dump(2);
        return document;
    }
    const auto is_in_tree = [](const auto& row) { return name_outside(row).find('.') != std::string::npos; };
    const auto is_flag = [&](const auto& row) { return !row.flag.empty() && !is_in_tree(row); };
    const auto overrides = std::ranges::all_of(rows.settings, is_in_tree);  // as Hydra reads them
    const auto flags = !rows.is_class() && std::ranges::any_of(rows.settings, is_flag);
    const auto say = [&](const frameworks::Setting& row, const Value& value) {
        auto said = flags ? name_outside(row) : row.name;
        const auto json = json_of(value);
        document.values[said] = json;
        if (overrides) said = name_outside(row);
        const auto* between = document.text.empty() ? "" : flags || overrides ? " " : ", ";
        if (flags) std::ranges::replace(said, '_', '-');
        document.text += flags ? cat(between, "--", said, json.is_boolean() ? "" : cat(" ", json.dump()))
                               : cat(between, said, "=",
                                     !json.is_boolean() ? json.dump()
                                     : json == true     ? "True"
                                                        : "False");
    };
    for (const auto& [name, value] : values) {
        const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
        const auto is_needed = row->type == Type::number && row->otherwise == Value();
        if (is_needed || value != (row->otherwise == Value() ? Value(1) : row->otherwise)) say(*row, value);
    }
    if (document.text.empty()) say(rows.settings.front(), 1);  // at least one
    if (!flags && !overrides)
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
    for (const auto& row : rows.settings)
        if (const auto own = extra_of(arrangement, own_name(rows, row.name))) {
            std::erase_if(values, [&](const auto& each) { return each.first == row.name; });
            auto said = Settings(rows.name, Json{{row.name, Json::parse(*own)}}, {});
            values.emplace_back(row.name, value_of(said, row, row.name).value());
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
    converter.places = rows.places;
    converter.started = rows.started;
    converter.serves = rows.serves;
    converter.copies_by = rows.copies_by;
    for (const auto& [name, why] : rows.why) converter.why.emplace(name, why);
    return converter;
}

}  // namespace rankmesh::conversion
