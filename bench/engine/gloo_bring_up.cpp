// SPDX-License-Identifier: Apache-2.0
// From the start of the world to the first barrier of every axis on the Gloo engine, beside what frameworks
// do with Gloo alone: connect everybody to everybody, then make each group by way of the store.
// `bench_engine_gloo_bring_up "dp=4 pp=2 cp=2 tp=4"` starts as many processes of itself; with a second
// word `ours` without the other, which does not come up with 128 ranks on one host.
#include <gloo/barrier.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

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
    auto world = rankmesh::gloo::World(rankmesh::gloo::RendezvousOptions{.job = job});
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
            *group.group_rank(rank), group.size());
        auto options = ::gloo::BarrierOptions(context);
        ::gloo::barrier(options);
    }
}

/// Beside both, and the same for both: two axes, since one of all ranks would take most of a host's ports.
rankmesh::Mesh rows_and_columns(int size) {
    auto rows = 1;
    for (int n = 1; n * n <= size; ++n)
        if (size % n == 0) rows = n;
    return {{"row", rows}, {"column", size / rows}};
}

}  // namespace

int main(int argc, char** argv) {
    const auto mesh = rankmesh::Mesh::parse(argc > 1 ? argv[1] : "dp=4 pp=2 cp=2 tp=4");
    if (!std::getenv("RANKMESH_STORE")) return rankmesh::bench::run_processes(argv, mesh.size());
    auto judge = rankmesh::gloo::World();
    auto member = judge.join(rows_and_columns(mesh.size()));
    const auto slowest = [&](double time) {
        auto times = std::array{time};
        for (const auto* axis : {"row", "column"}) member.on(axis).all_reduce(times, rankmesh::max);
        return times[0];
    };
    auto times = std::array<std::vector<double>, 3>{};
    const auto sides = argc > 2 && std::string_view(argv[2]) == "ours" ? 1UL : 3UL;  // Gloo alone twice
    const auto rounds = static_cast<std::size_t>(rankmesh::bench::rounds_of(7));
    for (std::size_t round = 0; round < rounds; ++round)
        for (std::size_t turn = 0; turn < sides; ++turn) {
            const auto side = (turn + round) % sides;
            slowest(0);  // all begin together
            const auto job = "round-" + std::to_string(round) + "-" + std::to_string(side);
            times[side].push_back(
                slowest(milliseconds([&] { side == 0 ? ours(mesh, job) : bare(mesh, job); })));
        }
    if (judge.rank() == 0) {
        const auto own = rankmesh::bench::median(times[0]);
        std::printf("%-28s %4d ranks: ours %7.1f ms", to_string(mesh).c_str(), mesh.size(), own);
        if (sides == 3) {
            auto samples = rankmesh::bench::Samples{times[0], times[1], times[2]};
            for (auto* each : {&samples.ours, &samples.theirs, &samples.again})
                for (auto& time : *each) time *= 1e6;
            rankmesh::bench::keep_samples("bring-up beside Gloo alone/" + std::to_string(mesh.size()),
                                          samples);
            const auto other = rankmesh::bench::median(times[1]);
            std::printf(", Gloo alone %7.1f ms, ratio %.3f", other, own / other);
        }
        std::puts("");
    }
    slowest(0);
    return 0;
}
