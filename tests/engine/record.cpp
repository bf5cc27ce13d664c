// SPDX-License-Identifier: Apache-2.0
// The flight record: what a ring holds, and what is written when.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <complex>
#include <filesystem>
#include <fstream>
#include <latch>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include <rankmesh/core/detail/json_string.hpp>
#include <rankmesh/engine/threads.hpp>

#include "engine/record/recorder.hpp"
#include "engine/system.hpp"
#include "support/eventually.hpp"
#include "support/processes.hpp"
#include "support/text_of.hpp"

using namespace rankmesh;
using namespace std::chrono_literals;
using detail::CallRing;
using detail::CallState;
using detail::cat;
using Json = nlohmann::json;
using support::eventually;

namespace {

std::shared_ptr<CallRing> new_ring() {
    return std::make_shared<CallRing>("a ring", std::make_shared<std::atomic<std::uint64_t>>(0), nullptr);
}

/// The `i`-th call of a ring: every word of it follows from `i`.
detail::Call numbered_call(std::uint64_t i) {
    return {.operation = i % 3 == 0 ? detail::Operation::send : detail::Operation::all_reduce,
            .argument = static_cast<int>(i % 1'000'000),
            .in_count = 3 * i,
            .out_count = 5 * i,
            .source = static_cast<int>(i % 1000)};
}

std::string read(const std::string& path) {
    auto text = std::stringstream{};
    text << std::ifstream(path).rdbuf();
    return text.str();
}
Json json_of(const std::string& path) { return Json::parse(read(path)); }

/// Runs a program whose errors are those that its ranks are to meet.
void run(int size, const std::function<void(World&)>& program, WorldOptions options) {
    try {
        threads::run(size, program, options);
    } catch (const Error&) {
    }
}

}  // namespace

TEST(CallRing, HoldsTheLastCallsInTheirOrderAndCountsThemAll) {
    for (const auto calls : {0, 1, 2, 63, 64, 65, 200, 1000}) {
        const auto ring = new_ring();
        auto collectives = std::uint64_t{0};
        auto messages = std::uint64_t{0};
        for (auto i = 0; i < calls; ++i) {
            const auto call = numbered_call(static_cast<std::uint64_t>(i));
            ++(is_point_to_point(call.operation) ? messages : collectives);
            const auto place = ring->begin(call, 0, 1500ms, i % 2 == 0);
            EXPECT_EQ(place, i);
            ring->set(place, CallState::completed);
        }
        EXPECT_EQ(ring->collectives(), collectives);
        const auto held = ring->calls();
        ASSERT_EQ(held.size(), std::min<std::size_t>(static_cast<std::size_t>(calls), CallRing::length));
        for (auto k = held.size(); k-- > 0;) {
            const auto& each = held[k];
            const auto i = static_cast<std::uint64_t>(calls) - held.size() + k;
            EXPECT_EQ(each.place, i);
            EXPECT_EQ(each.id, i);
            EXPECT_EQ(each.call.in_count, 3 * i);
            EXPECT_EQ(each.call.source, static_cast<int>(i % 1000));
            EXPECT_EQ(each.blocking, i % 2 == 0);
            EXPECT_EQ(each.timeout_ms, 1500);
            EXPECT_EQ(each.state, CallState::completed);
            EXPECT_EQ(each.number, is_point_to_point(each.call.operation) ? messages-- : collectives--);
        }
    }
}

TEST(CallRing, CallsThatAreTakenBackLeaveNoTraceButTheirIds) {
    const auto ring = new_ring();
    for (std::uint64_t i = 0; i < 10; ++i) ring->begin(numbered_call(i), 0, 1s, true);
    const auto before = ring->calls();
    const auto place = ring->begin(numbered_call(10), 0, 1s, false);
    ring->begin(numbered_call(12), 0, 1s, false);
    ring->retract(place);
    const auto after = ring->calls();
    ASSERT_EQ(after.size(), before.size());
    ring->begin(numbered_call(12), 0, 1s, true);
    ring->begin(numbered_call(11), 0, 1s, true);
    const auto more = ring->calls();
    ASSERT_EQ(more.size(), before.size() + 2);
    EXPECT_EQ(more[10].number, 5) << "0, 3, 6 and 9 were messages";
    EXPECT_EQ(more[11].number, 7) << "six collectives came before";
    EXPECT_LT(before.back().id, more[10].id);
}

