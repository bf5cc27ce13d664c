// SPDX-License-Identifier: Apache-2.0
// A program that goes wrong in the way its argument says; gloo_failures.cpp starts its ranks and looks at
// what each of them says.
#include <fcntl.h>
#include <gloo/common/error.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>

using namespace rankmesh;
using Clock = std::chrono::steady_clock;

namespace {

long long milliseconds_since(Clock::time_point begin) {
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count();
}

/// Calls `body`, and says what it throws and after how long; true if it went well.
template <class Body>
bool hear(int rank, const char* what, Body&& body) {
    const auto begin = Clock::now();
    const auto said = [&](const char* kind, const std::string& ranks, const std::exception& error) {
        std::printf("rank %d, %s: %s %s after %lld ms: %s\n", rank, what, kind, ranks.c_str(),
                    milliseconds_since(begin), error.what());
        std::fflush(stdout);
    };
    try {
        body();
        std::printf("rank %d, %s: went well\n", rank, what);
        std::fflush(stdout);
        return true;
    } catch (const PeerLost& error) {
        said("PeerLost", ranks_to_string(error.ranks), error);
    } catch (const Timeout& error) {
        said("Timeout", ranks_to_string(error.missing), error);
    } catch (const Disagreement& error) {
        said("Disagreement", ranks_to_string(error.ranks), error);
    } catch (const Error& error) {
        said("Error", "", error);
    }
    return false;
}
template <class Body>
bool hear(const World& world, const char* what, Body&& body) {
    return hear(world.rank(), what, std::forward<Body>(body));
}

/// Signals to the test that starts this program, by output, and from it, by files.
void say(const char* word) {
    std::printf("%s\n", word);
    std::fflush(stdout);
}
bool is_told(const char* word) {
    return std::filesystem::exists(std::filesystem::path(std::getenv("RANKMESH_TEST_FOLDER")) / word);
}

void sleep(int milliseconds) { std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds)); }

/// Stops this process until the others have noticed.
void stop_for_a_while(int seconds = 3) {
    const auto wake =
        "(sleep " + std::to_string(seconds) + "; kill -CONT " + std::to_string(getpid()) + ") &";
    if (std::system(wake.c_str()) == 0) raise(SIGSTOP);
}

/// Keeps rank 1 alone from starting its world: by a limit, or by the name of an interface.
void hinder(const std::string& how) {
    if (std::atoi(std::getenv("RANK")) != 1) return;
    if (how == "interface") setenv("RANKMESH_INTERFACE", "nonsense", 1);
    if (how != "descriptors") return;
    const auto next = open("/dev/null", O_RDONLY);
    close(next);
    auto limits = rlimit{};
    getrlimit(RLIMIT_NOFILE, &limits);
    limits.rlim_cur = static_cast<rlim_t>(next) + 2;  // as many as the store takes
    setrlimit(RLIMIT_NOFILE, &limits);
}

/// A program that an error ends, as most do: its world goes while the error is thrown.
void program_of_one_try(const std::string& mode, const WorldOptions& options) {
    if (mode.starts_with("hindered-")) hinder(mode.substr(9));
    auto world = World::from_environment(options);
    const auto last = world.rank() == world.size() - 1;
    if (mode == "timeout-absent" && last) return sleep(2500);
    const auto stops = mode == "timeout-stop-in-join";
    if ((stops || mode == "kill-in-join") && world.rank() == 1)
        std::thread([stops] {
            std::this_thread::sleep_for(std::chrono::microseconds(std::atoi(std::getenv("MOMENT"))));
            if (stops)
                stop_for_a_while();
            else
                raise(SIGKILL);
        }).detach();
    if (mode.ends_with("in-step")) {  // the other ranks wait for what rank 0 makes of what they tell
        if (world.rank() > 0) sleep(500);
        if (world.rank() == 0)
            std::thread([kills = mode == "kill-in-step"] {
                sleep(200);
                if (kills) raise(SIGKILL);
                stop_for_a_while();
            }).detach();
    }
    if (stops) {  // ranks 2 and 4 have no group with rank 1
        world.join({{"dp", rest}, {"tp", 2}});
        return;
    }
    auto me = mode == "differ" && world.rank() == 1 ? world.join({{"dp", 2}, {"tp", rest}})
                                                    : world.join({{"dp", rest}});
    auto x = 1;
    if (mode == "differ-and-leave" && world.rank() == 1) me.on("dp").broadcast(x, 0);
    for (auto turn = 0; turn < 1000; ++turn) me.on("dp").all_reduce(x, max);
}

