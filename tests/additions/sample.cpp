// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"
#include "subcommand.hpp"

namespace rankmesh::cli {

Subcommand sample() {
    return {.name = "sample", .help = "Say that it was added.", .options = {}, .run = [](Output& output) {
                output.write("a sample\n");
                return 0;
            }};
}

}  // namespace rankmesh::cli
