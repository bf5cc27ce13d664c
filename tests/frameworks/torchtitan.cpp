// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <limits>
#include <map>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/error.hpp>
#include <rankmesh/frameworks/torchtitan.hpp>

#include "frameworks/laws.hpp"

namespace of_torchtitan {

using namespace rankmesh;
using frameworks::DeviceMesh;
using torchtitan::ParallelDims;
using torchtitan::Settings;
using torchtitan::State;
using AxisNames = std::vector<std::string>;

namespace {

constexpr auto backends = {"partial_dtensor", "full_dtensor", "spmd_types"};

/// Settings, all known, and the size of their world.
struct Dims : Settings {
    int world_size;

    State of(int rank) const { return {*this, rank, world_size}; }
};

/// Does something with many degrees, under all backends.
void for_each_dims(const std::function<void(const Dims&)>& body) {
    for (const auto backend : backends)
        for (int dp_replicate : {1, 2})
            for (int dp_shard : {1, 2, 3})
                for (int cp : {1, 2})
                    for (int tp : {1, 2})
                        for (int pp : {1, 2})
                            for (int ep = 1; ep <= dp_shard * cp * tp; ++ep) {
                                if (dp_shard * cp * tp % ep != 0) continue;
                                const auto dims = Dims{{dp_replicate, dp_shard, cp, tp, pp, ep, backend},
                                                       dp_replicate * dp_shard * cp * tp * pp};
                                SCOPED_TRACE(detail::cat("dp_replicate=", dp_replicate,
                                                         " dp_shard=", dp_shard, " cp=", cp, " tp=", tp,
                                                         " pp=", pp, " ep=", ep, " ", backend));
                                body(dims);
                            }
}

/// The world as an array of this shape, its last dimension fastest.
struct View {
    AxisNames names;
    std::vector<int> shape;

