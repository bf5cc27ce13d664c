// SPDX-License-Identifier: Apache-2.0
// What a call on the NCCL engine costs its thread beside the bare call of NCCL on the same communicator and
// stream, alternating in one run, and the bare call beside itself. `bench_engine_nccl N`: N ranks as threads,
// at least two, with a device each; with RANKMESH_ENGINE=gloo or mpi this process is one of the ranks. It
// runs on real GPUs, and without one on the fake libraries, which start a thread for a call as NCCL does:
// FAKE_LAG=0 LD_LIBRARY_PATH=build/release/tests/fake.
#include <dlfcn.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <thread>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/interop/nccl.hpp>

#include "../measure.hpp"

namespace {

using rankmesh::bench::median;
using rankmesh::bench::rounds_of;
using rankmesh::bench::time_of;

/// A function of a library that the engine has loaded already.
template <class Function>
Function found(std::initializer_list<const char*> libraries, const char* symbol) {
    for (const auto* library : libraries)
        if (auto* handle = dlopen(library, RTLD_NOW))
            if (auto* function = dlsym(handle, symbol)) return reinterpret_cast<Function>(function);
    throw std::runtime_error(std::string(symbol) + " is not found");
}
template <class Function>
Function of_cuda(const char* symbol) {
    return found<Function>({"libcudart.so.13", "libcudart.so.12", "libcudart.so"}, symbol);
}

void run(rankmesh::World& host) {
    auto world = rankmesh::nccl::World(host);
    const auto malloc = of_cuda<cudaError_t (*)(void**, std::size_t)>("cudaMalloc");
    const auto create = of_cuda<cudaError_t (*)(cudaStream_t*)>("cudaStreamCreate");
    const auto synchronize = of_cuda<cudaError_t (*)(cudaStream_t)>("cudaStreamSynchronize");
    const auto all_reduce = found<decltype(&ncclAllReduce)>({"libnccl.so.2"}, "ncclAllReduce");
    const auto async_error =
        found<decltype(&ncclCommGetAsyncError)>({"libnccl.so.2"}, "ncclCommGetAsyncError");
    auto stream = cudaStream_t{};
    create(&stream);
    auto on = world.join({{"dp", rankmesh::rest}}).on("dp").on(rankmesh::nccl::stream(stream));
    const auto comm = rankmesh::nccl::native(on);
    if (world.rank() == 0)
        std::printf("all_reduce on %d ranks, medians of the host's ns a call\n%10s %10s %10s %10s %10s\n",
                    world.size(), "floats", "bare", "over", "over", "bare-bare");
    for (auto count : {std::size_t{2}, std::size_t{1} << 10}) {
        void* data = nullptr;
        malloc(&data, count * sizeof(float));
        const auto memory = rankmesh::Memory(static_cast<float*>(data), count);
        const auto bare = [&] {
            // The communicator is a non-blocking one.
            auto result = [&] {
                const auto held = rankmesh::nccl::lock(on);
                return all_reduce(data, data, count, ncclFloat32, ncclSum, comm, stream);
            }();
            while (result == ncclInProgress) {
                std::this_thread::yield();
                const auto held = rankmesh::nccl::lock(on);
                async_error(comm, &result);
            }
        };
        const auto ours = [&] { on.all_reduce(memory); };
        ours();  // which connects
        auto times = std::array<std::vector<double>, 3>{};
        auto differences = std::vector<double>{};
        constexpr auto calls = 50;  // fewer than a stream takes before it makes its caller wait
        for (int round = 0; round < rounds_of(300); ++round) {
            auto now = std::array<double, 3>{};
            for (int i = 0; i < 3; ++i) {
                const auto which = static_cast<std::size_t>((i + round) % 3);
                synchronize(stream);
                on.host().barrier();
                now[which] = which == 1 ? time_of(calls, ours) : time_of(calls, bare);
            }
            for (std::size_t i = 0; i < 3; ++i) times[i].push_back(now[i]);
            differences.push_back(now[1] - (now[0] + now[2]) / 2);
        }
        if (world.rank() != 0) continue;
        const auto base = (median(times[0]) + median(times[2])) / 2;
        std::printf("%10zu %10.0f %10.0f %9.1f%% %9.1f%%\n", count, base, median(differences),
                    100 * median(differences) / base, 100 * (median(times[0]) - median(times[2])) / base);
    }
}

}  // namespace

int main(int argc, char** argv) {
    const auto is_rank = std::getenv("RANKMESH_ENGINE") != nullptr;
    const auto size = argc > 1 ? std::atoi(argv[1]) : 2;
    if (size < 2) {
        std::fprintf(stderr, "usage: %s RANKS, at least 2: a group of one calls nothing of NCCL\n", argv[0]);
        return 2;
    }
    try {
        if (is_rank) {
            auto host = rankmesh::World::from_environment();
            run(host);
        } else {
            rankmesh::threads::run(size, run);
        }
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
    return 0;
}
