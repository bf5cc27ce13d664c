// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace rankmesh::detail {

/// A group that is connected: each of its ranks to each other one.
struct Connected {
    std::string label;
    int size = 1;
};

/// The file descriptors that connections take, beside what this process may open.
struct Descriptors {
    std::int64_t connections = 0;            ///< each takes one
    std::int64_t others = 0;                 ///< open already, and a few for what is opened meanwhile
    std::optional<std::int64_t> limit = {};  ///< `ulimit -n`
    std::string shortage = {};               ///< what join throws where they do not suffice, else ""
};

/// The descriptors that these groups of one rank need of this process.
Descriptors descriptors_of(std::span<const Connected> groups);

}  // namespace rankmesh::detail
