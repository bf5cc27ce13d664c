// SPDX-License-Identifier: Apache-2.0
#include "doctor_steps.hpp"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/nccl_array.hpp>
#include <rankmesh/engine/threads.hpp>

#include "output.hpp"
#include "verification.hpp"

namespace rankmesh::cli::of_doctor {

using namespace std::chrono_literals;

void all_reduce(nccl::World& world, auto&& on) {
    auto ones = nccl::Array<float>(world, 1024);
    ones.copy_from(std::vector<float>(1024, 1.0f));
    on.start().all_reduce(ones.memory()).synchronize();  // throws errors of the device
    auto sums = std::vector<float>(1024);
    ones.copy_to(sums);
    for (const auto sum : sums)
        if (sum != static_cast<float>(on.size()))
            throw EngineFailure(fmt::format("an all_reduce of ones over {} ranks gives {}", on.size(), sum));
}

/// Returns a communicator of all ranks, after a first call on it.
Communicator join_all(nccl::World& world, const Say& say) {
    say("join of dp=*");
    auto on = world.join({{"dp", rest}}).on("dp");
    say("all_reduce");
    all_reduce(world, on);
    return on;
}

/// Splits with a color on every rank, then with none on the last one.
void split(nccl::World& world, const Say& say) {
    if (world.size() % 2 == 0) {
        say("join of dp=* tp=2, dp,tp");
        auto me = world.join({{"dp", rest}, {"tp", 2}}, {.over = {{"dp", "tp"}}});
        for (const auto* axis : {"dp", "tp"}) all_reduce(world, me.on(axis));
        all_reduce(world, me.on("dp", "tp"));
    }
    say("join of a mesh without the last rank");
    auto me = world.join({{"dp", world.size() - 1}}, {.partial = true});
    if (me.inside()) all_reduce(world, me.on("dp"));
}

void run_operations(nccl::World& world, const Say& say) {
    auto on = join_all(world, say);
    const auto names = operation_names(true);
    for (std::size_t which = 0; which < names.size(); ++which) {
        say(std::string(names[which]));
        const auto verified = verify(on, static_cast<int>(which), 1 << 20, &world);
        if (verified.wrong != 0)
            throw EngineFailure(fmt::format("{} gives {} wrong elements", names[which], verified.wrong));
    }
}

/// Makes a call without the last rank, which must end at its timeout by ncclCommRevoke.
void time_out(nccl::World& world, const Say& say) {
    auto on = join_all(world, say);
    const auto last = world.size() - 1;
    say("a call that the last rank does not make");
    if (world.rank() != last) {
        try {
            auto late = on.within(1s);
            all_reduce(world, late);
            throw EngineFailure("a call completed although one rank did not make it");
        } catch (const Timeout&) {
        }
    }
    on.host().barrier();
}

/// Ends the last rank; the others make a smaller world.
void survive(nccl::World& world, const Say& say) {
    auto on = join_all(world, say);
    const auto last = world.size() - 1;
    try {
        auto ready = 1;  // the last rank exits after all have made the first call
        on.host().reduce(ready, rankmesh::sum, last);
        if (world.rank() == last) _exit(0);
        say("a call whose last rank has exited");
        all_reduce(world, on);
        throw EngineFailure("a call completed although its last rank had exited");
    } catch (const PeerLost&) {
    }
    say("survivors");
    auto smaller = world.survivors(10s);
    say("join of the survivors");
    auto again = smaller.join({{"dp", rest}}).on("dp");
    again.barrier();
}

void suspend(nccl::World& world, const Say& say) {
    say("join of dp=*");
    auto me = world.join({{"dp", rest}});
    auto on = me.on("dp");
    say("suspend");
    me.suspend();
    say("resume");
    me.resume();
    all_reduce(world, on);
}

std::vector<Step> steps() {
    return {{"join", "one communicator of all ranks",
             [](nccl::World& world, const Say& say) { join_all(world, say); }},
            {"split", "communicators of subsets of the ranks", split},
            {"operations", "each collective and message, every element verified", run_operations},
            {"timeout", "a call that one rank does not make", time_out},
            {"suspend", "communicators released and brought back", suspend},
            {"survivors", "a smaller world after a rank has exited", survive, true}};
}

/// Runs a step in a child process, on one rank of `size`, or on all ranks without Gloo.
void run_step(const Step& step, int number, int size, double timeout, const std::string& store,
              const Say& say) {
    const auto options = WorldOptions{
        .timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1e3)), .record = ""};
    const auto on_devices = [&](World& host) {
        say("init");
        auto world = nccl::World(host);
        step.run(world, say);
        say("end");
    };
    if (gloo::is_built()) {
        auto host = gloo::World({.store = store, .job = "doctor", .rank = number, .size = size}, options);
        on_devices(host);
    } else {
        threads::run(size, on_devices, options);
    }
}

/// A folder that is removed with its content at the end.
struct Folder {
    std::string path;
    Folder() : path((std::filesystem::temp_directory_path() / "rankmesh-doctor-XXXXXX").string()) {
        if (mkdtemp(path.data()) == nullptr)
            throw Error(fmt::format("cannot create a folder in {}: {}; set TMPDIR to a writable folder",
                                    std::filesystem::temp_directory_path().string(), std::strerror(errno)));
    }
    Folder(const Folder&) = delete;
    ~Folder() {
        auto error = std::error_code{};
        std::filesystem::remove_all(path, error);
    }
};

Outcome run_in_ranks(const Step& step, int ranks, double timeout) {
    const auto folder = Folder();
    const auto limit = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1e3) + 5000);
    const auto trial = run_in_children(
        gloo::is_built() ? ranks : 1, limit,
        [&](int number, const Say& say) {
            setenv("NCCL_DEBUG", "WARN", 0);  // prints NCCL's own messages about failures
            run_step(step, number, ranks, timeout, folder.path, say);
            return std::string{};
        },
        step.loses_a_rank ? ranks - 1 : -1);
    return {step.name, trial.ok ? "ok" : "failed", trial.seconds, trial.text, trial.ok ? "" : trial.log};
}

}  // namespace rankmesh::cli::of_doctor
