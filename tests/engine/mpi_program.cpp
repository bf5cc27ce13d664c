// SPDX-License-Identifier: Apache-2.0
// A program that goes wrong in the way its argument says; mpi_failures.cpp runs it and looks at how the job
// ends.
#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <rankmesh/core/text.hpp>
#include <rankmesh/engine/halo.hpp>
#include <rankmesh/engine/threads.hpp>
#include <rankmesh/interop/mpi.hpp>

#include "steps.hpp"

using namespace rankmesh;

namespace {

void expect(bool truth, const char* what) {
    if (!truth) throw std::logic_error(what);
}

/// Ranks 0 and 1, then 2 and 3, as worlds of their own over a communicator of the user's.
int adopt(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    auto rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    auto half = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank / 2, -rank, &half);  // the higher rank first
    {
        auto world = mpi::adopt(half);
        MPI_Comm_free(&half);
        expect(world.size() == 2 && world.rank() == 1 - rank % 2, "the world is the communicator's");
        auto me = world.join({{"dp", rest}, {"tp", 1}});
        auto dp = me.on("dp");
        auto x = rank;
        dp.all_reduce(x);
        expect(x == (rank / 2) * 4 + 1, "the sum is that of this half");

        const auto native = mpi::native(dp);
        auto y = rank;
        MPI_Allreduce(MPI_IN_PLACE, &y, 1, MPI_INT, MPI_SUM, native);
        expect(y == x, "MPI gives the same on the native communicator");
        char name[MPI_MAX_OBJECT_NAME] = {};
        auto length = 0;
        MPI_Comm_get_name(native, name, &length);
        expect(std::string(name) == "rankmesh 'dp' of mesh dp=2 tp=1", "tools see what it is");
        auto same = 0;
        MPI_Comm_compare(mpi::native(me.on("tp")), MPI_COMM_SELF, &same);
        expect(same == MPI_IDENT, "a group of one is MPI_COMM_SELF");
    }
    try {
        mpi::adopt(MPI_COMM_NULL);
    } catch (const UsageError& error) {
        std::puts(error.what());
    }
    threads::run(1, [](World& world) {
        auto tp = world.join({{"tp", 1}}).on("tp");
        try {
            mpi::native(tp);
        } catch (const UsageError& error) {
            std::puts(error.what());
        }
    });
    MPI_Finalize();
    try {
        mpi::adopt(MPI_COMM_WORLD);
    } catch (const UsageError& error) {
        std::puts(error.what());
    }
    std::puts("ended well");
    return 0;
}

/// Who is on whose host, and that their group works.
int hosts(int argc, char** argv) {
    auto world = World::from_environment(argc, argv);
    auto me = world.join({{"dp", rest}, {"tp", 2}}, {.local = "node"});
    auto node = me.on("node");
    auto x = world.rank();
    node.all_reduce(x, rankmesh::max);
    std::printf("rank %d on %s is %d of %d, group %s, greatest %d, last %d\n", me.rank(), me.host().c_str(),
                me.local_rank(), me.local_size(), ranks_to_string(node.world_ranks()).c_str(), x,
                me.is_last("node") ? 1 : 0);
    std::puts("ended well");
    return 0;
}

/// Throws on rank 1 at one of eight points; the others may be anywhere.
int throw_at(int point, int argc, char** argv) {
    auto world = World::from_environment(argc, argv);
    run_steps(world, [&](int now) {
        if (world.rank() == 1 && now == point) throw std::runtime_error("boom");
    });
    std::puts("ended well");
    return 0;
}

/// Destroys world, member and communicator in one of six orders, the others in use between.
int destroy_in_order(int order, int argc, char** argv) {
    auto world = std::make_unique<World>(World::from_environment(argc, argv));
    auto me = std::make_unique<Member>(world->join({{"dp", rest}}));
    auto on = std::make_unique<Communicator>(me->on("dp"));
    auto sub = std::make_unique<World>(world->sub({0, 1, 2, 3}));
    const std::function<void()> drop[] = {[&] { world.reset(); }, [&] { me.reset(); }, [&] { on.reset(); }};
    const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
    for (auto which : orders[order]) {
        drop[which]();
        if (on) on->barrier();
    }
    sub->join({{"dp", rest}}).on("dp").barrier();
    sub.reset();
    auto finalised = 0;
    MPI_Finalized(&finalised);
    std::puts(finalised ? "ended well" : "MPI still runs");
    return 0;
}

