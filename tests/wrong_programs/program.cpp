// SPDX-License-Identifier: Apache-2.0
// One rank of the wrong program that the argument names.
#include <algorithm>
#include <cstdio>
#include <string>

#include <rankmesh/core/error.hpp>

#include "programs.hpp"

int main(int argc, char** argv) {
    const auto name = std::string(argc > 1 ? argv[1] : "");
    const auto& all = wrong_programs::programs();
    const auto program = std::ranges::find(all, name, &wrong_programs::Program::name);
    if (program == all.end()) {
        std::fprintf(stderr, "there is no wrong program '%s'\n", name.c_str());
        return 2;
    }
    try {
        auto world = rankmesh::World::from_environment({.timeout = wrong_programs::timeout});
        run_rank(*program, world);
        return 0;
    } catch (const std::exception&) {  // its record says what
        return 1;
    }
}
