// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <rankmesh/core/reshard.hpp>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

nlohmann::json json_of_slice(const Slice& slice) {
    auto out = nlohmann::json::array();
    for (const auto& range : slice.ranges) out.push_back({range.begin, range.end});
    return out;
}

nlohmann::json json_of_transfers(const std::vector<Transfer>& transfers) {
    auto out = nlohmann::json::array();
    for (const auto& [stage, peer, part, slice] : transfers)
        out.push_back({{"stage", stage}, {"peer", peer}, {"part", part}, {"slice", json_of_slice(slice)}});
    return out;
}

/// The messages of all steps, two stages each.
std::vector<Transfer> all_of(const std::vector<Reshard>& steps, int rank,
                             std::vector<Transfer> (Reshard::*of)(int) const) {
    auto all = std::vector<Transfer>{};
    auto first = 0;
    for (const auto& step : steps) {
        for (const auto& [stage, peer, part, slice] : (step.*of)(rank))
            all.push_back({first + stage, peer, part, slice});
        first += 2;
    }
    return all;
}

std::int64_t elements_of(const auto& list) {
    auto count = std::int64_t{0};
    for (const auto& entry : list) count += entry.slice.elements();
    return count;
}

struct Case {
    const char* from;
    const char* to;
    const char* shape;
    const char* split;
    const char* into;
    const char* on;
    int host;
};

const auto cases = std::vector<Case>{
    {"dp=2 tp=2", "tp=4", "10x7", "0=tp", "1=tp", "", 1},
    {"dp=2 tp=4", "dp=4 tp=2 @8", "16x16", "0=tp", "1=tp", "node:2 gpu:8", 8},
    {"pp=2 dp=3", "tp=4 @4", "11", "0=dp:megatron2 sum=pp", "replicated", "rack:2 node:2 gpu:4", 4},
    {"dp=4", "dp=2 tp=2", "9x3", "replicated", "0=tp,dp", "gpu:4", 4},
    {"dp=2 tp=4", "dp=2 tp=2 @12", "9x3", "0=dp sum=tp", "0=tp", "node:4 gpu:4", 4},
    {"dp=2 tp=4", "dp=2 tp=2 @12", "9x3", "sum=dp,tp", "0=tp", "node:4 gpu:4", 4},
};

std::vector<std::int64_t> shape_of(std::string text) {
    auto shape = std::vector<std::int64_t>{};
    std::ranges::replace(text, 'x', ' ');
    auto stream = std::istringstream(text);
    for (auto size = std::int64_t{0}; stream >> size;) shape.push_back(size);
    return shape;
}

TEST(ReshardSubcommand, PrintsTheAnswersOfTheLibrary) {
    for (const auto& [from, to, shape, split, into, on, host] : cases) {
        const auto words =
            detail::cat("reshard '", from, "' '", to, "' --shape ", shape, " --split '", split, "' --into ",
                        into, *on != '\0' ? detail::cat(" --on '", on, "'") : "", " --bytes 4 --json");
        const auto had = Sharding(Mesh::parse(from), shape_of(shape), Split::parse(split));
        const auto has = Sharding(Mesh::parse(to), shape_of(shape), Split::parse(into));
        const auto steps = Reshard::steps(had, has, host);
        const auto all = json_of(words);
        EXPECT_EQ(all["shape"], shape_of(shape));
        EXPECT_EQ(all["host"], host);
        EXPECT_EQ(all["from"], (nlohmann::json{{"mesh", from}, {"split", split}}));
        EXPECT_EQ(all["to"], (nlohmann::json{{"mesh", to}, {"split", into}}));
        auto received = std::int64_t{0};
        auto row = std::size_t{0};
        for (int rank = 0; rank < steps.back().extent(); ++rank) {
            const auto before = had.mesh().contains(rank);
            const auto after = has.mesh().contains(rank);
            if (!before && !after) continue;
            const auto receives = all_of(steps, rank, &Reshard::receives);
            const auto sends = all_of(steps, rank, &Reshard::sends);
            const auto keeps = steps.back().keeps(rank);
            const auto& said = all["ranks"][row++];
            EXPECT_EQ(said["rank"], rank) << words;
            EXPECT_EQ(said["had"], before ? json_of_slice(had.slice(rank)) : nlohmann::json());
            EXPECT_EQ(said["shall_have"], after ? json_of_slice(has.slice(rank)) : nlohmann::json());
            EXPECT_EQ(said["receives"], 4 * elements_of(receives));
            if (had.parts() == 1)
                EXPECT_EQ(said["not_there"], said["receives"]);
            else
                EXPECT_EQ(said["not_there"], after ? 4 * has.slice(rank).elements() : 0);
            EXPECT_EQ(said["sends"], 4 * elements_of(sends));
            EXPECT_EQ(said["keeps"], 4 * elements_of(keeps));
            received += 4 * elements_of(receives);

            const auto one = json_of(words + " --rank " + std::to_string(rank));
            EXPECT_EQ(one["rank"], rank);
            EXPECT_EQ(one["receives"], json_of_transfers(receives)) << words;
            EXPECT_EQ(one["sends"], json_of_transfers(sends)) << words;
            EXPECT_EQ(one["keeps"].size(), keeps.size());
        }
        EXPECT_EQ(all["ranks"].size(), row);
        EXPECT_EQ(all["total"]["receives"], received);
        EXPECT_EQ(all["total"]["sends"], received);
        EXPECT_LE(all["total"]["from_other_hosts"], received);
    }
}

