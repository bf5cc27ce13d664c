// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace rankmesh::detail {

/// A secret, such as a password, and the variable from which it comes.
struct Secret {
    std::string value;
    std::string from;
};

/// The value of the variable `name`, else the first line of the file that `name`_FILE names; nothing if
/// neither is set. Throws UsageError if others can read the file, or a variable is set and empty.
std::optional<Secret> secret(const std::string& name);

/// The 32 bytes of SHA-256 (FIPS 180-4) of a text.
std::string sha256(std::string_view text);

/// The 32 bytes of HMAC-SHA-256 (RFC 2104): who does not know the key cannot make them for a new text.
std::string hmac_sha256(std::string_view key, std::string_view text);

/// Whether two texts are equal, in a time that does not tell where they differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace rankmesh::detail
