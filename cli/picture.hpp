// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace rankmesh::cli {

/// The format of a picture.
enum class PictureFormat { html, svg, txt };

/// Returns the format of `--format`, else of the suffix of `--out`. Throws UsageError if neither is in
/// `known`, or if they differ.
PictureFormat picture_format(std::string_view out, std::string_view format,
                             const std::vector<std::string>& known);

}  // namespace rankmesh::cli
