// SPDX-License-Identifier: Apache-2.0
// What docs/tour.md quotes, compiled and run.
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/engine/join_cost.hpp>
#include <rankmesh/engine/sparse.hpp>
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

void operations(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}});
    auto dp = me.on("dp");

    auto grads = std::vector<float>(2 * static_cast<std::size_t>(dp.size()), 1.0f);
    auto own = std::vector<float>(2);
    dp.reduce_scatter(grads, own, rankmesh::mean);  // this rank's part, of the mean over all
    for (auto& x : own) x *= 0.5f;                  // its share of the optimizer's work
    dp.all_gather(own, grads);                      // the parts of all
    expect(grads == std::vector<float>(grads.size(), 0.5f), "reduce_scatter and all_gather");

    auto config = std::string(dp.rank() == 0 ? "layers=32" : "");
    dp.broadcast_object(config);  // the others need not know its length
    expect(config == "layers=32", "broadcast_object");
}

void messages(rankmesh::World& world) {
    auto me = world.join({{"cp", rankmesh::rest}});
    auto cp = me.on("cp");
    const auto before = (cp.rank() + cp.size() - 1) % cp.size();
    const auto after = (cp.rank() + 1) % cp.size();
    const auto edges = std::array{static_cast<float>(2 * cp.rank()), static_cast<float>(2 * cp.rank() + 1)};
    auto halo = std::array<float, 2>();

    constexpr auto down = 0, up = 1;  // which way a message goes
    cp.batch([&] {
        cp.send(edges[0], before, down);
        cp.send(edges[1], after, up);
        cp.recv(halo[0], before, up);
        cp.recv(halo[1], after, down);
    });
    expect(halo[0] == static_cast<float>(2 * before + 1), "batch, from before");
    expect(halo[1] == static_cast<float>(2 * after), "batch, from after");
}

void serve(rankmesh::Communicator& on, int tasks) {
    auto results = std::vector<double>();
    for (int task = 0; task < tasks; ++task) {
        const auto message = on.probe(rankmesh::any_rank);
        results.resize(message.count<double>());
        on.recv(results, message.from);
        on.send(task, message.from);
    }
}

void from_any_rank(rankmesh::World& world) {
    auto on = world.join({{"dp", rankmesh::rest}}).on("dp");
    constexpr auto each = 3;
    if (on.rank() == 0) return serve(on, each * (on.size() - 1));
    auto last = -1;
    for (int i = 0; i < each; ++i) {
        const auto results = std::vector<double>(static_cast<std::size_t>(on.rank() + i), 1.0);
        auto task = -1;
        on.send(results, 0);
        on.recv(task, 0);
        expect(task > last, "a later task");
        last = task;
    }
}

void migrate(rankmesh::Communicator& on, const std::map<int, std::vector<double>>& leaving,
             std::vector<double>& mine) {
    for (const auto& [from, arrived] : rankmesh::sparse_all_to_all(on, leaving))
        mine.insert(mine.end(), arrived.begin(), arrived.end());
}

void to_a_few_ranks(rankmesh::World& world) {
    auto on = world.join({{"dp", rankmesh::rest}}).on("dp");
    auto mine = std::vector<double>();
    auto leaving = std::map<int, std::vector<double>>();
    for (int to = 0; to < on.rank(); ++to) leaving[to].push_back(on.rank());
    migrate(on, leaving, mine);
    auto above = std::vector<double>();
    for (int from = on.rank() + 1; from < on.size(); ++from) above.push_back(from);
    expect(mine == above, "a sparse exchange");
}

void several_at_once(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}});
    auto dp = me.on("dp");
    auto layers = std::array{1.0f, 2.0f, 3.0f};
    auto averages = std::vector<rankmesh::Pending>();
    for (auto& layer : layers) averages.push_back(dp.start().all_reduce(layer, rankmesh::mean));
    while (const auto i = rankmesh::wait_any(averages)) layers[*i] *= 0.5f;
    expect(layers == std::array{0.5f, 1.0f, 1.5f}, "wait_any");
}

void lists(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}});
    auto dp = me.on("dp");

    auto weight = std::vector<float>(1000, static_cast<float>(dp.rank()));
    auto bias = std::vector<rankmesh::bf16>(10, rankmesh::bf16(1.0f));
    dp.all_reduce(rankmesh::Buffers(weight, bias), rankmesh::max);
    expect(weight.back() == static_cast<float>(dp.size() - 1), "lists");

    auto grads = std::vector<std::vector<float>>{};
    auto shards = std::vector<std::vector<float>>{};
    for (auto length : {std::size_t{500}, std::size_t{10}}) {
        grads.emplace_back(length * static_cast<std::size_t>(dp.size()), 1.0f);
        shards.emplace_back(length);
    }
    dp.reduce_scatter(rankmesh::ConstBuffers(grads), rankmesh::Buffers(shards), rankmesh::mean);
    expect(shards.back() == std::vector<float>(10, 1.0f), "a list reduce_scatter");
}

void separate_channels() {
    auto plan = rankmesh::Plan{{.mesh = {{"dp", rankmesh::rest}, {"tp", 2}}}};
    const auto shared = rankmesh::join_cost(plan, 64, 0);
    plan[0].over = {rankmesh::Axes("dp").separate("gather")};
    const auto own = rankmesh::join_cost(plan, 64, 0);
    expect(shared.communicators == 2 && own.communicators == 3, "communicators");
    expect(shared.connections == 32 && own.connections == 63, "connections on Gloo");
}

