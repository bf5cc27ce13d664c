// SPDX-License-Identifier: Apache-2.0
// A program that asks a mesh a bit of everything, and one that only reads and prints: what the core adds.
#include <iostream>
#include <string>
#include <vector>

#ifdef RANKMESH_BENCH_ON
#include <rankmesh/core/mesh.hpp>
#include <rankmesh/core/placement.hpp>
#include <rankmesh/core/reshard.hpp>

int main(int argc, char** argv) try {
    const auto mesh = rankmesh::Mesh::parse(argc > 1 ? argv[1] : "pp=4 dp=8 tp=8");
    const auto rank = argc > 2 ? std::stoi(argv[2]) : 67;
    std::cout << to_string(mesh.coord(rank)) << '\n' << to_string(mesh.group(rank, mesh.axes("tp"))) << '\n';
    auto ranks = std::vector<int>(mesh.partition("tp").rank_count());
    mesh.partition("tp").copy_to(ranks);
    const auto placement = rankmesh::Placement(mesh, ranks);
    for (auto each : placement.group(rank, "tp")) std::cout << each << ' ';
    std::cout << to_string(mesh.flatten({"dp", "tp"}, "all").permuted({"all", "pp"})) << '\n'
              << mesh.neighbor(rank, "pp", 1).value_or(-1) << '\n';
} catch (const rankmesh::Error& error) {
    std::cerr << error.what() << '\n';
    return 1;
}
#else
int main(int argc, char** argv) {
    auto ranks = std::vector<int>(argc > 1 ? std::string(argv[1]).size() : 256);
    for (auto each : ranks) std::cout << each << ' ';
    std::cout << (argc > 2 ? std::stoi(argv[2]) : 67) << '\n';
}
#endif
