// SPDX-License-Identifier: Apache-2.0
// run(), a main function for programs that run under a launcher or as threads.
#pragma once

#include <concepts>
#include <functional>
#include <optional>
#include <type_traits>

#include <rankmesh/core/export.hpp>
#include <rankmesh/engine/world.hpp>

namespace rankmesh {

/// Options of run().
struct RunOptions {
    /// The number of ranks (threads) if no launcher started the program. Unset: RANKMESH_THREADS, else 1.
    std::optional<int> threads = std::nullopt;
    /// Options of the world.
    WorldOptions world = {};
};

namespace detail {
RANKMESH_EXPORT int run(int argc, char** argv, const std::function<int(World&)>& program,
                        const RunOptions& options);
}

/// Runs `program` as this process's rank of the world, on the engine that World::from_environment chooses.
/// Without a launcher, runs it as `options.threads` threads of this process. Returns the exit code for
/// `main`.
///
/// `program` returns nothing or an exit code. With threads, run returns the first code that is not 0. If
/// `program` throws, run prints the (first) exception and its rank to stderr and returns 1; peers fail as if
/// the exception destroyed a World. If a launcher announces a size but its engine is unknown or not built,
/// run prints the reason and runs nothing.
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
