// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace rankmesh::cli {

/// The value of an option in bytes, such as `64MiB`.
struct Bytes {
    std::size_t count = 0;
};

/// Reads `4096`, `64MiB` or `1.5 GB`. Throws UsageError, which begins with `option`, unless it is a whole
/// number of bytes from `least` to `most`.
///
/// Law: `read_bytes(bytes_text(n), ...)` is n.
Bytes read_bytes(std::string_view text, std::string_view option, std::size_t least, std::size_t most);

}  // namespace rankmesh::cli
