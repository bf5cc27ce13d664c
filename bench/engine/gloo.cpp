// SPDX-License-Identifier: Apache-2.0
// Operations on the Gloo engine beside Gloo's own calls on connections of the same kind, alternating in one
// run, and the bare call beside itself: the spread that the machine alone makes.
// `bench_engine_gloo N [free|bound [OPERATION]]` starts N processes of itself, bound to a core each or free
// to move: bound is steadier.
#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <functional>

#include <rankmesh/engine/gloo.hpp>

#include "../measure.hpp"
#include "processes.hpp"

namespace {

using Algorithm = ::gloo::AllreduceOptions::Algorithm;
using rankmesh::bench::median;
using rankmesh::bench::time_of;

/// The two sides, and buffers of one size: `part` is what goes from one rank to one other.
struct Sides {
    rankmesh::Communicator& ours;
    rankmesh::Communicator& checked;  // the same, whose calls are compared
    const std::shared_ptr<::gloo::Context>& bare;
    std::vector<float> part;
    std::vector<float> whole;
    std::vector<float> other;
    std::uint32_t tag = 0;

    template <class Options>
    Options options() {
        auto made = Options(bare);
        made.setTag(++tag);
        return made;
    }
    void all_reduce(std::vector<float>& x, Algorithm algorithm) {
        auto given = options<::gloo::AllreduceOptions>();
        given.setOutput(x.data(), x.size());
        given.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
            ::gloo::sum<float>(out, a, b, count);
        });
        given.setAlgorithm(algorithm);
        ::gloo::allreduce(given);
    }
};

struct Case {
    const char* name;
    std::function<void(Sides&)> ours;
    std::function<void(Sides&)> bare;
};

const auto cases = std::vector<Case>{
    {"barrier", [](Sides& s) { s.ours.barrier(); },
     [](Sides& s) {
         auto given = s.options<::gloo::BarrierOptions>();
         ::gloo::barrier(given);
     }},
    {"broadcast", [](Sides& s) { s.ours.broadcast(s.part, 0); },
     [](Sides& s) {
         auto given = s.options<::gloo::BroadcastOptions>();
         given.setOutput(s.part.data(), s.part.size());
         given.setRoot(0);
         ::gloo::broadcast(given);
     }},
    {"all_gather", [](Sides& s) { s.ours.all_gather(s.part, s.whole); },
     [](Sides& s) {
         auto given = s.options<::gloo::AllgatherOptions>();
         given.setInput(s.part.data(), s.part.size());
         given.setOutput(s.whole.data(), s.whole.size());
         ::gloo::allgather(given);
     }},
    {"all_to_all", [](Sides& s) { s.ours.all_to_all(s.whole, s.other); },
     [](Sides& s) {
         auto given = s.options<::gloo::AlltoallOptions>();
         given.setInput(s.whole.data(), s.whole.size());
         given.setOutput(s.other.data(), s.other.size());
         ::gloo::alltoall(given);
     }},
    {"all_reduce, ring", [](Sides& s) { s.ours.all_reduce(s.part); },
     [](Sides& s) { s.all_reduce(s.part, Algorithm::RING); }},
    {"all_reduce, BCUBE", [](Sides& s) { s.ours.all_reduce(s.part); },
     [](Sides& s) { s.all_reduce(s.part, Algorithm::BCUBE); }},
    // What Gloo offers for it: everybody gets everything.
    {"reduce_scatter, ring", [](Sides& s) { s.ours.reduce_scatter(s.whole, s.part); },
     [](Sides& s) { s.all_reduce(s.whole, Algorithm::RING); }},
    {"reduce_scatter, BCUBE", [](Sides& s) { s.ours.reduce_scatter(s.whole, s.part); },
     [](Sides& s) { s.all_reduce(s.whole, Algorithm::BCUBE); }},
    // What checked mode costs: bare is ours without it.
    {"all_reduce, checked", [](Sides& s) { s.checked.all_reduce(s.part); },
     [](Sides& s) { s.ours.all_reduce(s.part); }},
};

/// Half of the interval in which the median of such values lies at 95 %: by order statistics.
double uncertainty(std::vector<double> values) {
    std::ranges::sort(values);
    const auto middle = static_cast<double>(values.size()) / 2;
    const auto reach = std::sqrt(static_cast<double>(values.size())) * 0.98;
    const auto low = static_cast<std::size_t>(std::max(0.0, middle - reach));
    const auto high = std::min(values.size() - 1, static_cast<std::size_t>(middle + reach));
    return (values[high] - values[low]) / 2;
}

