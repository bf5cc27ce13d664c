// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh {

/// What a program is run with.
struct RunOptions {
    /// How many ranks it has, as threads, where no launcher started it; unless said: RANKMESH_THREADS,
    /// else 1.
    std::optional<int> threads = std::nullopt;
    /// What its world is made with.
    WorldOptions world = {};
};

namespace detail {
RANKMESH_EXPORT int run(int argc, char** argv, const std::function<int(World&)>& program,
                        const RunOptions& options);
}

/// Runs `program` as this process's rank of the world that a launcher started, MPI or Gloo as
/// World::from_environment says, else as `options.threads` ranks of one process; what `main` returns.
///
/// `program` returns nothing, or an exit code; with threads, the first that is not 0 is returned. An
/// exception that leaves it is printed to stderr with its rank, peers hear of it as when a World is left by
/// an exception, and 1 is returned. Of threads the first one is printed. A launcher that announces a size is
/// believed: under one whose engine is not built, or unknown, nothing is run, and the reason is printed.
///
///     void train(World& world) { world.join({{"dp", rest}}).on("dp").barrier(); }
///     int main(int argc, char** argv) { return run(argc, argv, train, {.threads = 4}); }
template <class Program>
requires std::invocable<Program&, World&>
int run(int argc, char** argv, Program&& program, const RunOptions& options = {}) {
    using Result = std::invoke_result_t<Program&, World&>;
    static_assert(std::is_void_v<Result> || std::convertible_to<Result, int>,
                  "the program passed to rankmesh::run must return void or an int exit code");
    const auto with_code = [&](World& world) -> int {
        if constexpr (std::is_void_v<Result>) {
            std::invoke(program, world);
            return 0;
        } else {
            return std::invoke(program, world);
        }
    };
    return detail::run(argc, argv, with_code, options);
}

}  // namespace rankmesh
