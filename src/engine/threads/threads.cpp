// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/threads.hpp>

#include <exception>
#include <latch>
#include <map>
#include <system_error>
#include <thread>

#include <rankmesh/core/detail/caller.hpp>

#include "engine/access.hpp"
#include "engine/threads/world.hpp"

namespace rankmesh::threads {

using detail::cat;

void run(int size, const std::function<void(World&)>& program, const WorldOptions& options) {
    if (size < 1)
        throw UsageError(cat(detail::in_python("run", "threads::run"), " was asked for ", size,
                             " ranks; a world has 1 or more"));
    const auto settled = detail::settled(options);  // throws here, not on the ranks' threads
    const auto job = std::make_shared<detail::Job>(size);
    const auto store = std::make_shared<detail::JobStore>();
    auto errors = std::map<int, std::exception_ptr>{};
    auto first = std::exception_ptr{};
    auto mutex = std::mutex{};
    const auto failed = [&](int rank, const World& world, std::string_view what) {
        const auto lock = std::lock_guard(mutex);
        errors[rank] = std::current_exception();
        if (!first) first = errors[rank];
        job->left(rank);
        const auto why = cat("rank ", rank, " failed", what.empty() ? "" : ": ", what);
        if (const auto& state = detail::Access::state(world)) {
            state->recorder()->program_failed(what);
            state->leave(why);
        }
        // The program may have put a smaller or a larger world in its place.
        job->fail(rank, {.kind = detail::Failure::Kind::left, .why = why, .lost = {rank}});
    };
    auto started = std::latch(1);
    auto all_started = true;  // written before the latch opens
    auto ranks = std::vector<std::thread>{};
    const auto rank_main = [&](int rank) {
        started.wait();
        if (!all_started) return;
        auto world = detail::Access::world(std::make_shared<detail::ThreadsWorld>(job, store, rank, settled));
        try {
            program(world);
            job->returned(rank);
        } catch (const std::exception& error) {
            failed(rank, world, error.what());
        } catch (...) {
            failed(rank, world, {});
        }
    };
    auto failure = std::string{};
    try {
        for (int rank = 0; rank < size; ++rank) ranks.emplace_back(rank_main, rank);
    } catch (const std::system_error& error) {
        all_started = false;
        failure = cat("the system gave ", ranks.size(), " of ", size, " threads: ", error.what());
    }
    started.count_down();
    for (auto& rank : ranks) rank.join();
    if (!all_started) throw EngineFailure(failure);

    // The error of the rank that failed first: others may only have thrown PeerLost because of it.
    if (const auto cause = errors.find(job->first_left()); cause != errors.end())
        std::rethrow_exception(cause->second);
    if (first) std::rethrow_exception(first);
}

JobHandle::JobHandle(const World& world) {
    const auto* state = dynamic_cast<const detail::ThreadsWorld*>(detail::Access::checked_state(world).get());
    if (!state)
        throw UsageError(cat("a JobHandle of a world on '", world.engine(),
                             "' was asked for; threads enter worlds of threads, and processes those "
                             "of others by World::rejoin"));
    store_ = state->store();
}

World JobHandle::rejoin(std::optional<int> place, const WorldOptions& options) const {
    if (place && *place < 0)
        throw UsageError(cat("rank ", *place, " of a running job is asked for; ranks are 0 or more"));
    return detail::Access::world(detail::ThreadsWorld::rejoin(store_, place, detail::settled(options)));
}

}  // namespace rankmesh::threads
