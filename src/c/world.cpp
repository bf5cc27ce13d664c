// SPDX-License-Identifier: Apache-2.0
#include <rankmesh/engine/nccl.hpp>
#include <rankmesh/engine/threads.hpp>

#include "c/handles.hpp"

using namespace rankmesh;
using c::guarded;

namespace {

/// Converts options from C, in which 0 and NULL select defaults.
WorldOptions options_of(const rankmesh_world_options* given) {
    auto options = WorldOptions{};
    if (!given) return options;
    if (given->engine) options.engine = given->engine;
    if (given->timeout_seconds != 0) options.timeout = c::duration_of(given->timeout_seconds);
    options.multithreaded = given->multithreaded != 0;
    if (given->checked != 0) options.checked = given->checked > 0;
    if (given->log)
        options.log = [log = given->log, user = given->log_user](std::string_view line) {
            log(std::string(line).c_str(), user);
        };
    return options;
}

}  // namespace

rankmesh_error rankmesh_world_from_environment(const rankmesh_world_options* options,
                                               rankmesh_world** world) {
    return c::made(__func__, "world", world,
                   [&] { return new rankmesh_world(World::from_environment(options_of(options))); });
}

rankmesh_error rankmesh_threads_run(int size, int (*program)(rankmesh_world* world, void* user), void* user,
                                    const rankmesh_world_options* options) {
    return guarded(__func__, [&] {
        RANKMESH_GIVEN(program);
        const auto rank = [&](World& lent) {
            auto world = rankmesh_world(lent);
            const auto code = program(&world, user);
            if (code != 0) c::throw_returned(code, lent.rank());
        };
        threads::run(size, rank, options_of(options));
    });
}

rankmesh_error rankmesh_world_nccl(const rankmesh_world* host, int device, rankmesh_world** world) {
    return c::made(__func__, "world", world, [&] {
        auto options = nccl::Options{};
        if (device != -1) options.device = device;
        return new rankmesh_world(nccl::World(RANKMESH_GIVEN(host).it, options));
    });
}

rankmesh_error rankmesh_world_sub(rankmesh_world* world, const int* ranks, size_t count,
                                  rankmesh_world** sub) {
    return c::made(__func__, "sub", sub, [&] {
        auto& it = RANKMESH_GIVEN(world).it;
        if (count > 0) RANKMESH_GIVEN(ranks);
        return new rankmesh_world(it.sub(std::vector<int>(ranks, ranks + count)));
    });
}

rankmesh_error rankmesh_world_survivors(rankmesh_world* world, double grace_seconds,
                                        rankmesh_world** survivors) {
    return c::made(__func__, "survivors", survivors, [&] {
        return new rankmesh_world(RANKMESH_GIVEN(world).it.survivors(c::duration_of(grace_seconds)));
    });
}

rankmesh_error rankmesh_world_grow(rankmesh_world* world, int most, double timeout_seconds,
                                   rankmesh_world** larger) {
    return c::made(__func__, "larger", larger, [&] {
        return new rankmesh_world(RANKMESH_GIVEN(world).it.grow(most, c::duration_of(timeout_seconds)));
    });
}

rankmesh_error rankmesh_world_rejoin(const rankmesh_world_options* options, rankmesh_world** world) {
    return c::made(__func__, "world", world,
                   [&] { return new rankmesh_world(World::rejoin(options_of(options))); });
}

void rankmesh_world_free(rankmesh_world* world) {
    if (world && world->own) delete world;
}

void rankmesh_world_abandon(rankmesh_world* world) {
    if (world && world->own) c::abandon(world);
}

rankmesh_error rankmesh_world_rank(const rankmesh_world* world, int* rank) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(rank) = RANKMESH_GIVEN(world).it.rank(); });
}

rankmesh_error rankmesh_world_size(const rankmesh_world* world, int* size) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(size) = RANKMESH_GIVEN(world).it.size(); });
}

rankmesh_error rankmesh_world_engine(const rankmesh_world* world, char* engine, size_t size, size_t* needed) {
    return guarded(__func__, [&] { c::write_text(RANKMESH_GIVEN(world).it.engine(), engine, size, needed); });
}

rankmesh_error rankmesh_world_host(const rankmesh_world* world, char* host, size_t size, size_t* needed) {
    return guarded(__func__, [&] { c::write_text(RANKMESH_GIVEN(world).it.host(), host, size, needed); });
}

rankmesh_error rankmesh_world_local_rank(const rankmesh_world* world, int* rank) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(rank) = RANKMESH_GIVEN(world).it.local_rank(); });
}

rankmesh_error rankmesh_world_local_size(const rankmesh_world* world, int* size) {
    return guarded(__func__, [&] { RANKMESH_GIVEN(size) = RANKMESH_GIVEN(world).it.local_size(); });
}
