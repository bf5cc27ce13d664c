// SPDX-License-Identifier: Apache-2.0
// A hot path, that many times over: what ./bench/instructions counts the instructions of.
//
//     bench_engine_instructions PATH TIMES
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <vector>

#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/megatron.hpp>

#include "../frameworks/sizes.hpp"

namespace {

template <class T>
void seen(const T& value) {
    asm volatile("" : : "r"(&value) : "memory");
}

/// Calls `body(rank)` for ranks that are far from each other.
template <class Body>
void over_ranks(int times, const rankmesh::Mesh& mesh, Body body) {
    for (int i = 0; i < times; ++i) body(static_cast<int>(i * std::int64_t{7919} % mesh.size()));
}

[[gnu::noinline]] void halo_of_one_thread(int times) {
    rankmesh::threads::run(1, [&](rankmesh::World& world) {
        auto me = world.join(rankmesh::Mesh{{"x", 1}, {"y", 1}, {"z", 1}});
        auto field = std::vector<double>(1000);
        for (int i = 0; i < times; ++i)
            rankmesh::halo(me, rankmesh::strided(field.data(), {10, 10, 10}), {"x", "y", "z"});
    });
}

bool run(std::string_view path, int times) {
    auto text = "pp=15 cp=16 dp=17 ep=16 tp=16";
    asm volatile("" : "+r"(text));
    const auto mesh = rankmesh::Mesh::parse(text);
    const auto axes = mesh.axes("pp", "dp", "tp");
    const auto view = mesh.group_view(0, axes);
    if (path == "coordinate")
        over_ranks(times, mesh, [&](int rank) {
            std::array<int, 5> indices;
            mesh.indices(rank, indices);
            seen(indices);
        });
    else if (path == "round-trip")
        over_ranks(times, mesh, [&](int rank) {
            std::array<int, 5> indices;
            mesh.indices(rank, indices);
            seen(indices);
            seen(mesh.rank_at(indices));
        });
    else if (path == "group-view")
        over_ranks(times, mesh, [&](int rank) { seen(mesh.group_view(rank, axes)); });
    else if (path == "group")
        over_ranks(times, mesh, [&](int rank) { seen(mesh.group(rank, axes)); });
    else if (path == "membership")
        over_ranks(times, mesh, [&](int rank) { seen(view.contains(rank)); });
    else if (path == "neighbor")
        over_ranks(times, mesh, [&](int rank) { seen(mesh.neighbor(rank, rankmesh::AxisId{2}, 1)); });
    else if (path == "megatron-start-up")
        for (int i = 0; i < times; ++i) {
            const auto mpu = rankmesh::megatron::State(
                rankmesh::bench::megatron_sizes(rankmesh::bench::large), 5, rankmesh::bench::large.world);
            for (const auto& kind : mpu.groups().kinds()) seen(mpu.groups().of(kind, 5));
        }
    else if (path == "barrier-of-one-thread")
        rankmesh::threads::run(1, [&](rankmesh::World& world) {
            auto me = world.join({{"dp", 1}});
            for (int i = 0; i < times; ++i) me.on("dp").barrier();
        });
    else if (path == "halo-of-one-thread")
        halo_of_one_thread(times);
    else
        return false;
    return true;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 3 && run(argv[1], std::atoi(argv[2]))) return 0;
    std::puts("usage: bench_engine_instructions PATH TIMES");
    return 2;
}
