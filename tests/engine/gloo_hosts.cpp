// SPDX-License-Identifier: Apache-2.0
// A Gloo job on two hosts: how its ranks find addresses that the others reach, and what becomes of them when
// the link between the hosts is cut.
#include <gtest/gtest.h>

#ifdef RANKMESH_COMMAND
#include <nlohmann/json.hpp>
#endif

#include "support/gloo_job.hpp"
#include "support/two_hosts.hpp"

namespace {

using support::expect_says;
using support::expect_took;
using support::Job;
using support::JobOutcome;
using support::TwoHosts;
using Variables = std::map<std::string, std::string>;

class GlooHosts : public testing::Test {
protected:
    void SetUp() override {
        static const auto why_not = TwoHosts::why_not();
        if (!why_not.empty()) GTEST_SKIP() << why_not;
    }
};

/// Ranks 0 and 1 on the first host, 2 and 3 on the second.
Job::Options on(const TwoHosts& hosts, const std::string& command, const Variables& variables = {}) {
    return {.command = command, .variables = variables, .before = [&](int rank) {
                return hosts.on(rank < 2 ? 0 : 1);
            }};
}

JobOutcome run(const TwoHosts& hosts, const std::string& mode, const Variables& variables = {}) {
    return Job(on(hosts, RANKMESH_GLOO_PROGRAM " " + mode, variables)).end();
}

void expect_address(const JobOutcome& outcome, const std::string& a, const std::string& b) {
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(outcome.exit_codes[rank], 0) << outcome.all();
        expect_says(outcome, rank, ", on " + (rank < 2 ? a : b) + "\n");
        expect_says(outcome, rank, "ended well");
    }
}

/// The ranks of the other host, in words.
std::string others(std::size_t rank) { return rank < 2 ? "{2, 3}" : "{0, 1}"; }

}  // namespace

TEST_F(GlooHosts, TheSuiteHoldsOverIPv4AndOverIPv6) {
    for (const auto& [a, b, part] : {std::tuple{"10.77.0.1/24", "10.77.0.2/24", RANKMESH_GLOO_SUITE_PART},
                                     std::tuple{"fd77::1/64", "fd77::2/64", RANKMESH_GLOO_SUITE_JOINING}}) {
        const auto hosts = TwoHosts({a}, {b});
        const auto suite = std::string(RANKMESH_GLOO_SUITE " --gtest_brief=1 --gtest_filter=") + part;
        const auto outcome = Job(on(hosts, suite)).end();
        EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
        expect_says(outcome, 0, "PASSED");
    }
}

TEST_F(GlooHosts, TheCommandRunsALayoutOnBoth) {
#ifdef RANKMESH_COMMAND
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"10.77.0.2/24"});
    const auto outcome = Job(on(hosts, RANKMESH_COMMAND " run 'dp=2 tp=2' --engine gloo --bytes 1024")).end();
    EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
    expect_says(outcome, 0, "all 66 ok in ");
#else
    GTEST_SKIP() << "built without the command";
#endif
}

TEST_F(GlooHosts, OverASlowLinkTheCalibratedModelOrdersPlacementsAsMeasured) {
#ifdef RANKMESH_COMMAND
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"10.77.0.2/24"});
    if (!hosts.throttle(200)) GTEST_SKIP() << "links cannot be throttled here by tc of iproute2";
    const auto folder = support::Folder{};
    const auto run = [&](const std::string& words) {
        const auto outcome =
            Job(on(hosts, RANKMESH_COMMAND " run --engine gloo --bytes 262144 --json " + words)).end();
        EXPECT_EQ(outcome.exit_codes, (std::vector{0, 0, 0, 0})) << outcome.all();
        const auto& text = outcome.outputs.at(0);
        return nlohmann::json::parse(text.substr(text.find('{')));
    };
    // Seconds of each operation that the model knows, along tp.
    const auto of_tp = [](const nlohmann::json& json, const char* key) {
        auto seconds = std::map<std::string, double>{};
        for (const auto& row : json["rows"])
            if (row["axes"] == "tp" && row.contains("predicted")) seconds[row["operation"]] = row[key];
        return seconds;
    };
    const auto inside = run("'dp=2 tp=2' --calibrate " + folder.path() + "/machines");
    const auto& links = inside["links"];
    ASSERT_EQ(links.size(), 2U);
    EXPECT_EQ(links[0]["level"], "node");
    EXPECT_LT(links[0]["bandwidth"]["value"], 2 * 200e6 / 8)
        << "the link between the hosts is what was throttled";
    EXPECT_LT(links[0]["bandwidth"]["value"], links[1]["bandwidth"]["value"]);
    const auto cluster = inside["cluster"].get<std::string>();
    EXPECT_TRUE(cluster.starts_with("node[alpha,beta]:2(")) << cluster;
    const auto across = run("'tp=2 dp=2' --on '" + cluster + "'");
    for (const auto* key : {"predicted", "seconds"}) {
        const auto good = of_tp(inside, key);
        const auto bad = of_tp(across, key);
        ASSERT_GE(good.size(), 5U);
        for (const auto& [operation, seconds] : good)
            EXPECT_LT(seconds, bad.at(operation))
                << key << " of " << operation << " within a host and across";
    }
