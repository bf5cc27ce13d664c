// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "formats/json.hpp"

namespace rankmesh::formats {

/// The tables of a TOML text; throws UsageError that begins with `source`, with the line of a syntax error,
/// and for more than Limits allow.
Json parse_toml(std::string_view text, std::string_view source);

}  // namespace rankmesh::formats
