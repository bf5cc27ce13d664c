// SPDX-License-Identifier: Apache-2.0
// Ranks as threads, and an error of the library caught here by its type.
#include <cstdio>
#include <string_view>

#include <rankmesh/engine/threads.hpp>
#include <rankmesh/frameworks/picotron.hpp>

int main(int argc, char** argv) {
    auto wrong = 0;
    rankmesh::threads::run(4, [&](rankmesh::World& world) {
        auto me = world.join({{"dp", 2}, {"tp", 2}});
        auto sum = world.rank();
        me.on("tp").all_reduce(sum);
        if (sum != (world.rank() < 2 ? 1 : 5)) ++wrong;
    });
    try {
        rankmesh::threads::run(2, [](rankmesh::World& world) { world.join({{"dp", 2 + world.rank()}}); });
        ++wrong;
    } catch (const rankmesh::UsageError&) {
    } catch (const rankmesh::Disagreement&) {
    }
    // Where MPI is linked, a world of one rank is made of it; where it is not, the error says what to link.
    const auto expect_mpi = argc > 1 && std::string_view(argv[1]) == "mpi";
    if (!expect_mpi) try {
            (void)rankmesh::World::from_environment({.engine = "mpi"});
            ++wrong;
        } catch (const rankmesh::NotBuilt& error) {
            if (std::string_view(error.what()).find("rankmesh::rankmesh") == std::string_view::npos) ++wrong;
        }
    std::printf("%d wrong\n", wrong);
    return wrong;
}
