// SPDX-License-Identifier: Apache-2.0
// Every operation through the interface beside the bare MPI call, alternating in one process, and the bare
// call beside itself: the spread that the machine alone makes. Start with mpirun; rank 0 reports.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <rankmesh/engine/mpi.hpp>

#include "engine/access.hpp"
#include "measure.hpp"

namespace {

using rankmesh::Communicator;
namespace detail = rankmesh::detail;
using rankmesh::bench::median;
using rankmesh::bench::time_of;

bool reports = false;  // rank 0

/// All ranks run the same number of rounds; each round times bare, ours, and bare again, in turning order.
template <class Bare, class Ours>
void compare(benchmark::State& state, const std::string& name, std::size_t bytes, Bare&& bare, Ours&& ours) {
    const auto calls = bytes <= 4096 ? 200 : bytes <= 262144 ? 20 : 2;
    auto times = std::array<std::vector<double>, 3>{};
    auto differences = std::vector<double>{};
    auto round = 0;
    for (auto _ : state) {
        auto now = std::array<double, 3>{};
        for (int i = 0; i < 3; ++i) {
            const auto which = (i + round) % 3;
            MPI_Barrier(MPI_COMM_WORLD);
            now[static_cast<std::size_t>(which)] = which == 1 ? time_of(calls, ours) : time_of(calls, bare);
        }
        for (std::size_t i = 0; i < 3; ++i) times[i].push_back(now[i]);
        differences.push_back(now[1] - (now[0] + now[2]) / 2);
        state.SetIterationTime(now[1] * 1e-9);
        ++round;
    }
    if (reports) rankmesh::bench::keep_samples(name, {times[1], times[0], times[2]});
    const auto base = (median(times[0]) + median(times[2])) / 2;
    state.counters["bare_ns"] = base;
    state.counters["over_ns"] = median(differences);
    state.counters["over_percent"] = 100 * median(differences) / base;
    state.counters["aa_spread_percent"] = 100 * std::abs(median(times[0]) - median(times[2])) / base;
}

/// Buffers for one size: a `part` is what goes from one rank to one other, a `whole` a part for each.
struct Buffers {
    Buffers(std::size_t bytes, int ranks)
        : n(static_cast<int>(bytes / sizeof(float))),
          in(bytes / sizeof(float)),
          out(in.size()),
          whole_in(in.size() * static_cast<std::size_t>(ranks)),
          whole_out(whole_in.size()),
          counts(static_cast<std::size_t>(ranks), in.size()),
          int_counts(counts.size(), n) {
        for (int i = 0; i < ranks; ++i) offsets.push_back(i * n);
    }
    const int n;
    std::vector<float> in, out, whole_in, whole_out;
    const std::vector<std::size_t> counts;
    const std::vector<int> int_counts;
    std::vector<int> offsets = {};
};

/// What the ranks are compared on: our communicator, and a bare one over the same ranks.
struct Sides {
    Sides(rankmesh::World& world, rankmesh::World& checked)
        : member(world.join({{"dp", rankmesh::rest}})),
          ours(member.on("dp")),
          checked(checked.join({{"dp", rankmesh::rest}}).on("dp")),
          unrecorded(ours.within(std::chrono::minutes(30))) {
        detail::Access::state(unrecorded).ring = nullptr;
        MPI_Comm_dup(MPI_COMM_WORLD, &bare);
        rank = ours.rank();
        size = ours.size();
        next = (rank + 1) % size;
        previous = (rank + size - 1) % size;
        partner = (rank ^ 1) < size ? rank ^ 1 : MPI_PROC_NULL;
    }
    ~Sides() { MPI_Comm_free(&bare); }
    Sides(const Sides&) = delete;
    Sides& operator=(const Sides&) = delete;

