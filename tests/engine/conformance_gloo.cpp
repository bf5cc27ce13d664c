// SPDX-License-Identifier: Apache-2.0
// `conformance_gloo N` starts N processes of itself, the ranks, with a store in a fresh folder;
// `conformance_gloo N --redis` gives them a Redis server as their store, `--tcp` one that rank 0 serves.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include <rankmesh/engine/gloo.hpp>

#include "conformance.hpp"
#include "conformance_processes.hpp"
#include "support/ports.hpp"
#include "support/redis_server.hpp"

namespace {

rankmesh::World* the_world = nullptr;

constexpr auto skipped = 77;  // as tests/engine/CMakeLists.txt tells CTest

int launch_somewhere(const std::string& program, int size, std::vector<std::string> options) {
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
    if (std::erase(options, "--tcp") != 0)
        store = "tcp://127.0.0.1:" + std::to_string(support::free_ports(1));
    return launch(program, size, store, options);
}

}  // namespace

void on_every_rank(const std::function<void(rankmesh::World&)>& program) { program(*the_world); }

int main(int argc, char** argv) {
    if (!std::getenv("RANKMESH_STORE")) {
        if (argc < 2) {
            std::fprintf(stderr, "usage: %s RANKS [--redis|--tcp] [options of GoogleTest]\n", argv[0]);
            return 2;
        }
        return launch_somewhere(argv[0], std::atoi(argv[1]), {argv + 2, argv + argc});
    }
    testing::InitGoogleTest(&argc, argv);
    auto world = rankmesh::gloo::World({.timeout = std::chrono::minutes(2)});
    the_world = &world;
    print_as(world.rank());
    return RUN_ALL_TESTS();
}
