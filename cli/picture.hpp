// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::cli {

/// What a picture is written as.
enum class PictureFormat { html, svg, txt };

/// What `--format` says, else the ending of `--out`; throws UsageError if neither says one of `known`, or if
/// they differ.
PictureFormat picture_format(std::string_view out, std::string_view format,
                             const std::vector<std::string>& known);

}  // namespace rankmesh::cli