TEST(CallRing, AReaderNeverSeesHalfOfACall) {
    const auto ring = new_ring();
    auto stop = std::atomic<bool>{false};
    auto writer = std::thread([&] {
        for (std::uint64_t i = 1; !stop; ++i)
            ring->set(ring->begin(numbered_call(i), 0, 1s, true), CallState::completed);
    });
    // Until reader and writer have met often enough: then entries are being written, and are left out.
    const auto end = std::chrono::steady_clock::now() + 20s;
    for (auto met = 0; met < 1000 && std::chrono::steady_clock::now() < end;) {
        const auto calls = ring->calls();
        if (!calls.empty() && calls.size() < CallRing::length) ++met;
        for (const auto& each : calls) {
            const auto i = each.call.in_count / 3;
            const auto wanted = numbered_call(i);
            if (each.call.in_count != wanted.in_count || each.call.out_count != wanted.out_count ||
                each.call.argument != wanted.argument || each.call.source != wanted.source ||
                each.call.operation != wanted.operation || each.id != i - 1) {
                ADD_FAILURE() << "half of call " << i << " and half of another";
                met = 1000;
            }
        }
    }
    stop = true;
    writer.join();
}

TEST(FlightRecord, AStringOfJsonReadsBackWhateverItHolds) {
    for (const auto* text :
         {"", "plain", "a \"quote\" and a \\", "line\nend\ttab\x01\x7f", "</script>", "gr\xc3\xbc\xc3\x9f"})
        EXPECT_EQ(Json::parse(detail::json_string(text)), text);
    EXPECT_EQ(Json::parse(detail::json_string("\xff|\xc3")), "\xef\xbf\xbd|\xef\xbf\xbd");
    EXPECT_EQ(detail::json_string("<"), "\"\\u003c\"") << "the page of draw holds it in a script element";
}