#else
    GTEST_SKIP() << "built without the command";
#endif
}

TEST_F(GlooHosts, TheInterfaceIsFoundOrSetByNameAddressOrSubnet) {
    const auto hosts = TwoHosts({"10.77.0.1/24", "fd77::1/64"}, {"10.77.0.2/24", "fd77::2/64"});
    expect_address(run(hosts, "log"), "10.77.0.1", "10.77.0.2");
    expect_address(run(hosts, "log", {{"RANKMESH_INTERFACE", "fd77::/16"}}), "fd77::1", "fd77::2");
    expect_address(run(hosts, "log", {{"RANKMESH_INTERFACE", "10.0.0.0/8"}}), "10.77.0.1", "10.77.0.2");
    const auto wrong = run(hosts, "log", {{"RANKMESH_INTERFACE", "10.0.0.0/12"}});
    for (std::size_t rank = 0; rank < 4; ++rank)
        expect_says(
            wrong, rank,
            "no network interface that is up on this host is '10.0.0.0/12' by its name, address or subnet; "
            "there are ");
}

TEST_F(GlooHosts, TheAddressTakenIsOnTheDefaultRouteOrTowardsMaster) {
    const auto hosts = TwoHosts({"10.77.0.1/24", "10.88.0.1/24", "10.99.0.1/24"},
                                {"10.77.0.2/24", "10.88.0.2/24", "10.99.0.2/24"});
    for (std::size_t host = 0; host < 2; ++host)
        ASSERT_EQ(support::run(hosts.on(host) + "ip route add default via 10.88.0.254").exit_code, 0);
    expect_address(run(hosts, "log"), "10.88.0.1", "10.88.0.2");
    expect_address(run(hosts, "log", {{"MASTER_ADDR", "10.99.0.1"}}), "10.99.0.1", "10.99.0.2");
}

TEST_F(GlooHosts, AnAddressThatOtherHostsCannotReachIsNeverAnnounced) {
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"169.254.1.2/16"});
    const auto outcome = run(hosts, "log");
    for (std::size_t rank = 0; rank < 2; ++rank)
        expect_says(outcome, rank,
                    "main caught: rank 2 on host 'beta' has no network interface that leads to others");
    for (std::size_t rank = 2; rank < 4; ++rank)
        expect_says(
            outcome, rank,
            "main caught: the ranks are in 2 networks, and no network interface of host 'beta' leads to "
            "others; there are ");
    const auto loopback = run(hosts, "log", {{"RANKMESH_INTERFACE", "lo"}});
    expect_says(loopback, 0, "no network interface of host 'alpha' that is 'lo' leads to others; there are ");
}

TEST_F(GlooHosts, RanksWithoutACommonKindOfAddressSaySoBeforeTheyConnect) {
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"fd77::2/64"});
    const auto outcome = run(hosts, "log");
    for (std::size_t rank = 0; rank < 4; ++rank)
        expect_says(
            outcome, rank,
            "main caught: the ranks have no kind of network address in common: {0, 1} have IPv4 only, {2, 3} "
            "IPv6 only; name interfaces of one kind with RANKMESH_INTERFACE, or give addresses of both "
            "kinds");
    // Who has both takes what the others have.
    const auto both = TwoHosts({"10.77.0.1/24", "fd77::1/64"}, {"fd77::2/64"});
    expect_address(run(both, "log"), "fd77::1", "fd77::2");
}

