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
                          {"rank", Quantity::rank, "This rank's place in its "},
                          {"world_size", Quantity::size, "The size of this rank's "}};

}  // namespace

std::vector<AccessorRow> accessors_of(const Named& named) {
    auto rows = std::vector<AccessorRow>{};
    const auto is_set = [&](std::string_view what) { return named.sets.find(what) != named.sets.npos; };
    each_word(named.gets, [&](std::string_view what) {
        const auto& face = *std::ranges::find(faces, what, &Face::name);
        rows.push_back({.name = cat("get_", named.name, "_", what),
                        .kind = std::string(named.kind),
                        .quantity = face.quantity,
                        .doc = cat(face.doc, named.noun, is_set(what) ? ", or what was set." : "."),
                        .slot = is_set(what) ? cat(named.name, "_", what) : ""});
    });
    each_word(named.sets, [&](std::string_view number) {
        rows.push_back({.name = cat("set_", named.name, "_", number),
                        .quantity = Quantity::action,
                        .doc = "What the getter answers from now on; None: the group's own again.",
                        .options = {required(std::string(number), Type::maybe_number)},
                        .slot = cat(named.name, "_", number)});
    });
    return rows;
}

}  // namespace rankmesh::frameworks