    std::vector<int> index(int rank) const {
        auto at = std::vector<int>(shape.size());
        for (auto i = shape.size(); i-- > 0; rank /= shape[i]) at[i] = rank % shape[i];
        return at;
    }
    /// The ranks that differ from `rank` in these dimensions only.
    std::vector<int> along(const AxisNames& dims, int rank) const {
        auto world = 1;
        for (const auto size : shape) world *= size;
        auto ranks = std::vector<int>{};
        for (int other = 0; other < world; ++other) {
            auto same = true;
            for (std::size_t i = 0; i < shape.size(); ++i)
                if (std::ranges::find(dims, names[i]) == dims.end())
                    same = same && index(other)[i] == index(rank)[i];
            if (same) ranks.push_back(other);
        }
        return ranks;
    }
    bool has(const AxisNames& dims) const {
        return std::ranges::all_of(
            dims, [&](const auto& dim) { return std::ranges::find(names, dim) != names.end(); });
    }
};

/// The arrays that build_mesh makes of the world, in the order in which names are looked for.
std::vector<View> views_of(const Dims& d) {
    const auto spmd = d.spmd_backend == "spmd_types";
    auto views = std::vector<View>{
        {{"pp", "batch", "cp", "tp"}, {d.pp, d.dp_replicate * d.dp_shard, d.cp, d.tp}},
        d.spmd_backend == "partial_dtensor"
            ? View{{"pp", "dp_replicate", "fsdp", "tp"}, {d.pp, d.dp_replicate, d.dp_shard * d.cp, d.tp}}
            : View{{"pp", "dp_replicate", "dp_shard", "cp", "tp"},
                   {d.pp, d.dp_replicate, d.dp_shard, d.cp, d.tp}},
        {{"pp", "dp_replicate", "efsdp", "ep"},
         {d.pp, d.dp_replicate, d.dp_shard * d.cp * d.tp / d.ep, d.ep}}};
    // Here pp has no name that is found.
    if (spmd)
        views.push_back({{"not pp", "dp", "cp", "tp"}, {d.pp, d.dp_replicate * d.dp_shard, d.cp, d.tp}});
    return views;
}

AxisNames names_of(const Dims& dims) {
    auto names = AxisNames{"pp", "batch", "loss", "dp_replicate", "cp", "tp", "ep", "efsdp"};
    if (dims.spmd_backend == "spmd_types") names.emplace_back("dp");
    names.emplace_back(dims.spmd_backend == "partial_dtensor" ? "fsdp" : "dp_shard");
    return names;
}

std::vector<int> expected_ranks(const Dims& dims, const std::string& name, int rank) {
    if (name == "loss") return views_of(dims)[0].along({"batch", "cp"}, rank);
    for (const auto& view : views_of(dims))
        if (view.has({name})) return view.along({name}, rank);
    throw std::logic_error(name);
}

bool expected_to_exist(const Dims& dims, const std::string& name) {
    if (name == "fsdp" || name == "dp_shard") return true;
    return name == "efsdp" ? dims.ep > 1 : expected_ranks(dims, name, 0).size() > 1;
}

template <class Body>
std::string error_of(Body&& body) {
    return laws::text_of<frameworks::Error>(body);
}

}  // namespace

TEST(Torchtitan, EveryMeshAlongOneNameIsThatOfTheWorldAsARowMajorArray) {
    for_each_dims([](const Dims& dims) {
        EXPECT_EQ(dims.of(0).mesh_dim_names(), names_of(dims));
        for (const auto rank : {0, dims.world_size / 2, dims.world_size - 1}) {
            const auto info = dims.of(rank);
            auto several = AxisNames{};
            for (const auto& name : names_of(dims)) {
                const auto ranks = expected_ranks(dims, name, rank);
                const auto mesh = *info.get_optional_mesh(name, true);
                EXPECT_EQ(laws::list(mesh.mesh()), ranks) << name << " of rank " << rank;
                EXPECT_EQ(mesh.mesh_dim_names(), AxisNames{name == "loss" ? "loss_mesh" : name});
                EXPECT_EQ(ranks.at(static_cast<std::size_t>(mesh.get_local_rank())), rank);
                EXPECT_EQ(info.get_optional_mesh(name).has_value(), expected_to_exist(dims, name)) << name;
                if (expected_to_exist(dims, name) && ranks.size() > 1) several.push_back(name);
            }
            auto active = AxisNames{};
            for (const auto& name : info.groups().kinds()) {
                EXPECT_EQ(laws::list(info.get_group(name)), expected_ranks(dims, name, rank)) << name;
                if (info.get_group(name).size() > 1) active.push_back(name);
            }
            EXPECT_EQ(active, several);
            EXPECT_EQ(info.world_mesh().size(), dims.world_size);
            EXPECT_EQ(info.world_mesh().mesh_dim_names(), AxisNames{"world"});
        }
    });
}

TEST(Torchtitan, SeveralNamesAreLookedForInOneMeshAndInItsOrder) {
    for_each_dims([](const Dims& dims) {
        if (dims.world_size > 8) return;  // smaller ones have every order of several axes
        const auto rank = dims.world_size / 2;
        const auto info = dims.of(rank);
        const auto names = names_of(dims);
        const auto views = views_of(dims);
        auto exists = std::map<std::string, bool>{};
        for (const auto& name : names) exists[name] = expected_to_exist(dims, name);
        const auto ask = [&](const AxisNames& asked) {
            SCOPED_TRACE(frameworks::to_string(asked));
            const auto enabled =
                std::ranges::all_of(asked, [&](const auto& name) { return exists.at(name); });
            const auto view = std::ranges::find_if(views, [&](const auto& one) { return one.has(asked); });
            auto in_order = true;
            if (view != views.end()) {
                auto places = std::vector<std::ptrdiff_t>{};  // of the axes of several ranks
                for (const auto& name : asked) {
                    const auto place = std::ranges::find(view->names, name) - view->names.begin();
                    if (view->shape[static_cast<std::size_t>(place)] > 1) places.push_back(place);
                }
                in_order = std::ranges::is_sorted(places, std::ranges::less_equal{});
            }
            if (!enabled) {
                EXPECT_FALSE(info.get_optional_mesh(asked));
                EXPECT_TRUE(error_of([&] {
                                info.get_mesh(asked);
                            }).ends_with("Ensure the corresponding parallelism dimension is all enabled."));
            }
            const auto found = [&] { return *info.get_optional_mesh(asked, true); };
            if (view == views.end()) {
                EXPECT_TRUE(error_of(found).starts_with("Invalid mesh name combinations ['"));
            } else if (!in_order) {
                EXPECT_TRUE(error_of(found).ends_with("Mesh dim indices should be in ascending order"));
            } else {
                EXPECT_EQ(found().mesh_dim_names(), asked);
                EXPECT_EQ(laws::list(found().mesh()), view->along(asked, rank));
                for (std::size_t i = 0; i < asked.size(); ++i) {
                    const auto at = static_cast<std::size_t>(std::ranges::find(view->names, asked[i]) -
                                                             view->names.begin());
                    EXPECT_EQ(found().shape()[i], view->shape[at]);
                    EXPECT_EQ((*found().get_coordinate())[i], view->index(rank)[at]);
                    EXPECT_EQ(laws::list(found()[asked[i]].mesh()), view->along({asked[i]}, rank));
                }
            }
        };
        for (const auto& a : names)
            for (const auto& b : names) {
                ask({a, b});
                if (a < b && dims.pp == 1) ask({a, b, "tp"});
            }
        ask({"dp_replicate", "efsdp", "ep"});
    });
}

TEST(Torchtitan, WhatIsEnabledHasAMeshOfSeveralRanks) {
    for_each_dims([](const Dims& dims) {
        const auto info = dims.of(dims.world_size - 1);
        const auto several = [&](const std::string& name) {
            return info.get_optional_mesh(name, true)->size() > 1;
        };
        EXPECT_EQ(info.dp_enabled(), several("batch"));
        EXPECT_EQ(info.dp_cp_enabled(), several("loss"));
        EXPECT_EQ(info.dp_replicate_enabled(), several("dp_replicate"));
        EXPECT_EQ(info.cp_enabled(), several("cp"));
        EXPECT_EQ(info.tp_enabled(), several("tp"));
        EXPECT_EQ(info.pp_enabled(), several("pp"));
        EXPECT_EQ(info.ep_enabled(), several("ep"));
        const auto folded = dims.spmd_backend == "partial_dtensor";
        EXPECT_EQ(info.fsdp_enabled(), folded ? several("fsdp") : several("dp_shard") || several("cp"));
        EXPECT_EQ(info.dp_shard_enabled(), dims.dp_shard > 1);
        EXPECT_EQ(info.non_data_parallel_size() * info.get_optional_mesh("batch", true)->size(),
                  dims.world_size);
        EXPECT_EQ(info.seq_len_divisor(), 2 * dims.tp * dims.cp);
    });
}

TEST(Torchtitan, ShardsThatAreNotGivenAreTheRanksThatAreLeft) {
    for_each_dims([](const Dims& dims) {
        auto given = dims;
        given.dp_shard = -1;
        EXPECT_EQ(given.of(0).groups().mesh(), dims.of(0).groups().mesh());
    });
    EXPECT_EQ(Settings{}.spmd_backend, "spmd_types");
}

TEST(Torchtitan, MeshesOfLayoutsHoldTheAxesThatAreEnabledAndInBand) {
    for_each_dims([](const Dims& dims) {
        const auto info = dims.of(0);
        const auto spmd = dims.spmd_backend == "spmd_types";
        for (const auto& axes :
             {AxisNames{"dp", "cp", "tp"}, AxisNames{"cp", "tp"}, AxisNames{"tp"}, AxisNames{"dp", "pp"},
              AxisNames{"ep"}, AxisNames{"pp", "batch", "unheard of"}}) {
            auto active = AxisNames{};
            auto kept = AxisNames{};
            const auto names = names_of(dims);
            for (const auto& axis : axes) {
                if (std::ranges::find(names, axis) == names.end() || !expected_to_exist(dims, axis)) continue;
                active.push_back(axis);
                if (axis == "tp" || axis == "ep" || (spmd && (axis == "dp" || axis == "cp")))
                    kept.push_back(axis);
            }
            const auto expect = [](const AxisNames& expected, const std::optional<DeviceMesh>& mesh) {
                EXPECT_EQ(mesh ? *mesh->mesh_dim_names() : AxisNames{}, expected);
            };
            if (active == AxisNames{"dp", "pp"}) {
                EXPECT_EQ(error_of([&] { info.get_activated_mesh(axes); }),
                          "Invalid mesh name combinations ['dp', 'pp'].");
            } else {
                expect(active, info.get_activated_mesh(axes));
            }
            if (dims.spmd_backend == "full_dtensor") continue;
            expect(kept, info.resolve_mesh(axes));
        }
        EXPECT_EQ(info.spmd_sparse_mesh().has_value(), spmd && dims.ep > 1);
        if (spmd) {
            EXPECT_EQ(info.spmd_dense_mesh().shape(),
                      (std::vector{dims.dp_replicate * dims.dp_shard, dims.cp, dims.tp}));
            EXPECT_EQ(info.get_dense_tp_mesh().size(), dims.tp);
        }
        for (const auto& mesh : info.spmd_meshes()) {
            EXPECT_EQ(laws::list(info.get_optional_mesh(*mesh.mesh_dim_names())->mesh()),
                      laws::list(mesh.mesh()));
        }
        if (dims.tp > 1) {
            EXPECT_EQ(laws::list(info.get_dense_tp_mesh().mesh()), expected_ranks(dims, "tp", 0));
        }
    });
}

TEST(Torchtitan, UnderFullDtensorALayoutIsOnOneOfTheSpmdMeshes) {
    for_each_dims([](const Dims& dims) {
        if (dims.spmd_backend != "full_dtensor") return;
        const auto info = dims.of(dims.world_size - 1);
        const auto names_of = [](const std::optional<DeviceMesh>& mesh) {
            return mesh ? *mesh->mesh_dim_names() : AxisNames{};
        };
        auto dense = AxisNames{}, sparse = AxisNames{};
        if (dims.dp_replicate > 1) dense.emplace_back("dp_replicate");
        if (dims.dp_replicate > 1) sparse.emplace_back("dp_replicate");
        dense.emplace_back("dp_shard");
        if (dims.cp > 1) dense.emplace_back("cp");
        if (dims.tp > 1) dense.emplace_back("tp");
        if (dims.ep > 1) sparse.insert(sparse.end(), {"efsdp", "ep"});
        EXPECT_EQ(names_of(info.spmd_meshes().front()), dense);
        EXPECT_EQ(info.spmd_meshes().size(), sparse.empty() ? 1U : 2U);
        EXPECT_EQ(names_of(info.resolve_mesh({"dp", "cp", "tp"})), dense);
        EXPECT_EQ(names_of(info.resolve_mesh({"dp_replicate", "efsdp", "ep"})), sparse);
        if (dims.ep == 1) {
            EXPECT_FALSE(info.resolve_mesh({"ep"}));
        } else {
            EXPECT_TRUE(
                error_of([&] {
                    info.resolve_mesh({"ep"});
                }).starts_with("Resolved mesh ['ep'] does not match any SPMD mesh. Valid meshes: [["));
        }
    });
    const auto info = State({.dp_replicate = 2, .ep = 2, .spmd_backend = "full_dtensor"}, 0, 8);
    EXPECT_EQ(error_of([&] { info.resolve_mesh({"dp_shard"}); }),
              "Resolved mesh ['dp_shard'] does not match any SPMD mesh. Valid meshes: [['dp_replicate', "
              "'dp_shard'], ['dp_replicate', 'efsdp', 'ep']].");
    EXPECT_EQ(error_of([&] { info.get_dense_tp_mesh(); }),
              "Invalid mesh_dim_names ('tp',) specified. Valid mesh_dim_names are ('dp_replicate', "
              "'dp_shard')");
    EXPECT_EQ(error_of([&] { info.resolve_mesh({"dp", "batch"}); }), "'batch' is not a valid MeshAxisName");
}

TEST(Torchtitan, AnAxisOfOneRankStandsAnywhereInTheOrder) {
    const auto info = State({.dp_shard = 2, .ep = 2}, 1, 2);
    EXPECT_EQ(info.get_mesh({"ep", "efsdp"}).shape(), (std::vector{2, 1}));
    EXPECT_EQ(laws::list(info.get_mesh({"ep", "efsdp"}).mesh()), (std::vector{0, 1}));
    EXPECT_EQ(info.get_mesh({"ep", "efsdp"}).get_coordinate(), (std::vector{1, 0}));
    const auto both = State({.dp_shard = 4, .ep = 2}, 1, 4);
    EXPECT_EQ(
        error_of([&] {
            both.get_mesh({"ep", "efsdp"});
        }),
        "Invalid mesh_dim_names ('ep', 'efsdp') specified. Mesh dim indices should be in ascending order");
}

TEST(Torchtitan, DegreesThatDoNotFitAreRefusedInTheOriginalsOrder) {
    const auto of = [](const Settings& degrees, int world = 8) {
        return error_of([&] { torchtitan::groups(degrees, world); });
    };
    const auto below = "Parallelism degree should be >= 1, except for dp_shard";
    for (const auto bad : {0, -1, std::numeric_limits<int>::min()}) {
        EXPECT_EQ(of({.dp_replicate = bad, .dp_shard = 0}), below);
        EXPECT_EQ(of({.cp = bad}), below);
        EXPECT_EQ(of({.tp = bad}), below);
        EXPECT_EQ(of({.pp = bad}), below);
        EXPECT_EQ(of({.ep = bad}), below);
    }
    EXPECT_EQ(of({.dp_shard = 0, .tp = 3}), "dp_shard must -1 or >=1.");
    EXPECT_EQ(of({.dp_shard = -2}), "dp_shard must -1 or >=1.");
    EXPECT_EQ(
        of({.dp_replicate = 2, .dp_shard = 2, .tp = 2}, 10),
        "Invalid parallel dims: dp_replicate(2) * dp_shard(2) * cp(1) * tp(2) * pp(1) != WORLD_SIZE(10)");
    EXPECT_EQ(
        of({.tp = 3}),
        "Invalid parallel dims: dp_replicate(1) * dp_shard(2) * cp(1) * tp(3) * pp(1) != WORLD_SIZE(8)");
    EXPECT_EQ(
        of({.tp = 16}),
        "Invalid parallel dims: dp_replicate(1) * dp_shard(0) * cp(1) * tp(16) * pp(1) != WORLD_SIZE(8)");
    constexpr auto most = std::numeric_limits<int>::max();
    EXPECT_TRUE(of({most, most, most, most, most, most}, most).starts_with("Invalid parallel dims"));
    EXPECT_EQ(of({}, 0), "a world of 0 ranks; it has 1 or more");
    EXPECT_EQ(of({.dp_replicate = 2, .dp_shard = 2, .ep = 3}, 4),
              "expert_parallel_degree (3) must divide dp_shard * cp * tp (2)");
    EXPECT_THROW(frameworks::Groups("torchtitan", {{"ep", 2}, {"expert_tensor_parallel_degree", 0}}, 2),
                 frameworks::Error);
    EXPECT_EQ(of({.cp = 0, .spmd_backend = "default"}),
              "parallelism.spmd_backend must be one of 'partial_dtensor', 'full_dtensor', or 'spmd_types'.");
}

TEST(Torchtitan, NamesThatDoNotExistAreRefused) {
    const auto info = State({.tp = 2}, 3, 8);
    const auto partial = State({.spmd_backend = "partial_dtensor"}, 3, 8);
    EXPECT_EQ(
        error_of([&] { info.get_mesh("fsdp"); }),
        "Invalid mesh dim: 'fsdp'. Valid dimensions are: ['pp', 'batch', 'loss', 'dp_replicate', 'cp', 'tp', "
        "'ep', 'efsdp', 'dp', 'dp_shard']");
    EXPECT_EQ(
        error_of([&] {
            partial.get_optional_mesh({"fsdp", "dp"});
        }),
        "Invalid mesh dim: 'dp'. Valid dimensions are: ['pp', 'batch', 'loss', 'dp_replicate', 'cp', 'tp', "
        "'ep', 'efsdp', 'fsdp']");
    EXPECT_EQ(
        error_of([&] { info.get_mesh("pp"); }),
        "Mesh 'pp' is not available. Ensure the corresponding parallelism dimension is enabled (size > 1).");
    EXPECT_EQ(error_of([&] {
                  info.get_mesh({"pp", "tp"});
              }),
              "Mesh '['pp', 'tp']' is not available. Ensure the corresponding parallelism dimension is all "
              "enabled.");
    EXPECT_EQ(error_of([&] {
                  info.get_mesh({"loss", "tp"});
              }),
              "Invalid mesh name combinations ['loss', 'tp'].");
    EXPECT_EQ(error_of([&] { partial.spmd_dense_mesh(); }),
              "there is no mesh 'spmd_dense_for_fwdbwd' with the backend partial_dtensor; it is there with "
              "spmd_types");
    EXPECT_EQ(
        error_of([&] { partial.get_dense_tp_mesh(); }),
        "Mesh 'tp' is not available. Ensure the corresponding parallelism dimension is enabled (size > 1).");
    EXPECT_EQ(error_of([] { State({}, 8, 8); }), "rank 8 of a world of 8; ranks are 0..7");
    EXPECT_EQ(
        error_of([&] { info.get_group("pp"); }),
        "Mesh 'pp' is not available. Ensure the corresponding parallelism dimension is enabled (size > 1).");
}

TEST(Torchtitan, EveryMeshOfARankIsOneObject) {
    for_each_dims([](const Dims& dims) {
        const auto info = dims.of(0);
        for (const auto& name : info.mesh_dim_names())
            EXPECT_EQ(info.get_optional_mesh(name, true), info.get_optional_mesh(name, true));
        EXPECT_EQ(info.get_mesh(dims.spmd_backend == "partial_dtensor" ? "fsdp" : "dp_shard").root(),
                  info.roots()[1].root());
        EXPECT_EQ(info.roots().size(), dims.spmd_backend == "spmd_types" ? 4U : 3U);
    });
}

TEST(Torchtitan, ASequenceIsAMultipleOfTpAndTwiceCp) {
    constexpr auto most = std::numeric_limits<int>::max();
    EXPECT_EQ(State({.tp = most / 2}, 0, most / 2).seq_len_divisor(), most / 2 * 2);
    EXPECT_EQ(error_of([&] { State({.tp = most}, 0, most).seq_len_divisor(); }),
              detail::cat(std::int64_t{most} * 2, " is too large"));
}

TEST(Torchtitan, EveryGroupThatCarriesCollectivesIsLive) {
    for (const auto& [degrees, world_size] :
         std::vector<std::pair<Settings, int>>{{{}, 1},
                                               {{.dp_replicate = 2, .tp = 2}, 8},
                                               {{.dp_shard = 4, .tp = 2, .ep = 2}, 8},
                                               {{.cp = 2, .tp = 2, .pp = 2, .ep = 4}, 8},
                                               {{.dp_replicate = 2, .cp = 2, .ep = 4}, 8}})
        for (const auto* backend : backends)
            threads::run(world_size, [&](World& world) {
                auto settings = degrees;
                settings.spmd_backend = backend;
                auto me = world.join(torchtitan::plan(settings, world.size()));
                auto dims = ParallelDims(me, settings);
                const State& pure = dims;
                for (const auto& name : pure.groups().kinds())
                    laws::expect_live(dims.get_group(name), laws::list(pure.get_mesh(name).mesh()), me.rank(),
                                      name);
                laws::expect_live(dims.get_group(), laws::list(pure.world_mesh().mesh()), me.rank(), "world");
                if (const auto fake = pure.get_optional_mesh("efsdp", true)->size();
                    settings.ep == 1 && fake > 1) {
                    EXPECT_EQ(laws::text_of<frameworks::Refusal>([&] { dims.get_group("efsdp"); }),
                              detail::cat("the group along efsdp is fake in torchtitan where ep is 1: its ",
                                          fake, " ranks would exchange nothing; ask for dp_shard, cp or tp"));
                }
            });
}

TEST(Torchtitan, AMemberThatLacksAGroupOrAMeshOfOtherRanksIsRefused) {
    threads::run(8, [](World& world) {
        const auto settings = Settings{.dp_replicate = 2, .tp = 2};
        auto plan = torchtitan::plan(settings, 8);
        EXPECT_THROW(ParallelDims(world.join(plan), {.dp_replicate = 2, .cp = 2}), UsageError);
        plan.pop_back();
        EXPECT_THROW(ParallelDims(world.join(plan), settings), UsageError);
    });
}

}  // namespace of_torchtitan