TEST_F(GlooHosts, HostsOfOneNameAreTwoForTheNetworkAllTheSame) {
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"10.77.0.2/24"}, {"box", "box"});
    expect_address(run(hosts, "log"), "10.77.0.1", "10.77.0.2");
}

TEST_F(GlooHosts, ALinkThatIsCutInACallEndsItAtTheTimeoutWithTheRanksBehindIt) {
    for (const auto& [a, b] :
         {std::pair{"10.77.0.1/24", "10.77.0.2/24"}, std::pair{"fd77::1/64", "fd77::2/64"}}) {
        const auto hosts = TwoHosts({a}, {b});
        auto job = Job(on(hosts, RANKMESH_GLOO_PROGRAM " timeout-cut-call"));
        ASSERT_TRUE(job.all_say(", all: went well"));
        hosts.cut();
        const auto outcome = job.end();
        for (std::size_t rank = 0; rank < 4; ++rank) {
            // An interface that goes down can take its IPv6 address with it: then nobody there reaches
            // anybody.
            const auto alone = std::vector<std::string>{"1\\.\\.3", "0, 2, 3", "0, 1", "0, 1"}.at(rank);
            const auto behind = std::string(rank < 2 ? "2, 3" : "0, 1");
            const auto said = ", all: Timeout \\{(" + behind + (*b == 'f' ? "|" + alone : "") + ")\\} after ";
            EXPECT_TRUE(std::regex_search(outcome.outputs[rank], std::regex(said))) << outcome.all();
            expect_took(outcome, rank, "all", 1900, 3000);
        }
    }
}

TEST_F(GlooHosts, ALinkCutBeforeAJoinEndsItAtTheTimeoutNamingRanksBehindIt) {
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"10.77.0.2/24"});
    auto job = Job(on(hosts, RANKMESH_GLOO_PROGRAM " timeout-cut-join"));
    ASSERT_TRUE(job.all_say("joined the rendezvous"));
    hosts.cut();
    job.tell("go");
    const auto outcome = job.end();
    for (std::size_t rank = 0; rank < 4; ++rank) {
        expect_says(outcome, rank, ", join: Timeout " + others(rank) + " after ");
        expect_says(outcome, rank,
                    "expired in join, connecting 'dp' of mesh dp=4 on rank " + std::to_string(rank) +
                        ": arrived ranks " + others((rank + 2) % 4) + ", missing ranks ");
        expect_took(outcome, rank, "join", 3000, 4000);
    }
}

TEST_F(GlooHosts, ALinkThatIsCutWhileRanksConnectEndsTheJoinAtTheTimeout) {
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"10.77.0.2/24"});
    auto job = Job(on(hosts, RANKMESH_GLOO_PROGRAM " timeout-cut-joins"));
    ASSERT_TRUE(job.all_say("joined"));
    hosts.cut();
    const auto outcome = job.end();
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_TRUE(std::regex_search(outcome.outputs[rank],
                                      std::regex(", join: (Timeout|PeerLost) \\{[0-9., ]+\\} after ")))
            << outcome.all();
        expect_took(outcome, rank, "join", 0, 4000);
    }
}

TEST_F(GlooHosts, ALinkThatIsCutForAMomentDelaysCallsAndJoinsOnly) {
    const auto hosts = TwoHosts({"10.77.0.1/24"}, {"10.77.0.2/24"});
    auto job = Job(on(hosts, RANKMESH_GLOO_PROGRAM " cut-join"));
    ASSERT_TRUE(job.all_say("joined the rendezvous"));
    hosts.cut();
    job.tell("go");
    const auto moment = std::chrono::milliseconds(300);  // for which the link is cut
    std::this_thread::sleep_for(moment);
    hosts.restore();
    ASSERT_TRUE(job.all_say("join: went well"));
    hosts.cut();
    std::this_thread::sleep_for(moment);
    hosts.restore();
    job.tell("enough");
    const auto outcome = job.end();
    for (std::size_t rank = 0; rank < 4; ++rank) {
        EXPECT_EQ(outcome.exit_codes[rank], 0);
        expect_says(outcome, rank, ", all: went well");
    }
}
