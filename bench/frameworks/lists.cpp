// SPDX-License-Identifier: Apache-2.0
// What writing all groups of a kind costs at 65,536 ranks, beside memset of as many bytes of the same buffer.
//
//     bench_framework_lists [--all]
//
// A kind is asked for by the framework's name, and its groups are written one after the other. Both are timed
// in turn, round after round, so that what else the machine does slows both; a time is the least of all
// rounds. Of each framework the slowest kind is printed, kinds of some ranks only (embeddings) apart; or all.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <rankmesh/frameworks/llamafactory.hpp>
#include <rankmesh/frameworks/megatron2022.hpp>
#include <rankmesh/frameworks/picotron.hpp>

#include "../measure.hpp"
#include "sizes.hpp"

namespace {

using namespace rankmesh::bench;

struct Kind {
    std::string framework, name;
    std::size_t ranks;  // of all groups
    std::function<void(std::span<int>)> write;
};
std::vector<Kind> kinds;

/// `groups` asks for the list, as a program would.
template <class Groups>
void add(const std::string& framework, const std::string& name, Groups groups) {
    kinds.push_back(
        {framework, name, groups().rank_count(), [=](std::span<int> out) { groups().copy_to(out); }});
}

/// Every single axis of a mesh.
void add_axes(const std::string& framework, const std::string& name, const rankmesh::Mesh& mesh) {
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto axis = std::string(mesh.name({a}));
        add(framework, name + axis, [=] { return mesh.partition(axis); });
    }
}

void add_small_frameworks() {
    const auto& s = large;
    const auto picotron = rankmesh::picotron::groups({s.tp, s.cp, s.pp, s.dp}, s.world).mesh();
    add_axes("picotron", "", picotron);
    add("picotron", "cp_dp", [=] { return picotron.partition("cp", "dp"); });
    add("picotron", "pp_dp", [=] { return picotron.partition("pp", "dp"); });

    const auto state =
        rankmesh::llamafactory::State({.mp_replicate_size = s.dp, .cp_size = s.cp}, 0, s.world);
    add_axes("llamafactory", "", state.model_device_mesh().root());
    add_axes("llamafactory", "", state.data_device_mesh().root());

    const auto olmo = rankmesh::olmo::State(olmo_settings(s), 0, s.world);
    add_axes("olmo", "mesh_", olmo.get_world_mesh()->root());

    const auto megatron2022 = rankmesh::megatron2022::groups({s.tp, s.pp}, s.world).mesh();
    add_axes("megatron2022", "", megatron2022);
    add("megatron2022", "model", [=] { return megatron2022.partition("pp", "tp"); });
}

/// The axes of a topology, and what a grid of it makes.
void add_topology(const std::string& framework, const auto& topology) {
    for (const auto& axis : topology.axes())
        add(framework, axis + " of " + topology.axes().front(),
            [=] { return *topology.get_axis_comm_lists(axis); });
}

void add_grids() {
    const auto topology = deepspeed_topology(large);
    add_topology("deepspeed", topology);

    const auto training = areal_topology(large);
    add_topology("areal", training);
    add_topology("areal", rankmesh::areal::DataPipeTensorParallelTopology(large.pp, large.tp,
                                                                          large.dp * large.cp, true));
}

/// Keeps the compiler from leaving out what is written.
void seen(std::span<int> out) { asm volatile("" : : "r"(out.data()) : "memory"); }

/// Of the least times: which kind is slowest must not hang on what else the machine does.
double ratio(const Samples& samples) {
    return std::ranges::min(samples.ours) / std::ranges::min(samples.theirs);
}

Samples measured(const Kind& kind, std::span<int> room, int rounds) {
    const auto out = room.first(kind.ranks);
    const auto calls = 8 * large.world / static_cast<int>(kind.ranks);
    auto value = 0;
    return in_turn(
        rounds_of(rounds), calls, [&] { kind.write(out), seen(out); },
        [&] { std::memset(out.data(), value++, out.size_bytes()), seen(out); });
}

void print(const Kind& kind, const Samples& samples) {
    std::printf("%-17s %-52s %4zu KiB %9.0f ns   memset %7.0f ns   ratio %5.2f\n", kind.framework.c_str(),
                kind.name.c_str(), kind.ranks * sizeof(int) / 1024, std::ranges::min(samples.ours),
                std::ranges::min(samples.theirs), ratio(samples));
}

}  // namespace

int main(int argc, char** argv) {
    const auto all = argc > 1 && std::string_view(argv[1]) == "--all";
    add_small_frameworks();
    add_grids();
    auto room = std::vector<int>(static_cast<std::size_t>(large.world), 1);
    struct Worst {
        const Kind* kind;
        Samples samples;
        int of;
    };
    auto worst = std::map<std::pair<bool, std::string>, Worst>{};
    for (const auto& kind : kinds) {
        const auto samples = measured(kind, room, 21);
        if (all) print(kind, samples);
        auto& known = worst
                          .try_emplace({kind.ranks < static_cast<std::size_t>(large.world), kind.framework},
                                       &kind, samples, 0)
                          .first->second;
        if (ratio(samples) > ratio(known.samples)) known.kind = &kind, known.samples = samples;
        ++known.of;
    }
    std::printf("the slowest kind of each framework; promised: at most 1.25\n");
    auto some = false;
    for (const auto& [key, each] : worst) {
        if (key.first && !some)
            std::printf(
                "of some ranks only; what fits the nearest cache is set faster than a list is made\n");
        some = key.first;
        print(*each.kind, each.samples);
        if (!some)
            keep_samples("list of a framework's kind/" + each.kind->framework,
                         measured(*each.kind, room, 301));
        std::printf("%17s of %d kinds\n", "", each.of);
    }
}
