// SPDX-License-Identifier: Apache-2.0
// The code beside MPI's functions in docs/mpi-programmers.md, on ranks that are threads. A test looks for
// each cell of the page's tables here.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <fstream>
#include <functional>
#include <map>
#include <numeric>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include <rankmesh/engine/function.hpp>
#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/location.hpp>
#include <rankmesh/engine/sparse.hpp>
#include <rankmesh/engine/strided.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/engine/world.hpp>

using namespace rankmesh;

namespace {

using Vector = std::vector<double>;

constexpr auto ranks = 4;
/// Runs a part of the page on four ranks of a mesh of axes dp and tp.
void on_mesh(const std::function<void(World&, Member&, Communicator&)>& part) {
    threads::run(ranks, [&](World& world) {
        auto me = world.join({{"dp", rest}, {"tp", 2}},
                             {.over = {{"dp", "tp"}, Axes("dp").separate("other")}, .local = "node"});
        auto on = me.on("dp", "tp");
        part(world, me, on);
    });
}

double sum_of(const Vector& x) { return std::accumulate(x.begin(), x.end(), 0.0); }

}  // namespace

TEST(MpiProgrammers, Groups_OfTheTable_AreThoseOfTheMesh) {
    on_mesh([](World& world, Member& me, Communicator& on) {
        EXPECT_EQ(on.rank(), world.rank());
        {
            auto me = world.join({{"dp", rest}, {"tp", 2}});
            EXPECT_EQ(me.on("tp").size(), 2);
        }
        EXPECT_EQ(on.size(), world.size());
        EXPECT_EQ(me.on("node").size(), world.local_size());
        EXPECT_EQ(me.on("tp").size(), 2);
        EXPECT_EQ(me.at("tp"), me.coord()["tp"]);
        EXPECT_EQ(me.rank_at({{"dp", 1}, {"tp", 0}}), 2);
        EXPECT_EQ(me.neighbor("dp", 1, Edge::wrap), (me.rank() + 2) % ranks);
        const auto color = me.rank() % 2;
        const auto key = 0;
        EXPECT_EQ(me.split(color, key)->size(), 2);
        if (me.rank() < 2) {
            EXPECT_EQ(me.group({0, 1}).size(), 2);
        }
        EXPECT_EQ(me.on("other").size(), 2);
        const auto tp = me.on("tp");
        const auto i = 1;
        const auto rank = tp.world_rank(i);
        EXPECT_EQ(tp.group_rank_of(rank), i);
    });
}

TEST(MpiProgrammers, Moves_OfTheTable_GiveWhatMpiGives) {
    on_mesh([](World&, Member&, Communicator& on) {
        const auto root = 1;
        const auto n = static_cast<std::size_t>(on.size());
        const auto rank = static_cast<double>(on.rank());
        auto x = Vector(2, rank);
        auto y = Vector(2);
        auto all = Vector(2 * n, rank);
        auto out = Vector(2 * n);
        const auto counts = std::vector<int>(n, 2);
        on.barrier();
        on.broadcast(y, root);
        on.gather(x, all, root);
        on.gather_v(x, all, counts, root);
        on.scatter(all, y, root);
        EXPECT_EQ(y, x);
        on.scatter_v(all, counts, y, root);
        EXPECT_EQ(y, x);
        on.all_gather(x, all);
        EXPECT_EQ(sum_of(all), 12);
        on.all_gather_v(x, all, counts);
        EXPECT_EQ(sum_of(all), 12);
        on.all_to_all(all, out);
        EXPECT_EQ(out, Vector(2 * n, rank));
        on.all_to_all_v(all, counts, out, counts);
        EXPECT_EQ(out, Vector(2 * n, rank));
    });
}