TEST(FlightRecord, OnRequestItHoldsEveryCallOfThisRank) {
    const auto folder = support::Folder();
    threads::run(4, [&](World& world) {
        auto me = world.join({{.name = "dense", .mesh = {{"dp", 2}, {"tp", 2}}},
                              {.name = "spread", .mesh = {{"ep", 4}}, .placed = {0, 2, 1, 3}}});
        auto tp = me["dense"].on("tp");
        auto ep = me["spread"].on("ep");
        auto x = std::vector<float>(4, 1.0f);
        auto z = std::vector<std::complex<float>>(3);
        tp.all_reduce(x, rankmesh::max);
        ep.broadcast(z, 3);
        auto longer = std::vector<float>(5);
        EXPECT_THROW(tp.all_reduce(x, longer), UsageError);
        tp.barrier();
        auto y = x;
        tp.send_recv(x, 1 - tp.rank(), y, 1 - tp.rank());
        auto pending = ep.within(90s).start().shift(x, 1);
        const auto path = cat(folder.path(), "/", world.rank(), ".json");
        world.write_record(path);
        const auto record = json_of(path);
        pending.wait();
        ep.barrier();

        const auto rank = world.rank();
        EXPECT_EQ(record["rank"], rank);
        EXPECT_EQ(record["world_size"], 4);
        EXPECT_EQ(record["engine"], "threads");
        EXPECT_EQ(record["reason"], "request");
        EXPECT_FALSE(record.contains("error"));
        auto meshes = std::set<Json>(record["meshes"].begin(), record["meshes"].end());
        EXPECT_EQ(meshes, (std::set<Json>{{{"name", "dense"}, {"mesh", "dp=2 tp=2"}},
                                          {{"name", "spread"}, {"mesh", "ep=4"}, {"placed", {0, 2, 1, 3}}}}));
        const auto& entries = record["entries"];
        ASSERT_EQ(entries.size(), 5U);
        const auto of_tp = entries[0]["process_group"][0].get<std::string>();
        const auto of_ep = entries[1]["process_group"][0].get<std::string>();
        EXPECT_EQ(record["pg_config"][of_tp]["ranks"], rank < 2 ? "[0, 1]" : "[2, 3]");
        EXPECT_EQ(record["pg_config"][of_tp]["desc"], "'tp' of mesh 'dense'");
        EXPECT_EQ(record["pg_config"][of_tp]["mesh"], "dense");
        EXPECT_EQ(record["pg_config"][of_ep]["ranks"], "[0, 2, 1, 3]");
        EXPECT_EQ(record["pg_status"][of_tp], (Json{{"last_enqueued_collective", 2},
                                                    {"last_started_collective", 2},
                                                    {"last_completed_collective", 2}}));
        EXPECT_EQ(record["pg_status"][of_ep], (Json{{"last_enqueued_collective", 2},
                                                    {"last_started_collective", 1},
                                                    {"last_completed_collective", 1}}));
        EXPECT_EQ(entries[0]["operation"], "all_reduce");
        EXPECT_EQ(entries[0]["profiling_name"], "threads:all_reduce");
        EXPECT_EQ(entries[0]["reduction"], "max");
        EXPECT_EQ(entries[0]["input_sizes"], Json::parse("[[4]]"));
        EXPECT_EQ(entries[0]["input_dtypes"], Json{"f32"});
        EXPECT_FALSE(entries[0].contains("argument"));
        EXPECT_EQ(entries[0]["timeout_ms"], 1'800'000);
        EXPECT_EQ(entries[1]["argument"], 3);
        EXPECT_EQ(entries[1]["output_sizes"], Json::parse("[[3, 2]]")) << "complex numbers are two each";
        EXPECT_EQ(entries[2]["operation"], "barrier") << "what was refused is no call";
        EXPECT_EQ(entries[2]["collective_seq_id"], 2);
        EXPECT_EQ(entries[3]["is_p2p"], true);
        EXPECT_EQ(entries[3]["p2p_seq_id"], 1);
        EXPECT_EQ(entries[3]["collective_seq_id"], 0);
        EXPECT_EQ(entries[3]["source"], 1 - tp.rank());
        EXPECT_EQ(entries[4]["operation"], "shift");
        EXPECT_EQ(entries[4]["state"], "scheduled");
        EXPECT_EQ(entries[4]["blocking"], false);
        EXPECT_EQ(entries[4]["timeout_ms"], 90'000);
        EXPECT_EQ(entries[4]["time_discovered_completed_ns"], nullptr);
        const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
        for (std::size_t i = 0; i < 4; ++i) {
            EXPECT_EQ(entries[i]["state"], "completed");
            EXPECT_EQ(entries[i]["record_id"], i);
            EXPECT_LE(entries[i]["time_created_ns"], entries[i]["time_discovered_completed_ns"]);
            EXPECT_LT(now - entries[i]["time_created_ns"].get<std::int64_t>(), 60'000'000'000);
            EXPECT_LE(entries[i]["time_created_ns"], now);
        }
    });
}

TEST(FlightRecord, GroupsHaveOneNameOnAllTheirRanksAndNoOtherGroupHasIt) {
    const auto folder = support::Folder();
    threads::run(6, [&](World& world) {
        const auto half = world.rank() % 2;
        auto part = world.sub(half == 0 ? std::vector{4, 0, 2} : std::vector{1, 3, 5});
        auto me = world.join({{"dp", 3}, {"tp", 2}}, {.over = {Axes("tp").separate("own")}});
        auto inner = part.join({{"dp", rest}});
        for (const auto* name : {"dp", "tp", "own"}) me.on(name).barrier();
        inner.on("dp").barrier();
        world.write_record(cat(folder.path(), "/", world.rank(), ".json"));
    });
    auto ranks_of = std::map<std::string, std::set<std::string>>{};
    auto named_by = std::map<std::string, std::set<int>>{};
    for (int rank = 0; rank < 6; ++rank) {
        const auto record = json_of(cat(folder.path(), "/", rank, ".json"));
        EXPECT_EQ(record["pg_config"].size(), 4U);
        for (const auto& [name, group] : record["pg_config"].items()) {
            ranks_of[name].insert(group["ranks"]);
            named_by[name].insert(rank);
        }
    }
    auto lists = std::multiset<std::string>{};
    for (const auto& [name, lists_of_name] : ranks_of) {
        ASSERT_EQ(lists_of_name.size(), 1U) << name;
        const auto list = Json::parse(*lists_of_name.begin()).get<std::vector<int>>();
        EXPECT_EQ(named_by[name], std::set<int>(list.begin(), list.end())) << name;
        lists.insert(*lists_of_name.begin());
    }
    // The part counts its ranks from 0; the record is about the whole.
    EXPECT_EQ(lists.count("[4, 0, 2]"), 1U);
    EXPECT_EQ(lists.count("[1, 3, 5]"), 2U);
    EXPECT_EQ(lists.count("[0, 1]"), 2U) << "a channel of its own is a group of its own";
}

TEST(FlightRecord, TheFirstErrorIsWrittenByItsRanksAndByThoseThatItMisses) {
    const auto folder = support::Folder();
    auto late = std::atomic<int>{0};
    run(3,
        [&](World& world) {
            auto me = world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}});
            auto on = me.on("dp");
            on.barrier();
            if (world.rank() == 1) {
                EXPECT_TRUE(eventually([&] { return late == 2; }));
                EXPECT_EQ(json_of(folder.path() + "/rank-1.json")["reason"], "request");
                EXPECT_THROW(on.barrier(), Timeout);
                return;
            }
            const auto own = cat(folder.path(), "/rank-", world.rank(), ".json");
            EXPECT_FALSE(std::filesystem::exists(own));
            auto x = 1;
            const auto text = text_of<Timeout>([&] { on.within(300ms).all_reduce(x); });
            const auto record = json_of(own);
            EXPECT_EQ(record["reason"], "timeout");
            EXPECT_EQ(record["error"], text);
            EXPECT_EQ(record["arrived"], (std::vector{0, 2}));
            EXPECT_EQ(record["missing"], (std::vector{1}));
            EXPECT_EQ(record["entries"].back()["state"], "failed");
            // A later error has less to say.
            const auto before = read(own);
            EXPECT_THROW(me.on("other").within(1ms).all_reduce(x), Timeout);
            EXPECT_EQ(read(own), before);
            ++late;
        },
        {.timeout = 20s, .record = folder.path()});
    const auto record = json_of(folder.path() + "/rank-1.json");
    EXPECT_EQ(record["reason"], "timeout") << "an error is more than a request";
}

