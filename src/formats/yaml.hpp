// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "formats/json.hpp"

namespace rankmesh::formats {

/// Returns the value of a YAML document, with the words of YAML 1.1 that PyYAML reads: `yes` is true, `~` is
/// null, `<<` merges. Throws UsageError, which begins with `source`, for a syntax error (with its line), a
/// second document and exceeded Limits, which count each alias with all that it stands for.
Json parse_yaml(std::string_view text, std::string_view source);

}  // namespace rankmesh::formats
