// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include <regex>

#include <rankmesh/engine/gloo.hpp>
#include <rankmesh/engine/mpi.hpp>
#include <rankmesh/engine/nccl.hpp>

#include "rankmesh.hpp"
#include "support/clean.hpp"

namespace rankmesh::tests {
namespace {

void expect_misuse(const std::string& words, const std::string& text) {
    const auto outcome = rankmesh(words + " 2>&1 >/dev/null");
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
}

TEST(UsageError, IsOneSentenceThatNamesTheNearestSpelling) {
    expect_misuse("show dp=8 --colour never", "unknown option '--colour'; did you mean '--color'?");
    expect_misuse("show dp=8 --frobnicate", "unknown option '--frobnicate'; see rankmesh show --help");
    expect_misuse(
        "plan '--num-layers 4'",
        "unknown option '--num-layers 4'; Megatron's flags, in one pair of quotes, stand at the end, "
        "after --");
    expect_misuse("--hlep", "unknown option '--hlep'; did you mean '--help'?");
    expect_misuse("show dp=8 --color alwys",
                  "--color must be one of auto, always and never, not 'alwys'; did you mean 'always'?");
    expect_misuse("groups 'dp=8 tp=2' ttp", "mesh dp=8 tp=2 has no axis 'ttp'; did you mean 'tp'?");
    expect_misuse("rank 'dp=8 tp=2' dp=1,tpp=0", "mesh dp=8 tp=2 has no axis 'tpp'; did you mean 'tp'?");
    const auto subcommand = rankmesh("shwo dp=8");
    EXPECT_EQ(subcommand.exit_code, 2);
    EXPECT_TRUE(
        subcommand.output.starts_with("rankmesh: unknown subcommand 'shwo'; one of: show, draw, diff, rank, "
                                      "groups, check, place, convert, frameworks, env"));
    EXPECT_TRUE(subcommand.output.ends_with("; did you mean 'show'?\n")) << subcommand.output;
}

TEST(UsageError, SaysWhatIsMissingOrTooMuch) {
    expect_misuse("rank dp=8",
                  "missing argument R: a rank number, or a coordinate such as pp=1,dp=0,tp=3; see rankmesh "
                  "rank --help");
    expect_misuse("show pp=4 dp=8",
                  "unexpected argument 'dp=8'; a mesh is one argument in quotes, such as 'pp=4 dp=8'");
    expect_misuse("groups 'dp=8 tp=2' dp tp", "unexpected argument 'tp'; see rankmesh groups --help");
    expect_misuse("groups 'dp=8 tp=2' 'dp tp'",
                  "AXES 'dp tp' contains a blank; separate axes by commas: dp,tp");
    expect_misuse("groups 'dp=8 tp=2' ' dp,  tp '",
                  "AXES ' dp,  tp ' contains a blank; separate axes by commas: dp,tp");
    expect_misuse("groups 'dp=8 tp=2' ' '", "AXES ' ' contains a blank; separate axes by commas");
    expect_misuse(
        "",
        "missing subcommand; one of: show, draw, diff, rank, groups, check, place, convert, frameworks, env, "
        "run, doctor, explain, watch, "
        "reshard, cluster, plan, help, completion; see rankmesh --help");
    expect_misuse("show dp=8 --width", "--width has no value; see rankmesh show --help");
    expect_misuse("show dp=8 --width 39", "--width is '39'; give a whole number from 40 to 10000");
    expect_misuse("show dp=8 --width x", "--width is 'x'; give a whole number from 40 to 10000");
    expect_misuse("show dp=8 --rank 1 --rank 2", "--rank is given more than once; see rankmesh show --help");
    expect_misuse("plan llama3.1-8B --batch x", "--batch is 'x'; give a whole number");
    expect_misuse("run dp=2 --timeout x", "--timeout is 'x'; give a number from 0.001 to 86400");
    expect_misuse("groups dp=4 dp,", "AXES has an empty name; list axes such as dp,tp");
    expect_misuse("show 'dp=* tp=2'",
                  "mesh dp=* tp=2 has a size '*', but neither --world nor a launcher gives the number of "
                  "ranks; add --world N, or replace '*' by a number");
    EXPECT_EQ(rankmesh("").exit_code, 2);
    EXPECT_EQ(rankmesh("show").exit_code, 2);
}

TEST(UsageError, SaysWhatDoesNotFit) {
    expect_misuse("rank dp=8 8", "rank 8 is outside mesh dp=8, which covers ranks 0..7");
    expect_misuse("rank dp=8 -1", "rank -1 is outside mesh dp=8, which covers ranks 0..7");
    expect_misuse("rank dp=8 x7",
                  "'x7' is not a rank; give a number such as 67, or a coordinate such as pp=1,dp=0,tp=3");
    expect_misuse(
        "rank dp=8 99999999999",
        "'99999999999' is not a rank; give a number such as 67, or a coordinate such as pp=1,dp=0,tp=3");
    expect_misuse("show dp=8 --world 4", "mesh dp=8 reaches rank 7, but --world says 4 ranks");
    expect_misuse("show 'a=2 @[5,0]' --world 4", "mesh a=2 @[5,0] reaches rank 5, but --world says 4 ranks");
    expect_misuse(
        "show dp=8 --on 'node:2 gpu:2'",
        "mesh dp=8 reaches rank 7, but cluster node:2 gpu:2 has 4 devices; it fits on node:4 gpu:2");
    expect_misuse("rank dp=8 5 --on 'node:2 gpu:2'",
                  "rank 5 has no device: cluster node:2 gpu:2 has 4, for ranks 0..3");
    expect_misuse("show dp=8 --on ''", "a cluster without levels; name at least one, as in 'node:2 gpu:8'");
    expect_misuse("show dp=0", "axis 'dp' has size 0; sizes are 1 or more");
}

TEST(UsageError, IsACleanTextWhateverStandsInAnArgument) {
    const auto path =
        std::filesystem::temp_directory_path() / ("rankmesh-argument-" + std::to_string(getpid()));
    for (const auto& text : {std::string(100'000, 'x'), std::string(100'000, '\x1b'),
                             std::string(100'000, '\xff'), std::string("\x1b[31m\xc2\x9b\n\x07\xe2\x82"),
                             "dp=2 " + std::string(50'000, '\x07'), "-" + std::string(50'000, '\x9b')}) {
        std::ofstream(path) << text;
        for (const auto* words : {"\"$x\"",
                                  "show \"$x\"",
                                  "show \"dp=2 $x=2\"",
                                  "show \"dp=2 @[$x]\"",
                                  "show dp=8 \"$x\"",
                                  "show dp=8 \"--$x\"",
                                  "show dp=8 --on \"$x\"",
                                  "show dp=8 --width \"$x\"",
                                  "show dp=8 --color \"$x\"",
                                  "draw \"$x\" --format html",
                                  "draw dp=8 --format \"$x\"",
                                  "draw dp=8 --out \"$x\"",
                                  "draw dp=8 --out \"x.html\" --format \"$x\"",
                                  "draw dp=8 --format svg --color-by \"$x\"",
                                  "diff \"$x\" dp=8",
                                  "diff dp=8 \"$x\"",
                                  "diff dp=8 --on gpu:8 --on-b \"$x\"",
                                  "diff dp=8 dp=8 --out \"$x\"",
                                  "rank \"$x\" 1",
                                  "rank dp=8 \"$x\"",
                                  "rank dp=8 \"$x=1\"",
                                  "groups \"$x\" dp",
                                  "groups dp=8 \"$x\"",
                                  "check \"$x\"",
                                  "check dp=8 --over \"$x\"",
                                  "check dp=8 --on gpu:8 --keep \"$x:gpu\"",
                                  "check dp=8 --on gpu:8 --keep \"dp:$x\"",
                                  "env \"$x\" --rank 0",
                                  "run \"$x\"",
                                  "convert --from \"$x\" --to torch dp=2",
                                  "convert --from torch --to \"$x\" dp=2",
                                  "convert --from picotron --to torch \"$x\"",
                                  "convert --from picotron --to torch -- \"--$x\" 1",
                                  "convert --from picotron --to torch -- --tp-size \"$x\"",
                                  "convert --from deepspeed --to torch \"$x=2\"",
                                  "convert --from megatron --to torch \"order='$x'\"",
                                  "convert --from rankmesh --to torch \"$x\"",
                                  "show dp=8 --as \"$x\""}) {
            const auto outcome =
                rankmesh(std::string(words) + " 2>&1 >/dev/null", "x=$(cat '" + path.string() + "'); ");
            EXPECT_EQ(outcome.exit_code, 2) << words << outcome.output;
            EXPECT_TRUE(support::is_clean(outcome.output)) << words << outcome.output;
            EXPECT_GT(outcome.output.size(), 20U) << words;
        }
    }
    std::filesystem::remove(path);
}

TEST(Command, HelpsAndTellsItsVersion) {
    const auto version = rankmesh("--version");
    const auto of = [](bool built, const std::string& text) { return built ? ", " + text : std::string{}; };
    const auto number = std::string("v?[0-9]+([.][0-9a-z]+)+");
    const auto expected = std::regex("rankmesh " RANKMESH_VERSION "\nengines: threads" +
                                     of(mpi::is_built(), "mpi [(].*" + number + "[)]") +
                                     of(gloo::is_built(), "gloo [(]Gloo " + number + "[)]") +
                                     of(nccl::is_built(), "nccl [(]NCCL " + number + "[)]") + "\n");
    EXPECT_TRUE(std::regex_match(version.output, expected)) << version.output;
    EXPECT_EQ(version.exit_code, 0);
    for (const auto* words : {"--help", "-h", "show --help", "rank --help", "groups -h", "check -h"}) {
        const auto help = rankmesh(words);
        EXPECT_EQ(help.exit_code, 0) << words;
        EXPECT_NE(help.output.find("  rankmesh "), std::string::npos) << words;  // an example
        EXPECT_NE(help.output.find("Usage: rankmesh "), std::string::npos) << words;
    }
}

}  // namespace
}  // namespace rankmesh::tests