TEST(FlightRecord, ARecordOfAnErrorIsNotWrittenAgainWithoutItsCommunicators) {
    const auto folder = support::Folder();
    const auto own = folder.path() + "/rank-0.json";
    auto thrown = std::latch(1);
    auto asked = std::latch(1);
    run(2,
        [&](World& world) {
            auto me = std::optional(world.join({{"dp", rest}}, {.over = {Axes("dp").separate("other")}}));
            if (world.rank() == 0) {
                EXPECT_THROW(me->on("dp").within(50ms).barrier(), Timeout);
                me.reset();
                thrown.count_down();
                return asked.wait();
            }
            thrown.wait();
            const auto before = read(own);
            EXPECT_THROW(me->on("other").within(50ms).barrier(), Timeout);
            EXPECT_EQ(read(own), before);
            asked.count_down();
        },
        {.timeout = 20s, .record = folder.path()});
    EXPECT_EQ(json_of(own)["entries"].size(), 1U);
}

TEST(FlightRecord, EveryErrorButAUsageErrorIsWrittenWithItsRanks) {
    for (const auto* kind : {"peer_lost", "disagreement", "plans", "usage"}) {
        const auto folder = support::Folder();
        const auto is = [kind](const char* other) { return std::string(kind) == other; };
        run(2,
            [&](World& world) {
                if (is("plans")) world.join({{world.rank() == 0 ? "dp" : "tp", rest}});
                auto on = world.join({{"dp", rest}}).on("dp");
                auto x = std::vector<int>(world.rank() == 1 && is("disagreement") ? 3U : 2U);
                if (is("usage")) {
                    EXPECT_THROW(on.broadcast(x, 7),
                                 UsageError);  // one that leaves the program is an exception
                    return;
                }
                if (is("peer_lost") && world.rank() == 1) throw EngineFailure("boom");
                on.all_reduce(x);
            },
            {.timeout = 20s, .record = folder.path()});
        const auto path = folder.path() + "/rank-0.json";
        if (is("usage")) {
            EXPECT_FALSE(std::filesystem::exists(path));
            continue;
        }
        const auto record = json_of(path);
        EXPECT_EQ(record["reason"], is("plans") ? "disagreement" : kind);
        EXPECT_EQ(record[is("peer_lost") ? "lost" : "outside"], std::vector{1});
    }
}

