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
            return as_value(settings.number(name));
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

Groups groups_of(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
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
    const auto ranks = world_of(settings, world).value_or(static_cast<int>(product));
    if (rows.check_flags) {
        auto given = frameworks::Given(rows.name, rows.settings, values, ranks);
        if (rows.check) rows.check(given);
        rows.check_flags(given);
    }
    return Groups(rows.name, values, ranks);
}

std::string_view role(const frameworks::Framework& rows, std::string_view axis) {
    const auto found = rows.roles.find(std::string(axis));
    return found == rows.roles.end() ? axis : found->second;
}

Arrangement read(const frameworks::Framework& rows, Settings& settings, std::optional<int> world) {
    const auto groups = groups_of(rows, settings, world);
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
    const auto flags = !rows.is_class() &&
                       std::ranges::any_of(rows.settings, [](const auto& row) { return !row.flag.empty(); });
    for (const auto& [name, value] : values) {
        const auto row = std::ranges::find(rows.settings, name, &frameworks::Setting::name);
        const auto is_none = row->otherwise == Value();
        if (value == (is_none ? Value(1) : row->otherwise)) continue;
        const auto& said = flags && !row->flag.empty() ? row->flag : name;
        const auto json = json_of(value);
        document.values[said] = json;
        if (flags) {
            auto dashed = said;
            std::ranges::replace(dashed, '_', '-');
            document.text += cat(document.text.empty() ? "--" : " --", dashed,
                                 json.is_boolean() ? "" : cat(" ", json.dump()));
        } else {
            document.text += cat(document.text.empty() ? "" : ", ", said, "=", text_of(json));
        }
    }
    if (document.text.empty()) {  // say at least one
        const auto& first = rows.settings.front();
        document.values[flags && !first.flag.empty() ? first.flag : first.name] = 1;
    }
    if (!flags)
        document.text = cat(rows.maker.empty() ? rows.initialize : rows.maker, "(", document.text, ")");
    return document;
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
    return document_of(rows, values);
}

Words words(const frameworks::Framework& rows, const Arrangement& roles, const Document& document) {
    auto settings = Settings(rows.name, document.values, document.text);
    const auto groups = groups_of(rows, settings, roles.dense().size());
    auto in_words =
        Words{.dialect = {}, .mesh = groups.mesh(), .kinds = {}, .answers = [groups, &rows](int rank) {
                  const auto state = frameworks::State(groups, rank);
                  auto answers = Answers{};
                  for (const auto& row : rows.accessors)
                      if (row.quantity != Quantity::group && row.quantity != Quantity::ranks &&
                          row.quantity != Quantity::matrix)
                          answers.add(row.name, [&] { return json_of(state.ask(row.name)); });
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
    for (const auto& row : rows.settings)
        for (const auto axis : frameworks::words_of(row.axis)) know(role(rows, axis));
    for (const auto& [axis, name] : rows.roles) know(name);
    framework.version = rows.version;
    for (const auto& [name, why] : rows.why) framework.why.emplace(name, why);
    return framework;
}

}  // namespace rankmesh::conversion