/// Joins a world, and adds up its ranks.
void add_up(World& world) {
    auto x = world.rank() + 1;
    world.join({{"dp", rest}}).on("dp").all_reduce(x);
    if (x != world.size() * (world.size() + 1) / 2) throw EngineFailure("a wrong sum");
}

/// A process that makes several worlds, at once and one after the other.
int make_worlds(const std::string& mode, const WorldOptions& options) {
    const auto grows = mode == "worlds-grow";
    const auto rank = std::atoi(std::getenv(std::getenv("RANK") ? "RANK" : "OMPI_COMM_WORLD_RANK"));
    const auto child = grows && rank == 0 ? fork() : -1;
    if (child == 0) {  // which enters the second world
        unsetenv("RANK");
        hear(-1, "enters", [&] {
            auto world = World::rejoin(options);
            add_up(world);
        });
        std::fflush(stdout);
        _exit(0);
    }
    hear(rank, "at once", [&] {
        auto first = std::optional(World::from_environment(options));
        auto second = World::from_environment(options);
        add_up(second);
        add_up(*first);
        if (rank < 2) {
            auto some = second.sub({1, 0});
            add_up(some);
        }
        if (rank % 2 == 0) first.reset();
        add_up(second);
        if (grows) second = second.grow(1, std::chrono::seconds(20));
        if (mode == "worlds-end" && rank == 1) raise(SIGKILL);
        if (mode == "worlds-end") second = second.survivors(std::chrono::seconds(5));
        add_up(second);
        // The second world lives meanwhile: with it ends rank 0's server, which knows that rank 1 was there.
        if (mode == "timeout-worlds" && rank != 1)
            hear(rank, "one more", [&] { World::from_environment(options); });
    });
    if (mode == "worlds")
        for (auto turn = 0; turn < 12; ++turn)
            hear(rank, "one after the other", [&] {
                auto world = World::from_environment(options);
                add_up(world);
                sleep((rank + turn) % 3 * 20);  // so that now this rank ends its world first, now another
            });
    if (child > 0) waitpid(child, nullptr, 0);
    return 0;
}

