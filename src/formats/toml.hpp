// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "formats/json.hpp"

namespace rankmesh::formats {

/// Returns the tables of a TOML text. Throws UsageError, which begins with `source`, for a syntax error (with
/// its line) and exceeded Limits.
Json parse_toml(std::string_view text, std::string_view source);

}  // namespace rankmesh::formats