TEST(ReshardSubcommand, CountsWhatCrossesBetweenHosts) {
    const auto bytes = [](const std::string& on) {
        return json_of("reshard 'tp=4' 'dp=4 @4' --shape 8 --split 0=tp --bytes 1 --json " +
                       on)["total"]["from_other_hosts"];
    };
    EXPECT_EQ(bytes(""), 32);
    EXPECT_EQ(bytes("--on 'node:4 gpu:2'"), 16);
    EXPECT_EQ(bytes("--on 'node:2 gpu:4'"), 8);
    EXPECT_EQ(bytes("--on 'rack:2 node:1 gpu:4'"), 8);
    EXPECT_EQ(bytes("--on gpu:8"), 0);
    EXPECT_EQ(bytes("--on 'node[a,b]:4 node[c]:1'"), 8);  // no rank is on c
    const auto of_sums = [](const std::string& on) {
        return json_of("reshard 'pp=2 tp=2' 'dp=4 @4' --shape 8 --split sum=pp,tp --bytes 1 --json " +
                       on)["total"]["from_other_hosts"];
    };
    EXPECT_EQ(of_sums("--on 'node:8 gpu:1'"), 128);
    EXPECT_EQ(of_sums("--on 'node:4 gpu:2'"), 32);  // two hosts add two each, and two want both sums
    EXPECT_EQ(of_sums("--on 'node:2 gpu:4'"), 8);
}

TEST(ReshardSubcommand, RefusesAnArrayOfMoreBytesThanItCanCount) {
    const auto refused =
        rankmesh("reshard dp=2 dp=2 --shape 4000000000x1000000000 --bytes 4 --split 0=dp --into 0=dp");
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_EQ(refused.output,
              "rankmesh: 2 ranks with an array of shape 4000000000x1000000000 and 4 bytes per element can "
              "hold more than 2^63 - 1 bytes in total; give a smaller --bytes or --shape\n");
}

TEST(ReshardSubcommand, ShowsTheFirstRanksOfALargeWorldAndEachThatIsAskedFor) {
    const auto text = rankmesh("reshard 'dp=65' 'dp=65 @65' --shape 65 --split 0=dp --into 0=dp").output;
    EXPECT_NE(text.find("\n... 66 more; --rank R shows one\n\n130 bytes are received; the lower bound is "
                        "130\n"),
              std::string::npos)
        << text;
    const auto of_many = json_of(
        "reshard 'pp=16 dp=1048576 tp=32' 'dp=4194304 tp=64 @536870912' --shape 65536x65536 --split '0=tp "
        "1=pp' "
        "--into 0=tp --rank 660327701 --json");
    EXPECT_EQ(of_many["receives"].size(), 16U);
    const auto by_coordinate = json_of("reshard 'dp=2 tp=2' tp=4 --shape 4 --rank dp=1,tp=0 --json");
    EXPECT_EQ(by_coordinate["rank"], 2);
}

TEST(ReshardSubcommand, SaysWhatDoesNotFit) {
    const auto error = [](const std::string& words) {
        const auto outcome = rankmesh("reshard dp=2 tp=4 " + words);
        EXPECT_EQ(outcome.exit_code, 2) << words;
        return outcome.output;
    };
    EXPECT_EQ(error(""),
              "rankmesh: reshard requires the shape of the array; add --shape, such as --shape 4096x4096\n");
    EXPECT_EQ(error("--shape 4x"),
              "rankmesh: --shape '4x' is not a shape: '' is not a size; give sizes such as 4096x4096\n");
    EXPECT_EQ(error("--shape 4 --rank 4"),
              "rankmesh: rank 4 is in neither mesh: dp=2 covers {0, 1}, and tp=4 {0..3}\n");
    EXPECT_EQ(error("--shape 4 --on gpu:2"),
              "rankmesh: rank 3 has no device: cluster gpu:2 has 2, for ranks 0..1\n");
    EXPECT_EQ(error("--shape 4 --on 'node[a]:1 node[b]:3'"),
              "rankmesh: b has ranks 1..3, and a has 1 rank; reshard requires the same number of ranks on "
              "each host\n");
    EXPECT_EQ(error("--shape 4 --split 1=dp"),
              "rankmesh: the split '1=dp' splits dimension 1 of an array of 1 dimension\n");
    EXPECT_EQ(error("--shape 4 --into 0=dp"), "rankmesh: mesh tp=4 has no axis 'dp'; did you mean 'tp'?\n");
}

TEST(ReshardSubcommand, ReadsItsMeshesAsOtherSubcommandsDo) {
    const auto shown = [](const std::string& mesh, const std::string& words) {
        return rankmesh(detail::cat("show '", mesh, "' ", words));
    };
    for (const auto* mesh : {"tp=8", "tp=*", "tp=2 @3", "tp=3 dp=*", "tp=0", "tp"})
        for (const auto* words : {"--world 4", "--world 8", ""}) {
            const auto alone = shown(mesh, words);
            for (const auto& both : {detail::cat("'", mesh, "' dp=2"), detail::cat("dp=2 '", mesh, "'")}) {
                const auto outcome = rankmesh(detail::cat("reshard ", both, " --shape 4 ", words));
                EXPECT_EQ(outcome.exit_code, alone.exit_code) << both << words;
                if (alone.exit_code != 0) {
                    EXPECT_EQ(outcome.output, alone.output) << both << words;
                }
            }
        }
    EXPECT_EQ(rankmesh("reshard 'a=2 b=2 @[3,1,2,0]' tp=4 --shape 4").output,
              "rankmesh: 'a=2 b=2 @[3,1,2,0]' is a placement, but reshard supports only meshes of axes; give "
              "one such as 'dp=4 tp=2 @8'\n");
}

}  // namespace
}  // namespace rankmesh::tests
