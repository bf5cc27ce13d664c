// SPDX-License-Identifier: Apache-2.0
// A rank of a job that loses ranks and lets others in, by the steps that its arguments list; gloo_grow.cpp
// starts such processes and looks at what each of them says:
//     gloo_grow_program NUMBER STEP...
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>

#include "grow_fate.hpp"
#include "survivors_program.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

/// `grow:2:500`: a word and numbers.
struct Step {
    std::string word;
    std::vector<int> numbers = {};

    static Step parse(const std::string& text) {
        auto step = Step{text.substr(0, text.find(':'))};
        for (auto at = text.find(':'); at != std::string::npos; at = text.find(':', at + 1))
            step.numbers.push_back(std::stoi(text.substr(at + 1)));
        return step;
    }
    std::chrono::milliseconds milliseconds(std::size_t i) const {
        return std::chrono::milliseconds(numbers.at(i));
    }
};

/// The descriptors that this process has open, and its threads.
std::pair<int, int> held() {
    const auto count = [](const char* folder) {
        return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder), {}));
    };
    return {count("/proc/self/fd"), count("/proc/self/task")};
}

void die_after(std::chrono::milliseconds time) {
    std::thread([time] { std::this_thread::sleep_for(time), raise(SIGKILL); }).detach();
}

/// Of a rank: the world that it is in, and those that it was in.
struct Rank {
    std::optional<World> world;
    std::optional<World> before;
    bool entered = false;
    std::vector<Member> kept;  // whoever leaves may take from others the call that it has ended

    /// Says who is here, and where this rank stands.
    void sum(World& of) {
        auto me = of.size() == 4 ? of.join({{"dp", 2}, {"tp", 2}}, {.over = {{"dp", "tp"}}})
                                 : of.join({{"dp", of.size()}});
        auto on = of.size() == 4 ? me.on("dp", "tp") : me.on("dp");
        auto here = std::vector<long long>{1LL << number};
        on.all_reduce(here);
        auto ranks = std::vector<int>{};
        for (int rank = 0; rank < 16; ++rank)
            if ((here[0] >> rank & 1) != 0) ranks.push_back(rank);
        say("is ", me.prefix(), " ", of.rank(), " of ", of.size(), ", with ", ranks_to_string(ranks));
        kept.push_back(std::move(me));
    }

    /// In each cycle a rank kills itself, the others go on, and a process that is started again takes its
    /// place. One that comes later goes on where the others are.
    void cycles(int seed, int count) {
        auto whole = std::move(*world);
        const auto size = whole.size();
        const auto all = (1LL << size) - 1;
        auto first = std::optional<std::pair<int, int>>{};
        auto lived = 0;
        auto cycle = entered ? count : 0;
        for (;; ++cycle, ++lived) {
            if (whole.size() != size || whole.rank() != number)
                say("WRONG rank ", whole.rank(), " of ", whole.size());
            whole.join({{"dp", rest}}).on("dp").all_reduce(cycle, min);
            expect_sum(whole, all, cycle);
            if (cycle == count) break;
            const auto fate = fate_of(seed, cycle, size);
            const auto dies = fate.victim == number;
            {
                auto me = std::optional<Member>{};
                try {
                    me.emplace(whole.join({{"dp", 2}, {"tp", rest}}, {.over = {{"dp", "tp"}}}));
                    auto on = me->on("dp", "tp");
                    on.barrier();
                    if (dies && fate.where == 0) raise(SIGKILL);
                    if (fate.where == 3) {
                        if (dies) die_after(10ms);
                        whole.grow(1, 20s);
                    }
                    auto data = std::vector<float>(fate.where == 1 ? 1 : 300'000, 1);
                    auto pending = on.start_all_reduce(data);
                    if (dies) raise(SIGKILL);
                    pending.wait();
                    while (true) on.barrier();
                } catch (const PeerLost& lost) {
                    if (lost.ranks != std::vector{fate.victim}) say("WRONG loss: ", lost.what());
                }
                auto smaller = whole.survivors(10s);
                expect_sum(smaller, all & ~(1LL << fate.victim), cycle);
                me = std::nullopt;
                whole = smaller.grow(1, 20s);
            }
            if (lived == 1) first = held();
        }
        const auto last = held();
        if (lived > 2 && (last.first > first->first || last.second > first->second))
            say("WRONG: holds ", last.first, " descriptors and ", last.second, " threads after ", lived,
                " cycles, ", first->first, " and ", first->second, " after 2");
        say("has done all cycles, ", lived, " of them");
    }
    static void expect_sum(World& of, long long expected, int cycle) {
        auto here = 1LL << number;
        of.join({{"dp", rest}}).on("dp").all_reduce(here);
        if (here != expected) say("WRONG sum ", here, " instead of ", expected, " in cycle ", cycle);
    }

    void take(const Step& step) {
        if (step.word == "start") world.emplace(World::from_environment({.timeout = 20s}));
        if (step.word == "rejoin") {
            say("waits");
            world.emplace(World::rejoin({.timeout = step.milliseconds(0)}));
            entered = true;
        }
        if (step.word == "sum") sum(*world);
        if (step.word == "before") sum(*before);
        if (step.word == "die" && number == step.numbers.at(0)) raise(SIGKILL);
        if (step.word == "dies") {  // after some milliseconds
            if (number == step.numbers.at(0))
                std::thread([step] {
                    std::this_thread::sleep_for(step.milliseconds(1)), raise(SIGKILL);
                }).detach();
        }
        if (step.word == "lose") {  // calls until a rank is lost
            auto me = world->join({{"dp", rest}});
            while (true) {
                me.on("dp").barrier();
                if (number == step.numbers.at(0)) raise(SIGKILL);
            }
        }
        if (step.word == "survivors") {
            kept.clear();
            auto smaller = world->survivors(10s);
            before = std::move(world);
            world.emplace(std::move(smaller));
        }
        if (step.word == "grow") {
            auto larger = world->grow(step.numbers.at(0), step.milliseconds(1));
            before = std::move(world);
            world.emplace(std::move(larger));
        }
        if (step.word == "back") world = std::move(before);
        if (step.word == "cycles") cycles(step.numbers.at(0), step.numbers.at(1));
        if (step.word == "plan") world->join({{"tp", rest}});
        if (step.word == "pause") std::this_thread::sleep_for(step.milliseconds(0));
        if (step.word == "told") {
            const auto file = std::string(std::getenv("RANKMESH_TEST_FOLDER")) + "/told";
            while (!std::filesystem::exists(file)) std::this_thread::sleep_for(1ms);
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    number = std::stoi(argv[1]);
    auto rank = Rank{};
    for (int i = 2; i < argc; ++i) {
        const auto begin = Clock::now();
        auto kind = std::string{};
        auto text = std::string{};
        try {
            rank.take(Step::parse(argv[i]));
            continue;
        } catch (const PeerLost& error) {
            kind = detail::cat("PeerLost ", ranks_to_string(error.ranks));
            text = error.what();
        } catch (const Timeout& error) {
            kind =
                detail::cat("Timeout ", ranks_to_string(error.arrived), " ", ranks_to_string(error.missing));
            text = error.what();
        } catch (const Disagreement& error) {
            kind = "Disagreement";
            text = error.what();
        } catch (const std::exception& error) {
            kind = "error";
            text = error.what();
        }
        const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
        say(argv[i], ": ", kind, " after ", took.count(), " ms: ", text);
    }
    std::this_thread::sleep_for(300ms);
}
