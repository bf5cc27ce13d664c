// SPDX-License-Identifier: Apache-2.0
// What both systems with a ProcessTopology are asked of it.
#pragma once

#include <rankmesh/frameworks/topology.hpp>

#include "check.hpp"

namespace golden {

using Names = std::vector<std::string>;
using Dims = std::vector<int>;

/// Names to indices, as a coordinate.
inline rankmesh::Coordinate coordinate(const Json& names) {
    auto made = rankmesh::Coordinate({});
    for (const auto& [name, index] : names.items()) made.push_back(name, index.get<int>());
    return made;
}

inline Json coordinates(const rankmesh::Coordinate& coord) {
    auto list = Json::array();
    for (int i = 0; i < coord.size(); ++i) list.push_back(coord[rankmesh::AxisId{i}]);
    return list;
}

template <class Partition>
Json groups_or_none(const std::optional<Partition>& partition) {
    return partition ? groups(*partition) : Json::array();
}

inline Json ranks_or_none(const std::optional<rankmesh::Group>& group) {
    return group ? ranks(*group) : Json::array();
}

/// The calls of a grid, as a list or, where the case has them so, by number and hash of their text.
inline Json in_form_of(const Json& expect, const Json& calls, std::string_view text) {
    if (!expect.contains("calls") || !expect["calls"].is_object()) return calls;
    auto hashed = Json::object();
    hashed["n"] = calls.size();
    hashed["fnv1a64"] = fnv1a64(text);
    return hashed;
}

/// Everything of kind `topology`.
inline Json all_of(const rankmesh::deepspeed::ProcessTopology& topo, const Json& expect) {
    auto answer =
        Json{{"world_size", topo.world_size()}, {"dims", Json::object()},     {"comm_lists", Json::object()},
             {"coords", Json::array()},         {"axis_list", Json::array()}, {"filter_match", Json::array()},
             {"rank_repr", Json::array()}};
    const auto& axes = topo.get_axis_names();
    for (const auto& axis : axes) {
        answer["dims"][axis] = topo.get_dim(axis);
        answer["comm_lists"][axis] = groups_or_none(topo.get_axis_comm_lists(axis));
    }
    for (const auto& row : expect["coords"]) {
        const auto coord = topo.get_coord(row[0]);
        auto made = Json{topo.get_rank(coord)};
        for (const auto& index : coordinates(coord)) made.push_back(index);
        answer["coords"].push_back(made);
    }
    for (const auto& row : expect["axis_list"])
        answer["axis_list"].push_back(
            {row[0], row[1], ranks_or_none(topo.get_axis_list(row[0].get<std::string>(), row[1]))});
    for (const auto& row : expect["filter_match"])
        answer["filter_match"].push_back(
            Json::array({row[0], ranks_or_none(topo.filter_match(coordinate(row[0])))}));
    for (const auto& row : expect["rank_repr"]) {
        const int rank = row[0];
        const auto first = axes.empty() ? Names{} : Names{axes[0]};
        answer["rank_repr"].push_back({rank, topo.get_rank_repr(rank), topo.get_rank_repr(rank, {}),
                                       topo.get_rank_repr(rank, first), topo.get_rank_repr(rank, axes),
                                       topo.get_rank_repr(rank, {}, "=", "/")});
    }
    return answer;
}

/// The kinds that both have; `make` makes a topology of the system.
template <class Topology>
std::map<std::string_view, std::function<Json(const Case&)>> topology_kinds(const Names& default_axes) {
    const auto made = [default_axes](const Json& config) {
        return Topology(config.value("axes", default_axes), config.value("dims", Dims{2, 2, 2}));
    };
    const auto repr = [made](const Case& test) {
        const auto topo = made(test.config);
        return test.config.contains("omit_axes")
                   ? Json(topo.get_rank_repr(test.config["rank"], test.config["omit_axes"].get<Names>()))
                   : Json(topo.get_rank_repr(test.config["rank"]));
    };
    const auto constructed = [made](const Case& test) {
        const auto topo = made(test.config);
        return all_of(topo, Json{{"coords", Json::array()},
                                 {"axis_list", Json::array()},
                                 {"filter_match", Json::array()},
                                 {"rank_repr", Json::array()}});
    };
    const auto axis_list = [made](const Case& test) {
        return ranks_or_none(
            made(test.config).get_axis_list(test.config["axis"].get<std::string>(), test.config["idx"]));
    };
    const auto filter = [made](const Case& test) {
        return ranks_or_none(made(test.config).filter_match(coordinate(test.config["filter"])));
    };
    return {
        {"topology", [made](const Case& test) { return all_of(made(test.config), test.expect); }},
        {"ctor_error", constructed},
        {"ctor_extra_dims", constructed},
        {"ctor_degenerate", constructed},
        {"ctor_empty",
         [made](const Case& test) {
             const auto topo = made(test.config);
             return Json{{"world_size", topo.world_size()},
                         {"get_coord_0", coordinates(topo.get_coord(0))},
                         {"get_rank", topo.get_rank({})}};
         }},
        {"get_rank_error",
         [made](const Case& test) {
             return Json(made(test.config).get_rank(coordinate(test.config["kwargs"])));
         }},
        {"get_coord_error",
         [made](const Case& test) { return coordinates(made(test.config).get_coord(test.config["rank"])); }},
        {"get_axis_comm_lists_unknown",
         [made](const Case& test) {
             return groups_or_none(
                 made(test.config).get_axis_comm_lists(test.config["axis"].get<std::string>()));
         }},
        {"get_dim_unknown",
         [made](const Case& test) {
             return Json(made(test.config).get_dim(test.config["axis"].get<std::string>()));
         }},
        {"get_axis_list_error", axis_list},
        {"get_axis_list_out_of_range", axis_list},
        {"filter_match_error", filter},
        {"filter_match_empty", filter},
        {"get_rank_repr_error", repr},
        {"get_rank_repr_all_omitted_bad_rank", repr},
        {"get_rank_repr_unknown_omit", repr},
        {"get_rank_repr_wide", repr}};
}

/// What of ours stands for an error of a topology.
inline std::vector<Fault> topology_faults(std::string_view type, std::string_view message) {
    const auto says = [&](std::string_view words) { return message.find(words) != message.npos; };
    if (type == "KeyError" || type == "AttributeError") return {Fault::unknown};
    if (type == "TypeError" && says("unexpected")) return {Fault::unknown};
    if (type == "TypeError" && says("multiple values")) return {Fault::argument};
    if (type == "IndexError") return {Fault::missing};
    if (type == "AssertionError" && says("key ")) return {Fault::out_of_range};
    if (type != "ValueError") return {};
    if (says("not found in topology")) return {Fault::out_of_range};
    if (says("does not support slices")) return {Fault::missing};
    if (says("is not in list") || says("unexpected field names")) return {Fault::unknown};
    if (says("field name") || says("Field names") || says("strictly positive")) return {Fault::argument};
    return {};
}

}  // namespace golden
