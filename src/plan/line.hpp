// SPDX-License-Identifier: Apache-2.0
// A model as a line of sizes.
#pragma once

#include <string_view>

#include <rankmesh/plan/model.hpp>

#include "plan/names.hpp"

namespace rankmesh::plan {

/// Throws UsageError, which begins with `of`, for a size of a layer outside its range; most sizes are at most
/// `width`.
void check_sizes(const Layer& layer, std::string_view of, std::int64_t width);

/// Reads `layers=32 hidden=4096 heads=32 ...`. Throws UsageError, which begins with `source`.
RANKMESH_EXPORT Model read_line(std::string_view text, std::string_view source);

}  // namespace rankmesh::plan
