// SPDX-License-Identifier: Apache-2.0
// A program on Gloo whose rendezvous is PMIx, counts what it asks of PMIx, and goes wrong in the way its
// argument says; pmix.cpp starts its ranks.
#include <dlfcn.h>
#include <mpi.h>
#include <pmix.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>

using namespace rankmesh;

namespace {

int fences = 0;
int entries = 0;

}  // namespace

/// What the library calls instead of PMIx's own, which is called then.
pmix_status_t PMIx_Fence_nb(const pmix_proc_t processes[], size_t count, const pmix_info_t info[],
                            size_t infos, pmix_op_cbfunc_t then, void* data) {
    ++fences;
    static const auto real = reinterpret_cast<decltype(&PMIx_Fence_nb)>(dlsym(RTLD_NEXT, "PMIx_Fence_nb"));
    return real(processes, count, info, infos, then, data);
}

pmix_status_t PMIx_Put(pmix_scope_t scope, const char key[], pmix_value_t* value) {
    ++entries;
    static const auto real = reinterpret_cast<decltype(&PMIx_Put)>(dlsym(RTLD_NEXT, "PMIx_Put"));
    return real(scope, key, value);
}

namespace {

/// Does something, and says what it took or threw.
template <class Body>
void hear(int rank, const char* what, Body&& body) {
    fences = entries = 0;
    const auto begin = std::chrono::steady_clock::now();
    auto said = std::string();
    try {
        body();
        said = detail::cat(fences, " fences, ", entries, " entries");
    } catch (const PeerLost& error) {
        said = detail::cat("PeerLost ", ranks_to_string(error.ranks), ": ", error.what());
    } catch (const Timeout& error) {
        said = detail::cat("Timeout ", ranks_to_string(error.missing), ": ", error.what());
    } catch (const Disagreement& error) {
        said = detail::cat("Disagreement ", ranks_to_string(error.ranks));
    }
    const auto took = std::chrono::steady_clock::now() - begin;
    std::printf("rank %d, %s: %s, after %lld ms\n", rank, what, said.c_str(),
                static_cast<long long>(std::chrono::duration_cast<std::chrono::milliseconds>(took).count()));
    std::fflush(stdout);
}

const auto two_meshes = Plan{{.name = "dense",
                              .mesh = {{"dp", 2}, {"tp", 2}},
                              .over = {Axes("dp", "tp"), Axes("dp").separate("again")}},
                             {.name = "expert", .mesh = {{"ep", 4}}, .placed = {3, 1, 0, 2}}};

void go_well(World& world) {
    const auto rank = world.rank();
    const auto odd = rank % 2;
    hear(rank, "join", [&] { world.join(two_meshes)["expert"].on("ep").barrier(); });
    hear(rank, "join of other plans", [&] { world.join({{rank == 1 ? "tp" : "dp", 4}}); });
    auto lazy = std::optional<Member>();
    hear(rank, "lazy join", [&] { lazy = world.join({{"dp", 2}, {"tp", 2}}, {.lazy = true}); });
    hear(rank, "prepare", [&] {
        lazy->prepare("dp");
        lazy->on("dp").barrier();
    });
    auto half = std::optional<World>();
    hear(rank, "sub", [&] { half = world.sub({2 + odd, 0 + odd}); });
    hear(rank, "join of half", [&] { half->join({{"dp", 2}}).on("dp").barrier(); });
    auto other = std::optional<World>();
    hear(rank, "another world", [&] { other = gloo::World(); });
    hear(rank, "its join", [&] { other->join({{"dp", 4}}).on("dp").barrier(); });
    hear(rank, "join again", [&] { world.join(two_meshes)["dense"].on("dp").barrier(); });
}

int program(const std::string& mode) {
    if (mode == "after-mpi") MPI_Init(nullptr, nullptr);
    const auto seconds = mode == "kill" ? 5 : mode == "timeout-late" ? 2 : mode == "timeout-prepare" ? 1 : 20;
    auto world = gloo::World({.timeout = std::chrono::seconds(seconds)});
    const auto rank = world.rank();
    const auto odd = rank == 1;
    if (mode == "well") go_well(world);
    if (mode == "after-mpi") {
        hear(rank, "join", [&] { world.join(two_meshes)["expert"].on("ep").barrier(); });
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
    }
    if (mode == "kill") {
        if (odd) raise(SIGKILL);
        std::this_thread::sleep_for(std::chrono::seconds(1));
        hear(rank, "join", [&] { world.join(two_meshes); });
    }
    if (mode == "timeout-prepare") {
        auto lazy = world.join({{"dp", 2}, {"tp", 2}}, {.lazy = true});
        if (!odd) hear(rank, "prepare", [&] { lazy.prepare("tp"); });
        std::this_thread::sleep_for(std::chrono::seconds(odd ? 2 : 0));
    }
    if (mode == "timeout-late") {
        if (odd) std::this_thread::sleep_for(std::chrono::seconds(3));
        hear(rank, "first", [&] { world.join({{"dp", 4}}, {.lazy = true}); });
        hear(rank, "second", [&] { world.join({{"dp", 4}}, {.lazy = true}); });
    }
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return program(argc > 1 ? argv[1] : "");
    } catch (const std::exception& error) {
        std::printf("main caught: %s\n", error.what());
        return 1;
    }
}
