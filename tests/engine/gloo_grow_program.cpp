// SPDX-License-Identifier: Apache-2.0
// A rank of a job that loses ranks and lets others in, by the steps that its arguments list; gloo_grow.cpp
// starts such processes and looks at what each of them says:
//     gloo_grow_program NUMBER STEP...
#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>

#include "support/eventually.hpp"
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

bool is_told(const std::string& word) {
    return std::filesystem::exists(std::filesystem::path(std::getenv("RANKMESH_TEST_FOLDER")) / word);
}

/// Waits for a condition, which a test that goes wrong may never fulfil.
template <class Condition>
void wait_until(Condition&& condition) {
    if (!support::eventually(condition)) throw std::runtime_error("waited in vain");
}

/// Of a rank: the world that it is in, and those that it was in.
struct Rank {
    std::optional<World> world;
    std::optional<World> before;
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

    void take(const Step& step) {
        if (step.word == "start")
            world.emplace(
                World::from_environment({.timeout = 20s, .log = [](auto line) { say("logs ", line); }}));
        if (step.word == "rejoin") {
            say("waits");
            world.emplace(World::rejoin({.timeout = step.milliseconds(0)}));
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
            const auto begin = Clock::now();
            auto smaller = world->survivors(10s);
            say("goes on after ",
                std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin).count(), " ms");
            before = std::move(world);
            world.emplace(std::move(smaller));
        }
        if (step.word == "grow") {
            auto larger = world->grow(step.numbers.at(0), step.milliseconds(1));
            before = std::move(world);
            world.emplace(std::move(larger));
        }
        if (step.word == "back") world = std::move(before);
        if (step.word == "plan") world->join({{"tp", rest}});
        if (step.word == "pause") std::this_thread::sleep_for(step.milliseconds(0));
        if (step.word == "told") wait_until([] { return is_told("told"); });
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
    std::this_thread::sleep_for(300ms);  // others may still be in a call that this rank has ended
}
