// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/run.hpp>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include <rankmesh/engine/threads.hpp>

#include "engine/access.hpp"
#include "engine/environment.hpp"
#include "engine/world_state.hpp"

namespace rankmesh::detail {
namespace {

/// Prints the exception that is being handled, and writes it into the record.
void print_exception(const std::string& who, Recorder* recorder = nullptr) noexcept {
    const auto tell = [&](const char* what) {
        std::fprintf(stderr, "%s: %s\n", who.c_str(), what);
        if (recorder) recorder->program_failed(what);
    };
    try {
        throw;
    } catch (const std::exception& error) {
        tell(error.what());
    } catch (...) {
        tell("an exception that is no std::exception");
    }
}

std::string rank_text(std::ptrdiff_t rank, int size) { return cat("rank ", rank, " of ", size); }

int run_as_threads(int size, const std::function<int(World&)>& program, const WorldOptions& options) {
    const auto ranks = static_cast<std::size_t>(std::max(size, 0));
    auto codes = std::vector<int>(ranks);
    auto errors = std::vector<std::exception_ptr>(ranks);
    const auto kept = [&](World& world) {
        const auto rank = static_cast<std::size_t>(world.rank());
        try {
            codes[rank] = program(world);
        } catch (...) {
            errors[rank] = std::current_exception();
            throw;
        }
    };
    try {
        threads::run(size, kept, options);
    } catch (...) {
        const auto found = std::ranges::find(errors, std::current_exception());
        print_exception(found == errors.end() ? "rankmesh" : rank_text(found - errors.begin(), size));
        return 1;
    }
    const auto failed = std::ranges::find_if(codes, [](int code) { return code != 0; });
    return failed == codes.end() ? 0 : *failed;
}

/// The world is destroyed before this returns, so that it is destroyed by the exception if there is one.
int run_in(World world, const std::function<int(World&)>& program, bool& printed) {
    try {
        return program(world);
    } catch (...) {
        const auto& state = Access::state(world);
        print_exception(rank_text(world.rank(), world.size()), state ? state->recorder().get() : nullptr);
        printed = true;
        throw;
    }
}

}  // namespace

int run(int argc, char** argv, const std::function<int(World&)>& program, const RunOptions& options) {
    auto printed = false;
    try {
        if (is_launched(options.world.engine))
            return run_in(World::from_environment(argc, argv, options.world), program, printed);
        const auto named = number_in_environment({"RANKMESH_THREADS"}, 1);
        return run_as_threads(options.threads.value_or(named ? named->value : 1), program, options.world);
    } catch (...) {
        if (!printed) print_exception("rankmesh");
        return 1;
    }
}

}  // namespace rankmesh::detail
