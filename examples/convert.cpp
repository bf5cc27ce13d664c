// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <rankmesh/convert/convert.hpp>

int main() {
    const auto there = rankmesh::convert("picotron", "torchtitan", {"tp_size=2", "pp_size=2", "dp_size=2"});
    if (there.text) std::printf("%s\n", there.text->c_str());
    for (const auto& [from, to] : there.first_moves) std::printf("# rank %d becomes %d\n", from, to);
    for (const auto& [what, why] : there.lost) std::printf("# lost: %s: %s\n", what.c_str(), why.c_str());
    return there.moved == 4 && there.lost.empty() ? 0 : 1;
}
