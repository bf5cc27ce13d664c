// SPDX-License-Identifier: Apache-2.0
// `rankmesh watch` beside a job on threads.
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <thread>

#include <rankmesh/engine/threads.hpp>

#include "rankmesh.hpp"
#include "support/eventually.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

/// The lines of a command, one by one.
class Lines {
public:
    explicit Lines(const std::string& words) : pipe_(popen((clean + command + words).c_str(), "r")) {}
    std::string next() {
        auto line = std::string{};
        for (auto c = std::fgetc(pipe_); c != EOF && c != '\n'; c = std::fgetc(pipe_))
            line += static_cast<char>(c);
        return line;
    }
    int end() { return WEXITSTATUS(pclose(pipe_)); }

private:
    std::FILE* pipe_;
};

TEST(WatchSubcommand, SaysWhenARankStopsWhenItGoesOnAndWhenTheJobEnds) {
    const auto folder = support::Folder();
    enum Phase { runs, stops, goes_on, ends };
    auto phase = std::atomic<int>(runs);
    setenv("RANKMESH_RECORD_EVERY", "1s", 1);
    auto job = std::jthread([&] {
        threads::run(
            4,
            [&](World& world) {
                const auto me = world.join("dp=2 tp=2");
                for (auto last = 0; last == 0;) {
                    EXPECT_TRUE(world.rank() != 2 || support::eventually([&] { return phase != stops; }));
                    last = world.rank() == 0 && phase == ends ? 1 : 0;
                    me.on("tp").all_reduce(last);
                    me.on("dp").all_reduce(last);
                }
            },
            {.record = folder.path()});
    });
    const auto metrics = folder.path() + "/ranks.prom";
    auto lines = Lines("watch " + folder.path() + " --textfile " + metrics);
    EXPECT_EQ(lines.next(), "watching 4 ranks, each 1 s");
    phase = stops;
    const auto stopped = lines.next();
    EXPECT_EQ(stopped.substr(0, 14), "stopped since ");
    EXPECT_NE(stopped.find(": rank 2 (dp=1 tp=0) is behind: "), std::string::npos) << stopped;
    EXPECT_NE(stopped.find("py-spy dump --pid " + std::to_string(getpid())), std::string::npos) << stopped;
    phase = goes_on;
    EXPECT_NE(lines.next().find(", which waited for rank 2 (dp=1 tp=0)"), std::string::npos);
    phase = ends;
    job.join();
    EXPECT_TRUE(lines.next().starts_with("ended: no rank writes records any more; the last is of "));
    EXPECT_EQ(lines.end(), 0);
    auto file = std::ifstream(metrics);
    const auto text = std::string(std::istreambuf_iterator(file), {});
    for (const auto* line : {"# TYPE rankmesh_calls counter\n", "\nrankmesh_calls_total{axes=\"dp\"} ",
                             "\nrankmesh_skew_seconds{axes=\"tp\"} ", "\nrankmesh_wait_seconds{axes=\"tp\"} ",
                             "\nrankmesh_stopped{axes=\"tp\"} 0\n", "\n# EOF\n"})
        EXPECT_NE(text.find(line), std::string::npos) << line << text;
    unsetenv("RANKMESH_RECORD_EVERY");
}

TEST(WatchSubcommand, NeedsAFolderOfRecordsThatAreWrittenWhileTheJobRuns) {
    const auto records = std::string(RANKMESH_SOURCE "/tests/explain/records/lost");
    const auto said = rankmesh("watch " + records);
    EXPECT_EQ(said.exit_code, 2);
    EXPECT_EQ(said.output,
              "rankmesh: the records in '" + records +
                  "' are not written while the job runs; start it with RANKMESH_RECORD_EVERY=10s\n");
    EXPECT_EQ(rankmesh("watch /nowhere").exit_code, 2);
}

}  // namespace
}  // namespace rankmesh::tests
