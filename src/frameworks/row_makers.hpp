// SPDX-License-Identifier: Apache-2.0
// Rows of the kinds that most frameworks have.
#pragma once

#include "frameworks/kinds.hpp"

namespace rankmesh::frameworks {

/// A setting or an option that must be given.
inline Setting required(std::string name, Type type = Type::number) {
    return {.name = std::move(name), .type = type, .otherwise = {}, .needed = true};
}

/// A setting of a configuration, and of no function.
inline Setting configured(std::string name, Type type, std::string doc = {}, std::string extra = {},
                          std::string flag = {}) {
    auto row = Setting{.name = std::move(name), .type = type, .doc = std::move(doc), .flag = std::move(flag)};
    row.only_configured = true;
    row.extra = std::move(extra);
    return row;
}

/// The groups along one axis of a mesh, the first unless `mesh` names another: `experts: `.
inline KindRow along(std::string axis, std::string when = {}, std::string_view mesh = {}) {
    return {.name = axis, .groups = cat(mesh, "* | ", axis), .when = std::move(when)};
}

/// An accessor whose answer is the setting of its name or of another, or what was derived under that name.
inline AccessorRow said(std::string name, std::string doc, Type type = Type::number,
                        std::string setting = {}) {
    return {.name = name,
            .kind = setting.empty() ? name : setting,
            .quantity = Quantity::value,
            .doc = std::move(doc),
            .type = type};
}
/// An accessor that returns `without` where there is no such group. It does not raise.
inline AccessorRow lenient(std::string name, std::string kind, Quantity quantity, std::string doc,
                           Value without = {}) {
    return {.name = std::move(name),
            .kind = std::move(kind),
            .quantity = quantity,
            .doc = std::move(doc),
            .without = std::move(without)};
}
/// An accessor of what no row can say.
inline AccessorRow computed(std::string name, Type type, decltype(AccessorRow::code) code, std::string doc,
                            std::vector<Setting> options = {}, Quantity quantity = Quantity::value) {
    return {.name = std::move(name),
            .quantity = quantity,
            .doc = std::move(doc),
            .options = std::move(options),
            .code = code,
            .type = type};
}
/// An accessor of the kind that its options mean.
inline AccessorRow chosen(std::string name, Quantity quantity, decltype(AccessorRow::choose) choose,
                          std::string doc, std::vector<Setting> options = {},
                          std::optional<Value> without = {}) {
    return {.name = std::move(name),
            .quantity = quantity,
            .doc = std::move(doc),
            .options = std::move(options),
            .choose = choose,
            .without = std::move(without)};
}

/// Accessors about one kind: NAME_group, NAME_rank and so on.
struct Named {
    std::string_view name, kind;
    std::string_view noun;       ///< what the group is to its rank: `tensor-parallel group`
    std::string_view gets;       ///< what is asked: group, rank, world_size and others
    std::string_view sets = {};  ///< the functions set_NAME_..., of what get_NAME_... answers from then on
    bool may_lack = false;       ///< without a group the answers are None and -1
};
/// Their rows, whose names begin with `before`.
std::vector<AccessorRow> accessors_of(std::initializer_list<Named> all, std::string_view before = "get_");
/// Adds to `rows` one like `row` for each of these faces, which ends its name: `group rank`.
void add_faces(std::vector<AccessorRow>& rows, const AccessorRow& row, std::string_view noun,
               std::string_view faces);
/// Adds flags NAME_enabled of these names: true if the size NAME, with this ending, is above 1.
void add_enabled(std::vector<AccessorRow>& rows, std::string_view names, std::string_view ending = {});

}  // namespace rankmesh::frameworks
