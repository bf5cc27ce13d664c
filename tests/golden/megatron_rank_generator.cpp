// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/megatron/rank_generator.hpp>

#include "check.hpp"

namespace golden {
namespace {

using namespace rankmesh::megatron;

RankGenerator generator_of(const Json& config) {
    return RankGenerator({.tp = config.value("tp", 1),
                          .ep = config.value("ep", 1),
                          .dp = config.value("dp", 1),
                          .pp = config.value("pp", 1),
                          .cp = config.value("cp", 1),
                          .order = config["order"],
                          .rank_offset = config.value("rank_offset", 0),
                          .gtp_remat = config.value("gtp_remat", 1)});
}

Json ranks_of(const Case& test) {
    const auto generator = generator_of(test.config);
    auto answer = Json{{"world_size", generator.world_size()},
                       {"order", generator.order()},
                       {"ordered_size", generator.ordered_size()},
                       {"ranks", Json::object()}};
    auto asked = std::vector<std::string>{};
    if (test.expect.contains("ranks")) {
        for (const auto& [token, expected] : test.expect["ranks"].items()) asked.push_back(token);
    } else {  // what was asked of every generator
        asked = tokens(generator.order());
        for (auto token :
             {"tp-pp", "tp-cp", "dp-cp", "tp-dp", "tp-dp-cp", "tp-ep", "tp-ep-pp", "ep-dp", "ep-pp"})
            asked.emplace_back(token);
    }
    for (const auto& token : asked) answer["ranks"][token] = groups(generator.get_ranks(token));
    return answer;
}

Json ranks_token(const Case& test) {
    return groups(generator_of(test.config).get_ranks(test.config["token"].get<std::string>()));
}

Json mask(const Case& test) {
    const std::string order = test.config["order"];
    return RankGenerator(RankGenerator::Arguments{}).get_mask(order, test.config["token"].get<std::string>());
}

/// The peers' table: a token of the dense grid, or `expert_` and one of the experts'.
Json unit_test_table(const Case& test) {
    const auto& config = test.config;
    const auto dense =
        RankGenerator({.tp = config["tp"], .dp = config["dp"], .pp = config["pp"], .cp = config["cp"]});
    const auto expert = RankGenerator(
        {.tp = config["tp"], .ep = config["ep"], .dp = config["expert_dp"], .pp = config["pp"]});
    auto answer = Json::object();
    for (const auto& [name, expected] : test.expect.items())
        answer[name] =
            groups(name.starts_with("expert_") ? expert.get_ranks(name.substr(7)) : dense.get_ranks(name));
    return answer;
}

Json inject(const Case& test) {
    const std::string order = test.config["order"];
    const auto after = test.config.find("after");
    return after == test.config.end() ? inject_gtp_remat_axis(order)
                                      : inject_gtp_remat_axis(order, after->get<std::string>());
}

Json embedding_ranks(const Case& test) {
    const std::vector<int> pp_ranks = test.config["pp_ranks"];
    return {default_embedding_ranks(pp_ranks), default_position_embedding_ranks(pp_ranks)};
}

}  // namespace

System megatron_rank_generator() {
    return {.name = "megatron_rank_generator",
            .kinds = {{"ranks", ranks_of},
                      {"special", ranks_of},
                      {"invalid_or_odd", ranks_of},
                      {"get_ranks_token", ranks_token},
                      {"get_mask", mask},
                      {"unit_test_table", unit_test_table},
                      {"inject_gtp_remat_axis", inject},
                      {"default_embedding_ranks", embedding_ranks}},
            .faults = [](const Case&, std::string_view type, std::string_view message) -> std::vector<Fault> {
                if (type == "KeyError" || type == "ValueError") return {Fault::unknown};
                if (type == "IndexError") return {Fault::out_of_range};
                if (type == "ZeroDivisionError") return {Fault::sizes};
                if (message.find("specified the order") != std::string_view::npos) return {Fault::missing};
                if (message.starts_with("Both EP and CP")) return {Fault::exclusive};
                // Sizes that do not multiply to the world: one is missing in the order, or makes no sense.
                if (message.starts_with("idx ")) return {Fault::missing, Fault::sizes};
                return {};
            }};
}

}  // namespace golden
