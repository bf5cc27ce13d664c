// SPDX-License-Identifier: Apache-2.0
// What docs/tour.md quotes, compiled and run.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/engine/threads.hpp>

namespace {

// Four pipeline stages of eight replicas of eight tensor shards.
constexpr auto mesh = rankmesh::Mesh{{"pp", 4}, {"dp", 8}, {"tp", 8}};

static_assert(mesh.size() == 256);
static_assert(mesh.coord(67)["pp"] == 1);
static_assert(mesh.rank({{"pp", 1}, {"dp", 0}, {"tp", 3}}) == 67);
static_assert(mesh.group(67, "tp").size() == 8 && mesh.group(67, "tp")[0] == 64);
static_assert(mesh.neighbor(67, "pp", +1) == 131);
static_assert(mesh.neighbor(195, "pp", +1) == std::nullopt);  // the last stage has no next
static_assert(mesh.neighbor(195, "pp", +1, rankmesh::Edge::wrap) == 3);

void expect(bool truth, const char* what) {
    if (truth) return;
    std::fprintf(stderr, "the tour says otherwise: %s\n", what);
    std::exit(1);
}

void ask() {
    for (auto group : mesh.partition("dp", "tp")) std::printf("%s\n", to_string(group).c_str());

    auto ends = mesh.group(67, "pp").pick({0, -1});  // first and last stage of this rank's pipeline
    expect(to_string(ends) == "{3, 195}", "ends");
}

void rearrange() {
    // The ranks stay where they are; only what they are called changes.
    auto flat = mesh.flatten({"pp", "tp"}, "model");
    expect(to_string(flat) == "model=(4,8):(64,1) dp=8:8", "flat");

    auto stage = mesh.slice({{"pp", 1}});
    expect(to_string(stage) == "dp=8 tp=8 @64", "stage");

    auto hybrid = mesh.split("dp", {{"dp_replicate", 2}, {"dp_shard", rankmesh::rest}});
    expect(to_string(hybrid) == "pp=4 dp_replicate=2 dp_shard=4 tp=8", "hybrid");

    auto placed = rankmesh::Placement::parse("a=2 b=2 @[3,1,2,0]");
    expect(placed.rank({{"a", 0}, {"b", 0}}) == 3, "placed");
}

void several_meshes(rankmesh::World& world) {
    auto me = world.join({{.name = "dense",
                           .mesh = {{"pp", 2}, {"dp", rankmesh::rest}},
                           .over = {{"pp", "dp"}},
                           .picks = {{.of = "pp", .at = {0, -1}, .as = "embedding"}}},
                          {.name = "expert", .mesh = {{"pp", 2}, {"edp", 2}, {"ep", rankmesh::rest}}}});

    auto tokens = std::vector<float>(4, static_cast<float>(me.rank()));
    auto routed = std::vector<float>(4);
    me["expert"].on("ep").all_to_all(tokens, routed);
    if (auto embedding = me["dense"].find("embedding")) embedding->all_reduce(tokens);
}

void disagree() {
    try {
        rankmesh::threads::run(4, [](rankmesh::World& world) {
            world.join({{world.rank() == 2 ? "tp" : "dp", rankmesh::rest}});
        });
    } catch (const rankmesh::Disagreement& error) {
        std::printf("%s\n", error.what());
    }
}

}  // namespace

int main() {
    ask();
    rearrange();
    rankmesh::threads::run(8, [](rankmesh::World& world) { several_meshes(world); });
    disagree();
}
