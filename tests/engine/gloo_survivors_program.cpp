// SPDX-License-Identifier: Apache-2.0
// A program that trains until a rank is lost, and goes on without it; gloo_survivors.cpp starts its ranks and
// looks at what each of them says.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>

#include "support/eventually.hpp"
#include "survivors_program.hpp"
#include "waits.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using support::eventually;

namespace {

[[noreturn]] void die() {
    say("dies at ", now(), " ms");
    raise(SIGKILL);
    std::abort();
}

/// Signals between the ranks, by files.
std::filesystem::path signal_of(const std::string& word) {
    return std::filesystem::path(std::getenv("RANKMESH_TEST_FOLDER")) / word;
}
void tell(const std::string& word) { std::ofstream(signal_of(word)) << "told"; }
bool is_told(const std::string& word) { return std::filesystem::exists(signal_of(word)); }

/// Steps over every axis of `mesh` until a rank is lost; `dying` dies in the third, if it is here.
void train(World& world, const MeshSpec& mesh, int dying) {
    auto me = world.join(mesh);
    for (int step = 0;; ++step) {
        if (number == dying && step == 2) die();
        for (int axis = 0; axis < me.mesh().axis_count(); ++axis) {
            auto x = std::vector<float>(1000, 1);
            me.on(me.mesh().name(AxisId{axis})).all_reduce(x);
        }
    }
}

/// Prints who is left: the sum of the ranks' weights, and the time of the first collective. The member is for
/// the caller to keep: who leaves may take from others the call that it has ended.
[[nodiscard]] Member go_on(World& world) {
    auto me = world.join({{"dp", world.size()}});
    auto here = std::vector<long long>{1LL << number};
    me.on("dp").all_reduce(here);
    const auto time = now();
    auto ranks = std::vector<int>{};
    for (int rank = 0; rank < 16; ++rank)
        if ((here[0] >> rank & 1) != 0) ranks.push_back(rank);
    say("is ", world.rank(), " of ", world.size(), ", with ", ranks_to_string(ranks), " at ", time, " ms");
    return me;
}

int program(const std::string& mode, int dying) {
    auto world = World::from_environment({.timeout = 20s});
    number = world.rank();
    const auto mesh = world.size() == 8   ? MeshSpec{{"dp", 2}, {"cp", 2}, {"tp", 2}}
                      : world.size() == 6 ? MeshSpec{{"dp", 3}, {"tp", 2}}
                      : world.size() == 4 ? MeshSpec{{"dp", 2}, {"tp", 2}}
                                          : MeshSpec{{"dp", rest}};
    auto kept = std::vector<Member>{};
    if (mode != "nobody") {
        try {
            train(world, mesh, dying);
        } catch (const PeerLost& lost) {
            say("has lost ", lost.what());
        }
    }
    if (mode == "one" || mode == "nobody") {
        auto smaller = world.survivors(10s);
        kept.push_back(go_on(smaller));
    }
    if (mode == "again") {  // and each new world is asked
        auto smaller = world.survivors(10s);
        try {
            train(smaller, {{"dp", rest}}, dying + 1);
        } catch (const PeerLost&) {
        }
        auto smallest = smaller.survivors(10s);
        kept.push_back(go_on(smallest));
        try {
            train(smallest, {{"dp", rest}}, dying + 2);
        } catch (const PeerLost&) {
        }
        auto last = smallest.survivors(10s);
        kept.push_back(go_on(last));
    }
    if (mode == "same") {  // the first world is asked each time
        auto smaller = std::optional(world.survivors(10s));
        try {
            train(*smaller, {{"dp", rest}}, dying + 1);
        } catch (const PeerLost&) {
        }
        smaller = std::nullopt;
        auto smallest = world.survivors(3s);
        kept.push_back(go_on(smallest));
    }
    if (mode == "within") {  // the last rank comes when the one before it has come and died
        if (number == dying + 1)
            std::thread([] {
                std::this_thread::sleep_for(300ms);  // in which it comes
                tell("dies");
                die();
            }).detach();
        if (number == dying + 2 && !eventually([] { return is_told("dies"); })) return 1;
        auto smaller = world.survivors(3s);
        kept.push_back(go_on(smaller));
    }
    if (mode == "late") {
        if (number == 3 && !eventually([] { return is_told("0 goes on") && is_told("2 goes on"); })) return 1;
        for (int i = 0; i < 2; ++i) try {
                auto smaller = world.survivors(2s);
                kept.push_back(go_on(smaller));
                tell(std::to_string(number) + " goes on");
                break;
            } catch (const Timeout& error) {
                say("lacks ", ranks_to_string(error.missing), " of ", ranks_to_string(error.arrived), ": ",
                    error.what());
            }
    }
    std::this_thread::sleep_for(500ms);  // others may still be in a call that this rank has ended
    return 0;
}

/// The first communicators outlive the rank that they lost. Those that are whole go on until a rank makes a
/// new world.
int keep() {
    auto world = World::from_environment({.timeout = 20s});
    number = world.rank();
    auto me = std::optional(world.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}}));
    auto all = std::optional(me->on("dp", "tp"));
    auto x = std::vector<float>(1000, 1);
    all->all_reduce(x);
    if (number == 1) {
        std::this_thread::sleep_for(200ms);  // others may still be in the call that this rank has ended
        die();
    }
    const auto hear = [&](auto&& call) {
        try {
            call();
        } catch (const PeerLost& lost) {
            say("has lost ", lost.what());
        }
    };
    const auto hear_all = [&] { hear([&] { all->barrier(); }); };
    hear_all();
    if (number > 1) me->on("tp").all_reduce(x);
    // The first that makes a new world ends the calls of this one on all ranks.
    if (number > 1) tell("reduced " + std::to_string(number));
    while (!is_told("reduced 2") || !is_told("reduced 3")) std::this_thread::sleep_for(1ms);
    auto smaller = world.survivors(10s);
    auto kept = std::vector<Member>{};
    hear_all();
    kept.push_back(go_on(smaller));
    hear([&] { me->on("tp").all_reduce(x); });
    kept.push_back(go_on(smaller));
    me = std::nullopt;
    hear_all();
    all = std::nullopt;
    kept.push_back(go_on(smaller));
    std::this_thread::sleep_for(500ms);  // others may still be in a call that this rank has ended
    return 0;
}

