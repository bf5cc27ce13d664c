// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/dialect/torchtitan/process_groups.hpp>

#include <algorithm>
#include <functional>
#include <limits>

#include <rankmesh/dialect/error.hpp>
#include <rankmesh/engine/threads.hpp>

#include "laws.hpp"

namespace of_torchtitan {

using namespace rankmesh;
using namespace rankmesh::torchtitan;

namespace {

constexpr auto backends = {SpmdBackend::partial_dtensor, SpmdBackend::full_dtensor, SpmdBackend::spmd_types};

/// Does something with many degrees, under all backends.
void for_each_dims(const std::function<void(const ParallelDims&)>& body) {
    for (const auto backend : backends)
        for (int dp_replicate : {1, 2})
            for (int dp_shard : {1, 2, 3})
                for (int cp : {1, 2})
                    for (int tp : {1, 2})
                        for (int pp : {1, 2})
                            for (int ep = 1; ep <= dp_shard * cp * tp; ++ep) {
                                if (dp_shard * cp * tp % ep != 0) continue;
                                const auto dims =
                                    ParallelDims({dp_replicate, dp_shard, cp, tp, pp, ep},
                                                 dp_replicate * dp_shard * cp * tp * pp, backend);
                                SCOPED_TRACE(detail::cat("dp_replicate=", dp_replicate,
                                                         " dp_shard=", dp_shard, " cp=", cp, " tp=", tp,
                                                         " pp=", pp, " ep=", ep, " ", to_string(backend)));
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
std::vector<View> views_of(const ParallelDims& d) {
    const auto spmd = d.spmd_backend == SpmdBackend::spmd_types;
    auto views = std::vector<View>{
        {{"pp", "batch", "cp", "tp"}, {d.pp, d.dp_replicate * d.dp_shard, d.cp, d.tp}},
        d.spmd_backend == SpmdBackend::partial_dtensor
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

AxisNames names_of(const ParallelDims& dims) {
    auto names = AxisNames{"pp", "batch", "loss", "dp_replicate", "cp", "tp", "ep", "efsdp"};
    if (dims.spmd_backend == SpmdBackend::spmd_types) names.emplace_back("dp");
    names.emplace_back(dims.spmd_backend == SpmdBackend::partial_dtensor ? "fsdp" : "dp_shard");
    return names;
}

std::vector<int> expected_ranks(const ParallelDims& dims, const std::string& name, int rank) {
    if (name == "loss") return views_of(dims)[0].along({"batch", "cp"}, rank);
    for (const auto& view : views_of(dims))
        if (view.has({name})) return view.along({name}, rank);
    throw std::logic_error(name);
}

bool expected_to_exist(const ParallelDims& dims, const std::string& name) {
    if (name == "fsdp" || name == "dp_shard") return true;
    return name == "efsdp" ? dims.ep > 1 : expected_ranks(dims, name, 0).size() > 1;
}

template <class Body>
std::string error_of(Body&& body) {
    return laws::text_of<dialect::Error>(body);
}

}  // namespace

TEST(Torchtitan, EveryMeshAlongOneNameIsThatOfTheWorldAsARowMajorArray) {
    for_each_dims([](const ParallelDims& dims) {
        EXPECT_EQ(RankInfo(dims, 0).mesh_dim_names(), names_of(dims));
        for (int rank = 0; rank < dims.world_size; ++rank) {
            const auto info = RankInfo(dims, rank);
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
            for (const auto& [name, mesh] : info.get_all_one_dimensional_meshes()) {
                active.push_back(name);
                EXPECT_EQ(laws::list(mesh.mesh()), expected_ranks(dims, name, rank)) << name;
            }
            EXPECT_EQ(active, several);
            EXPECT_EQ(info.world_mesh().size(), dims.world_size);
            EXPECT_EQ(info.world_mesh().mesh_dim_names(), AxisNames{"world"});
        }
    });
}

TEST(Torchtitan, SeveralNamesAreLookedForInOneMeshAndInItsOrder) {
    for_each_dims([](const ParallelDims& dims) {
        const auto rank = dims.world_size / 2;
        const auto info = RankInfo(dims, rank);
        const auto names = names_of(dims);
        const auto views = views_of(dims);
        const auto ask = [&](const AxisNames& asked) {
            SCOPED_TRACE(dialect::to_string(asked));
            const auto enabled =
                std::ranges::all_of(asked, [&](const auto& name) { return expected_to_exist(dims, name); });
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
                if (a < b) ask({a, b, "tp"});
            }
        ask({"dp_replicate", "efsdp", "ep"});
    });
}

TEST(Torchtitan, WhatIsEnabledHasAMeshOfSeveralRanks) {
    for_each_dims([](const ParallelDims& dims) {
        const auto info = RankInfo(dims, dims.world_size - 1);
        const auto several = [&](const std::string& name) {
            return info.get_optional_mesh(name, true)->size() > 1;
        };
        EXPECT_EQ(dims.dp_enabled(), several("batch"));
        EXPECT_EQ(dims.dp_cp_enabled(), several("loss"));
        EXPECT_EQ(dims.dp_replicate_enabled(), several("dp_replicate"));
        EXPECT_EQ(dims.cp_enabled(), several("cp"));
        EXPECT_EQ(dims.tp_enabled(), several("tp"));
        EXPECT_EQ(dims.pp_enabled(), several("pp"));
        EXPECT_EQ(dims.ep_enabled(), several("ep"));
        const auto folded = dims.spmd_backend == SpmdBackend::partial_dtensor;
        EXPECT_EQ(dims.fsdp_enabled(), folded ? several("fsdp") : several("dp_shard") || several("cp"));
        EXPECT_EQ(dims.dp_shard_enabled(), dims.dp_shard > 1);
        EXPECT_EQ(dims.non_data_parallel_size() * info.get_optional_mesh("batch", true)->size(),
                  dims.world_size);
        EXPECT_EQ(dims.seq_len_divisor(), 2 * dims.tp * dims.cp);
    });
}

TEST(Torchtitan, ShardsThatAreNotGivenAreTheRanksThatAreLeft) {
    for_each_dims([](const ParallelDims& dims) {
        const auto given = Degrees{dims.dp_replicate, -1, dims.cp, dims.tp, dims.pp, dims.ep};
        EXPECT_EQ(ParallelDims(given, dims.world_size, dims.spmd_backend), dims);
        EXPECT_EQ(ParallelDims::from_config({.data_parallel_replicate_degree = dims.dp_replicate,
                                             .context_parallel_degree = dims.cp,
                                             .tensor_parallel_degree = dims.tp,
                                             .pipeline_parallel_degree = dims.pp,
                                             .expert_parallel_degree = dims.ep,
                                             .spmd_backend = dims.spmd_backend},
                                            dims.world_size),
                  dims);
    });
    EXPECT_EQ(ParallelismConfig{}.spmd_backend, SpmdBackend::spmd_types);
    EXPECT_EQ(ParallelDims::from_config({.data_parallel_shard_degree = 4}, 4).dp_shard, 4);
}

TEST(Torchtitan, MeshesOfLayoutsHoldTheAxesThatAreEnabledAndInBand) {
    for_each_dims([](const ParallelDims& dims) {
        const auto info = RankInfo(dims, 0);
        const auto spmd = dims.spmd_backend == SpmdBackend::spmd_types;
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
            if (dims.spmd_backend == SpmdBackend::full_dtensor) continue;
            expect(kept, info.resolve_mesh(axes));
            expect(kept, info.resolve_shared_mesh(std::vector<std::optional<AxisNames>>{{}, axes, axes}));
        }
        EXPECT_FALSE(info.resolve_shared_mesh(std::vector<std::optional<AxisNames>>(3)));
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
    const auto info = RankInfo({{.tp = 2}, 4}, 0);
    const auto mixed = std::vector<std::optional<AxisNames>>{AxisNames{"tp", "dp"}, AxisNames{"tp", "cp"}};
    EXPECT_EQ(error_of([&] { info.resolve_shared_mesh(mixed); }),
              "Inconsistent mesh axes within a boundary: ['dp', 'tp'] vs ['cp', 'tp']");
}

TEST(Torchtitan, UnderFullDtensorALayoutIsOnOneOfTheSpmdMeshes) {
    for_each_dims([](const ParallelDims& dims) {
        if (dims.spmd_backend != SpmdBackend::full_dtensor) return;
        const auto info = RankInfo(dims, dims.world_size - 1);
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
    const auto info = RankInfo({{.dp_replicate = 2, .ep = 2}, 8, SpmdBackend::full_dtensor}, 0);
    EXPECT_EQ(error_of([&] { info.resolve_mesh({"dp_shard"}); }),
              "Resolved mesh ['dp_shard'] does not match any SPMD mesh. Valid meshes: [['dp_replicate', "
              "'dp_shard'], ['dp_replicate', 'efsdp', 'ep']].");
    EXPECT_EQ(error_of([&] { info.get_dense_tp_mesh(); }),
              "Invalid mesh_dim_names ('tp',) specified. Valid mesh_dim_names are ('dp_replicate', "
              "'dp_shard')");
    EXPECT_EQ(error_of([&] { info.resolve_mesh({"dp", "batch"}); }), "'batch' is not a valid MeshAxisName");
}

TEST(Torchtitan, AnAxisOfOneRankStandsAnywhereInTheOrder) {
    const auto info = RankInfo({{.dp_shard = 2, .ep = 2}, 2}, 1);
    EXPECT_EQ(info.get_mesh({"ep", "efsdp"}).shape(), (std::vector{2, 1}));
    EXPECT_EQ(laws::list(info.get_mesh({"ep", "efsdp"}).mesh()), (std::vector{0, 1}));
    EXPECT_EQ(info.get_mesh({"ep", "efsdp"}).get_coordinate(), (std::vector{1, 0}));
    const auto both = RankInfo({{.dp_shard = 4, .ep = 2}, 4}, 1);
    EXPECT_EQ(
        error_of([&] {
            both.get_mesh({"ep", "efsdp"});
        }),
        "Invalid mesh_dim_names ('ep', 'efsdp') specified. Mesh dim indices should be in ascending order");
}

TEST(Torchtitan, DegreesThatDoNotFitAreRefusedInTheOriginalsOrder) {
    const auto of = [](const Degrees& degrees, int world = 8) {
        return error_of([&] { ParallelDims(degrees, world); });
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
    EXPECT_TRUE(of({}, 0).starts_with("Invalid parallel dims"));
    EXPECT_TRUE(of({}, -8).starts_with("Invalid parallel dims"));
    EXPECT_EQ(of({.dp_replicate = 2, .dp_shard = 2, .ep = 3}, 4),
              "expert_parallel_degree (3) must divide dp_shard * cp * tp (2)");
    EXPECT_EQ(error_of([] { spmd_backend("default"); }),
              "parallelism.spmd_backend must be one of 'partial_dtensor', 'full_dtensor', or 'spmd_types'.");
    for (const auto backend : backends) EXPECT_EQ(spmd_backend(to_string(backend)), backend);
}

TEST(Torchtitan, NamesThatDoNotExistAreRefused) {
    const auto info = RankInfo({{.tp = 2}, 8}, 3);
    const auto partial = RankInfo({{.tp = 1}, 8, SpmdBackend::partial_dtensor}, 3);
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
    EXPECT_EQ(error_of([] { RankInfo({{}, 8}, 8); }), "rank 8 of a world of 8; ranks are 0..7");
    EXPECT_EQ(unfold_dp_axes(AxisNames{"dp", "cp", "tp"}),
              (AxisNames{"dp_replicate", "dp_shard", "cp", "tp"}));
    EXPECT_EQ(unfold_dp_axis("efsdp"), AxisNames{"efsdp"});
    EXPECT_EQ(error_of([] { unfold_dp_axis("loss"); }), "'loss' is not a valid MeshAxisName");
}

TEST(Torchtitan, EveryGroupThatCarriesCollectivesIsLive) {
    for (const auto& [degrees, world_size] :
         std::vector<std::pair<Degrees, int>>{{{}, 1},
                                              {{.dp_replicate = 2, .tp = 2}, 8},
                                              {{.dp_shard = 4, .tp = 2, .ep = 2}, 8},
                                              {{.cp = 2, .tp = 2, .pp = 2, .ep = 4}, 8},
                                              {{.dp_replicate = 2, .cp = 2, .ep = 4}, 8}})
        for (const auto backend : backends)
            threads::run(world_size, [&](World& world) {
                const auto dims = ParallelDims(degrees, world.size(), backend);
                const auto me = world.join(plan(dims));
                auto groups = ProcessGroups(me, dims);
                for (const auto& name : groups.mesh_dim_names()) {
                    const auto mesh = *groups.get_optional_mesh(name, true);
                    if (name == "efsdp" && dims.ep == 1 && mesh.size() > 1) {
                        EXPECT_EQ(
                            laws::text_of<dialect::Refusal>([&] { groups.get_group(mesh); }),
                            detail::cat("the group along efsdp is fake in torchtitan where ep is 1: its ",
                                        mesh.size(),
                                        " ranks would exchange nothing; ask for the mesh without "
                                        "include_singleton_axes"));
                    } else {
                        laws::expect_live(groups.get_group(mesh), laws::list(mesh.mesh()), me.rank(), name);
                    }
                }
                laws::expect_live(groups.get_group(groups.world_mesh()),
                                  laws::list(groups.world_mesh().mesh()), me.rank(), "world");
                const auto dense = *groups.get_optional_mesh({"dp_replicate", "tp"}, true);
                for (const auto* dim : {"dp_replicate", "tp"})
                    laws::expect_live(groups.get_group(dense, dim), laws::list(dense.get_group(dim)),
                                      me.rank(), dim);
            });
}

TEST(Torchtitan, AMemberThatLacksAGroupOrAMeshOfOtherRanksIsRefused) {
    threads::run(8, [](World& world) {
        const auto dims = ParallelDims({.dp_replicate = 2, .tp = 2}, 8);
        const auto me = world.join(plan(dims));
        EXPECT_EQ(
            laws::text_of<UsageError>([&] {
                ProcessGroups(me, {{.dp_replicate = 2, .cp = 2}, 8});
            }),
            "the member was joined with mesh pp=1 batch=4 cp=1 tp=2, not pp=1 batch=4 cp=2 tp=1; join with "
            "torchtitan::plan(dims)");
        auto bare = plan(dims);
        bare[1].over.clear();
        EXPECT_TRUE(laws::text_of<UsageError>([&] {
                        ProcessGroups(world.join(bare), dims);
                    }).ends_with("or join with torchtitan::plan(dims), which has it"));
        auto groups = ProcessGroups(me, dims);
        EXPECT_EQ(
            error_of([&] { groups.get_group(dialect::init_device_mesh({8}, {{"all"}}, me.rank(), 8)); }),
            "these are the groups of 8 ranks in meshes that all=8 is none of");
        const auto own = groups.get_mesh({"dp_replicate", "dp_shard"}).flatten("hsdp");
        EXPECT_EQ(error_of([&] { groups.get_group(own); }),
                  "there is no group over ('dp_replicate', 'dp_shard'), which ParallelDims does not flatten; "
                  "declare one in the plan");
    });
}

}  // namespace of_torchtitan
