// SPDX-License-Identifier: Apache-2.0
// What a query of a mesh costs beside MPI's, and what writing all groups costs beside memset.
//
//     mpirun -n 12 --oversubscribe bench_core_mesh
//
// MPI_Cart_create wants a process for each position, so MPI is asked over 3*1*2*1*2 = 12 ranks, and over
// 1*1*1*1*1 if fewer are started. Its cost hangs on the number of axes, not on their sizes, so the same
// figure stands beside the mesh of nearly 2^30 ranks. Only rank 0 measures; the others sleep.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/mesh.hpp>

#ifdef RANKMESH_BENCH_MPI
#include <mpi.h>
#endif

namespace {

using rankmesh::AxisId;
using rankmesh::Mesh;

constexpr auto small = "pp=3 cp=1 dp=2 ep=1 tp=2";
constexpr auto large = "pp=63 cp=65 dp=66 ep=63 tp=63";    // 1,072,701,630 ranks; 2^30 is 1,073,741,824
constexpr auto million = "pp=15 cp=16 dp=17 ep=16 tp=16";  // 1,044,480 ranks
constexpr auto scattered = "pp=63:4 cp=65:252 dp=66:16380 ep=63:1081080 tp=4:1";  // axes not by stride

constexpr auto rank_count = std::size_t{1024};

/// Ranks of the mesh in an order that no predictor knows; few enough to stay in the nearest cache.
std::vector<int> shuffled_ranks(const Mesh& mesh) {
    auto random = std::mt19937(1);
    auto position = std::uniform_int_distribution<int>(0, mesh.size() - 1);
    const auto ranks = mesh.ranks();
    auto out = std::vector<int>(rank_count);
    for (auto& rank : out) rank = ranks[position(random)];
    return out;
}

void round_trip(benchmark::State& state, const char* text) {
    benchmark::DoNotOptimize(text);  // the mesh is known only at run time
    const auto mesh = Mesh::parse(text);
    const auto ranks = shuffled_ranks(mesh);
    auto indices = std::array<int, 5>{};
    auto next = std::size_t{0};
    for (auto _ : state) {
        mesh.indices(ranks[next++ % rank_count], indices);
        benchmark::DoNotOptimize(indices.data());
        benchmark::ClobberMemory();
        benchmark::DoNotOptimize(mesh.rank_at(indices));
    }
}
BENCHMARK_CAPTURE(round_trip, mesh_12, small);
BENCHMARK_CAPTURE(round_trip, mesh_2_30, large);
BENCHMARK_CAPTURE(round_trip, mesh_scattered, scattered);

#ifdef RANKMESH_BENCH_MPI
MPI_Comm cart = MPI_COMM_NULL;

void round_trip_mpi(benchmark::State& state) {
    auto size = 0;
    MPI_Comm_size(cart, &size);
    auto random = std::mt19937(1);
    auto position = std::uniform_int_distribution<int>(0, size - 1);
    auto ranks = std::vector<int>(rank_count);
    for (auto& rank : ranks) rank = position(random);
    auto indices = std::array<int, 5>{};
    auto rank = 0;
    auto next = std::size_t{0};
    for (auto _ : state) {
        MPI_Cart_coords(cart, ranks[next++ % rank_count], 5, indices.data());
        MPI_Cart_rank(cart, indices.data(), &rank);
        benchmark::DoNotOptimize(rank);
    }
}
BENCHMARK(round_trip_mpi)->Name("round_trip/MPI_Cart");
#endif

/// Memory for all groups of all axes, every page touched.
std::vector<int> room_for_groups(const Mesh& mesh) {
    return std::vector<int>(
        static_cast<std::size_t>(mesh.axis_count()) * static_cast<std::size_t>(mesh.size()), 1);
}

void all_groups(benchmark::State& state) {
    auto text = million;
    benchmark::DoNotOptimize(text);
    const auto mesh = Mesh::parse(text);
    auto room = room_for_groups(mesh);
    const auto part = static_cast<std::size_t>(mesh.size());
    for (auto _ : state) {
        for (int a = 0; a < mesh.axis_count(); ++a)
            mesh.partition(AxisId{a}).copy_to(
                std::span<int>(room).subspan(static_cast<std::size_t>(a) * part, part));
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(room.size() * sizeof(int)));
}
BENCHMARK(all_groups)->Name("all_groups/copy_to");

void all_groups_memset(benchmark::State& state) {
    auto room = room_for_groups(Mesh::parse(million));
    auto value = 0;
    for (auto _ : state) {
        std::memset(room.data(), value++, room.size() * sizeof(int));
        benchmark::ClobberMemory();
    }
    state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(room.size() * sizeof(int)));
}
BENCHMARK(all_groups_memset)->Name("all_groups/memset");

/// Prints as usual and keeps the least time of each benchmark for the closing table.
class Reporter : public benchmark::ConsoleReporter {
public:
    Reporter() : ConsoleReporter(OO_Tabular) {}
    void ReportRuns(const std::vector<Run>& runs) override {
        for (const auto& run : runs)
            if (run.run_type == Run::RT_Iteration) {
                const auto time = run.GetAdjustedCPUTime();
                const auto [known, fresh] = least_.try_emplace(run.run_name.function_name, time);
                if (!fresh) known->second = std::min(known->second, time);
            }
        ConsoleReporter::ReportRuns(runs);
    }
    void compare(const char* ours, const char* bare, double at_most) const {
        const auto a = least_.find(ours);
        const auto b = least_.find(bare);
        if (a == least_.end() || b == least_.end()) return;
        std::printf("%-26s %12.1f ns   %-22s %12.1f ns   ratio %5.2f   promised at most %.1f\n", ours,
                    a->second, bare, b->second, a->second / b->second, at_most);
    }

private:
    std::map<std::string, double> least_;
};

void measure() {
    auto reporter = Reporter();
    benchmark::RunSpecifiedBenchmarks(&reporter);
    std::printf("\nleast of all repetitions:\n");
    reporter.compare("round_trip/mesh_12", "round_trip/MPI_Cart", 0.5);
    reporter.compare("round_trip/mesh_2_30", "round_trip/MPI_Cart", 0.5);
    reporter.compare("all_groups/copy_to", "all_groups/memset", 3);
}

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
#ifdef RANKMESH_BENCH_MPI
    MPI_Init(&argc, &argv);
    auto size = 0;
    auto me = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    const auto sizes = size >= 12 ? std::array{3, 1, 2, 1, 2} : std::array{1, 1, 1, 1, 1};
    const auto open = std::array{0, 0, 0, 0, 0};
    MPI_Cart_create(MPI_COMM_WORLD, 5, sizes.data(), open.data(), 0, &cart);
    if (me == 0) measure();
    auto finished = MPI_Request{};
    MPI_Ibarrier(MPI_COMM_WORLD, &finished);
    for (auto done = 0; done == 0;) {
        MPI_Test(&finished, &done, MPI_STATUS_IGNORE);
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    if (cart != MPI_COMM_NULL) MPI_Comm_free(&cart);
    MPI_Finalize();
#else
    measure();
#endif
}