    rankmesh::Member member;
    Communicator ours;
    Communicator checked;     // whose calls are compared
    Communicator unrecorded;  // ours, whose calls the flight record leaves out
    MPI_Comm bare = MPI_COMM_NULL;
    int rank, size, next, previous;
    int partner;  // of a ping-pong; of an odd number of ranks the last one has none
};

const auto every_size =
    std::vector<std::size_t>{8, 64, 512, 4096, 32 << 10, 256 << 10, 2 << 20, 16 << 20, 64 << 20};
const auto some_sizes = std::vector<std::size_t>{8, 512, 32 << 10, 2 << 20, 64 << 20};
const auto no_size = std::vector<std::size_t>{0};

/// `pair(buffers)` gives the bare call and ours.
template <class Pair>
void add(const std::string& name, const std::vector<std::size_t>& sizes, const Sides& sides, Pair pair) {
    for (auto bytes : sizes)
        benchmark::RegisterBenchmark((name + "/" + std::to_string(bytes)).c_str(),
                                     [=, ranks = sides.size](benchmark::State& state) {
                                         auto buffers = Buffers(bytes, ranks);
                                         auto [bare, ours] = pair(buffers);
                                         const auto row =
                                             detail::cat("MPI: ", name, " on ", ranks, "/", bytes);
                                         compare(state, row, bytes, bare, ours);
                                     })
            ->UseManualTime()
            ->Iterations(rankmesh::bench::rounds_of(bytes <= 262144    ? 301
                                                    : bytes <= 2 << 20 ? 41
                                                                       : 11));
}

void add_reductions(Sides& s) {
    add("all_reduce", every_size, s, [&](Buffers& b) {
        return std::pair([&] { MPI_Allreduce(MPI_IN_PLACE, b.in.data(), b.n, MPI_FLOAT, MPI_SUM, s.bare); },
                         [&] { s.ours.all_reduce(b.in); });
    });
    add("start_all_reduce", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                auto request = MPI_Request{};
                MPI_Iallreduce(MPI_IN_PLACE, b.in.data(), b.n, MPI_FLOAT, MPI_SUM, s.bare, &request);
                MPI_Wait(&request, MPI_STATUS_IGNORE);
            },
            [&] { s.ours.start().all_reduce(b.in).wait(); });
    });
    add("reduce", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { MPI_Reduce(b.in.data(), b.out.data(), b.n, MPI_FLOAT, MPI_SUM, 0, s.bare); },
                         [&] { s.ours.reduce(b.in, b.out); });
    });
    add("scan", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { MPI_Scan(b.in.data(), b.out.data(), b.n, MPI_FLOAT, MPI_SUM, s.bare); },
                         [&] { s.ours.scan(b.in, b.out); });
    });
    add("reduce_scatter", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                MPI_Reduce_scatter_block(b.whole_in.data(), b.out.data(), b.n, MPI_FLOAT, MPI_SUM, s.bare);
            },
            [&] { s.ours.reduce_scatter(b.whole_in, b.out); });
    });
}

void add_moves(Sides& s) {
    add("broadcast", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { MPI_Bcast(b.in.data(), b.n, MPI_FLOAT, 0, s.bare); },
                         [&] { s.ours.broadcast(b.in); });
    });
    add("all_gather", every_size, s, [&](Buffers& b) {
        return std::pair(
            [&] { MPI_Allgather(b.in.data(), b.n, MPI_FLOAT, b.whole_out.data(), b.n, MPI_FLOAT, s.bare); },
            [&] { s.ours.all_gather(b.in, b.whole_out); });
    });
    add("all_gather_v", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                MPI_Allgatherv(b.in.data(), b.n, MPI_FLOAT, b.whole_out.data(), b.int_counts.data(),
                               b.offsets.data(), MPI_FLOAT, s.bare);
            },
            [&] { s.ours.all_gather_v(b.in, b.whole_out, b.counts); });
    });
    add("gather", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] { MPI_Gather(b.in.data(), b.n, MPI_FLOAT, b.whole_out.data(), b.n, MPI_FLOAT, 0, s.bare); },
            [&] { s.ours.gather(b.in, b.whole_out); });
    });
    add("scatter", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] { MPI_Scatter(b.whole_in.data(), b.n, MPI_FLOAT, b.out.data(), b.n, MPI_FLOAT, 0, s.bare); },
            [&] { s.ours.scatter(b.whole_in, b.out); });
    });
    add("all_to_all", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                MPI_Alltoall(b.whole_in.data(), b.n, MPI_FLOAT, b.whole_out.data(), b.n, MPI_FLOAT, s.bare);
            },
            [&] { s.ours.all_to_all(b.whole_in, b.whole_out); });
    });
    add("all_to_all_v", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                MPI_Alltoallv(b.whole_in.data(), b.int_counts.data(), b.offsets.data(), MPI_FLOAT,
                              b.whole_out.data(), b.int_counts.data(), b.offsets.data(), MPI_FLOAT, s.bare);
            },
            [&] { s.ours.all_to_all_v(b.whole_in, b.counts, b.whole_out, b.counts); });
    });
    add("barrier", no_size, s,
        [&](Buffers&) { return std::pair([&] { MPI_Barrier(s.bare); }, [&] { s.ours.barrier(); }); });
}

