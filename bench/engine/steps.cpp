// SPDX-License-Identifier: Apache-2.0
// What the steps of a join take on this machine: the costs from which a simulated join is timed.
// `bench_engine_steps` prints them, each the median of several rounds; `bench_engine_steps 70` only joins so
// many ranks, each with all others, and prints how long that takes.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/engine/gloo.hpp>

#include "../measure.hpp"
#include "engine/store/stores.hpp"
#include "engine/timeout.hpp"

namespace {

using rankmesh::bench::median;
using rankmesh::bench::time_of;
using rankmesh::detail::from_now;

constexpr auto rounds = 9;
constexpr auto calls = 2000;

/// Seconds of processor time that this process has used.
double processor_time() {
    auto used = rusage{};
    getrusage(RUSAGE_SELF, &used);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
    };
    return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double median_of(const std::function<double()>& once) {
    auto values = std::vector<double>{};
    for (int i = 0; i < rounds; ++i) values.push_back(once());
    return median(values);
}

/// The two ends of a connection over loopback.
struct Pair {
    int a = -1, b = -1;
    Pair() {
        const auto listener = socket(AF_INET, SOCK_STREAM, 0);
        auto address = sockaddr_in{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        auto length = socklen_t{sizeof address};
        bind(listener, reinterpret_cast<sockaddr*>(&address), length);
        listen(listener, 1);
        getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
        a = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(a, reinterpret_cast<sockaddr*>(&address), length) != 0) std::abort();
        b = accept(listener, nullptr, nullptr);
        close(listener);
        const auto on = 1;
        for (auto each : {a, b}) setsockopt(each, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    ~Pair() {
        close(a);
        close(b);
    }
};

/// Half of a round trip of 32 bytes between two threads.
double message() {
    const auto pair = Pair();
    const auto pass = [&](int from, bool first) {
        char own[32] = {};
        for (int i = 0; i < calls; ++i) {
            if (first && write(from, own, sizeof own) != sizeof own) std::abort();
            if (recv(from, own, sizeof own, MSG_WAITALL) != sizeof own) std::abort();
            if (!first && write(from, own, sizeof own) != sizeof own) std::abort();
        }
    };
    auto other = std::thread([&] { pass(pair.b, false); });
    const auto time = time_of(1, [&] { pass(pair.a, true); }) / calls / 2 * 1e-9;
    other.join();
    return time;
}

/// Joins `size` ranks of this process, each a thread, each with all others.
void join_all(int size) {
    static auto jobs = 0;
    const auto folder =
        std::filesystem::temp_directory_path() / ("rankmesh-steps-" + std::to_string(getpid()));
    std::filesystem::create_directory(folder);
    std::filesystem::permissions(folder, std::filesystem::perms::owner_all);
    const auto job = std::to_string(++jobs);
    auto ranks = std::vector<std::thread>{};
    for (int rank = 0; rank < size; ++rank)
        ranks.emplace_back([&, rank] {
            auto world = rankmesh::gloo::World(rankmesh::gloo::RendezvousOptions{
                .store = folder.string(), .job = job, .rank = rank, .size = size});
            const auto member = world.join(rankmesh::Mesh{{"dp", size}});
            member.on("dp").barrier();
        });
    for (auto& rank : ranks) rank.join();
    std::filesystem::remove_all(folder);
}

/// The processor time of one end of a connection: what joins of more ranks take beyond those of two.
double connection() {
    constexpr auto few = 2;
    constexpr auto many = 12;
    const auto time = [](int size) {
        const auto begin = processor_time();
        join_all(size);
        return processor_time() - begin;
    };
    return (time(many) - many / few * time(few)) / (many * (many - 1) - many / few * few * (few - 1));
}

}  // namespace

int main(int count, char** words) {
    if (count > 1) {
        const auto size = std::atoi(words[1]);
        std::printf("%d ranks joined in %.3f s\n", size, time_of(1, [&] { join_all(size); }) * 1e-9);
        return 0;
    }
    const auto port = 20000 + getpid() % 20000;
    const auto url = rankmesh::detail::TcpUrl{.host = "127.0.0.1", .first_port = port, .last_port = port + 9};
    const auto store = rankmesh::detail::tcp_store(url, "steps", 0, 1);
    auto number = 0;
    const auto set = [&] {
        const auto name = "entry." + std::to_string(number++);
        store->set(name, std::string(60, 'x'), from_now(std::chrono::seconds(10)));
    };
    auto served = std::vector<double>{};
    const auto request = median_of([&] {
        const auto begin = processor_time();
        const auto time = time_of(calls, set) * 1e-9;
        served.push_back((processor_time() - begin) / calls / 2);
        return time;
    });
    store->set("long", std::string(1 << 24, 'x'), from_now(std::chrono::seconds(10)));
    const auto served_byte = median_of([&] {
        const auto begin = processor_time();
        store->get({"long"}, from_now(std::chrono::seconds(10)));
        return (processor_time() - begin) / 2 / (1 << 24);
    });
    std::printf("message %.2f us, request %.2f us, connection %.2f us, served %.2f us, served byte %.3f ns\n",
                median_of(message) * 1e6, request * 1e6, median_of(connection) * 1e6, median(served) * 1e6,
                served_byte * 1e9);
}
