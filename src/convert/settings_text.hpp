// SPDX-License-Identifier: Apache-2.0
// The forms of settings that are neither JSON nor TOML, each turned into one object.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "formats/json.hpp"
#include "formats/limits.hpp"

namespace rankmesh::conversion {

using formats::Json;
using formats::Limits;

/// `--tp-size 2 --flag --sizes 2 4`: a flag without a value is true, one with several is a list. Throws
/// UsageError, as the other does too, for text beyond the limits.
Json parse_flags(const std::vector<std::string>& words, Limits& limits);
/// Arguments, and the function that they are for: empty where none is named.
struct Call {
    std::string name;
    Json values;
};
/// True for `Name(...)`, maybe after `name =`.
bool is_call(std::string_view text);
/// `tp=2, names=("dp", "tp")`, maybe inside `Name(...)`; values as in Python, a bare word is a text.
/// Arguments without a name have that of the function's parameter, where the function is known.
Call parse_assignments(std::string_view text, Limits& limits);

/// The canonical form of a name: `--tp-size` and `tp_size_` are `tp_size`.
std::string plain_name(std::string_view name);

}  // namespace rankmesh::conversion
