// SPDX-License-Identifier: Apache-2.0
// `conformance_gloo N` starts N processes of itself, which meet in a fresh folder and are the ranks;
// `conformance_gloo N --redis` lets them meet by a Redis server of their own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include <rankmesh/engine/gloo.hpp>

#include "conformance.hpp"
#include "support/processes.hpp"
#include "support/redis_server.hpp"

namespace {

rankmesh::World* the_world = nullptr;

constexpr auto skipped = 77;  // as tests/engine/CMakeLists.txt tells CTest

int launch(const std::string& program, int size, std::vector<std::string> options) {
    const auto folder = support::Folder();
    auto store = folder.path() + "/store";
    auto server = std::unique_ptr<support::RedisServer>{};
    if (std::erase(options, "--redis") != 0) {
        if (!support::RedisServer::is_installed()) {
            std::printf("%s\n", support::RedisServer::how_to_get_it);
            return skipped;
        }
        server = std::make_unique<support::RedisServer>();
        store = server->url();
    }
    auto words = std::vector{program};
    words.insert(words.end(), options.begin(), options.end());
    auto worst = 0;
    for (auto process : support::start_ranks(words, size, store, "conformance"))
        worst = std::max(worst, support::end_of(process));
    return worst;
}

}  // namespace

void on_every_rank(const std::function<void(rankmesh::World&)>& program) { program(*the_world); }

int main(int argc, char** argv) {
    if (!std::getenv("RANKMESH_STORE")) {
        if (argc < 2) {
            std::fprintf(stderr, "usage: %s RANKS [--redis] [options of GoogleTest]\n", argv[0]);
            return 2;
        }
        return launch(argv[0], std::atoi(argv[1]), {argv + 2, argv + argc});
    }
    testing::InitGoogleTest(&argc, argv);
    auto world = rankmesh::gloo::World({.deadline = std::chrono::minutes(2)});
    the_world = &world;
    // One rank prints the passing tests, all print what fails.
    if (world.rank() != 0) {
        auto& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        class Failures : public testing::EmptyTestEventListener {
            void OnTestPartResult(const testing::TestPartResult& result) override {
                if (result.failed())
                    std::fprintf(stderr, "rank %d: %s:%d: %s\n", the_world->rank(), result.file_name(),
                                 result.line_number(), result.message());
            }
        };
        listeners.Append(new Failures);
    }
    return RUN_ALL_TESTS();
}
