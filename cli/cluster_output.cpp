// SPDX-License-Identifier: Apache-2.0
#include "cluster_output.hpp"

namespace rankmesh::cli {

namespace of_cluster_output {

const std::string& name_of(const Cluster& cluster, int level) {
    return cluster.levels()[static_cast<std::size_t>(level)].name;
}

Json json_of(const Cluster& cluster, const CollectiveCost& cost) {
    auto links = Json::object();
    for (std::size_t l = 0; l < cost.links.size(); ++l)
        links[name_of(cluster, static_cast<int>(l))] = cost.links[l];
    return {{"seconds", cost.seconds ? Json(*cost.seconds) : Json()},
            {"slowest", cost.slowest ? Json(name_of(cluster, *cost.slowest)) : Json()},
            {"links", links}};
}

}  // namespace of_cluster_output

std::vector<Option> OnCluster::options() {
    return {{"--on", "the cluster, such as 'node:32(50GB/s,5us) gpu:8(450GB/s,2us)'", &on, "CLUSTER"},
            {"--keep",
             "require that groups along AXES stay inside one unit of LEVEL, such as tp:node or tp,cp:node; "
             "may be repeated",
             &keep, "AXES:LEVEL"},
            {"--bytes", "buffer size for the timings, such as 1GiB; default: 64MiB", &bytes, "SIZE",
             Option::Range{1, 0x1p50, false}},
            {"--explain", "explain each result, and say what to change", &explain}};
}

std::optional<std::pair<Cluster, ClusterQuestions>> OnCluster::questions() const {
    if (!on) {
        const auto* idle = !keep.empty()     ? "--keep"
                           : bytes.count > 0 ? "--bytes"
                           : explain         ? "--explain"
                                             : nullptr;
        if (idle) throw UsageError(fmt::format("{} requires a cluster; add --on CLUSTER", idle));
        return std::nullopt;
    }
    auto questions = ClusterQuestions{};
    for (const auto& text : keep) questions.keep.push_back(Keep::parse(text));
    if (bytes.count > 0) questions.bytes = static_cast<std::int64_t>(bytes.count);
    return std::pair(*cluster_of(on), questions);
}

Json json_of(const Cluster& cluster, const ClusterReport& report) {
    auto out = Json{{"on", to_string(cluster)}, {"right", report.right()},   {"fits", report.fits()},
                    {"ranks", report.ranks},    {"devices", report.devices}, {"bytes", report.bytes},
                    {"rules", Json::array()},   {"costs", Json::array()}};
    for (const auto& rule : report.rules)
        out["rules"].push_back({{"axes", rule.keep.axes},
                                {"level", rule.keep.level},
                                {"default", rule.is_default},
                                {"holds", rule.holds()},
                                {"groups", rule.groups},
                                {"group_size", rule.group_size},
                                {"unit_size", rule.unit_size},
                                {"divides", rule.divides},
                                {"straddling", rule.straddling},
                                {"first", rule.first},
                                {"units", rule.units}});
    for (const auto& costs : report.costs) {
        auto straddling = Json::object();
        for (std::size_t l = 0; l < costs.straddling.size(); ++l)
            straddling[of_cluster_output::name_of(cluster, static_cast<int>(l))] = costs.straddling[l];
        auto operations = Json::object();
        for (std::size_t i = 0; i < collectives.size(); ++i)
            operations[std::string(to_string(collectives[i]))] = {
                {"steps", costs.together[i].steps},
                {"sent", costs.together[i].sent},
                {"alone", of_cluster_output::json_of(cluster, costs.alone[i])},
                {"together", of_cluster_output::json_of(cluster, costs.together[i])}};
        out["costs"].push_back({{"axes", costs.axes},
                                {"groups", costs.groups},
                                {"group_size", costs.group_size},
                                {"straddling", straddling},
                                {"operations", operations}});
    }
    return out;
}

}  // namespace rankmesh::cli
