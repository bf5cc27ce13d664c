// SPDX-License-Identifier: Apache-2.0
// The list of subcommands. A new subcommand is a file that defines its function, and a word in each list
// here.
#include "subcommand.hpp"

namespace rankmesh::cli {

Subcommand show(), draw(), diff(), rank(), groups(), check(), place(), convert(), frameworks(), env(), run(),
    doctor(), explain(), watch(), reshard(), cluster(), plan(), help(), completion();

std::vector<Subcommand> subcommands() {
    return {show(),    draw(),       diff(), rank(), groups(),    check(),   place(),
            convert(), frameworks(), env(),  run(),  doctor(),    explain(), watch(),
            reshard(), cluster(),    plan(), help(), completion()};
}

}  // namespace rankmesh::cli
