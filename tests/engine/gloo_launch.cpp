// SPDX-License-Identifier: Apache-2.0
// Jobs as launchers start them: with torchrun's variables, by a folder or by a Redis server.
#include <gtest/gtest.h>

#include "support/eventually.hpp"
#include "support/gloo_job.hpp"
#include "support/listener.hpp"
#include "support/ports.hpp"
#include "support/redis_server.hpp"

namespace {

using support::expect_says;
using support::gloo_job;
using Variables = std::map<std::string, std::string>;

std::string program(const std::string& mode) { return RANKMESH_GLOO_PROGRAM " " + mode; }

const auto all_well = std::vector{0, 0};

/// What torchrun sets beside rank and size, in its start number `restarts`; it knows nothing of us.
Variables torchrun(int restarts = 0) {
    return {{"LOCAL_RANK", "0"},
            {"LOCAL_WORLD_SIZE", "2"},
            {"MASTER_ADDR", "127.0.0.1"},
            {"MASTER_PORT", "29500"},
            {"TORCHELASTIC_RUN_ID", "run7"},
            {"TORCHELASTIC_RESTART_COUNT", std::to_string(restarts)}};
}
const auto not_ours = std::string("env -u RANKMESH_ENGINE -u RANKMESH_JOB ");
const auto nothing_of_ours = not_ours + "-u RANKMESH_STORE ";

/// Where rank 0 is, beside rank and size all that a plain launcher says.
Variables master() {
    return {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", std::to_string(support::free_ports(19))}};
}
/// The ports at which rank 0 then serves.
std::string ports_of(const Variables& variables) {
    const auto port = std::stoi(variables.at("MASTER_PORT"));
    return std::to_string(port + 11) + "-" + std::to_string(port + 18);
}

class GlooRedis : public testing::Test {
protected:
    void SetUp() override {
        if (!support::RedisServer::is_installed()) GTEST_SKIP() << support::RedisServer::how_to_get_it;
    }
};

}  // namespace

TEST(GlooTorchrun, ItsVariablesAndAFolderAreEnough) {
    const auto folder = support::Folder();
    const auto store = folder.path() + "/store";
    const auto outcome = gloo_job(not_ours + program("log"), 2, -1, store, torchrun());
    EXPECT_EQ(outcome.exit_codes, all_well) << outcome.all();
    expect_says(outcome, 1,
                "[rank 1] rendezvous: rank 1 (RANK) of 2 (WORLD_SIZE), store '" + store +
                    "' (RANKMESH_STORE), job 'run7.0' (TORCHELASTIC_RUN_ID), on 127.0.0.1\n");
    // It is the inner launcher where another one has started it.
    auto inside = torchrun(2);
    for (const auto* rank : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "SLURM_PROCID"})
        inside[rank] = "0";
    for (const auto* size : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"}) inside[size] = "1";
    inside["PMIX_NAMESPACE"] = "outer";
    const auto inner = gloo_job(not_ours + program("log"), 2, -1, store, inside);
    EXPECT_EQ(inner.exit_codes, all_well) << inner.all();
    expect_says(inner, 1,
                "rank 1 (RANK) of 2 (WORLD_SIZE), store '" + store + "' (RANKMESH_STORE), job 'run7.2'");
    // What torchrun starts again has a number of its own.
    EXPECT_EQ(gloo_job(not_ours + program("well"), 2, -1, store, torchrun(1)).exit_codes, all_well);
    expect_says(gloo_job(not_ours + program("well"), 2, -1, store, torchrun(1)), 0,
                "main caught: rank 0 of the job 'run7.1' is in the store '" + store + "' already");
}

namespace {

/// Starts a program that makes several worlds in each process, by this store or that of a folder.
void expect_several_worlds(const std::string& store) {
    const auto run = [&](const std::string& mode, int size) {
        return gloo_job(program(mode), size, -1, store, {}, mode);
    };
    const auto outcome = run("worlds", 4);
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const auto& said = outcome.outputs[rank];
        EXPECT_EQ(outcome.exit_codes[rank], 0) << store << said;
        EXPECT_EQ(said.find(" ms: "), said.npos) << store << said;
        expect_says(outcome, rank, "rank " + std::to_string(rank) + ", at once: went well\n");
        const auto turn = ", one after the other: went well\n";
        auto turns = 0;
        for (auto at = said.find(turn); at != said.npos; at = said.find(turn, at + 1)) ++turns;
        EXPECT_EQ(turns, 12) << store << said;
    }
    const auto grown = run("worlds-grow", 3);
    for (std::size_t rank = 0; rank < 3; ++rank)
        expect_says(grown, rank, "rank " + std::to_string(rank) + ", at once: went well\n");
    expect_says(grown, 0, "rank -1, enters: went well\n");
    const auto rest = run("worlds-end", 3);
    for (auto rank : {0U, 2U})
        expect_says(rest, rank, "rank " + std::to_string(rank) + ", at once: went well\n");
    const auto uneven = run("timeout-worlds", 3);
    for (auto rank : {0U, 2U}) {
        expect_says(uneven, rank, ", one more: Timeout {1} after ");
        expect_says(uneven, rank, "expired in the start of world 3 of this process on rank ");
        expect_says(
            uneven, rank,
            ": arrived ranks {0, 2}, missing rank 1; rank 1 has made 2 worlds so far: all ranks make the "
            "same worlds, in the same order");
    }
}

}  // namespace

