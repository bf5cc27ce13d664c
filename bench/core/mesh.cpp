// SPDX-License-Identifier: Apache-2.0
// What a query of a mesh costs beside MPI's, what a group and membership cost beside a coordinate, and what
// writing all groups costs beside memset.
//
//     mpirun -n 12 --oversubscribe bench_core_mesh
//
// MPI_Cart_create wants a process for each rank, so MPI is asked over 3*1*2*1*2 = 12 ranks, and over
// 1*1*1*1*1 if fewer are started. Its cost hangs on the number of axes, not on their sizes, so it stands
// beside meshes of up to nearly 2^30 ranks. Only rank 0 measures; the others sleep.
#include <array>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <rankmesh/core/mesh.hpp>

#include "../measure.hpp"

#ifdef RANKMESH_BENCH_MPI
#include <mpi.h>
#endif

namespace {

using rankmesh::AxisId;
using rankmesh::Mesh;
using namespace rankmesh::bench;

constexpr const char* meshes[] = {"pp=3 cp=1 dp=3 ep=1 tp=1",      "pp=3 cp=1 dp=2 ep=1 tp=2",
                                  "pp=3 cp=1 dp=7 ep=1 tp=3",      "pp=3 cp=3 dp=5 ep=3 tp=7",
                                  "pp=7 cp=9 dp=7 ep=9 tp=9",      "pp=15 cp=16 dp=17 ep=16 tp=16",
                                  "pp=31 cp=33 dp=31 ep=33 tp=33", "pp=63 cp=65 dp=66 ep=63 tp=63"};
constexpr auto scattered = "pp=63:4 cp=65:252 dp=66:16380 ep=63:1081080 tp=4:1";  // axes not by stride

/// Ranks of the mesh in an order that no predictor knows; few enough to stay in the nearest cache.
constexpr auto rank_count = std::size_t{1024};
std::vector<int> shuffled_ranks(const Mesh& mesh) {
    auto random = std::mt19937(1);
    auto position = std::uniform_int_distribution<int>(0, mesh.size() - 1);
    const auto ranks = mesh.ranks();
    auto out = std::vector<int>(rank_count);
    for (auto& rank : out) rank = ranks[position(random)];
    return out;
}

/// Keeps the compiler from leaving out what made the value, or what was written.
template <class T>
void seen(const T& value) {
    asm volatile("" : : "r,m"(value) : "memory");
}

/// The mesh as a program has it that reads it at run time.
Mesh known_at_run_time(const char* text) {
    asm volatile("" : "+r"(text));
    return Mesh::parse(text);
}

constexpr auto calls = static_cast<int>(rank_count);

/// A call for each rank in turn.
template <class Body>
auto over(const std::vector<int>& ranks, Body body) {
    return [&ranks, body, next = std::size_t{0}]() mutable { body(ranks[next++ % rank_count]); };
}

#ifdef RANKMESH_BENCH_MPI
MPI_Comm cart = MPI_COMM_NULL;

void round_trip(const std::string& name, const Mesh& mesh) {
    auto size = 0;
    MPI_Comm_size(cart, &size);
    auto random = std::mt19937(1);
    auto position = std::uniform_int_distribution<int>(0, size - 1);
    auto cart_ranks = std::vector<int>(rank_count);
    for (auto& rank : cart_ranks) rank = position(random);
    const auto ranks = shuffled_ranks(mesh);
    report(name, in_turn(rounds_of(301), calls,
                         over(ranks,
                              [&mesh](int rank) {
                                  std::array<int, 5> indices;
                                  mesh.indices(rank, indices);
                                  seen(indices.data());
                                  seen(mesh.rank_at(indices));
                              }),
                         over(cart_ranks, [](int rank) {
                             std::array<int, 5> indices;
                             MPI_Cart_coords(cart, rank, 5, indices.data());
                             MPI_Cart_rank(cart, indices.data(), &rank);
                             seen(rank);
                         })));
}
#endif

/// A group, and whether another rank is in it, beside the position of a rank.
void groups(const std::string& size, const Mesh& mesh) {
    const auto ranks = shuffled_ranks(mesh);
    auto coordinate = over(ranks, [&mesh](int rank) {
        std::array<int, 5> indices;
        mesh.indices(rank, indices);
        seen(indices.data());
    });
    const auto axes = mesh.axes("pp", "dp", "tp");
    report("group of a rank/" + size, in_turn(rounds_of(301), calls,
                                              over(ranks,
                                                   [&mesh, axes](int rank) {
                                                       const auto group = mesh.group_view(rank, axes);
                                                       seen(group.size());
                                                       seen(group.front());
                                                   }),
                                              coordinate));
    const auto group = mesh.group_view(ranks[0], axes);
    report("membership/" + size,
           in_turn(rounds_of(301), calls, over(ranks, [&group](int rank) { seen(group.contains(rank)); }),
                   coordinate));
}

/// All groups of all axes, one list after the other.
void all_groups(const std::string& size, const Mesh& mesh) {
    const auto part = static_cast<std::size_t>(mesh.size());
    auto room = std::vector<int>(static_cast<std::size_t>(mesh.axis_count()) * part, 1);
    const auto all = std::span<int>(room);
    auto value = 0;
    const auto repeats = static_cast<int>(std::max(std::size_t{1}, (std::size_t{1} << 18) / room.size()));
    // What begins a list is not seen in those of many ranks.
    report(
        (mesh.size() < 1 << 15 ? "list of all groups, small/" : "list of all groups/") + size,
        in_turn(
            rounds_of(room.size() < 1 << 24 ? 101 : 11), repeats,
            [&] {
                for (int a = 0; a < mesh.axis_count(); ++a)
                    mesh.partition(AxisId{a}).copy_to(all.subspan(static_cast<std::size_t>(a) * part, part));
                seen(room.data());
            },
            [&] {
                std::memset(room.data(), value++, room.size() * sizeof(int));
                seen(room.data());
            }));
}

void measure() {
    for (const auto* text : meshes) {
        const auto mesh = known_at_run_time(text);
        const auto size = std::to_string(mesh.size());
#ifdef RANKMESH_BENCH_MPI
        round_trip("coordinate round trip/" + size, mesh);
#endif
        groups(size, mesh);
        if (mesh.size() < 1 << 28) all_groups(size, mesh);
    }
#ifdef RANKMESH_BENCH_MPI
    round_trip("coordinate round trip, axes not by stride", known_at_run_time(scattered));
#endif
}

}  // namespace

int main(int argc, char** argv) {
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
    static_cast<void>(argc), static_cast<void>(argv);
    measure();
#endif
}
