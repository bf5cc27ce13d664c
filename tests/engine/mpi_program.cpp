// SPDX-License-Identifier: Apache-2.0
// A program that goes wrong in the way its argument says; mpi_failures.cpp runs it and looks at how the job
// ends.
#include <mpi.h>
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/engine/mpi.hpp>

using namespace rankmesh;

namespace {

int program(const std::string& mode, int argc, char** argv) {
    if (mode == "user-owns-mpi") {
        MPI_Init(&argc, &argv);
        {
            auto world = mpi::World();
            world.join({{"dp", rest}}).on("dp").barrier();
        }
        MPI_Barrier(MPI_COMM_WORLD);  // the world has not finalised what it has not initialised
        MPI_Finalize();
        std::puts("ended well");
        return 0;
    }
    const auto deadline = mode.starts_with("deadline") ? std::chrono::seconds(1) : std::chrono::seconds(60);
    auto world = World::from_environment(
        argc, argv, {.deadline = deadline, .multithreaded = mode.starts_with("two-threads")});
    auto me = world.join({{"dp", rest}, {"tp", 2}}, {.over = {{"dp", "tp"}, Axes("tp").separate("other")}});
    auto all = me.on("dp", "tp");
    auto x = std::vector<float>(1000, 1);
    all.all_reduce(x);
    const auto odd = world.rank() == 1;

    if (mode == "throw" && odd) throw std::runtime_error("boom");
    if (mode == "throw-pending") {
        auto pending = all.start_all_reduce(x);
        if (odd) throw std::runtime_error("boom");
        pending.wait();
    }
    if (mode == "throw-inside" && odd) {
        try {
            auto inner = std::move(me);
            throw std::runtime_error("boom");
        } catch (const std::runtime_error& error) {
            std::printf("caught %s\n", error.what());
        }
        std::this_thread::sleep_for(std::chrono::minutes(1));  // the process itself does not end
    }
    if (mode == "deadline" && odd) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (mode == "deadline-join" && odd) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (mode == "deadline-join") world.join({{"dp", rest}});
    if (mode == "deadline-wait") {
        if (odd) std::this_thread::sleep_for(std::chrono::minutes(1));
        all.start_all_reduce(x).wait();
    }
    if (mode == "throw-with-a-handle") {
        auto kept = me.on("dp");
        {
            const auto gone = std::move(me);
            const auto ended = std::move(world);
        }
        if (odd) throw std::runtime_error("boom");
        kept.barrier();
        kept.barrier();
        return 0;
    }
    if (mode == "deadline-stdin" && odd) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (mode == "deadline-stdin") {
        auto reader = std::thread([] { std::getchar(); });
        reader.detach();
    }
    if (mode == "finalized-early-throw") {
        MPI_Finalize();
        throw std::runtime_error("boom");
    }
    if (mode == "kill" && odd) raise(SIGKILL);
    if (mode == "disagree") {
        try {
            world.join(MeshSpec{{odd ? "ep" : "dp", rest}});
        } catch (const Disagreement& error) {
            std::printf("heard on rank %d: %s\n", world.rank(), error.what());
        }
    }
    if (mode == "finalized-early") {
        MPI_Finalize();
        std::puts("ended well");
        return 0;
    }
    if (mode == "other-thread") {
        std::thread([&] {
            try {
                all.barrier();
            } catch (const Misuse& error) {
                std::puts(error.what());
            }
        }).join();
    }
    if (mode == "two-threads") {
        auto other = me.on("other");
        auto thread = std::thread([&] {
            for (int i = 0; i < 100; ++i) other.barrier();
        });
        for (int i = 0; i < 100; ++i) me.on("dp").barrier();
        thread.join();
    }
    me.on("dp", "tp").all_reduce(x);
    std::puts("ended well");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto mode = std::string(argc > 1 ? argv[1] : "");
    if (mode == "throw-uncaught") return program("throw", argc, argv);
    try {
        return program(mode, argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "main caught: %s\n", error.what());
        return 1;
    }
}
