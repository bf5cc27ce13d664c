// SPDX-License-Identifier: Apache-2.0
#include "convert/conversions.hpp"

#include <algorithm>

namespace rankmesh::tests {

namespace {

std::string cat_all(const std::vector<std::pair<std::string, int>>& settings, const std::string& before = {},
                    const std::string& between = "=") {
    auto text = std::string{};
    for (const auto& [name, value] : settings)
        text += (text.empty() ? "" : " ") + before + name + between + std::to_string(value);
    return text;
}

}  // namespace

Sample random_sample(const std::string& framework, std::mt19937& random) {
    const auto pick = [&](std::vector<int> of) { return of[random() % of.size()]; };
    const auto pp = pick({1, 2, 3});
    const auto dp = pick({1, 2, 4, 6});
    const auto cp = pick({1, 2});
    const auto tp = pick({1, 2, 4});
    const auto all = pp * dp * cp * tp;
    if (framework == "torch") {
        auto axes = std::vector<std::pair<std::string, int>>{{"pp", pp}, {"dp", dp}, {"cp", cp}, {"tp", tp}};
        std::ranges::shuffle(axes, random);
        auto shape = std::string{};
        auto names = std::string{};
        for (const auto& [name, size] : axes) {
            shape += std::to_string(size) + ",";
            names += "\"" + name + "\",";
        }
        return {"mesh_shape=(" + shape + "), mesh_dim_names=(" + names + ")", all};
    }
    if (framework == "megatron") {
        auto text = cat_all({{"tensor-model-parallel-size", tp},
                             {"pipeline-model-parallel-size", pp},
                             {"context-parallel-size", cp}},
                            "--", " ");
        const auto ep = pick({1, 2});
        if (random() % 3 == 0 && cp == 1) return {text + " --use-tp-pp-dp-mapping", all};
        if (random() % 2 == 0 && pp > 1)
            text += " --num-virtual-stages-per-pipeline-rank 2 --expert-tensor-parallel-size 1";
        return {text + " --expert-model-parallel-size " + std::to_string(ep), 4 * std::max(pp, 2) * pp * all};
    }
    if (framework == "megatron2022")
        return {cat_all({{"tensor_model_parallel_size", tp}, {"pipeline_model_parallel_size", pp}}),
                pp * dp * tp};
    if (framework == "deepspeed") {
        auto axes = std::vector<std::pair<std::string, int>>{{"pipe", pp}, {"data", dp}, {"model", tp}};
        std::ranges::shuffle(axes, random);
        return {cat_all(axes), pp * dp * tp};
    }
    if (framework == "areal") {
        if (random() % 2 == 0) return {cat_all({{"pipe", pp}, {"data", dp}, {"tensor", tp}}), pp * dp * tp};
        return {cat_all({{"data", dp}, {"pipe", pp}, {"tensor", tp}}), pp * dp * tp};
    }
    if (framework == "picotron")
        return {cat_all({{"tp_size", tp}, {"cp_size", cp}, {"pp_size", pp}, {"dp_size", dp}}), all};
    if (framework == "olmo") {
        auto config = Json{{"dp_config", {{"name", "fsdp"}}}, {"pp_config", {{"degree", pp}}}};
        if (random() % 2 == 0) {
            config["dp_config"] = {{"name", "hsdp"}, {"num_replicas", 2}, {"shard_degree", dp}};
            config["ep_config"] = {{"degree", dp}};
            return {config.dump(), pp * 2 * dp};
        }
        config["tp_config"] = {{"degree", tp}};
        config["cp_config"] = {{"degree", cp}};
        return {config.dump(), all};
    }
    if (framework == "llamafactory")
        return {cat_all({{"mp_replicate_size", pick({1, 2})}, {"cp_size", cp}}), 2 * dp * cp};
    if (framework == "torchtitan") {
        auto settings =
            std::vector<std::pair<std::string, int>>{{"data_parallel_replicate_degree", pick({1, 2})},
                                                     {"context_parallel_degree", cp},
                                                     {"tensor_parallel_degree", tp},
                                                     {"pipeline_parallel_degree", pp}};
        if (random() % 2 == 0) {
            settings.emplace_back("expert_parallel_degree", 2 * cp * tp);
            return {cat_all(settings), 4 * all};
        }
        return {cat_all(settings), 2 * all};
    }
    if (cp == 1 && random() % 2 == 0)
        return {cat_all({{"tp_size", 2 * tp}, {"pp_size", pp}, {"moe_ep_size", 2}}), pp * 2 * tp};
    return {cat_all({{"tp_size", tp}, {"pp_size", pp}, {"cp_size", cp}}), pp * tp * cp};
}

Json json_of(const Conversion& conversion) {
    auto lost = Json::array();
    for (const auto& loss : conversion.lost) lost.push_back({{"what", loss.what}, {"why", loss.why}});
    const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(); };
    return {
        {"from", conversion.from},
        {"to", conversion.to},
        {"ranks", conversion.ranks},
        {"settings", conversion.settings ? Json::parse(*conversion.settings) : Json()},
        {"text", or_null(conversion.text)},
        {"mesh_from", conversion.mesh_from},
        {"mesh_to", or_null(conversion.mesh_to)},
        {"moved", or_null(conversion.moved)},
        {"first_moves", conversion.first_moves},
        {"lost", lost},
        {"notes", conversion.notes},
        {"call", conversion.call ? Json{{"text", conversion.call->text}, {"moved", conversion.call->moved}}
                                 : Json()}};
}

Json convert(const std::string& from, const std::string& to, const std::string& settings, int world) {
    return json_of(rankmesh::convert(from, to, {settings}, world));
}

}  // namespace rankmesh::tests