/// Rank 1 calls something else than the others, in the way that `what` says, or only late.
int differ(const World& world, Communicator& all, const std::string& what) {
    const auto odd = world.rank() == 1;
    auto x = std::vector<float>(1000, 1);
    auto numbers = std::vector<int>(1000, 1);
    auto counts = std::vector<std::size_t>(4, 250);
    const auto call = [&] {
        if (what.starts_with("and-stop-") && world.rank() == 3)  // in the call
            std::thread([seconds = std::stoi(what.substr(9))] {
                sleep(200);
                stop_for_a_while(seconds);
            }).detach();
        if (what == "operation" || what.starts_with("and-stop-"))
            return odd ? all.broadcast(x, 0) : all.all_reduce(x);
        if (what == "type") return odd ? all.all_reduce(numbers) : all.all_reduce(x);
        if (what == "reduction") return odd ? all.all_reduce(x, max) : all.all_reduce(x);
        if (what == "root") {
            std::ranges::fill(x, static_cast<float>(world.rank()));
            all.broadcast(x, odd ? 2 : 0);
            if (x.front() != 0 || x.back() != 0) throw std::runtime_error("wrong data");
            return;
        }
        if (what == "empty") return all.broadcast(std::span(x).first(odd ? 0 : 1000), 0);
        if (what == "started")
            return odd ? all.start().all_reduce(numbers).wait() : all.start().all_reduce(x).wait();
        if (what == "counts") {  // rank 1 expects less of rank 2
            if (odd) counts[2] = 100;
            auto out = std::vector<float>(odd ? 850 : 1000);
            const auto gives = std::vector<std::size_t>(4, 250);
            return all.all_to_all_v(x, gives, out, counts);
        }
        if (what == "swapped") {
            if (odd) all.broadcast(x, 0);
            all.all_reduce(x);
            if (!odd) all.broadcast(x, 0);
            return;
        }
        if (what == "shift") return all.shift(x, odd ? 2 : 1);
        // The third message of rank 0 to rank 1 is longer than it expects, shorter, or of another type.
        if (world.rank() == 0)
            for (int i = 0; i < 3; ++i) all.send(x, 1);
        if (odd) {
            all.recv(x, 0);
            all.recv(x, 0);
            auto longer = std::vector<float>(1001);
            if (what == "message-longer") all.recv(std::span(x).first(999), 0);
            if (what == "message-shorter") all.recv(longer, 0);
            if (what == "message-type") all.recv(numbers, 0);
        }
        if (world.rank() >= 2) all.barrier();
    };
    if (what != "late") {
        hear(world, "all", call);
        hear(world, "all again", [&] { all.barrier(); });
        return 0;
    }
    // Nothing differs, and rank 1 comes to each call after the others have compared theirs.
    hear(world, "all", [&] {
        const auto late = [&] {
            if (odd) sleep(1200);
        };
        for (int i = 0; i < 100; ++i) all.shift(x, 1);
        late();
        all.all_reduce(x);
        late();
        auto out = x;
        const auto uneven = std::vector<std::size_t>{100, 200, 300, 400};
        all.all_gather_v(std::span(x).first(uneven[static_cast<std::size_t>(world.rank())]), out, uneven);
        late();
        auto pending = all.start().all_to_all_v(x, counts, out, counts);
        auto other = all.start().broadcast(numbers, 3);
        late();
        other.wait();
        pending.wait();
        for (int i = 0; i < 100; ++i) {
            if (i % 50 == 0) late();
            const auto next = (world.rank() + 1) % 4;
            const auto before = (world.rank() + 3) % 4;
            const auto length = static_cast<std::size_t>(i + 1);
            auto y = std::vector<float>(length);
            all.send_recv(std::span(x).first(length), next, y, before);
        }
        late();
        all.reduce(x, 1);
    });
    return 0;
}