TEST(FlightRecord, WithoutAFolderNothingIsWritten) {
    const auto folder = support::Folder();
    const auto before = std::filesystem::current_path();
    std::filesystem::current_path(folder.path());
    run(2,
        [](World& world) {
            auto on = world.join({{"dp", rest}}).on("dp");
            if (world.rank() == 0) on.within(50ms).barrier();
        },
        {.timeout = 20s});
    std::filesystem::current_path(before);
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FlightRecord, AFolderThatCannotBeWrittenChangesNoError) {
    testing::internal::CaptureStderr();
    threads::run(2,
                 [](World& world) {
                     auto on = world.join({{"dp", rest}}).on("dp");
                     if (world.rank() == 0) {
                         EXPECT_THROW(on.within(50ms).barrier(), Error);
                     }
                 },
                 {.timeout = 20s, .record = "/dev/null/records"});
    const auto said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("rankmesh: the flight record of rank 0 is not written: '/dev/null/records/"),
              std::string::npos)
        << said;
    threads::run(1, [](World& world) {
        EXPECT_NE(text_of<UsageError>([&] {
                      world.write_record("/dev/null/record.json");
                  }).find("the flight record is not written: '/dev/null/record.json"),
                  std::string::npos);
    });
}

TEST(FlightRecord, AFullDiskIsSaidAndNothingHalfWrittenStays) {
    const auto folder = support::Folder();
    const auto path = cat(folder.path(), "/record.json");
    auto before = rlimit{};
    getrlimit(RLIMIT_FSIZE, &before);
    const auto full = rlimit{16, before.rlim_max};
    const auto handler = signal(SIGXFSZ, SIG_IGN);
    auto text = std::string{};
    threads::run(1, [&](World& world) {
        setrlimit(RLIMIT_FSIZE, &full);
        text = text_of<UsageError>([&] { world.write_record(path); });
        setrlimit(RLIMIT_FSIZE, &before);
    });
    signal(SIGXFSZ, handler);
    EXPECT_EQ(text, cat("the flight record is not written: '", path, "' cannot be written: File too large"));
    EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(FlightRecord, WhatOthersHavePutInTheFolderIsNeitherFollowedNorWaitedFor) {
    const auto folder = support::Folder();
    const auto victim = cat(folder.path(), "/victim");
    std::ofstream(victim) << "precious";
    const auto link = std::string("link");
    const auto pipe = std::string("pipe");
    const auto opened = open(folder.path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    ASSERT_EQ(symlinkat(victim.c_str(), opened, link.c_str()), 0);
    ASSERT_EQ(mkfifoat(opened, pipe.c_str(), 0600), 0);
    for (const auto& name : {link, pipe})
        EXPECT_EQ(detail::write_new_file(opened, name, "text", 0600), EEXIST);
    close(opened);
    for (const auto& name : {link, pipe})  // the record itself takes the place of what is there
        threads::run(1, [&](World& world) { world.write_record(cat(folder.path(), "/", name)); });
    for (const auto& name : {link, pipe})
        EXPECT_TRUE(
            std::filesystem::is_regular_file(std::filesystem::symlink_status(cat(folder.path(), "/", name))));
    EXPECT_EQ(read(victim), "precious");
}

TEST(FlightRecord, AnExceptionThatLeavesTheProgramIsInTheRecordOfItsRank) {
    const auto folder = support::Folder();
    const auto program = [](World& world) {
        auto on = world.join({{"dp", rest}}).on("dp");
        on.barrier();
        if (world.rank() == 1) throw std::runtime_error("out of blocks");
        on.barrier();
    };
    EXPECT_THROW(threads::run(3, program, {.record = folder.path()}), std::runtime_error);
    const auto of = [&](int rank) { return json_of(cat(folder.path(), "/rank-", rank, ".json")); };
    EXPECT_EQ(of(1)["reason"], "exception");
    EXPECT_EQ(of(1)["error"], "out of blocks");
    EXPECT_EQ(of(0)["reason"], "peer_lost");
    EXPECT_EQ(of(2)["reason"], "peer_lost");
}

TEST(FlightRecord, ASignalThatTheProgramAskedForWritesTheRecordsOfAllRanks) {
    const auto folder = support::Folder();
    threads::run(3,
                 [&](World& world) {
                     auto on = world.join({{"dp", rest}}).on("dp");
                     on.barrier();
                     const auto own = cat(folder.path(), "/rank-", world.rank(), ".json");
                     if (world.rank() == 0) raise(SIGUSR1);
                     EXPECT_TRUE(eventually([&] { return std::filesystem::exists(own); }));
                     EXPECT_EQ(json_of(own)["reason"], "signal");
                     on.barrier();
                 },
                 {.timeout = 20s, .record = folder.path(), .record_signal = SIGUSR1});
}

TEST(FlightRecord, TheEnvironmentSetsFolderAndSignalAndABadSignalIsRefused) {
    const auto folder = support::Folder();
    setenv("RANKMESH_RECORD", folder.path().c_str(), 1);
    setenv("RANKMESH_RECORD_SIGNAL", "SIGUSR2", 1);
    threads::run(1, [&](World&) {
        raise(SIGUSR2);
        EXPECT_TRUE(eventually([&] { return std::filesystem::exists(folder.path() + "/rank-0.json"); }));
    });
    setenv("RANKMESH_RECORD_SIGNAL", "KILL", 1);
    EXPECT_EQ(
        text_of<UsageError>([] { threads::run(1, [](World&) {}); }),
        "RANKMESH_RECORD_SIGNAL='KILL' is no signal that can be caught; it is USR1, USR2, HUP, QUIT or a "
        "number");
    EXPECT_EQ(text_of<UsageError>([] { threads::run(1, [](World&) {}, {.record_signal = SIGKILL}); }),
              "record_signal=9 is no signal that can be caught; it is one such as SIGUSR1, or 0 for none");
    unsetenv("RANKMESH_RECORD");
    unsetenv("RANKMESH_RECORD_SIGNAL");
}

TEST(FlightRecord, IsWrittenAgainAndAgainWhereTheEnvironmentAsksForIt) {
    const auto folder = support::Folder();
    const auto own = folder.path() + "/rank-0.json";
    setenv("RANKMESH_RECORD_EVERY", "1s", 1);
    EXPECT_EQ(text_of<UsageError>([] { threads::run(1, [](World&) {}); }),
              "RANKMESH_RECORD_EVERY=1s has no folder to write to; set RANKMESH_RECORD too");
    threads::run(1,
                 [&](World&) {
                     for (auto turn = 0; turn < 2; ++turn) {
                         EXPECT_TRUE(eventually([&] { return std::filesystem::exists(own); }));
                         EXPECT_EQ(json_of(own)["reason"], "request");
                         std::filesystem::remove(own);
                     }
                 },
                 {.record = folder.path()});
    for (const auto* wrong : {"often", "0", "-1s", "1.5"}) {
        setenv("RANKMESH_RECORD_EVERY", wrong, 1);
        EXPECT_EQ(text_of<UsageError>([&] { threads::run(1, [](World&) {}, {.record = folder.path()}); }),
                  cat("RANKMESH_RECORD_EVERY='", wrong,
                      "' is not a whole number of seconds, 1 or more, such as 10s"));
    }
    unsetenv("RANKMESH_RECORD_EVERY");
}

TEST(FlightRecordDeathTest, WhatNobodyCatchesIsWrittenBeforeTheProcessEnds) {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    const auto folder = std::filesystem::temp_directory_path() / "rankmesh-test-record-terminate";
    EXPECT_DEATH(threads::run(2,
                              [](World& world) {
                                  auto on = world.join({{"dp", rest}}).on("dp");
                                  on.barrier();
                                  if (world.rank() == 0)
                                      std::thread([] { throw std::runtime_error("boom"); }).join();
                                  on.barrier();
                              },
                              {.timeout = 20s, .record = folder.string()}),
                 "");
    for (int rank = 0; rank < 2; ++rank) {
        const auto record = json_of((folder / cat("rank-", rank, ".json")).string());
        EXPECT_EQ(record["reason"], "terminate");
        EXPECT_EQ(record["error"], "boom");
        EXPECT_GE(record["entries"].size(), 1U);
    }
    std::filesystem::remove_all(folder);
}

TEST(FlightRecord, WorldsAtTheSameTimeWriteFilesOfTheirOwn) {
    const auto folder = support::Folder();
    const auto options = WorldOptions{.timeout = 20s, .record = folder.path()};
    threads::run(
        1,
        [&](World&) {
            threads::run(
                2,
                [](World& world) {
                    auto on = world.join({{"dp", rest}}).on("dp");
                    if (world.rank() == 0) {
                        EXPECT_THROW(on.within(50ms).barrier(), Error);
                    }
                },
                options);
        },
        options);
    EXPECT_TRUE(std::filesystem::exists(folder.path() + "/rank-0.2.json"));
    EXPECT_FALSE(std::filesystem::exists(folder.path() + "/rank-0.json"));
}

TEST(FlightRecord, EveryKeyIsDocumentedAndEveryDocumentedKeyIsWritten) {
    auto documented = std::set<std::string>{};
    auto page = std::ifstream(RANKMESH_FLIGHT_RECORD_PAGE);
    const auto row = std::regex("^\\| `([a-z_0-9]+)` \\|.*");
    for (auto line = std::string{}; std::getline(page, line);)
        if (auto match = std::smatch{}; std::regex_match(line, match, row)) documented.insert(match[1]);
    auto label = std::make_shared<detail::Label>();
    label->placed = std::make_shared<const std::vector<int>>(std::vector{1, 0});
    label->ranks.group = Mesh{{"dp", 2}}.group(0, "dp");
    const auto ring = new_ring();
    ring->add(label);
    for (const auto operation : {detail::Operation::all_reduce, detail::Operation::broadcast,
                                 detail::Operation::shift, detail::Operation::send_recv})
        ring->begin({.operation = operation}, 0, 1s, true);
    const auto owner = detail::Recorder::Owner{};
    const auto why = detail::RecordReason{
        .reason = "timeout", .error = "text", .arrived = {0}, .missing = {1}, .lost = {2}, .outside = {3}};
    auto written = std::set<std::string>{};
    const auto collect = [&](const auto& self, const Json& json, bool names) -> void {
        if (json.is_object())
            for (const auto& [key, value] : json.items()) {
                if (!names) written.insert(key);
                self(self, value, !names && (key == "pg_config" || key == "pg_status"));
            }
        if (json.is_array())
            for (const auto& each : json) self(self, each, false);
    };
    collect(collect,
            Json::parse(detail::record_json({.owner = owner, .why = why, .rings = {ring}, .every = 10s})),
            false);
    EXPECT_EQ(written, documented);
}
