// SPDX-License-Identifier: Apache-2.0
// A child that a process forks is a process of its own, at whatever moment of the other's threads it begins.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <rankmesh/core/error.hpp>

#include "engine/gloo/monitor/alarm.hpp"
#include "engine/gloo/transport/network.hpp"
#include "engine/record/recorder.hpp"

using namespace rankmesh::detail;

namespace {

constexpr auto seconds_to_end = 20U;

/// What a process has once, each made by what asks for it.
const auto of_the_process = std::vector<std::function<void(int)>>{
    [](int thread) { Network::on(cat("127.0.0.", thread + 1)); },
    [](int) { AlarmClock::of_process(); },
    [](int) { Recorder::make({}, "", 0); },
};

}  // namespace

TEST(Children, MakeTheirOwnAlsoWhereAThreadWasMakingItAtTheFork) {
    for (const auto& make : of_the_process) {
        auto over = std::atomic<bool>(false);
        auto makers = std::vector<std::jthread>{};
        for (int thread = 0; thread < 4; ++thread)
            makers.emplace_back([&over, &make, thread] {
                while (!over) make(thread);
            });
        for (int i = 0; i < 100 && !HasFailure(); ++i) {
            const auto child = fork();
            if (child == 0) {
                alarm(seconds_to_end);
                make(0);
                _exit(0);
            }
            auto status = 0;
            waitpid(child, &status, 0);
            EXPECT_TRUE(WIFEXITED(status)) << "it ended by signal " << WTERMSIG(status);
        }
        over = true;
    }
}
