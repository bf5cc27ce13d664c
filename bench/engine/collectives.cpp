// SPDX-License-Identifier: Apache-2.0
// A collective through the interface beside the bare MPI call, alternating in one process, and the bare call
// beside itself: the spread that the machine alone makes. Start with mpirun; rank 0 reports.
#include <benchmark/benchmark.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include <rankmesh/engine/mpi.hpp>

namespace {

using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::ranges::nth_element(values, middle);
    return *middle;
}

/// Nanoseconds a call of `body`, over `calls` in a row.
template <class Body>
double time_of(int calls, Body&& body) {
    const auto begin = Clock::now();
    for (int i = 0; i < calls; ++i) body();
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / calls;
}

/// All ranks run the same number of rounds; each round times bare, ours, and bare again, in turning order.
template <class Bare, class Ours>
void compare(benchmark::State& state, std::size_t bytes, Bare&& bare, Ours&& ours) {
    const auto calls = bytes <= 4096 ? 200 : bytes <= 262144 ? 20 : 2;
    auto times = std::array<std::vector<double>, 3>{};
    auto differences = std::vector<double>{};
    auto spreads = std::vector<double>{};
    auto round = 0;
    for (auto _ : state) {
        auto now = std::array<double, 3>{};
        for (int i = 0; i < 3; ++i) {
            const auto which = (i + round) % 3;
            MPI_Barrier(MPI_COMM_WORLD);
            now[static_cast<std::size_t>(which)] = which == 1 ? time_of(calls, ours) : time_of(calls, bare);
        }
        for (std::size_t i = 0; i < 3; ++i) times[i].push_back(now[i]);
        const auto base = (now[0] + now[2]) / 2;
        differences.push_back(now[1] - base);
        spreads.push_back(std::abs(now[0] - now[2]));
        state.SetIterationTime(now[1] * 1e-9);
        ++round;
    }
    const auto base = (median(times[0]) + median(times[2])) / 2;
    state.counters["bare_ns"] = base;
    state.counters["over_ns"] = median(differences);
    state.counters["over_percent"] = 100 * median(differences) / base;
    state.counters["aa_spread_percent"] = 100 * std::abs(median(times[0]) - median(times[2])) / base;
}

void collectives(rankmesh::World& world) {
    auto me = std::make_shared<rankmesh::Member>(world.join({{"dp", rankmesh::rest}}));
    auto on = std::make_shared<rankmesh::Communicator>(me->on("dp"));
    auto comm = MPI_COMM_NULL;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    const auto rounds = [](std::size_t bytes) { return bytes <= 262144 ? 301 : 41; };
    const auto add = [&](const std::string& name, std::size_t bytes, auto body) {
        benchmark::RegisterBenchmark((name + "/" + std::to_string(bytes)).c_str(), body)
            ->UseManualTime()
            ->Iterations(rounds(bytes));
    };
    for (std::size_t bytes = 8; bytes <= (16U << 20); bytes *= 8) {
        const auto count = bytes / sizeof(float);
        add("all_reduce", bytes, [=](benchmark::State& state) {
            auto data = std::vector<float>(count);
            compare(
                state, bytes,
                [&] {
                    MPI_Allreduce(MPI_IN_PLACE, data.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM,
                                  comm);
                },
                [&] { on->all_reduce(data); });
        });
        add("all_gather", bytes, [=, size = world.size()](benchmark::State& state) {
            auto in = std::vector<float>(count);
            auto out = std::vector<float>(count * static_cast<std::size_t>(size));
            const auto n = static_cast<int>(count);
            compare(
                state, bytes, [&] { MPI_Allgather(in.data(), n, MPI_FLOAT, out.data(), n, MPI_FLOAT, comm); },
                [&] { on->all_gather(in, out); });
        });
    }
    add("barrier", 0, [=](benchmark::State& state) {
        compare(
            state, 0, [&] { MPI_Barrier(comm); }, [&] { on->barrier(); });
    });
}

/// Reports nothing: for the ranks beside rank 0.
class Silent : public benchmark::BenchmarkReporter {
public:
    bool ReportContext(const Context&) override { return true; }
    void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int main(int argc, char** argv) {
    benchmark::Initialize(&argc, argv);
    auto world = rankmesh::mpi::World(argc, argv);
    collectives(world);
    auto silent = Silent{};
    if (world.rank() == 0)
        benchmark::RunSpecifiedBenchmarks();
    else
        benchmark::RunSpecifiedBenchmarks(&silent);
    benchmark::ClearRegisteredBenchmarks();
    return 0;
}
