// SPDX-License-Identifier: Apache-2.0
#include "frameworks/row_makers.hpp"

namespace rankmesh::frameworks {

namespace {

struct Face {
    std::string_view name;
    Quantity quantity;
    const char* doc;  // before the noun
};
constexpr Face faces[] = {{"group", Quantity::group, "The ranks of this rank's "},
                          {"global_ranks", Quantity::ranks, "The ranks of this rank's "},
                          {"group_ranks", Quantity::ranks, "The ranks of this rank's "},
                          {"group_ids", Quantity::ranks, "The ranks of this rank's "},
                          {"rank", Quantity::rank, "This rank's place in its "},
                          {"world_size", Quantity::size, "The size of this rank's "},
                          {"size", Quantity::value, "The size of this rank's "},  // as the settings say it
                          {"first_rank", Quantity::first, "The first rank of this rank's "},
                          {"src_rank", Quantity::first, "The first rank of this rank's "},
                          {"last_rank", Quantity::last, "The last rank of this rank's "}};

}  // namespace

void add_faces(std::vector<AccessorRow>& rows, const AccessorRow& like, std::string_view noun,
               std::string_view names) {
    each_word(names, [&](std::string_view what) {
        const auto& face = *std::ranges::find(faces, what, &Face::name);
        auto& row = rows.emplace_back(like);
        row.name = cat(like.name, "_", what);
        row.quantity = face.quantity;
        row.doc = cat(face.doc, noun, ".");
        if (face.quantity == Quantity::value) row.kind = row.name;
    });
}

std::vector<AccessorRow> accessors_of(std::initializer_list<Named> all, std::string_view before) {
    auto rows = std::vector<AccessorRow>{};
    for (const auto& named : all) {
        const auto first = rows.size();
        add_faces(rows, {.name = cat(before, named.name), .kind = std::string(named.kind)}, named.noun,
                  named.gets);
        for (auto i = first; named.may_lack && i < rows.size(); ++i) {
            if (rows[i].quantity == Quantity::group) rows[i].without.emplace();
            if (rows[i].quantity == Quantity::rank) rows[i].without.emplace(-1);
        }
        each_word(named.sets, [&](std::string_view number) {
            const auto slot = cat(named.name, "_", number), getter = cat(before, slot);
            if (const auto row = std::ranges::find(rows, getter, &AccessorRow::name); row != rows.end()) {
                row->slot = slot;
                row->doc.replace(row->doc.size() - 1, 1, ", or what was set.");
            }
            rows.push_back({.name = cat("set_", slot),
                            .quantity = Quantity::action,
                            .doc = "What the getter answers from now on; None: the group's own again.",
                            .options = {required(std::string(number), Type::maybe_number)},
                            .slot = slot});
        });
    }
    return rows;
}

void add_enabled(std::vector<AccessorRow>& rows, std::string_view names, std::string_view ending) {
    each_word(names, [&](std::string_view name) {
        rows.push_back(said(cat(name, "_enabled"), cat("True if `", name, ending, "` is above 1."),
                            Type::flag, cat(name, ending, " > 1")));
    });
}

}  // namespace rankmesh::frameworks
