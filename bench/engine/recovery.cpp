// SPDX-License-Identifier: Apache-2.0
// From the death of a rank to the next right sum on the Gloo engine: of those that go on without it by
// `survivors`, and of all once another process has taken its place by `grow`, beside a full restart, which
// ends the others at once and starts all anew. `bench_engine_recovery N` starts N processes of itself, again
// and again, in turn.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/gloo.hpp>

#include "../measure.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;  // all processes of a host share it

constexpr auto steps = 20;  // before the death
constexpr auto patience = 30s;

/// Tells the parent of an event, by its standard input.
void report(char event) {
    const auto text = detail::cat(std::string(1, event), Clock::now().time_since_epoch().count(), "\n");
    if (write(STDIN_FILENO, text.data(), text.size()) != static_cast<ssize_t>(text.size())) _exit(1);
}

Communicator joined(World& world) { return world.join({{"dp", rest}}).on("dp"); }

/// The sum of what the ranks give, which must be that of the first `size` numbers without `absent`.
void expect_sum(Communicator& on, int number, int size, int absent) {
    auto sum = std::int64_t{number + 1};
    on.all_reduce(sum);
    if (sum != size * (size + 1) / 2 - (absent < 0 ? 0 : absent + 1)) {
        std::fprintf(stderr, "rank %d has the sum %lld\n", number, static_cast<long long>(sum));
        _exit(1);
    }
}

/// A rank of the job: `first` dies after some steps, `again` is started anew, or in the place of who died.
int run_rank(std::string_view mode, int number, int size, int dying) {
    auto world = mode == "enter" ? World::rejoin({.timeout = patience})
                                 : World::from_environment({.engine = "gloo", .timeout = patience});
    if (mode == "first") {
        auto on = joined(world);
        try {
            for (int step = 0;; ++step) {
                expect_sum(on, number, size, -1);
                if (step == steps && number == dying) {
                    report('k');
                    raise(SIGKILL);
                }
            }
        } catch (const PeerLost&) {
            world = world.survivors(patience);
        }
        auto smaller = joined(world);
        expect_sum(smaller, number, size, dying);
        report('s');
        world = world.grow(1, patience);
    }
    auto on = joined(world);
    expect_sum(on, number, size, -1);
    report('a');
    on.barrier();
    return 0;
}

/// The processes of one job, and when each of its events was last reported, in ms.
class Job {
public:
    Job(const char* folder, const std::string& name, int size) : size_(size) {
        setenv("RANKMESH_STORE", folder, 1);
        rename(name);
        setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
        if (pipe(pipe_.data()) != 0) std::abort();
    }
    ~Job() {
        for (const auto each : pipe_) close(each);
    }
    Job(const Job&) = delete;
    Job& operator=(const Job&) = delete;

    void rename(const std::string& name) { setenv("RANKMESH_JOB", name.c_str(), 1); }
    void start(int rank, const char* mode, int dying) {
        const auto process = fork();
        if (process != 0) {
            ranks_[process] = rank;
            return;
        }
        setenv("RANK", std::to_string(rank).c_str(), 1);
        dup2(pipe_[1], STDIN_FILENO);
        for (const auto each : pipe_) close(each);
        const auto words = std::array{std::to_string(size_), std::to_string(dying)};
        execl("/proc/self/exe", "bench_engine_recovery", words[0].c_str(), mode, words[1].c_str(), nullptr);
        _exit(127);
    }
    void start_all(const char* mode, int dying) {
        for (int rank = 0; rank < size_; ++rank) start(rank, mode, dying);
    }
    /// Waits for the end of one; false if it has not ended well.
    bool end_of_one() {
        auto status = 0;
        ranks_.erase(wait(&status));
        return status == 0;
    }
    bool end() {
        auto good = true;
        while (!ranks_.empty()) good = end_of_one() && good;
        return good;
    }
    void kill_all() {
        for (const auto& [process, rank] : ranks_) kill(process, SIGKILL);
        end();
    }
    /// From the death until the last rank has reported each event; called once all have ended.
    std::map<char, double> times() {
        close(pipe_[1]);
        pipe_[1] = -1;
        auto text = std::string{};
        for (char part[4096]; const auto count = read(pipe_[0], part, sizeof part);) {
            if (count < 0) std::abort();
            text.append(part, static_cast<std::size_t>(count));
        }
        auto last = std::map<char, std::int64_t>{};
        for (std::size_t at = 0; at < text.size(); at = text.find('\n', at) + 1)
            last[text[at]] = std::max<std::int64_t>(last[text[at]], std::atoll(text.c_str() + at + 1));
        auto times = std::map<char, double>{};
        for (const auto& [event, time] : last) times[event] = static_cast<double>(time - last['k']) / 1e6;
        return times;
    }

private:
    const int size_;
    std::array<int, 2> pipe_ = {};
    std::map<pid_t, int> ranks_;
};

int measure(int size) {
    auto folder = (std::filesystem::temp_directory_path() / "rankmesh-bench-XXXXXX").string();
    if (!mkdtemp(folder.data())) return 1;
    auto good = true;
    auto smaller = std::vector<double>{};
    auto whole = std::vector<double>{};
    auto restarted = std::vector<double>{};
    const auto rounds = bench::rounds_of(11);
    for (int round = 0; round < rounds && good; ++round) {
        const auto dying = round % size;
        for (int turn = 0; turn < 2 && good; ++turn) {
            const auto restarts = (turn + round) % 2 == 1;
            const auto name = detail::cat("round-", round, "-", turn);
            auto job = Job(folder.c_str(), name, size);
            job.start_all("first", dying);
            job.end_of_one();
            if (restarts) {
                job.kill_all();
                job.rename(name + "-again");
                job.start_all("again", -1);
            } else {
                job.start(dying, "enter", -1);
            }
            good = job.end();
            auto times = job.times();
            (restarts ? restarted : whole).push_back(times['a']);
            if (!restarts) smaller.push_back(times['s']);
        }
    }
    auto error = std::error_code{};
    std::filesystem::remove_all(folder, error);
    if (!good) return 1;
    const auto restart = bench::median(restarted);
    std::printf(
        "%d ranks, medians of %d: without it after %.0f ms, ratio %.2f; all again after %.0f ms, ratio %.2f; "
        "restarted after %.0f ms\n",
        size, rounds, bench::median(smaller), bench::median(smaller) / restart, bench::median(whole),
        bench::median(whole) / restart, restart);
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto size = argc > 1 ? std::atoi(argv[1]) : 4;
    if (argc < 4) return measure(size);
    try {
        return run_rank(argv[2], std::atoi(std::getenv("RANK")), size, std::atoi(argv[3]));
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