void local_ranks(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}, {"tp", 2}}, {.local = "node"});
    auto node = me.on("node");                   // the ranks of this mesh on this host
    const auto device = me.local_rank();         // index of this rank's device on its host
    const auto downloads = me.is_first("node");  // one rank on each host
    expect(node.size() == world.size() && device == world.rank() && downloads == (device == 0),
           "local ranks");
}

void two_meshes(rankmesh::World& world) {
    auto me = world.join({{.name = "train", .mesh = {{"dp", 2}, {"tp", 2}}, .partial = true},
                          {.name = "rollout", .mesh = rankmesh::MeshSpec::parse("tp=* @4"), .partial = true},
                          {.name = "all", .mesh = {{"world", rankmesh::rest}}}});

    auto weights = std::vector<float>(4, static_cast<float>(me.rank()));
    if (me["train"].inside()) me["train"].on("tp").all_reduce(weights);

    auto all = me["all"].on("world");
    const auto from = me["train"].rank_at({{"dp", 1}, {"tp", 0}});
    const auto to = me["rollout"].rank_at({{"tp", 3}});
    if (me.rank() == from) all.send(weights, *all.group_rank_of(to));
    if (me.rank() == to) all.recv(weights, *all.group_rank_of(from));
    expect(me.rank() != to || weights.front() == 2 + 3, "two meshes");
}

void sub_worlds(rankmesh::World& world) {
    const auto trains = world.rank() < 6;
    auto own = world.sub(trains ? std::vector{0, 1, 2, 3, 4, 5} : std::vector{6, 7});
    auto me = own.join({{trains ? "dp" : "tp", rankmesh::rest}});
    expect(me.mesh().size() == (trains ? 6 : 2) && me.rank() == world.rank() % 6, "sub-worlds");
}

void run_time_groups(rankmesh::World& world) {
    auto me = world.join({{"dp", 4}, {"tp", 2}});
    auto table = std::vector<float>(4, 1.0f);
    if (me.rank() == 1 || me.rank() == 4 || me.rank() == 6) {
        auto routers = me.group({4, 1, 6}, {.name = "routers"});  // group ranks 0, 1 and 2
        routers.broadcast(table, 0);
    }
    const auto idle = me.at("dp") % 2 == 1;
    auto busy = me.split(me.on("dp"), idle ? std::nullopt : std::optional(0));  // nothing for the idle
    if (busy) busy->all_reduce(table);
    auto ring = me.split(me.rank() % 3, -me.rank());  // of the world, in descending order
    expect(busy.has_value() != idle && table.front() == (idle ? 1.0f : 2.0f), "colors of an axis");
    expect(ring->world_rank(0) == 5 + (me.rank() + 1) % 3, "colors of the world");
}

void idle_communicators(rankmesh::World& world) {
    auto me = world.join({{.name = "train", .mesh = {{"dp", rankmesh::rest}, {"tp", 2}}},
                          {.name = "rollout", .mesh = {{"replica", rankmesh::rest}, {"tp", 4}}}});
    me["train"].suspend();        // all of its communicators
    me["rollout"].suspend("tp");  // one
    for (const auto& each : me.usage().communicators)
        if (!each.suspended) std::printf("%s: %d connections\n", each.label.c_str(), each.connections);
    me.resume();  // all that are suspended
    me["rollout"].on("tp").barrier();
    expect(me.usage().communicators.size() == 4, "communicators");
}

void timeouts(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}, {"tp", 2}},
                         {.over = {rankmesh::Axes("tp").within(std::chrono::seconds(5))},  // of one axis
                          .timeout = std::chrono::minutes(1)});                            // of this mesh
    auto dp = me.on("dp").within(std::chrono::milliseconds(100));                          // of this handle
    try {
        if (me.rank() == 3) std::this_thread::sleep_for(std::chrono::seconds(1));  // too long
        if (me.at("tp") == 1) dp.barrier();
        expect(me.at("tp") == 0, "an expired timeout");
    } catch (const rankmesh::Timeout& error) {
        std::printf("%s\n", error.what());
        expect(error.missing == std::vector{3}, "who is missing");
    }
}

void log_lines() {
    const auto say = [](std::string_view line) {
        std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
    };
    auto world = rankmesh::World::from_environment({.log = say});
    world.join({{"dp", rankmesh::rest}});
}

void devices(rankmesh::World& world) {
    auto me = world.join({{"dp", rankmesh::rest}});
    auto x = 0.0f;
    try {
        me.on("dp").all_reduce(rankmesh::Memory(&x, 1));
        expect(false, "a host engine takes no device memory");
    } catch (const rankmesh::UsageError& error) {
        std::printf("%s\n", error.what());
    }
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
    rankmesh::threads::run(8, several_meshes);
    rankmesh::threads::run(4, operations);
    for (const auto ranks : {1, 2, 3, 4}) rankmesh::threads::run(ranks, messages);
    rankmesh::threads::run(4, from_any_rank);
    rankmesh::threads::run(4, to_a_few_ranks);
    rankmesh::threads::run(4, several_at_once);
    rankmesh::threads::run(4, lists);
    separate_channels();
    rankmesh::threads::run(4, local_ranks);
    rankmesh::threads::run(8, two_meshes);
    rankmesh::threads::run(8, sub_worlds);
    rankmesh::threads::run(8, run_time_groups);
    rankmesh::threads::run(8, idle_communicators);
    rankmesh::threads::run(4, timeouts);
    rankmesh::threads::run(2, devices);
    log_lines();
    disagree();
}
