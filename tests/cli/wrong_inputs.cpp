// SPDX-License-Identifier: Apache-2.0
// Whatever is wrong with its input, a subcommand ends with status 2, says so in one line on standard error,
// and writes nothing else.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "rankmesh.hpp"
#include "support/content.hpp"
#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

void expect_status_2(const std::string& words) {
    const auto folder = support::Folder{};  // where it could leave something
    const auto streams = support::Folder{};
    const auto outcome = rankmesh(words + " >" + streams.path() + "/out 2>" + streams.path() + "/err",
                                  "cd " + folder.path() + ";");
    const auto said = support::content_of(streams.path() + "/err");
    EXPECT_EQ(outcome.exit_code, 2) << words << '\n' << said;
    EXPECT_TRUE(said.starts_with("rankmesh: ")) << words << '\n' << said;
    EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << words << '\n' << said;
    EXPECT_EQ(support::content_of(streams.path() + "/out"), "") << words;
    EXPECT_TRUE(std::filesystem::is_empty(folder.path())) << words;
}

TEST(WrongInputs, OfEverySubcommandAreRefused) {
    for (const auto& name : completed("''")) {
        expect_status_2(name + " --no-such-option");
        expect_status_2(name + " a b c d e");
        for (const auto& option : completed(name + " --"))
            if (option != "--help") {
                expect_status_2(name + " " + option + "= a b c d e");
                expect_status_2(name + " a b c d e " + option);
            }
    }
}

TEST(WrongInputs, ThatOneSubcommandKnowsAreRefused) {
    const auto on = std::string(" --on 'node:1(400GB/s) gpu:8(450GB/s)' ");
    const auto plan = "plan llama3.1-8B --device H100" + on;
    for (const auto& words : {std::string("show dp=8 --width 10"),
                              std::string("show dp=8 --color blue"),
                              std::string("show dp=8 --rank 8"),
                              std::string("show dp=8 --on no-such-file"),
                              std::string("show dp=8 --as nobody"),
                              std::string("draw dp=8"),
                              std::string("draw dp=8 --out no/such/folder/x.svg"),
                              std::string("draw dp=8 --out x.doc"),
                              std::string("draw dp=8 --out x.svg --format html"),
                              std::string("draw dp=8 --out x.svg --color-by tp"),
                              std::string("draw dp=8 --out /dev/null/x.svg"),
                              std::string("diff dp=8 tp=8 --out no/such/folder/x.svg"),
                              std::string("diff dp=8 tp=8 --out ."),
                              std::string("diff dp=8"),
                              std::string("rank dp=8 8"),
                              std::string("rank dp=8 dp=8"),
                              std::string("groups dp=8 tp"),
                              std::string("check dp=8 --engine nobody"),
                              std::string("check dp=8 --bytes 1MiB"),
                              "check dp=8 --bytes 64Mb" + on,
                              "check dp=8 --bytes 0" + on,
                              "check dp=8 --keep dp:rack" + on,
                              std::string("check dp=8 --axes tp"),
                              std::string("place dp=8"),
                              "place dp=8 --as nobody" + on,
                              "place dp=8 --weights dp=x" + on,
                              "place dp=8 --bytes 1.5B" + on,
                              "place dp=16" + on,
                              std::string("convert --from picotron tp_size=2"),
                              std::string("convert --from picotron --to olmo tp_size=2 --frob"),
                              std::string("convert --from picotron --to olmo tp_size=2 -- --frob"),
                              std::string("convert --from picotron --to olmo -- --tp_size 2 --json"),
                              std::string("convert --from picotron --to olmo -- --tp_size 2 --jsn"),
                              std::string("convert --from picotron --to olmo no-such-file"),
                              std::string("env dp=8"),
                              std::string("env dp=8 --rank 8"),
                              std::string("run dp=2 --bytes -1"),
                              std::string("run dp=2 --timeout 0"),
                              std::string("run dp=2 --engine nobody"),
                              std::string("run dp=2 --device nobody"),
                              std::string("run dp=2 --world 1"),
                              std::string("run dp=2 --bytes 8 --calibrate no/such/file"),
                              std::string("explain no/such/folder"),
                              std::string("explain . --mesh dp=x"),
                              std::string("reshard dp=2 tp=2"),
                              std::string("reshard dp=2 tp=2 --shape 4x"),
                              std::string("reshard dp=2 tp=2 --shape 4 --bytes 1MiB"),
                              std::string("cluster no/such/file"),
                              std::string("cluster 'node:2 gpu'"),
                              std::string("cluster gpu:2 --from nobody"),
                              plan + "--seq 0",
                              plan + "--count 0",
                              plan + "--fix tq=1",
                              plan + "--as nobody",
                              plan + "--explain tp=3",
                              plan + "--measured no/such/file",
                              plan + "--devices-file no/such/file",
                              std::string("help nobody"),
                              std::string("help --man no/such/folder"),
                              std::string("completion csh")})
        expect_status_2(words);
}

TEST(WrongInputs, OfBytesSayWhatIsTaken) {
    const auto text = [](const std::string& bytes) {
        return rankmesh("reshard tp=2 dp=2 --shape 8 --bytes " + bytes).output;
    };
    const auto takes = std::string(
        "; give 1 B to 4 KiB, as a number of bytes or with a unit: B, kB, MB, GB, TB, KiB, MiB, GiB or "
        "TiB\n");
    EXPECT_EQ(text("64Kib"), "rankmesh: --bytes is '64Kib', which is not a size" + takes);
    EXPECT_EQ(text("''"), "rankmesh: --bytes is '', which is not a size" + takes);
    EXPECT_EQ(text("nan"), "rankmesh: --bytes is 'nan'" + takes);
    EXPECT_EQ(text("-1"), "rankmesh: --bytes is '-1'" + takes);
    EXPECT_EQ(text("8KiB"), "rankmesh: --bytes is '8KiB'" + takes);
    EXPECT_EQ(text("1.5"), "rankmesh: --bytes is '1.5', which is not a whole number of bytes" + takes);
}

TEST(Bytes, HaveUnitsEverywhere) {
    for (const auto& [text, bytes] :
         std::vector<std::pair<std::string, std::int64_t>>{{"1000", 1000},
                                                           {"1kB", 1000},
                                                           {"1.5KiB", 1536},
                                                           {"'64 MiB'", 64 << 20},
                                                           {"64MiB", 64 << 20},
                                                           {"0.3GB", 300'000'000},
                                                           {"1GiB", 1 << 30},
                                                           {"2TB", 2'000'000'000'000},
                                                           {"1TiB", std::int64_t{1} << 40}}) {
        const auto on = " --json --on 'gpu:2(1GB/s)' --bytes " + text;
        EXPECT_EQ(json_of("check dp=2" + on)["cluster"]["bytes"], bytes) << text;
        EXPECT_EQ(json_of("place dp=2" + on)["bytes"], bytes) << text;
    }
    EXPECT_EQ(json_of("reshard tp=2 dp=2 --shape 8 --json --bytes 4KiB")["bytes"], 4096);
    EXPECT_EQ(rankmesh("run dp=2 --bytes 1KiB").exit_code, 0);
}

}  // namespace
}  // namespace rankmesh::tests
