// SPDX-License-Identifier: Apache-2.0
// From the start of the world to the first barrier of every axis on the Gloo engine, beside what frameworks
// do with Gloo alone: connect everybody to everybody, then make each group by way of the store.
// `bench_engine_gloo_bring_up "dp=4 pp=2 cp=2 tp=4"` starts as many processes of itself.
#include <gloo/barrier.h>

#include <chrono>
#include <cstdio>
#include <string>

#include <rankmesh/core/mesh.hpp>
#include <rankmesh/engine/gloo.hpp>

#include "../measure.hpp"
#include "processes.hpp"

namespace {

using Clock = std::chrono::steady_clock;

template <class Body>
double milliseconds(Body&& body) {
    const auto begin = Clock::now();
    body();
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

void ours(const rankmesh::Mesh& mesh, const std::string& job) {
    auto world = rankmesh::gloo::World(rankmesh::gloo::Meeting{.job = job});
    const auto member = world.join(mesh);
    for (int a = 0; a < mesh.axis_count(); ++a) member.on(mesh.name(rankmesh::AxisId{a})).barrier();
}

void bare(const rankmesh::Mesh& mesh, const std::string& job) {
    const auto rank = std::atoi(std::getenv("RANK"));
    const auto device = ::gloo::transport::tcp::CreateDevice("127.0.0.1");
    const auto world = rankmesh::bench::bare_group(device, job + ".world", rank, mesh.size());
    for (int a = 0; a < mesh.axis_count(); ++a) {
        const auto group = mesh.group(rank, rankmesh::AxisId{a});
        if (group.size() == 1) continue;
        const auto context = rankmesh::bench::bare_group(
            device, job + "." + std::string(mesh.name(rankmesh::AxisId{a})) + "." + std::to_string(group[0]),
            *group.position(rank), group.size());
        auto options = ::gloo::BarrierOptions(context);
        ::gloo::barrier(options);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto mesh = rankmesh::Mesh::parse(argc > 1 ? argv[1] : "dp=4 pp=2 cp=2 tp=4");
    if (!std::getenv("RANKMESH_STORE")) return rankmesh::bench::run_processes(argv, mesh.size());
    // Beside both, and the same for both: who is late, and how long it took the slowest.
    auto judge = rankmesh::gloo::World();
    auto all = judge.join({{"all", rankmesh::rest}}).on("all");
    auto times = std::array<std::vector<double>, 2>{};
    for (int round = 0; round < 7; ++round)
        for (std::size_t side = 0; side < 2; ++side) {
            all.barrier();
            const auto job = "round-" + std::to_string(round);
            auto slowest =
                std::vector<double>{milliseconds([&] { side == 0 ? ours(mesh, job) : bare(mesh, job); })};
            all.all_reduce(slowest, rankmesh::max);
            times[side].push_back(slowest[0]);
        }
    if (judge.rank() == 0)
        std::printf("%-28s %4d ranks: ours %7.1f ms, Gloo alone %7.1f ms, ratio %.3f\n",
                    to_string(mesh).c_str(), mesh.size(), rankmesh::bench::median(times[0]),
                    rankmesh::bench::median(times[1]),
                    rankmesh::bench::median(times[0]) / rankmesh::bench::median(times[1]));
    all.barrier();
    return 0;
}
