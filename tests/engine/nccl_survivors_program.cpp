// SPDX-License-Identifier: Apache-2.0
// A program that trains on devices until a rank is killed, and goes on without it, or that a rank makes fail;
// nccl_survivors.cpp starts its ranks and looks at what each of them says.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/nccl.hpp>
#include <rankmesh/interop/nccl.hpp>

#include "support/device_array.hpp"
#include "survivors_program.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

/// Reduces over both axes until a rank is lost; `dying` dies while its third call is under way.
void train(World& world, const MeshSpec& mesh, int dying) {
    const auto x = support::DeviceArray<float>(100'000, 1);  // outlives what streams do with it
    auto me = world.join(mesh);
    for (int step = 0;; ++step)
        for (int axis = 0; axis < me.mesh().axis_count(); ++axis) {
            auto pending = me.on(me.mesh().name(AxisId{axis})).start().all_reduce(*x, max);
            if (number == dying && step == 2) {
                say("dies at ", now(), " ms");
                raise(SIGKILL);
            }
            pending.synchronize();
        }
}

/// `dying` dies before there is a communicator on devices.
[[noreturn]] void lose(World& host, int dying) {
    auto me = host.join({{"dp", rest}});
    me.on("dp").barrier();
    if (number == dying) raise(SIGKILL);
    while (true) me.on("dp").barrier();
}

/// Says who is here: the sum of what their numbers stand for.
void go_on(World& world) {
    auto me = world.join({{"dp", world.size()}});
    const auto here = support::DeviceArray<std::int64_t>(1, std::int64_t{1} << number);
    me.on("dp").start().all_reduce(*here).synchronize();
    const auto time = now();
    auto ranks = std::vector<int>{};
    for (int rank = 0; rank < 16; ++rank)
        if ((here.values()[0] >> rank & 1) != 0) ranks.push_back(rank);
    say("is ", world.rank(), " of ", world.size(), ", with ", ranks_to_string(ranks), " at ", time, " ms");
    me.on("dp").host().barrier();
    std::this_thread::sleep_for(300ms);  // others may still be in the call that this rank has ended
}

/// A communicator of all ranks that is the program's own.
ncclComm_t make(World& host) {
    auto id = ncclUniqueId{};
    if (host.rank() == 0) ncclGetUniqueId(&id);
    host.join({{"dp", rest}}).on("dp").broadcast(id.internal, 0);
    auto made = ncclComm_t{};
    support::check(cudaSetDevice(host.rank()));
    if (ncclCommInitRank(&made, host.size(), id, host.rank()) != ncclSuccess) std::abort();
    return made;
}

/// All but `absent` make a call that it does not make.
void miss(World& world, int absent) {
    const auto x = support::DeviceArray<float>(1, 1);
    auto on = world.join({{"dp", rest}}).on("dp");
    on.start().all_reduce(*x).synchronize();
    on.host().barrier();
    try {
        if (number != absent) on.within(500ms).start().all_reduce(*x).synchronize();
    } catch (const Timeout& error) {
        say("waits in vain: ", error.what());
    }
    on.host().barrier();
}

/// Says who is to blame that `step` fails.
template <class Step>
void blame(Step&& step) {
    try {
        step();
    } catch (const PeerLost& error) {
        say("blames ", ranks_to_string(error.ranks));
    } catch (const Timeout& error) {
        say("blames ", ranks_to_string(error.missing));
    } catch (const EngineFailure& error) {
        say("fails");
    }
}

/// One rank of a world that has just been made has ended, of which the next join tells.
void hear_of_a_loss(World& world) {
    say("is in a world of ", world.size());
    blame([&] { world.join({{"dp", rest}}); });
    auto others = world.survivors(20s);
    go_on(others);
}

/// Enters the world of others, of which one was lost; and may end at once.
void come_later(bool dies) {
    auto host = World::rejoin({.timeout = 20s});
    if (dies) raise(SIGKILL);
    number = host.rank();
    auto world = World(nccl::World(host));
    go_on(world);
}

void program(const std::string& mode, int dying) {
    if (mode == "late" || mode == "later") return come_later(mode == "later");
    const auto loses_another = mode == "shrinking" || mode == "growing";
    auto host = World::from_environment({.timeout = mode == "absent"    ? 2s
                                                    : loses_another     ? 4s
                                                    : mode == "refused" ? 6s
                                                                        : 20s,
                                         .log = [](std::string_view line) { say("logs ", line); }});
    number = host.rank();
    if (mode == "absent") {
        if (number == dying) _exit(0);
        return blame([&] { static_cast<void>(nccl::World(host)); });
    }
    const auto own = mode == "adopted" ? make(host) : nullptr;
    auto world = World(own ? nccl::adopt(host, own) : nccl::World(host, {.split_share = mode == "share"}));
    if (mode == "missing") return miss(world, dying);
    if (mode == "join") return blame([&] { world.join({{"dp", rest}}); });
    const auto mesh = world.size() == 4 ? MeshSpec{{"dp", 2}, {"tp", 2}} : MeshSpec{{"dp", rest}};
    try {
        if (mode == "early") lose(host, dying);
        train(world, mesh, dying);
    } catch (const PeerLost& lost) {
        say("has lost ", lost.what());
    }
    if (mode == "shrinking" && number == dying + 1) {  // it is one of them when it ends
        host.survivors(5s);
        raise(SIGKILL);
    }
    auto smaller = world.survivors(5s);
    if (mode == "shrinking") return hear_of_a_loss(smaller);
    if (mode == "again" || mode == "same") {  // the new world is asked, or the first
        try {
            train(smaller, {{"dp", rest}}, dying + 1);
        } catch (const PeerLost&) {
        }
        auto smallest = (mode == "same" ? world : smaller).survivors(3s);
        return go_on(smallest);
    }
    go_on(smaller);
    if (mode == "grow") {
        auto whole = smaller.grow(1, 20s);
        return go_on(whole);
    }
    if (mode == "growing") {
        auto whole = smaller.grow(1, 20s);
        return hear_of_a_loss(whole);
    }
    if (!own) return;
    say(ncclCommAbort(own) == ncclSuccess ? "still has its own" : "has it no more");
}

}  // namespace

int main(int argc, char** argv) {
    try {
        program(argc > 1 ? argv[1] : "", argc > 2 ? std::stoi(argv[2]) : -1);
        return 0;
    } catch (const std::exception& error) {
        say("caught ", error.what());
        return 1;
    }
}