TEST(MpiProgrammers, Reductions_OfTheTable_GiveWhatMpiGives) {
    on_mesh([](World&, Member&, Communicator& on) {
        const auto root = 1;
        const auto x = Vector(2, on.rank() + 1.0);
        auto y = Vector(2);
        auto all = Vector(8, on.rank() + 1.0);
        on.reduce(x, y, sum, root);
        EXPECT_EQ(y[0], on.rank() == root ? 10 : 0);
        on.all_reduce(x, y, max);
        EXPECT_EQ(y[0], 4);
        on.all_reduce(y);
        EXPECT_EQ(y[0], 16);
        on.scan(x, y);
        EXPECT_EQ(y[0], (on.rank() + 1) * (on.rank() + 2) / 2);
        on.exclusive_scan(x, y);
        EXPECT_EQ(y[0], on.rank() * (on.rank() + 1) / 2);
        on.reduce_scatter(all, y);
        EXPECT_EQ(y[0], 10);
        auto largest = Located{x[0], on.rank()};
        on.all_reduce(largest, max_location);
        EXPECT_EQ(largest.index, 3);
        auto product = Vector(2, 2.0);
        on.all_reduce(product, commutative([](double a, double b) { return a * b; }));
        EXPECT_EQ(product[0], 16);
        auto reproducible = x;
        on.all_reduce(reproducible, reproducible_sum);
        EXPECT_EQ(reproducible[0], 10);
        auto request = on.start().all_reduce(x, y);
        while (!request.done()) {
        }
        request.wait();
        EXPECT_EQ(y[0], 10);
        auto requests = std::vector<Pending>{};
        for (auto i = 0; i < 2; ++i) requests.push_back(on.start().barrier());
        auto finished = 0;
        while (const auto index = wait_any(requests)) finished += 1 << *index;
        EXPECT_EQ(finished, 3);
        for (auto& each : requests) each = on.start().barrier();
        wait_all(requests);
    });
}

TEST(MpiProgrammers, Messages_OfTheTable_Arrive) {
    on_mesh([](World&, Member&, Communicator& on) {
        const auto next = (on.rank() + 1) % on.size();
        const auto last = (on.rank() + on.size() - 1) % on.size();
        const auto tag = 7;
        const auto x = Vector(2, on.rank());
        auto y = Vector(2);
        on.send_recv(x, next, y, last, tag);
        EXPECT_EQ(y[0], last);
        on.shift(x, y, 1);
        EXPECT_EQ(y[0], last);
        on.shift(x, y, 1, Edge::open);
        EXPECT_EQ(y[0], last);
        on.batch([&] {
            on.send(x, next, tag);
            on.recv(y, last, tag);
        });
        EXPECT_EQ(y[0], last);
        {
            auto sent = on.start().send(x, next, tag);
            auto received = on.start().recv(y, last, tag);
            sent.wait(), received.wait();
        }
        const auto messages = std::map<int, Vector>{{next, x}};
        for (const auto& [from, arrived] : sparse_all_to_all(on, messages)) {
            EXPECT_EQ(from, last);
            EXPECT_EQ(arrived, Vector(2, last));
        }
        if (on.rank() > 0) return on.send(x, 0, tag);
        EXPECT_GE(on.recv(y, any_rank, tag), 1);
        const auto message = on.probe(any_rank, tag);
        y.resize(message.count<double>());
        on.recv(y, message.from, tag);
        while (!on.try_probe(any_rank, tag)) {
        }
        on.recv(y, any_rank, tag);
    });
}

TEST(MpiProgrammers, Buffers_OfTheTable_AreMoved) {
    struct Particle {
        double position[3];
        int kind;
    };
    on_mesh([](World&, Member& me, Communicator& on) {
        auto particles = std::vector<Particle>(3, Particle{{1, 2, 3}, on.rank()});
        on.broadcast(particles, 2);
        EXPECT_EQ(particles[2].kind, 2);
        const auto rows = 3, columns = 4;
        auto matrix = Vector(12, on.rank());
        on.broadcast(strided(matrix.data() + 1, {rows}, {columns}), 3);
        EXPECT_EQ(sum_of(matrix), 9 * on.rank() + 9);
        on.broadcast(strided(matrix.data(), {rows, columns}).slice(1, 1, 2), 3);
        EXPECT_EQ(sum_of(matrix), 6 * on.rank() + 18);

        const auto nx = 2, ny = 3;
        auto field = Vector(20, on.rank());
        halo(me, strided(field.data(), {nx + 2, ny + 2}), {"dp", "tp"});
        EXPECT_EQ(field[1], (on.rank() + 2) % ranks);
        auto out = std::vector<Vector>(4, Vector(1, on.rank()));
        auto in = std::vector<Vector>(4, Vector(1));
        neighbor_all_to_all(me, {"dp", "tp"}, ConstBuffers(out), Buffers(in));
        EXPECT_EQ(in[0][0], (on.rank() + 2) % ranks);
    });
}