TEST(GlooWorlds, AProcessMakesSeveralAtOnceAndOneAfterTheOther) {
    expect_several_worlds({});
    expect_several_worlds("tcp://127.0.0.1:" + std::to_string(support::free_ports(1)));
}

TEST_F(GlooRedis, AProcessMakesSeveralWorldsAtOnceAndOneAfterTheOther) {
    const auto server = support::RedisServer();
    expect_several_worlds(server.url());
}

TEST(GlooMaster, RankAndSizeAndWhereRankZeroIsAreEnough) {
    auto variables = master();
    auto outcome = gloo_job(nothing_of_ours + program("log"), 2, -1, {}, variables);
    EXPECT_EQ(outcome.exit_codes, all_well) << outcome.all();
    expect_says(outcome, 1,
                "[rank 1] rendezvous: rank 1 (RANK) of 2 (WORLD_SIZE), store 'tcp://127.0.0.1:" +
                    ports_of(variables) + "' (MASTER_ADDR, MASTER_PORT), job 'tcp:" + ports_of(variables) +
                    "' (its port), on 127.0.0.1\n");
    // Nothing of it is left, so the same variables start it again, as torchrun does without an id.
    variables["TORCHELASTIC_RUN_ID"] = "none";
    variables["TORCHELASTIC_RESTART_COUNT"] = "1";
    outcome = gloo_job(nothing_of_ours + program("log"), 2, -1, {}, variables);
    EXPECT_EQ(outcome.exit_codes, all_well) << outcome.all();
    expect_says(outcome, 0, ", job 'tcp:" + ports_of(variables) + ".1' (its port), on 127.0.0.1\n");
}

