// SPDX-License-Identifier: Apache-2.0
// Groups and answers of every framework that is described by rows.
#include <algorithm>

#include "convert/rows.hpp"
#include "frameworks/rows.hpp"

namespace rankmesh::conversion {

using detail::cat;
using frameworks::Quantity;

namespace {

/// A part of a mesh as its dimensions and its ranks: `dp=2 cp=2 {0, 2, 4, 6}`.
std::string described(const frameworks::DeviceMesh& part) {
    const auto names = part.mesh_dim_names().value_or(std::vector<std::string>{});
    const auto shape = part.shape();
    auto text = std::string{};
    for (std::size_t i = 0; i < names.size(); ++i) text += cat(names[i], "=", shape[i], " ");
    return text + to_string(part.mesh());
}

/// True for what is one value of a rank, and no variable that repeats a function's.
bool is_answer(const frameworks::AccessorRow& row) {
    if (row.name.starts_with('_') && row.name != "__str__") return false;
    const auto others = {Quantity::group,  Quantity::group_list, Quantity::ranks,
                         Quantity::matrix, Quantity::mesh,       Quantity::action};
    return std::ranges::find(others, row.quantity) == others.end() &&
           (row.quantity != Quantity::device_mesh || row.options.empty()) &&
           std::ranges::none_of(row.options, &frameworks::Setting::needed);
}

}  // namespace

Json json_of(const frameworks::Value& value) {
    return std::visit(
        [](const auto& each) {
            using Each = std::decay_t<decltype(each)>;
            if constexpr (std::is_same_v<Each, std::monostate>) {
                return Json();
            } else if constexpr (std::is_same_v<Each, std::vector<frameworks::DeviceMesh>>) {
                auto texts = std::vector<std::string>{};
                for (const auto& mesh : each) texts.push_back(described(mesh));
                return texts.size() == 1 ? Json(texts.front()) : Json(texts);
            } else {
                return Json(each);
            }
        },
        value);
}

Words words_of(const frameworks::Groups& groups) {
    const auto& rows = frameworks::Access::framework(groups);
    auto calls = std::vector<frameworks::Call>{};
    for (const auto& row : rows.accessors)
        if (is_answer(row))
            calls.push_back({row.name == "__str__" ? cat("str(", rows.variable, ")")
                             : row.called          ? row.name + "()"
                                                   : row.name,
                             row.name,
                             {}});
    if (rows.calls)
        for (auto& call : rows.calls(frameworks::Access::given(groups))) calls.push_back(std::move(call));
    const auto answers = [groups, calls](int rank) {
        const auto state = frameworks::State(groups, rank);
        auto said = Json::object();
        for (const auto& call : calls) {
            try {
                said[call.text] = json_of(state.ask(call.accessor, call.options));
            } catch (const UsageError& error) {
                said[call.text] = {{"error", error.what()}};
            }
        }
        return said;
    };
    auto in_words = Words{.mesh = groups.mesh(), .kinds = {}, .answers = answers};
    for (const auto& kind : groups.kinds()) {
        if (groups.is_on_host(kind)) continue;
        const auto row = std::ranges::find(rows.kinds, kind, &frameworks::KindRow::name);
        in_words.kinds.push_back({.name = row == rows.kinds.end() || row->shown.empty() ? kind : row->shown,
                                  .count = groups.count(kind),
                                  .group = [groups, kind](int i) { return list_of(groups.group(kind, i)); },
                                  .of = [groups, kind](int rank) { return list_of(groups.of(kind, rank)); }});
    }
    return in_words;
}

}  // namespace rankmesh::conversion
