// SPDX-License-Identifier: Apache-2.0
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
    /// The number of ranks, as threads, if no launcher started the program; if unset: RANKMESH_THREADS, else
    /// 1.
    std::optional<int> threads = std::nullopt;
    /// Options of its world.
    WorldOptions world = {};
};

namespace detail {
RANKMESH_EXPORT int run(int argc, char** argv, const std::function<int(World&)>& program,
                        const RunOptions& options);
}

/// Runs `program` as this process's rank of the world that a launcher started, on the engine that
/// World::from_environment chooses; without a launcher as `options.threads` ranks of this process. Returns
/// the exit code for `main`.
///
/// `program` returns nothing, or an exit code; with threads, the first that is not 0 is returned. An
/// exception that it throws is printed to stderr with its rank (with threads, the first one), its peers fail
/// as when an exception destroys a World, and 1 is returned. If a launcher announces a size but its engine is
/// unknown or not built, nothing is run and the reason is printed.
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