void add_messages(Sides& s) {
    const auto ring = [&](Buffers& b) {
        MPI_Sendrecv(b.in.data(), b.n, MPI_FLOAT, s.next, 0, b.out.data(), b.n, MPI_FLOAT, s.previous, 0,
                     s.bare, MPI_STATUS_IGNORE);
    };
    add("shift", some_sizes, s, [&, ring](Buffers& b) {
        return std::pair([&b, ring] { ring(b); }, [&] { s.ours.shift(b.in, b.out); });
    });
    add("send_recv", some_sizes, s, [&, ring](Buffers& b) {
        return std::pair([&b, ring] { ring(b); }, [&] { s.ours.send_recv(b.in, s.next, b.out, s.previous); });
    });
    // There and back between two; of an odd number of ranks the last one has nobody.
    add("send+recv", some_sizes, s, [&](Buffers& b) {
        const auto in_turn = [&](auto&& send, auto&& receive) {
            return [&, send, receive] {
                if (s.partner == MPI_PROC_NULL) return;
                if (s.rank < s.partner) send();
                receive();
                if (s.rank > s.partner) send();
            };
        };
        return std::pair(
            in_turn([&] { MPI_Send(b.in.data(), b.n, MPI_FLOAT, s.partner, 0, s.bare); },
                    [&] { MPI_Recv(b.out.data(), b.n, MPI_FLOAT, s.partner, 0, s.bare, MPI_STATUS_IGNORE); }),
            in_turn([&] { s.ours.send(b.in, s.partner); }, [&] { s.ours.recv(b.out, s.partner); }));
    });
    add("batch_of_4", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                MPI_Request requests[4];
                MPI_Isend(b.in.data(), b.n, MPI_FLOAT, s.next, 0, s.bare, &requests[0]);
                MPI_Isend(b.in.data(), b.n, MPI_FLOAT, s.previous, 0, s.bare, &requests[1]);
                MPI_Irecv(b.out.data(), b.n, MPI_FLOAT, s.previous, 0, s.bare, &requests[2]);
                MPI_Irecv(b.whole_out.data(), b.n, MPI_FLOAT, s.next, 0, s.bare, &requests[3]);
                MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
            },
            [&] {
                s.ours.batch([&] {
                    s.ours.send(b.in, s.next);
                    s.ours.send(b.in, s.previous);
                    s.ours.recv(b.out, s.previous);
                    s.ours.recv(std::span(b.whole_out).first(b.out.size()), s.next);
                });
            });
    });
}

/// What checked mode costs: here the first of the two is ours without it.
void add_checked(Sides& s) {
    add("checked all_reduce", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { s.ours.all_reduce(b.in); }, [&] { s.checked.all_reduce(b.in); });
    });
    add("checked send_recv", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { s.ours.send_recv(b.in, s.next, b.out, s.previous); },
                         [&] { s.checked.send_recv(b.in, s.next, b.out, s.previous); });
    });
}

/// What a reproducible sum costs: here the first of the two is ours by a plain sum.
void add_reproducible(Sides& s) {
    using rankmesh::reproducible_sum;
    add("reproducible all_reduce", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { s.ours.all_reduce(b.in); },
                         [&] { s.ours.all_reduce(b.in, reproducible_sum); });
    });
    add("reproducible dot", some_sizes, s, [&](Buffers& b) {
        return std::pair(
            [&] {
                auto sum = std::inner_product(b.in.begin(), b.in.end(), b.out.begin(), 0.0);
                s.ours.all_reduce(sum);
                benchmark::DoNotOptimize(sum);
            },
            [&] { benchmark::DoNotOptimize(s.ours.reproducible_dot(b.in, b.out)); });
    });
}

/// What the flight record costs: here the first of the two is ours without it.
void add_recorded(Sides& s) {
    add("recorded all_reduce", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { s.unrecorded.all_reduce(b.in); }, [&] { s.ours.all_reduce(b.in); });
    });
    add("recorded start_all_reduce", some_sizes, s, [&](Buffers& b) {
        return std::pair([&] { s.unrecorded.start().all_reduce(b.in).wait(); },
                         [&] { s.ours.start().all_reduce(b.in).wait(); });
    });
    add("recorded barrier", no_size, s,
        [&](Buffers&) { return std::pair([&] { s.unrecorded.barrier(); }, [&] { s.ours.barrier(); }); });
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
    auto checked = rankmesh::mpi::World(argc, argv, {.checked = true});
    auto sides = Sides(world, checked);
    add_reductions(sides);
    add_moves(sides);
    add_messages(sides);
    add_reproducible(sides);
    add_checked(sides);
    add_recorded(sides);
    reports = world.rank() == 0;
    auto silent = Silent{};
    if (world.rank() == 0)
        benchmark::RunSpecifiedBenchmarks();
    else
        benchmark::RunSpecifiedBenchmarks(&silent);
    benchmark::ClearRegisteredBenchmarks();
    return 0;
}
