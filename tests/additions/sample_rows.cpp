// SPDX-License-Identifier: Apache-2.0
// src/frameworks/sample/rows.cpp
#include "frameworks/rows.hpp"

namespace rankmesh::frameworks::of_sample {

Framework framework() {
    using enum Quantity;
    return {.name = "sample",
            .version = "1.0",
            .original = "sample.groups",
            .title = "A sample.",
            .settings_of = "the arguments of init_groups",
            .example = "tensor_size=2 stages=2",
            .settings = {{.name = "tensor_size", .axis = "tp"}, {.name = "stages", .axis = "pp"}},
            .meshes = {{"ranks", "dp pp tp"}},
            .kinds = {{"tensor", "dp pp | tp", "tensor group is not initialized"},
                      {"stages", "dp tp | pp", "pipeline group is not initialized"},
                      {.name = "ends", .groups = "dp tp | pp", .at = "0 -1"}},
            .accessors = {{"tensor_group", "tensor", group, "The ranks that share a layer."},
                          {"stage", "stages", rank, "This rank's stage."},
                          {.name = "ends_size",
                           .kind = "ends",
                           .quantity = size,
                           .doc = "0 between the ends.",
                           .without = 0}},
            .raises = {{"", "AssertionError"}},
            .initialize = "init_groups"};
}

}  // namespace rankmesh::frameworks::of_sample