static std::string content_of(const std::string& path) {
    auto stream = std::ifstream(std::string(RANKMESH_SOURCE "/") + path);
    return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(MpiProgrammers, TheTable_ShowsCode_ThatIsCompiled) {
    const auto source = content_of("tests/docs/mpi_programmers.cpp") +
                        content_of("tests/engine/mpi_program.cpp") + content_of("examples/mpi_interop.cpp") +
                        content_of("examples/quick_start.cpp");
    auto page = std::istringstream(content_of("docs/mpi-programmers.md"));
    auto cells = 0;
    for (auto line = std::string{}; std::getline(page, line) && line != "## What is missing";) {
        if (!line.starts_with("| `MPI_")) continue;
        const auto right = line.substr(line.find(" | ") + 3);
        for (auto begin = right.find('`'); begin != std::string::npos;) {
            const auto end = right.find('`', begin + 1);
            const auto code = right.substr(begin + 1, end - begin - 1);
            EXPECT_NE(source.find(code), std::string::npos) << "no source has " << code;
            ++cells;
            begin = right.find('`', end + 1);
        }
    }
    EXPECT_GT(cells, 40);
}

TEST(MpiProgrammers, HeadersOfThePage_HaveTheNamesBesideThem) {
    const auto page = content_of("docs/mpi-programmers.md");
    const auto begin = page.find("Some names need a header");
    auto rest = page.substr(begin, page.find("\n\n", begin) - begin);
    auto header = std::string{};
    auto names = 0;
    for (auto match = std::smatch{}; std::regex_search(rest, match, std::regex("`([a-z_A-Z.]+)`"));
         rest = match.suffix()) {
        const auto word = match[1].str();
        if (word.ends_with(".hpp")) {
            header = content_of("include/rankmesh/engine/" + word);
            continue;
        }
        const auto declares = std::regex("(^|\\n)[^/\\n]*\\b" + word + "\\b");
        EXPECT_TRUE(std::regex_search(header, declares)) << word;
        ++names;
    }
    EXPECT_EQ(names, 7);
}

/// The number of lines of a program without those that are empty or only a comment.
static int lines_of(const std::string& path) {
    auto stream = std::ifstream(std::string(RANKMESH_SOURCE "/examples/") + path);
    auto count = 0;
    for (auto line = std::string{}; std::getline(stream, line);) {
        const auto first = line.find_first_not_of(' ');
        if (first != std::string::npos && line.compare(first, 2, "//") != 0) ++count;
    }
    return count;
}

TEST(MpiProgrammers, TheLinesOfThePorts_AreFewer_AsThePageSays) {
    const auto row = [](const std::string& name, int ours, int theirs) {
        return "| [" + name + "](../examples/" + name + ".cpp) | " + std::to_string(ours) + " | " +
               std::to_string(theirs) + " |";
    };
    auto stream = std::ifstream(RANKMESH_SOURCE "/docs/mpi-programmers.md");
    const auto page = std::string(std::istreambuf_iterator<char>(stream), {});
    for (const std::string name : {"heat", "sample_sort", "conjugate_gradient"}) {
        const auto ours = lines_of(name + ".cpp");
        const auto theirs =
            lines_of("plain_mpi/" + name + ".cpp") + (name == "heat" ? lines_of("plain_mpi/halo.hpp") : 0);
        EXPECT_GT(ours, 30);
        EXPECT_LT(ours, theirs);
        EXPECT_NE(page.find(row(name, ours, theirs)), std::string::npos)
            << "the page lacks " << row(name, ours, theirs);
    }
}
