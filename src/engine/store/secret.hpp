// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace rankmesh::detail {

/// A secret, such as a password, and the variable from which it comes.
struct Secret {
    std::string value;
    std::string from;
};

/// The value of the variable `name`, else the first line of the file that `name`_FILE names; nothing if
/// neither is set. Throws UsageError if others can read the file, or a variable is set and empty.
std::optional<Secret> secret(const std::string& name);

}  // namespace rankmesh::detail