int program(const std::string& mode) {
    auto options = WorldOptions{
        .timeout = std::chrono::seconds(mode.starts_with("timeout-cut") || mode == "kill-in-join" ? 3
                                        : mode == "timeout-told"                                  ? 12
                                        : mode.starts_with("timeout")                             ? 1
                                                                                                  : 20)};
    if (mode == "log")
        options.log = [](std::string_view line) { std::printf("%s\n", std::string(line).c_str()); };
    if (mode == "timeout-absent" || mode == "differ" || mode == "differ-and-leave" ||
        mode == "kill-in-join" || mode.starts_with("timeout-stop-in-") || mode.ends_with("in-step") ||
        mode.starts_with("hindered-")) {
        const auto rank = std::atoi(std::getenv("RANK"));
        return hear(rank, "program", [&] { program_of_one_try(mode, options); }) ? 0 : 1;
    }
    if (mode.find("worlds") != mode.npos) return make_worlds(mode, options);
    auto world = World::from_environment(options);
    const auto odd = world.rank() == 1;
    if (mode == "timeout-join") {
        if (odd) return sleep(2500), 0;
        hear(world, "join", [&] { world.join({{"dp", rest}}); });
        return 0;
    }
    if (mode.ends_with("cut-join") || mode == "late") {
        std::printf("process %d\n", static_cast<int>(getpid()));
        say("joined the rendezvous");
        while ((mode != "late" || world.rank() == 3) && !is_told("go")) sleep(1);
        auto joined = std::optional<Member>{};
        if (!hear(world, "join", [&] { joined = world.join({{"dp", rest}}); })) return 0;
        hear(world, "all", [&] {
            auto dp = joined->on("dp");
            for (auto enough = 0.0F; enough == 0;) {
                enough = is_told("enough") ? 1.0F : 0.0F;
                dp.all_reduce(enough, max);
                auto sum = 1;
                dp.all_reduce(sum);
                if (sum != world.size()) throw EngineFailure("a wrong sum");
            }
        });
        return 0;
    }
    if (mode == "timeout-cut-joins") {
        auto joined = std::vector<Member>{};
        while (hear(world, "join", [&] { joined.push_back(world.join({{"dp", rest}})); })) say("joined");
        return 0;
    }
    auto me = world.join({{"dp", 2}, {"tp", rest}}, {.over = {{"dp", "tp"}}});
    auto all = me.on("dp", "tp");
    auto x = std::vector<float>(1000, 1);
    all.all_reduce(x);
    // Others may still be in a call that this rank has ended, and would lose it there.
    if (odd) sleep(200);
    if (mode == "kill") {
        if (odd) raise(SIGKILL);
        hear(world, "all", [&] { all.all_reduce(x); });
        hear(world, "all again", [&] { all.barrier(); });
        hear(world, "tp", [&] { me.on("tp").all_reduce(x); });
        hear(world, "dp", [&] { me.on("dp").barrier(); });
        return 0;
    }
    if (mode == "timeout-group" || mode == "kill-group") {
        if (odd && mode == "kill-group") raise(SIGKILL);
        if (odd) return sleep(2500), 0;
        if (world.rank() == 3)
            sleep(700);
        else
            hear(world, "group", [&] { me.group({2, 1, 0}, {.name = "three"}); });
        hear(world, "rest", [&] {
            auto rest = me.group({3, 2, 0});
            rest.all_reduce(x);
            if (rest.world_ranks() != std::vector{3, 2, 0} || x.front() != 12) throw EngineFailure("wrong");
        });
        return 0;
    }
    if (mode.ends_with("-chain")) {  // rank 0 ends because of rank 1, and rank 2 waits for rank 0 alone
        if (odd && mode == "kill-chain") raise(SIGKILL);
        if (odd && mode == "throw-chain") throw std::runtime_error("boom");
        if (odd) stop_for_a_while();
        if (world.rank() == 0) me.on("tp").all_reduce(x);
        if (world.rank() == 2)
            hear(world, "dp", [&] { me.on("dp").within(std::chrono::seconds(20)).barrier(); });
        if (world.rank() == 3) hear(world, "join", [&] { world.join({{"dp", rest}}); });
        if (world.rank() == 2) sleep(500);  // rank 3 may still look who has ended
        return 0;
    }
    if (mode == "kill-idle") {  // no rank is in a call when it happens
        if (odd) raise(SIGKILL);
        sleep(1000);
        hear(world, "message", [&] {
            if (world.rank() == 0) all.send(x, 2);
            if (world.rank() == 2) all.recv(x, 0);
            if (world.rank() == 3) all.recv(x, 0);
        });
        return 0;
    }
    if (mode == "kill-ring") {  // all pass messages on, until one of them is killed
        auto y = x;
        const auto next = (all.rank() + 1) % all.size();
        const auto before = (all.rank() + all.size() - 1) % all.size();
        for (auto turn = 0; hear(world, "ring", [&] { all.send_recv(x, next, y, before); }); ++turn)
            if (odd && turn == 20) raise(SIGKILL);
        return 0;
    }
    if (mode == "timeout-stop-ring") {  // one of them is stopped, and goes on once the others have noticed
        auto y = x;
        const auto next = (all.rank() + 1) % all.size();
        const auto before = (all.rank() + all.size() - 1) % all.size();
        for (auto turn = 0; hear(world, "ring", [&] { all.send_recv(x, next, y, before); }); ++turn)
            if (odd && turn == 20) stop_for_a_while();
        return 0;
    }
    if (mode == "kill-with-child") {  // its child has all that it had open
        if (odd && fork() == 0) {
            sleep(3000);
            _exit(0);
        }
        if (odd) raise(SIGKILL);
        hear(world, "all", [&] { all.all_reduce(x); });
        return 0;
    }
    if (mode == "child-world") {           // of the children of all ranks, which rank 1 leaves first
        auto ends = std::array<int, 2>{};  // the child of rank 1 stays until the others' have ended
        if (pipe(ends.data()) != 0) return 1;
        const auto child = fork();
        if (child == 0) {
            close(ends[1]);
            setenv("RANKMESH_JOB", "the children", 1);
            options.timeout = std::chrono::seconds(1);
            auto own = World::from_environment(options);
            auto of_children = own.join({{"dp", rest}}).on("dp");
            hear(own, "child's sum", [&] { of_children.all_reduce(x); });
            if (own.rank() != 1) hear(own, "child's barrier", [&] { of_children.barrier(); });
            auto byte = char{};
            return own.rank() == 1 ? static_cast<int>(read(ends[0], &byte, 1)) : 0;
        }
        if (odd) hear(world, "all", [&] { all.barrier(); });
        close(ends[1]);
        auto status = 0;
        if (waitpid(child, &status, 0) == child) std::printf("the child ended with %d\n", status);
        if (!odd) hear(world, "all", [&] { all.barrier(); });
        return 0;
    }
    if (mode == "child") {  // goes on where rank 1 is, and ends as the program does
        auto pending = all.start().all_reduce(x);
        const auto child = odd ? fork() : -1;
        if (child == 0) {
            hear(world, "child", [&] { all.barrier(); });
            hear(world, "child's wait", [&] { pending.wait(); });
            hear(world, "child's join", [&] { world.join({{"dp", rest}}); });
            return 0;
        }
        auto status = 0;
        if (odd && waitpid(child, &status, 0) == child) std::printf("the child ended with %d\n", status);
        hear(world, "wait", [&] { pending.wait(); });
        hear(world, "all", [&] { all.barrier(); });
        return 0;
    }
    if (mode == "kill-started") {
        auto pending = all.start().all_reduce(x);
        if (odd) raise(SIGKILL);
        hear(world, "wait", [&] {
            pending.wait();
            all.barrier();
        });
        return 0;
    }
    if (mode == "timeout-cut-call") {
        say("joined");
        auto much = std::vector<float>(1 << 18, 1);
        while (hear(world, "all", [&] { all.within(std::chrono::seconds(1)).all_reduce(much); })) {
        }
        return 0;
    }
    if (mode == "timeout") {
        if (odd) return sleep(2500), 0;
        hear(world, "all", [&] { all.all_reduce(x); });
        hear(world, "all again", [&] { all.barrier(); });
        return 0;
    }
    if (mode == "timeout-elsewhere") {  // rank 1 waits for rank 0 on another communicator
        if (world.rank() == 0)
            hear(world, "recv", [&] { me.on("dp").within(std::chrono::milliseconds(300)).recv(x, 1); });
        if (odd) {
            hear(world, "tp", [&] { me.on("tp").within(std::chrono::seconds(4)).barrier(); });
            return 0;
        }
        if (world.rank() != 0) sleep(700);
        hear(world, "all", [&] { all.all_reduce(x); });
        return 0;
    }
    // Another process stops this one and lets it go on.
    const auto stop = [process = getpid()](int after, int until) {
        std::thread([=] {
            if (fork() != 0) return;
            sleep(after);
            kill(process, SIGSTOP);
            sleep(until - after);
            kill(process, SIGCONT);
            _exit(0);
        }).join();
    };
    if (mode == "timeout-stopped") {  // for longer than the others wait for its answer
        if (odd) {
            stop(0, 4500);
            sleep(500);
        }
        hear(world, "all", [&] { all.all_reduce(x); });
        return 0;
    }
    if (mode == "timeout-busy") {  // rank 1 has no time to answer at once; rank 3 does not come
        if (world.rank() == 3) return sleep(4000), 0;
        if (odd) stop(500, 1600);
        hear(world, "all", [&] { all.all_reduce(x); });
        return 0;
    }
    if (mode == "timeout-started") {
        if (odd) return sleep(2500), 0;
        hear(world, "wait", [&] { all.start().all_reduce(x).wait(); });
        return 0;
    }
    if (mode == "timeout-recv") {
        if (world.rank() == 0) hear(world, "recv", [&] { all.recv(x, 1); });
        sleep(1500);
        hear(world, "barrier", [&] { all.barrier(); });
        return 0;
    }
    if (mode.ends_with("-any")) {  // rank 0 receives from any rank: once as a start, once by a probe
        if (world.rank() == 0) {
            hear(world, "recv", [&] {
                if (all.recv(x, any_rank) != 3) throw std::runtime_error("a message of another rank");
            });
            hear(world, "start", [&] { all.start().recv(x, any_rank).wait(); });
            hear(world, "probe", [&] { all.probe(any_rank); });
            return 0;
        }
        if (mode == "leave-any" && world.rank() == 3) {
            sleep(300);  // the others have left
            all.send(x, 0);
        }
        if (mode == "kill-any" && odd) sleep(300), raise(SIGKILL);
        if (mode != "leave-any") sleep(2500);
        return 0;
    }
    if (mode == "crossed") {
        hear(world, "all", [&] { world.rank() == 0 ? all.recv(x, 1) : all.barrier(); });
        return 0;
    }
    if (mode == "throw") {
        if (odd) throw std::runtime_error("boom");
        hear(world, "all", [&] { all.barrier(); });
        return 0;
    }
    if (mode == "throw-pending") {
        if (odd) {
            auto pending = all.start().all_reduce(x);
            throw std::runtime_error("boom");
        }
        sleep(300);
        hear(world, "all", [&] { all.barrier(); });
        return 0;
    }
    if (mode == "throw-before-join") {
        if (odd) throw std::runtime_error("boom");
        hear(world, "join", [&] { world.join({{"dp", rest}}); });
        return 0;
    }
    if (mode == "mismatch") {  // rank 1 gives more than the others
        auto longer = std::vector<float>(odd ? 200000 : 100000, 1);
        hear(world, "all", [&] { all.all_reduce(longer); });
        hear(world, "all again", [&] { all.all_reduce(x); });
        return 0;
    }
    if (mode == "overlap") {  // rank 1 uses what it has started to reduce
        auto pending = all.start().all_reduce(x);
        if (odd) {
            hear(world, "all", [&] { all.all_reduce(x); });
            hear(world, "message", [&] { me.on("tp").send(std::span(x).last(1), 0); });
        }
        pending.wait();
        hear(world, "all again", [&] { all.all_reduce(x); });
        return 0;
    }
    if (mode == "gloo-throws") {  // on rank 1, as Gloo does on a thread of its own
        auto gloo = std::thread([&] {
            if (!odd) return;
            sleep(300);
            throw ::gloo::IoException("a test");
        });
        if (!odd) sleep(800);
        hear(world, "all", [&] { all.barrier(); });
        gloo.join();
        return 0;
    }
    if (mode.starts_with("differ-")) return differ(world, all, mode.substr(7));
    std::printf("rank %d ended well\n", world.rank());
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return program(argc > 1 ? argv[1] : "");
    } catch (const std::exception& error) {
        std::printf("main caught: %s\n", error.what());
        return 1;
    }
}
