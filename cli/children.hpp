// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <functional>
#include <string>

namespace rankmesh::cli {

/// Called by a child before each action; the last text shows where it hangs or crashes.
using Say = std::function<void(const std::string&)>;

/// The result of one trial in child processes.
struct Trial {
    bool ok = false;
    double seconds = 0;
    std::string text = {};  ///< the result of the first child or, if not ok, what went wrong and where
    std::string log = {};   ///< the last lines of the children's output
};

/// Runs `program(number, say)` in `children` child processes, which share nothing with this process.
///
/// A child fails if its program throws or its process ends early, except child `leaves`. Kills children that
/// have not returned within `limit`. This process must not have other threads.
Trial run_in_children(int children, std::chrono::milliseconds limit,
                      const std::function<std::string(int, const Say&)>& program, int leaves = -1);

}  // namespace rankmesh::cli
