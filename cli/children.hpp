// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace rankmesh::cli {

/// What a child says before it starts something: the last one names where it hangs or crashes.
using Say = std::function<void(const std::string&)>;

/// How one trial in child processes ended.
struct Trial {
    bool ok = false;
    double seconds = 0;
    std::string text = {};  ///< what the first child returned or, if not ok, what went wrong and where
    std::string log = {};   ///< the last lines of the children's output
};

/// Runs `program(number, say)` in so many child processes, which share nothing with this one afterwards.
///
/// A child fails if its program throws, or if its process ends before; `leaves` may end. Children that have
/// not returned within `limit` are killed. This process must have no other thread.
Trial run_in_children(int children, std::chrono::milliseconds limit,
                      const std::function<std::string(int, const Say&)>& program, int leaves = -1);

}  // namespace rankmesh::cli
