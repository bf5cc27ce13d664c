// SPDX-License-Identifier: Apache-2.0
// All-reduces on the Gloo engine beside Gloo's own calls, on connections of the same kind, in one run.
// `bench_engine_gloo N` starts N processes of itself.
#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <rankmesh/engine/gloo.hpp>

namespace {

using Clock = std::chrono::steady_clock;

int launch(const char* program, int size) {
    auto folder = (std::filesystem::temp_directory_path() / "rankmesh-bench-XXXXXX").string();
    if (!mkdtemp(folder.data())) return 1;
    setenv("RANKMESH_STORE", folder.c_str(), 1);
    setenv("RANKMESH_JOB", "bench", 1);
    setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
    for (int rank = 0; rank < size; ++rank)
        if (fork() == 0) {
            setenv("RANK", std::to_string(rank).c_str(), 1);
            execl(program, program, nullptr);
            _exit(127);
        }
    auto worst = 0;
    for (int status = 0; wait(&status) > 0;) worst = std::max(worst, status);
    auto error = std::error_code{};
    std::filesystem::remove_all(folder, error);
    return worst == 0 ? 0 : 1;
}

std::shared_ptr<::gloo::Context> bare_context(int rank, int size) {
    auto store = ::gloo::rendezvous::FileStore(std::getenv("RANKMESH_STORE"));
    auto device = ::gloo::transport::tcp::CreateDevice("127.0.0.1");
    auto context = std::make_shared<::gloo::rendezvous::Context>(rank, size);
    context->connectFullMesh(store, device);
    return context;
}

void bare(const std::shared_ptr<::gloo::Context>& context, std::vector<float>& x,
          ::gloo::AllreduceOptions::Algorithm algorithm, std::uint32_t tag) {
    auto options = ::gloo::AllreduceOptions(context);
    options.setOutput(x.data(), x.size());
    options.setReduceFunction([](void* out, const void* a, const void* b, std::size_t count) {
        ::gloo::sum<float>(out, a, b, count);
    });
    options.setAlgorithm(algorithm);
    options.setTag(tag);
    ::gloo::allreduce(options);
}

double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
    if (!std::getenv("RANKMESH_STORE")) return launch(argv[0], argc > 1 ? std::atoi(argv[1]) : 2);
    auto world = rankmesh::gloo::World();
    auto on = world.join({{"dp", rankmesh::rest}}).on("dp");
    const auto context = bare_context(world.rank(), world.size());
    auto tag = std::uint32_t{0};
    if (world.rank() == 0)
        std::printf("%d ranks, medians in us\n%10s %10s %10s %10s %10s %8s\n", world.size(), "floats", "ring",
                    "ring again", "bcube", "ours", "ratio");
    for (auto count : {1, 16, 256, 4096, 65536, 1048576}) {
        auto x = std::vector<float>(static_cast<std::size_t>(count), 1.0f);
        auto times = std::vector<std::vector<double>>(4);
        const auto rounds = count > 100'000 ? 20 : 200;
        for (int round = 0; round < rounds; ++round)
            for (std::size_t i = 0; i < times.size(); ++i) {
                std::ranges::fill(x, 1.0f);
                on.barrier();
                const auto begin = Clock::now();
                if (i == 3)
                    on.all_reduce(x);
                else
                    bare(context, x,
                         i == 2 ? ::gloo::AllreduceOptions::Algorithm::BCUBE
                                : ::gloo::AllreduceOptions::Algorithm::RING,
                         ++tag);
                times[i].push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
            }
        if (world.rank() == 0)
            std::printf("%10d %10.1f %10.1f %10.1f %10.1f %8.3f\n", count, median(times[0]), median(times[1]),
                        median(times[2]), median(times[3]), median(times[3]) / median(times[0]));
    }
    on.barrier();
    return 0;
}
