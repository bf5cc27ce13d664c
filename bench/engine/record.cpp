// SPDX-License-Identifier: Apache-2.0
// What the flight record costs a call: a channel that does nothing, with and without its record, and what the
// record is made of.
#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>

#include "engine/record/recorded.hpp"

namespace {

using namespace rankmesh::detail;

struct Bench {
    std::shared_ptr<std::atomic<std::uint64_t>> ids = std::make_shared<std::atomic<std::uint64_t>>(0);
    CallRing ring = {"a group", ids, nullptr};
    CommunicatorState state = {
        .world = nullptr, .channel = nullptr, .label = nullptr, .timeout = std::chrono::minutes(30)};
    Call call = {.operation = Operation::all_reduce, .in_count = 2, .out_count = 2};
};

void run(benchmark::State& state, bool on) {
    auto bench = Bench();
    if (on) bench.state.ring = &bench.ring;
    for (auto _ : state) recorded(bench.state, bench.call, [&] { benchmark::DoNotOptimize(bench.call); });
}

void start_and_wait(benchmark::State& state, bool on) {
    auto bench = Bench();
    if (on) bench.state.ring = &bench.ring;
    for (auto _ : state) {
        const auto record =
            recorded_start(bench.state, {&bench.call, 1}, [&] { benchmark::DoNotOptimize(bench.call); });
        recorded_wait(bench.state, record, [&] { benchmark::DoNotOptimize(bench.call); });
    }
}

void coarse_clock(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(coarse_now());
}
void exact_clock(benchmark::State& state) {
    for (auto _ : state) benchmark::DoNotOptimize(std::chrono::steady_clock::now());
}
void next_id(benchmark::State& state) {
    auto id = std::atomic<std::uint64_t>{0};
    for (auto _ : state) benchmark::DoNotOptimize(id.fetch_add(1, std::memory_order_relaxed));
}

BENCHMARK_CAPTURE(run, off, false);
BENCHMARK_CAPTURE(run, on, true);
BENCHMARK_CAPTURE(start_and_wait, off, false);
BENCHMARK_CAPTURE(start_and_wait, on, true);
BENCHMARK(coarse_clock);
BENCHMARK(exact_clock);
BENCHMARK(next_id);

}  // namespace

BENCHMARK_MAIN();