/// Prints whether a call went well or threw Disagreement.
void print_how(int rank, const char* what, const std::function<void()>& call) {
    try {
        call();
        std::printf("rank %d, %s: went well\n", rank, what);
    } catch (const Disagreement& error) {
        std::printf("rank %d, %s: Disagreement %s: %s\n", rank, what, ranks_to_string(error.ranks).c_str(),
                    error.what());
    }
}

/// Rank 1 calls other collectives than the others.
int differ(int argc, char** argv) {
    auto world = World::from_environment(argc, argv);
    auto all = world.join({{"dp", rest}}).on("dp");
    const auto rank = world.rank();
    const auto odd = rank == 1;
    auto x = std::vector<float>(100, 1);
    auto y = std::vector<float>(99, 1);
    print_how(rank, "length", [&] { all.all_reduce(odd ? y : x); });
    print_how(rank, "root", [&] { all.broadcast(x, odd ? 1 : 2); });
    print_how(rank, "operation", [&] { odd ? all.barrier() : all.all_reduce(x); });
    print_how(rank, "started", [&] {
        auto pending = odd ? all.start().all_reduce(x, max) : all.start().all_reduce(x);
        if (rank == 2)
            while (!pending.done()) {
            }
        pending.wait();
    });
    print_how(rank, "same", [&] { all.all_reduce(x); });
    for (auto i = 0; i < 200; ++i) odd&& i == 160 ? all.all_reduce(x, max) : all.all_reduce(x);
    print_how(rank, "late", [&] {
        for (auto i = 0; i < 100; ++i) all.all_reduce(x);
    });
    print_how(rank, "after", [&] { all.barrier(); });
    std::puts("ended well");
    return 0;
}

/// Rank 0 sends rank 1 messages that are shorter or longer than what it receives.
int lengths(int argc, char** argv) {
    auto world = World::from_environment(argc, argv);
    auto all = world.join({{"dp", rest}}).on("dp");
    const auto rank = world.rank();
    const auto hear = [&](const char* what, const std::function<void()>& call) {
        print_how(rank, what, call);
    };
    for (const auto more : {-1, 1}) {  // what rank 1 expects more than it gets
        auto x = std::vector<float>(100, 1);
        auto y = std::vector<float>(static_cast<std::size_t>(100 + more));
        const auto one = rank == 1;
        hear("message", [&] {
            if (rank == 0) all.send(x, 1);
            if (one) all.recv(y, 0);
        });
        hear("started", [&] {
            if (rank == 0) all.start().send(x, 1).wait();
            if (!one) return;
            auto pending = all.start().recv(y, 0);
            while (!pending.done()) {
            }
            pending.wait();
        });
        auto z = x;
        auto& out = one ? y : z;
        const auto next = (rank + 1) % 4;
        const auto before = (rank + 3) % 4;
        hear("batch", [&] {
            all.batch([&] {
                all.recv(out, before);
                all.send(x, next);
            });
        });
        hear("send_recv", [&] { all.send_recv(x, next, out, before); });
        hear("counts", [&] {
            auto counts = std::vector<std::size_t>(4, 25);
            const auto gives = counts;
            if (one) counts[0] = static_cast<std::size_t>(25 + more);
            all.all_to_all_v(x, gives, out, counts);
        });
        all.barrier();
    }
    std::puts("ended well");
    return 0;
}

/// Rank 2's faces along y are shorter than those of its neighbour.
int halo_faces(int argc, char** argv) {
    auto world = World::from_environment(argc, argv);
    auto me = world.join(Mesh{{"y", 2}, {"x", 2}});
    const auto rank = world.rank();
    auto cells = std::vector<double>(24);
    const auto field = [&](std::ptrdiff_t columns) { return strided(cells.data(), {4, columns}); };
    const auto columns = std::ptrdiff_t{rank == 2 ? 5 : 6};
    print_how(rank, "halo", [&] { halo(me, field(columns), {"y", "x"}); });
    print_how(rank, "started", [&] {
        auto ghosts = start_halo(me, field(columns), {"y", "x"});
        while (!ghosts.done()) {
        }
        ghosts.wait();
    });
    print_how(rank, "neighbors", [&] {
        auto ins = std::vector<std::vector<int>>(4, std::vector<int>(rank == 2 ? 5 : 6));
        auto outs = ins;
        for (const auto along_x : {2, 3})
            ins[static_cast<std::size_t>(along_x)] = outs[static_cast<std::size_t>(along_x)] = {0};
        neighbor_all_to_all(me, {"y", "x"}, ConstBuffers(ins), Buffers(outs));
    });
    print_how(rank, "equal", [&] { halo(me, field(6), {"y", "x"}); });
    std::puts("ended well");
    return 0;
}

