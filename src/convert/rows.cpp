// SPDX-License-Identifier: Apache-2.0
// Settings and words of every framework that is described by rows.
#include "convert/rows.hpp"

#include <algorithm>
#include <set>

#include "convert/words.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using detail::cat;
using frameworks::Groups;
using frameworks::Quantity;
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
            return as_value(settings.words(name));
    }
    return std::nullopt;
}

/// True for the size of an axis that another setting counts, too: tp_size that is dp x cp x tp counts that of
/// cp.
bool is_counted(const frameworks::Framework& rows, const frameworks::Setting& setting) {
    return std::ranges::any_of(rows.settings, [&](const auto& other) {
        const auto axes = frameworks::words_of(other.axis);
        return other.name != setting.name && std::ranges::find(axes, setting.axis) != axes.end();
    });
}

/// What was given, and the ranks that are known or counted.
struct Read {
    frameworks::Values values;
    Groups groups;
};

Read groups_of(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto known = rows.leaves.empty()
                           ? world_of(settings, world)
                           : std::optional(needed_world(settings, world, cat(rows.name, "'s ", rows.leaves)));
    if (!rows.table.empty()) settings.enter(rows.table);
    for (const auto name : frameworks::words_of(rows.let_be)) settings.let_be({name});
    auto values = frameworks::Values{};
    auto product = std::int64_t{1};
    for (const auto& row : rows.settings) {
        auto value = value_of(settings, row, row.name);
        if (auto other = row.flag.empty() ? std::nullopt : value_of(settings, row, row.flag)) {
            if (value && *value != *other)
                throw UsageError(
                    cat(settings.shown(row.name), " and ", settings.shown(row.flag), " differ; say it once"));
            value = std::move(other);
        }
        if (!value) continue;
        if (const auto* size = std::get_if<int>(&*value); size && !row.axis.empty() && !is_counted(rows, row))
            product *= std::max(*size, 1);
        values.emplace_back(row.name, std::move(*value));
    }
    if (product > Mesh::max_size)
        throw UsageError(cat("the sizes make more than ", Mesh::max_size, " ranks"));
    const auto ranks = known.value_or(static_cast<int>(product));
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

Arrangement read(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto [values, groups] = groups_of(rows, settings, world);
    auto axes = std::vector<std::pair<std::string, int>>{};
    const auto& mesh = groups.mesh();
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto name = role(rows, mesh.name(AxisId{a}));
        if (const auto same = std::ranges::find(axes, name, &std::pair<std::string, int>::first);
            same != axes.end())
            same->second *= mesh.size(AxisId{a});  // two axes for one role
        // What the framework does not name is not there.
        else if (name == mesh.name(AxisId{a}) || mesh.size(AxisId{a}) > 1)
            axes.emplace_back(name, mesh.size(AxisId{a}));
    }
    auto arrangement = Arrangement{{plain_mesh(axes)}};
    if (rows.experts)
        if (const auto experts = rows.experts(frameworks::Access::given(groups), mesh))
            arrangement.meshes.push_back(*experts);
    for (const auto& [name, value] : values) {
        const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
        if (row->extra.empty()) continue;
        if (const auto* number = std::get_if<int>(&value))
            arrangement.extras.push_back({row->extra, std::to_string(*number)});
        for (const auto& [word, meaning] : row->words)
            if (value == Value(word)) arrangement.extras.push_back({row->extra, meaning});
    }
    return arrangement;
}

Json json_of(const Value& value) {
    return std::visit(
        [](const auto& each) {
            if constexpr (std::is_same_v<std::decay_t<decltype(each)>, std::monostate>)
                return Json();
            else
                return Json(each);
        },
        value);
}

std::string text_of(const Json& value) {
    if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
    return value.dump();
}

/// The settings as flags where the framework has a command line, else as a call.
Document document_of(const frameworks::Framework& rows, const frameworks::Values& values) {
    auto document = Document{Json::object(), {}};
    if (!rows.table.empty()) {
        for (const auto& [name, value] : values) document.values[rows.table][name] = json_of(value);
        document.text = document.values.dump(2);
        return document;
    }
    const auto flags = !rows.is_class() &&
                       std::ranges::any_of(rows.settings, [](const auto& row) { return !row.flag.empty(); });
    const auto say = [&](const frameworks::Setting& row, const Value& value) {
        auto said = flags && !row.flag.empty() ? row.flag : row.name;
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

Document write(const frameworks::Framework& rows, const Arrangement& arrangement) {
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
    for (const auto& row : rows.settings)
        if (const auto extra = row.extra.empty() ? std::nullopt : extra_of(arrangement, row.extra)) {
            auto said = values;
            if (row.words.empty()) said.emplace_back(row.name, std::stoi(*extra));
            for (const auto& [word, meaning] : row.words)
                if (meaning == *extra) said.emplace_back(row.name, word);
            if (takes(rows, said, dense.size())) values = std::move(said);
        }
    return document_of(rows, values);
}

/// True for what is one value of a rank, and no variable that repeats a function's.
bool is_answer(const frameworks::AccessorRow& row) {
    if (row.name.starts_with('_') && row.name != "__str__") return false;
    const auto others = {Quantity::group, Quantity::ranks, Quantity::matrix, Quantity::mesh,
                         Quantity::action};
    return std::ranges::find(others, row.quantity) == others.end();
}

Words words(const frameworks::Framework& rows, const Arrangement& roles, const Document& document) {
    auto settings = Settings(rows.name, document.values, document.text);
    const auto groups = groups_of(rows, settings, roles.dense().size()).groups;
    auto in_words =
        Words{.dialect = {}, .mesh = groups.mesh(), .kinds = {}, .answers = [groups, &rows](int rank) {
                  const auto state = frameworks::State(groups, rank);
                  auto answers = Answers{};
                  for (const auto& row : rows.accessors)
                      if (is_answer(row))
                          answers.add(row.name == "__str__" ? cat("str(", rows.variable, ")") : row.name,
                                      [&] { return json_of(state.ask(row.name)); });
                  return answers.all();
              }};
    for (const auto& kind : groups.kinds())
        in_words.kinds.push_back({.name = kind,
                                  .count = groups.count(kind),
                                  .group = [groups, kind](int i) { return list_of(groups.group(kind, i)); },
                                  .of =
                                      [groups, kind](int rank) {
                                          const auto own = groups.of(kind, rank);
                                          return own ? list_of(*own) : std::vector<int>{};
                                      }});
    return in_words;
}

}  // namespace

Framework of_rows(const frameworks::Framework& rows) {
    auto framework = Framework{
        .name = rows.name,
        .of = rows.settings_of,
        .example = rows.example,
        .read = [&rows](Settings& settings, std::optional<int> world) { return read(rows, settings, world); },
        .write = [&rows](const Arrangement& arrangement) { return write(rows, arrangement); },
        .words = [&rows](const Arrangement& roles,
                         const Document& document) { return words(rows, roles, document); }};
    const auto know = [&framework](std::string_view name) {
        if (name.starts_with("dp_")) name = "dp";
        if (std::ranges::find(framework.roles, name) == framework.roles.end())
            framework.roles.push_back(name);
    };
    for (const auto axis : frameworks::words_of(rows.meshes.front().axes)) know(role(rows, axis));
    for (const auto& row : rows.settings)
        for (const auto axis : frameworks::words_of(row.axis)) know(role(rows, axis));
    for (const auto& [axis, name] : rows.roles) know(name);
    framework.version = rows.version;
    for (const auto& [name, why] : rows.why) framework.why.emplace(name, why);
    return framework;
}

}  // namespace rankmesh::conversion