TEST(GlooMaster, TorchrunsVariablesSufficeThoughOtherStoresTakeItsPorts) {
    auto variables = torchrun();
    const auto master_port = master().at("MASTER_PORT");
    variables["MASTER_PORT"] = master_port;
    const auto taken = [&](int distance) {
        auto address = support::Listener::loopback(std::stoi(master_port) + distance);
        const auto made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(bind(made, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(listen(made, 16), 0);
        return made;
    };
    const auto stores = {taken(0), taken(11)};
    const auto outcome = gloo_job(nothing_of_ours + program("log"), 4, -1, {}, variables);
    EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
    expect_says(outcome, 3, "job 'run7.0' (TORCHELASTIC_RUN_ID), on 127.0.0.1\n");
    for (auto each : stores) close(each);
}

TEST(GlooMaster, TorchrunRanksMeetDespiteDifferentRestartCounts) {
    for (const auto& [variable, value] :
         Variables{{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE", "1"}})
        for (const std::string id : {"run7", "none"}) {
            auto variables = torchrun(1);
            variables["MASTER_PORT"] = master().at("MASTER_PORT");
            variables["TORCHELASTIC_RUN_ID"] = id;
            variables[variable] = value;
            auto job = support::Job({.command = nothing_of_ours + program("log"),
                                     .size = 2,
                                     .variables = variables,
                                     .before = [](int rank) {
                                         return rank == 1 ? std::string("env TORCHELASTIC_RESTART_COUNT=3")
                                                          : std::string{};
                                     }});
            const auto outcome = job.end();
            EXPECT_EQ(outcome.exit_codes, all_well) << outcome.all();
            expect_says(outcome, 1,
                        id == "none" ? "job 'tcp:" + ports_of(variables) + "' (its port)"
                                     : "job 'run7' (TORCHELASTIC_RUN_ID)");
        }
}

TEST(GlooMaster, ARankThatNeverStartsIsNamedAtTheTimeoutAlsoTheOneThatServes) {
    auto outcome = gloo_job(nothing_of_ours + program("timeout-never"), 4, 3, {}, master());
    for (std::size_t rank = 0; rank < 3; ++rank)
        expect_says(outcome, rank, ": arrived ranks {0..2}, missing rank 3");
    const auto variables = master();
    outcome = support::Job({.command = nothing_of_ours + program("timeout-never"),
                            .size = 4,
                            .come = 2,
                            .first = 1,
                            .variables = variables})
                  .end();
    for (std::size_t i = 0; i < 2; ++i)
        expect_says(outcome, i,
                    "main caught: the timeout expired: rank " + std::to_string(i + 1) +
                        " has not found the store 'tcp://127.0.0.1:" + ports_of(variables) +
                        "' of the job 'tcp:" + ports_of(variables) + "' for ");
}

TEST(GlooMaster, ASecondJobWithTheSameVariablesIsToldOfTheFirst) {
    const auto variables = master();
    auto first = support::Job(
        {.command = nothing_of_ours + program("kill-in-join"), .size = 2, .come = 1, .variables = variables});
    EXPECT_TRUE(support::eventually([&] {
        const auto address = support::Listener::loopback(std::stoi(variables.at("MASTER_PORT")) + 11);
        const auto made = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        const auto is = connect(made, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
        close(made);
        return is;
    }));
    const auto second = gloo_job(nothing_of_ours + program("well"), 2, 1, {}, variables);
    // The first waits for its other rank for three seconds.
    expect_says(second, 0, "main caught: the job 'tcp:" + ports_of(variables) + "' is served at port ");
    expect_says(second, 0, ": an earlier start of it still runs, or another job has its id; ");
    first.end();
}

TEST(GlooTcp, RankZeroServesAtAPortThatIsNamed) {
    auto store = "tcp://127.0.0.1:" + std::to_string(support::free_ports(1));
    const auto outcome = gloo_job(program("log"), 4, -1, store);
    EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
    expect_says(outcome, 2,
                "store '" + store + "' (RANKMESH_STORE), job 'a job' (RANKMESH_JOB), on 127.0.0.1\n");
    // The secret of some ranks is not that of all.
    store = "tcp://127.0.0.1:" + std::to_string(support::free_ports(1));
    auto job =
        support::Job({.command = program("timeout-never"), .size = 2, .store = store, .before = [](int rank) {
                          return rank == 1 ? std::string("env RANKMESH_SECRET=another") : std::string{};
                      }});
    expect_says(job.end(), 1,
                " has another RANKMESH_SECRET than this rank; give all ranks of a job the same");
}

TEST(GlooTcp, TheCommandRunsOnRanksThatMeetByRankZero) {
#ifdef RANKMESH_COMMAND
    const auto outcome =
        gloo_job(nothing_of_ours + RANKMESH_COMMAND + " run 'dp=2 tp=2' --engine gloo --bytes 64", 4, -1, {},
                 master());
    EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
    expect_says(outcome, 0, "dp=2 tp=2 on gloo: 4 processes\n");
#else
    GTEST_SKIP() << "built without the command";
#endif
}

TEST_F(GlooRedis, RanksWithTorchrunsVariablesMeetByAServer) {
    const auto server = support::RedisServer();
    const auto outcome = gloo_job(not_ours + program("log"), 2, -1, server.url(), torchrun());
    EXPECT_EQ(outcome.exit_codes, all_well) << outcome.all();
    expect_says(
        outcome, 0,
        "store '" + server.url() + "' (RANKMESH_STORE), job 'run7.0' (TORCHELASTIC_RUN_ID), on 127.0.0.1\n");
    EXPECT_EQ(gloo_job(not_ours + program("well"), 2, -1, server.url(), torchrun(1)).exit_codes, all_well);
    expect_says(gloo_job(not_ours + program("well"), 2, -1, server.url(), torchrun(1)), 0,
                "main caught: rank 0 of the job 'run7.1' is in the store '" + server.url() +
                    "' already, of process ");
}

TEST_F(GlooRedis, TheCommandRunsOnRanksThatMeetByAServer) {
#ifdef RANKMESH_COMMAND
    const auto server = support::RedisServer({"--requirepass", "secret"});
    const auto outcome = gloo_job(RANKMESH_COMMAND " run 'dp=2 tp=2' --engine gloo --bytes 64", 4, -1,
                                  server.url(), {{"RANKMESH_REDIS_PASSWORD", "secret"}});
    EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
    expect_says(outcome, 0, "dp=2 tp=2 on gloo: 4 processes\n");
    expect_says(outcome, 0, "\nall 66 ok in ");
#else
    GTEST_SKIP() << "built without the command";
#endif
}

TEST_F(GlooRedis, ARankThatNeverStartsIsNamedAtTheTimeout) {
    const auto server = support::RedisServer();
    const auto outcome = gloo_job(program("timeout-never"), 4, 3, server.url());
    for (std::size_t rank = 0; rank < 3; ++rank) {  // the rank whose timeout expired first tells the others
        expect_says(outcome, rank,
                    "main caught: the timeout of 1 s expired in the start of the world on rank ");
        expect_says(outcome, rank, ": arrived ranks {0..2}, missing rank 3");
    }
}

TEST_F(GlooRedis, AServerThatDiesWhileRanksMeetIsSaidByAllOfThem) {
    auto server = support::RedisServer();
    auto killer = std::jthread([&] {
        // All three wait once there are a claim of each, that rank 0 is here, and what the two others say.
        EXPECT_TRUE(support::eventually([&] { return server.keys() >= 6; }));
        server.stop();
    });
    const auto outcome = gloo_job(program("well"), 4, 3, server.url());
    for (std::size_t rank = 0; rank < 3; ++rank) {
        // Which verb fails depends on where each rank is when the server dies.
        expect_says(outcome, rank, "main caught: the store '" + server.url() + "' cannot be asked: ");
        expect_says(outcome, rank, "); see that a Redis server runs there\n");
    }
}

TEST_F(GlooRedis, AServerThatNeverAnswersEndsTheStartAtItsTimeout) {
    const auto silent = support::Listener();
    const auto outcome = gloo_job(program("timeout-never"), 2, -1, silent.url());
    for (std::size_t rank = 0; rank < 2; ++rank)
        expect_says(
            outcome, rank,
            "main caught: the timeout expired: the store '" + silent.url() + "' has not answered SET for ");
}

TEST_F(GlooRedis, APasswordInTheUrlIsRefusedAndNobodyRepeatsIt) {
    for (const auto* name : {"a job", ""}) {
        const auto outcome = gloo_job(program("log"), 2, -1, "redis://:secret@127.0.0.1:1", {}, name);
        for (std::size_t rank = 0; rank < 2; ++rank)
            expect_says(outcome, rank,
                        "main caught: the URL of the store says more than a host, a port and a database");
        EXPECT_EQ(outcome.all().find("secret"), std::string::npos) << outcome.all();
    }
}