/// A rank is lost on a mesh of so many axes, and nothing is destroyed. Ranks without a group with it wait in
/// `how`. It `throws`, or is killed after some microseconds.
int hold(const std::string& how, int dying, int axes, bool throws, std::chrono::microseconds delay) {
    auto world = World::from_environment({.timeout = 60s});
    number = world.rank();
    const auto me = axes == 3 ? world.join({{"dp", rest}, {"cp", 2}, {"tp", 2}})
                              : world.join({{"dp", rest}, {"tp", 2}});
    auto kept = std::vector<Member>{};
    try {
        for (int each = 0; each < 2; ++each) waits::step(me);
        if (number == dying && throws) {
            say("dies at ", now(), " ms");
            throw std::runtime_error("a mistake");
        }
        if (number == dying && delay == 0us) die();
        if (number == dying)
            std::thread([=] {
                std::this_thread::sleep_for(delay);
                die();
            }).detach();
        if (waits::share_a_group(me.mesh(), number, dying))
            for (;;) waits::step(me);
        waits::all().at(how)(world, me);
    } catch (const PeerLost& lost) {
        say("has lost ", ranks_to_string(lost.ranks), ": ", lost.what());
    }
    auto smaller = world.survivors(20s);
    kept.push_back(go_on(smaller));
    std::this_thread::sleep_for(500ms);  // others may still be in a call that this rank has ended
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto mode = std::string(argc > 1 ? argv[1] : "");
    try {
        if (waits::all().contains(mode))
            return hold(mode, std::stoi(argv[2]), std::stoi(argv[3]), argv[4] == std::string("throws"),
                        std::chrono::microseconds(argc > 5 ? std::stoi(argv[5]) : 0));
        return mode == "keep" ? keep() : program(mode, argc > 2 ? std::stoi(argv[2]) : -1);
    } catch (const std::exception& error) {
        say("caught ", error.what());
        return 1;
    }
}