/// Each round times bare, ours, and bare again, in turning order: so many calls of each as take a fifth of a
/// millisecond, and so many rounds as take some seconds.
void compare(const Case& each, std::size_t bytes, Sides& sides, bool reports) {
    auto slowest = std::array{0.0};  // nanoseconds of a call, on the slowest rank
    for (const auto& call : {each.bare, each.ours}) {
        call(sides);
        slowest[0] = std::max(slowest[0], time_of(1, [&] { call(sides); }));
    }
    sides.ours.all_reduce(slowest, rankmesh::max);
    const auto calls = static_cast<int>(std::clamp(0.2e6 / slowest[0], 1.0, 20.0));
    const auto rounds =
        rankmesh::bench::rounds_of(static_cast<int>(std::clamp(3e9 / (3 * calls * slowest[0]), 31.0, 301.0)));
    auto times = std::array<std::vector<double>, 3>{};
    auto differences = std::vector<double>{};
    for (int round = 0; round < rounds; ++round) {
        auto now = std::array<double, 3>{};
        for (int i = 0; i < 3; ++i) {
            const auto which = (i + round) % 3;
            sides.ours.barrier();
            now[static_cast<std::size_t>(which)] =
                time_of(calls, [&] { (which == 1 ? each.ours : each.bare)(sides); });
        }
        for (std::size_t i = 0; i < 3; ++i) times[i].push_back(now[i]);
        differences.push_back(now[1] - (now[0] + now[2]) / 2);
    }
    const auto base = (median(times[0]) + median(times[2])) / 2;
    if (reports)
        rankmesh::bench::keep_samples(
            rankmesh::detail::cat("Gloo: ", each.name, " on ", sides.ours.size(), "/", bytes),
            {times[1], times[0], times[2]});
    if (reports)
        std::printf("%-22s %10zu %12.0f %12.0f %8.0f %8.3f %10.1f\n", each.name, bytes, base,
                    median(differences), uncertainty(differences), 1 + median(differences) / base,
                    100 * std::abs(median(times[0]) - median(times[2])) / base);
}

/// Binds this process to one of the cores that it may use.
void bind_to_core(int number) {
    auto allowed = cpu_set_t{};
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
    auto cores = std::vector<std::size_t>{};
    for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &allowed)) cores.push_back(core);
    auto own = cpu_set_t{};
    CPU_ZERO(&own);
    CPU_SET(cores[static_cast<std::size_t>(number) % cores.size()], &own);
    sched_setaffinity(0, sizeof own, &own);
}

}  // namespace

int main(int argc, char** argv) {
    if (!std::getenv("RANKMESH_STORE"))
        return rankmesh::bench::run_processes(argv, argc > 1 ? std::atoi(argv[1]) : 2);
    if (argc > 2 && std::string_view(argv[2]) == "bound") bind_to_core(std::atoi(std::getenv("RANK")));
    auto world = rankmesh::gloo::World();
    auto ours = world.join({{"dp", rankmesh::rest}}).on("dp");
    auto other = rankmesh::gloo::World({.job = "checked"}, {.checked = true});
    auto checked = other.join({{"dp", rankmesh::rest}}).on("dp");
    const auto bare = rankmesh::bench::bare_group(::gloo::transport::tcp::CreateDevice("127.0.0.1"), "bare",
                                                  world.rank(), world.size());
    const auto reports = world.rank() == 0;
    if (reports)
        std::printf("%d ranks\n%-22s %10s %12s %12s %8s %8s %10s\n", world.size(), "operation",
                    "bytes a part", "bare, ns", "over, ns", "+-", "ratio", "spread, %");
    for (const auto& each : cases) {
        if (argc > 3 && std::string_view(each.name).find(argv[3]) == std::string_view::npos) continue;
        for (auto bytes : {8U, 512U, 4096U, 65536U, 262144U, 1048576U, 67108864U}) {
            const auto parts = static_cast<std::size_t>(world.size());
            const auto count = bytes / sizeof(float);
            const auto whole = std::string_view(each.name).find("all_reduce") == 0 ? 0 : count * parts;
            auto sides = Sides{ours,
                               checked,
                               bare,
                               std::vector<float>(count),
                               std::vector<float>(whole),
                               std::vector<float>(whole)};
            compare(each, bytes, sides, reports);
            if (std::string_view(each.name) == "barrier") break;
        }
    }
    ours.barrier();
    return 0;
}
