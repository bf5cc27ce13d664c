// SPDX-License-Identifier: Apache-2.0
// The flags of the originals' newest versions: src/frameworks/NAME/flags.csv, recorded by
// scripts/original_flags.py.
#pragma once

#include <string_view>

#include "convert/converters.hpp"

namespace rankmesh::conversion {

/// What a flag does: `places`, `lost`, `note` or `none`, as scripts/original_flags.py says; empty for a flag
/// that the version does not have.
std::string_view class_of_flag(std::string_view framework, std::string_view name);
/// True if all flags of the framework's command line are recorded.
bool has_all_flags(std::string_view framework);

/// Keeps what no row reads: as an extra, or in a note.
void keep_others(const Converter& from, Settings& settings, Arrangement& arrangement);
/// Writes the extras that are flags of the framework itself.
void write_others(const Converter& to, const Arrangement& arrangement, Document& document);

}  // namespace rankmesh::conversion
