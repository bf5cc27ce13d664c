// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/llamafactory/interface.hpp>

#include "dialects.hpp"
#include "frameworks/llamafactory_config.hpp"

namespace rankmesh::cli {

Words llamafactory_words(const Arrangement& roles, const Document&) {
    using llamafactory::Dim;
    const auto config = llamafactory_config(roles);
    const auto world = roles.dense().size();
    const auto strategy = llamafactory::DistributedStrategy(config, world, true);
    const auto model = strategy.model_mesh();
    const auto data = strategy.data_mesh();
    return {.dialect = {},
            .mesh = data,
            .kinds = {kind_along("get_group(Dim.MP_REPLICATE)", model, model.axes("mp_replicate")),
                      kind_along("get_group(Dim.MP_SHARD)", model, model.axes("mp_shard")),
                      kind_along("get_group(Dim.DP)", data, data.axes("dp")),
                      kind_along("get_group(Dim.CP)", data, data.axes("cp"))},
            .answers = [config, world](int rank) {
                const auto place = llamafactory::Place(config, {.rank = rank, .world_size = world});
                auto answers = Answers{};
                answers.add("get_rank()", [&] { return place.get_rank(); });
                answers.add("get_world_size()", [&] { return place.get_world_size(); });
                constexpr auto dims =
                    std::array<std::pair<const char*, Dim>, 4>{{{"Dim.MP_REPLICATE", Dim::mp_replicate},
                                                                {"Dim.MP_SHARD", Dim::mp_shard},
                                                                {"Dim.DP", Dim::dp},
                                                                {"Dim.CP", Dim::cp}}};
                for (const auto& [name, dim] : dims) {
                    answers.add(std::string("get_rank(") + name + ")",
                                [&, d = dim] { return place.get_rank(d); });
                    answers.add(std::string("get_world_size(") + name + ")",
                                [&, d = dim] { return place.get_world_size(d); });
                }
                return answers.all();
            }};
}

}  // namespace rankmesh::cli
