// SPDX-License-Identifier: Apache-2.0
#include "fake/ranks.hpp"

#include <cstring>
#include <fstream>
#include <map>
#include <sstream>
#include <thread>

#include "support/processes.hpp"

namespace ranks {
namespace {

std::map<std::string, Program>& programs() {
    static auto programs = std::map<std::string, Program>{};
    return programs;
}

ncclUniqueId new_id() {
    auto id = ncclUniqueId{};
    EXPECT_NCCL(ncclGetUniqueId(&id));
    return id;
}

}  // namespace

void as_rank(Rank rank, const Program& program, bool destroyed) {
    EXPECT_CUDA(cudaSetDevice(rank.rank));
    EXPECT_CUDA(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
    EXPECT_NCCL(ncclCommInitRank(&rank.world, rank.size, rank.id, rank.rank));
    program(rank);
    if (!destroyed) return;
    rank.synchronize();
    EXPECT_NCCL(ncclCommDestroy(rank.world));
    EXPECT_CUDA(cudaStreamDestroy(rank.stream));
}

void as_threads(int size, const Program& program, bool destroyed) {
    const auto id = new_id();
    auto threads = std::vector<std::thread>{};
    for (int rank = 0; rank < size; ++rank)
        threads.emplace_back([=] { as_rank({rank, size, id}, program, destroyed); });
    for (auto& each : threads) each.join();
}

Named::Named(std::string name, Program program) { programs().emplace(std::move(name), std::move(program)); }

Outcome as_processes(int size, const std::string& name) {
    const auto folder = support::Folder();
    const auto id = new_id();
    auto processes = std::vector<pid_t>{};
    const auto output = [&](int rank) { return folder.path() + "/" + std::to_string(rank); };
    for (int rank = 0; rank < size; ++rank)
        processes.push_back(support::start(
            {"/bin/sh", "-c", "exec timeout -k 5 60 /proc/$PPID/exe > " + output(rank) + " 2>&1"},
            {{"FAKE_TEST_PROGRAM", name},
             {"FAKE_TEST_RANK", std::to_string(rank)},
             {"FAKE_TEST_SIZE", std::to_string(size)},
             {"FAKE_TEST_ID", id.internal}}));
    auto outcome = Outcome{};
    for (int rank = 0; rank < size; ++rank) {
        outcome.exit_codes.push_back(support::end_of(processes[static_cast<std::size_t>(rank)]));
        auto text = std::stringstream{};
        text << std::ifstream(output(rank)).rdbuf();
        outcome.outputs.push_back(text.str());
    }
    return outcome;
}

int run_named() {
    const auto* name = std::getenv("FAKE_TEST_PROGRAM");
    if (!name) return -1;
    auto rank = Rank{std::atoi(std::getenv("FAKE_TEST_RANK")), std::atoi(std::getenv("FAKE_TEST_SIZE")), {}};
    std::strncpy(rank.id.internal, std::getenv("FAKE_TEST_ID"), sizeof rank.id.internal - 1);
    as_rank(rank, programs().at(name));
    return testing::Test::HasFailure() ? 1 : 0;
}

}  // namespace ranks

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    testing::GTEST_FLAG(death_test_style) = "threadsafe";
    const auto code = ranks::run_named();
    return code >= 0 ? code : RUN_ALL_TESTS();
}