int program(const std::string& mode, int argc, char** argv) {
    if (mode == "halo-faces") return halo_faces(argc, argv);
    if (mode == "lengths") return lengths(argc, argv);
    if (mode == "differ-unchecked") return differ(argc, argv);
    if (mode == "adopt") return adopt(argc, argv);
    if (mode == "hosts") return hosts(argc, argv);
    if (mode.starts_with("throw-at-")) return throw_at(std::stoi(mode.substr(9)), argc, argv);
    if (mode.starts_with("destroy-")) return destroy_in_order(std::stoi(mode.substr(8)), argc, argv);
    if (mode == "ends-early-adopted") {
        MPI_Init(&argc, &argv);
        auto rank = 0;
        for (auto worlds = 0; worlds < 2; ++worlds) {
            auto world = mpi::adopt(MPI_COMM_WORLD);
            rank = world.rank();
            auto dp = world.join({{"dp", rest}}).on("dp");
            dp.barrier();
            if (worlds == 0) continue;  // the second world has the watchdog of the first
            if (rank != 1) dp.barrier();
        }
        MPI_Finalize();
        if (rank != 1) std::puts("ended well");  // MPI_Finalize may let rank 1 end before the others report
        return 0;
    }
    if (mode == "user-owns-mpi") {
        MPI_Init(&argc, &argv);
        {
            auto world = mpi::World();
            world.join({{"dp", rest}}).on("dp").barrier();
        }
        MPI_Barrier(MPI_COMM_WORLD);  // the world has not finalised what it has not initialised
        MPI_Finalize();
        std::puts("ended well");
        return 0;
    }
    if (mode == "timeout-init") {  // rank 1 never starts MPI; were it to end, mpirun would end the job
        const auto* rank = std::getenv("OMPI_COMM_WORLD_RANK");
        if (!rank) rank = std::getenv("PMI_RANK");
        if (rank && std::string(rank) == "1") {
            std::this_thread::sleep_for(std::chrono::seconds(20));
            return 0;
        }
    }
    // Starting MPI can take longer than the timeout of the calls.
    const auto expires = mode.starts_with("timeout");
    const auto start = mode == "timeout-join" || mode == "timeout-init" || mode == "timeout-group";
    auto options = WorldOptions{.timeout = std::chrono::seconds(start ? 3 : 600),
                                .multithreaded = mode.starts_with("two-threads")};
    if (mode == "log")
        options.log = [](std::string_view line) { std::printf("%s\n", std::string(line).c_str()); };
    auto world = World::from_environment(argc, argv, options);
    auto me = world.join({{"dp", rest}, {"tp", 2}}, {.over = {{"dp", "tp"}, Axes("tp").separate("other")},
                                                     .timeout = std::chrono::seconds(expires ? 1 : 600)});
    auto all = me.on("dp", "tp");
    auto x = std::vector<float>(1000, 1);
    all.all_reduce(x);
    const auto odd = world.rank() == 1;

    if (mode == "started-or-blocking") {
        if (odd)
            all.start().all_reduce(x).wait();
        else
            all.all_reduce(x);
    }
    if (mode == "late-queue") {  // rank 1 waits for its started calls about when those of the others expire
        constexpr auto timeout = std::chrono::milliseconds(400);
        auto dp = world.join({{"dp", rest}}, {.timeout = timeout}).on("dp");
        for (const auto early : {10, 5, 0, -5, -10}) {
            auto sums = std::vector<int>(60, world.rank());
            auto pending = std::vector<Pending>{};
            for (auto i = 0; i < 60; ++i) {
                sums[static_cast<std::size_t>(i)] += i;
                pending.push_back(dp.start().all_reduce(sums[static_cast<std::size_t>(i)]));
            }
            if (odd) std::this_thread::sleep_for(timeout - std::chrono::milliseconds(early));
            for (auto i = 60; i-- > 0;) {
                pending[static_cast<std::size_t>(i)].wait();
                if (sums[static_cast<std::size_t>(i)] != 6 + 4 * i) std::puts("a wrong sum");
            }
        }
        return 0;
    }
    if (mode == "timeout-group") {
        try {
            if (world.rank() % 2 == 0) me.group({2, 1, 0}, {.name = "three"});
        } catch (const Timeout& error) {
            std::printf("heard on rank %d: %s\n", world.rank(), error.what());
        }
        if (world.rank() % 2 != 0) std::this_thread::sleep_for(std::chrono::seconds(3));
        std::puts("ended well");
        return 0;
    }
    if (mode == "throw-staggered") {
        std::this_thread::sleep_for(std::chrono::milliseconds(100 * world.rank()));
        throw std::runtime_error("boom of rank " + std::to_string(world.rank()));
    }
    if (mode == "throw" && odd) throw std::runtime_error("boom");
    if (mode == "throw-pending") {
        auto y = std::vector<float>(odd ? 7 : 8);
        print_how(world.rank(), "caught", [&] {
            if (odd) all.recv(y, 0);
            if (world.rank() == 0) all.send(y, 1);
        });
        auto pending = all.start().all_reduce(x);
        if (odd) throw std::runtime_error("boom");
        pending.wait();
    }
    if (mode == "throw-own-pending") {  // the call that fails is not the one that is pending
        auto y = std::vector<float>(odd ? 7 : 8);
        auto pending = all.start().all_reduce(x);
        if (odd) all.recv(y, 0, 4);
        if (world.rank() == 0) all.send(y, 1, 4);
        std::this_thread::sleep_for(std::chrono::seconds(20));
    }
    if (mode == "throw-inside" && odd) {
        try {
            auto inner = std::move(me);
            throw std::runtime_error("boom");
        } catch (const std::runtime_error& error) {
            std::printf("caught %s\n", error.what());
        }
        std::this_thread::sleep_for(std::chrono::minutes(1));  // the process itself does not end
    }
    if (mode == "timeout" && odd) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (mode == "timeout-finalize" && odd) MPI_Finalize();
    if (mode == "ends-early-well") {
        // Rank 1 ends at once after calls that the others complete later, and is in no call after them.
        const auto late = std::chrono::milliseconds(odd ? 0 : 700);
        auto y = x;
        if (odd) all.send(x, 0);
        std::this_thread::sleep_for(late);
        all.broadcast(x, 1);
        if (odd) all.start().broadcast(y, 1).wait();
        if (odd) {
            std::puts("ended well");
            return 0;
        }
        std::this_thread::sleep_for(late);
        all.start().broadcast(y, 1).wait();
        if (world.rank() == 0) all.recv(y, 1);
        if (world.rank() >= 2) {
            std::this_thread::sleep_for(late * (world.rank() - 2));
            me.on("tp").all_reduce(x);
        }
        std::puts("ended well");
        return 0;
    }
    if (mode == "ends-early-any") {  // one rank that could send is left, for a while
        if (world.rank() == 0 && all.recv(x, any_rank) == 3) all.recv(x, any_rank);
        if (world.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (world.rank() == 3) all.send(x, 0);
        return 0;
    }
    if (mode.starts_with("ends-early") && odd) return 0;
    if (mode == "ends-early-join") world.join({{"dp", rest}});
    if (mode == "ends-early-recv") {
        if (world.rank() == 0) all.recv(x, 1);
        return 0;
    }
    if (mode.ends_with("s-last")) {  // dies, exits
        if (!odd) return 0;
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        if (mode == "dies-last") raise(SIGKILL);
        _exit(3);
    }
    if (mode == "mixed" || mode == "mixed-one") {
        for (auto i = 0; i < 128; ++i) all.barrier();  // after which calls are not compared one by one
        if (odd == (mode == "mixed"))
            all.all_reduce(x);
        else
            all.start().all_reduce(x).wait();
    }
    if (mode.starts_with("timeout-differ")) {
        for (auto i = 0; i < 128; ++i) all.barrier();
        if (!odd) all.all_reduce(x);
        if (mode == "timeout-differ") all.barrier();
        auto gathered = std::vector<float>(4);
        all.gather(1.0F, gathered, 0);  // in which rank 1 only sends
        std::this_thread::sleep_for(std::chrono::minutes(1));
    }
    if (mode == "mixed-well") {
        auto out = x;
        const auto counts = std::vector<std::size_t>(4, 250);
        if (world.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
        if (odd) {
            all.shift(x, out, 1);
            all.all_to_all_v(x, counts, out, counts);
            all.monitored_barrier();
        } else {
            all.start().shift(x, out, 1).wait();
            if (world.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
            all.start().all_to_all_v(x, counts, out, counts).wait();
            all.start().monitored_barrier().wait();
        }
    }
    if (mode == "timeout-stopped" && odd) raise(SIGSTOP);
    if (mode == "timeout-chain") {  // rank 2 waits for rank 3, which waits for rank 1
        if (odd) raise(SIGSTOP);
        if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::minutes(1));
        if (world.rank() == 3) std::this_thread::sleep_for(std::chrono::milliseconds(500));
        me.on(world.rank() == 3 ? "dp" : "tp").all_reduce(x);
    }
    if (mode == "timeout-join" && odd) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (mode == "timeout-join") world.join({{"dp", rest}});
    if (mode == "timeout-any") {
        if (world.rank() == 0) all.recv(x, any_rank);
        all.within(std::chrono::minutes(1)).barrier();
    }
    if (mode == "timeout-wait-any") {
        auto y = x;
        auto pendings = std::array<Pending, 2>{};
        if (world.rank() == 0) pendings[0] = all.within(std::chrono::minutes(1)).start().recv(y, 1);
        if (world.rank() == 0) pendings[1] = all.start().recv(x, 2);
        wait_any(pendings);
        all.within(std::chrono::minutes(1)).barrier();
    }
    if (mode == "timeout-recv") {
        if (odd) me.on("tp").within(std::chrono::minutes(1)).barrier();  // rank 0 never comes
        if (world.rank() == 0) all.recv(x, 1, 4);
        all.within(std::chrono::minutes(1)).barrier();
    }
    if (mode == "sub-throw") {
        auto pair = world.sub(world.rank() < 2 ? std::vector{0, 1} : std::vector{2, 3});
        if (odd) throw std::runtime_error("boom");
        pair.join({{"dp", rest}}).on("dp").barrier();
    }
    if (mode == "timeout-wait") {
        if (odd) std::this_thread::sleep_for(std::chrono::minutes(1));
        all.start().all_reduce(x).wait();
    }
    if (mode == "throw-with-a-handle") {
        auto kept = me.on("dp");
        {
            const auto gone = std::move(me);
            const auto ended = std::move(world);
        }
        if (odd) throw std::runtime_error("boom");
        kept.barrier();
        kept.barrier();
        return 0;
    }
    if (mode == "timeout-started") {
        // Rank 1 comes to the second call and waits for the first again; rank 3 never comes to it.
        auto y = x;
        auto first = all.start().all_reduce(x);
        auto second = world.rank() == 3 ? Pending() : all.start().all_reduce(y);
        first.wait();
        if (odd || world.rank() == 3) std::this_thread::sleep_for(std::chrono::minutes(1));
        second.wait();
    }
    if (mode == "timeout-stdin" && odd) std::this_thread::sleep_for(std::chrono::minutes(1));
    if (mode == "timeout-stdin") {
        auto reader = std::thread([] { std::getchar(); });
        reader.detach();
    }
    if (mode == "finalized-early-throw") {
        MPI_Finalize();
        throw std::runtime_error("boom");
    }
    if (mode == "kill" && odd) raise(SIGKILL);
    if (mode == "disagree") {
        try {
            world.join(MeshSpec{{odd ? "ep" : "dp", rest}});
        } catch (const Disagreement& error) {
            std::printf("heard on rank %d: %s\n", world.rank(), error.what());
        }
    }
    if (mode == "differ") {  // RANKMESH_CHECK=1
        auto longer = std::vector<float>(odd ? 200 : 100, 1);
        try {
            all.all_reduce(longer);
        } catch (const Disagreement& error) {
            std::printf("heard on rank %d: %s\n", world.rank(), error.what());
        }
    }
    if (mode == "finalized-early") {
        MPI_Finalize();
        std::puts("ended well");
        return 0;
    }
    if (mode == "other-thread") {
        std::thread([&] {
            try {
                all.barrier();
            } catch (const UsageError& error) {
                std::puts(error.what());
            }
        }).join();
    }
    if (mode == "two-threads") {
        auto other = me.on("other");
        auto thread = std::thread([&] {
            for (int i = 0; i < 100; ++i) other.barrier();
        });
        for (int i = 0; i < 100; ++i) me.on("dp").barrier();
        thread.join();
    }
    me.on("dp", "tp").all_reduce(x);
    std::puts("ended well");
    return 0;
}

}  // namespace

int main(int argc, char** argv) {
    const auto mode = std::string(argc > 1 ? argv[1] : "");
    if (mode == "throw-uncaught") return program("throw", argc, argv);
    try {
        return program(mode, argc, argv);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "main caught: %s\n", error.what());
        return 1;
    }
}
