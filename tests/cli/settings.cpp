// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "rankmesh.hpp"

namespace rankmesh::tests {
namespace {

class Files : public testing::Test {
protected:
    void SetUp() override { std::filesystem::create_directory(folder); }
    void TearDown() override { std::filesystem::remove_all(folder); }
    std::string file(const std::string& name, const std::string& content) const {
        std::ofstream(folder / name) << content;
        return (folder / name).string();
    }
    std::filesystem::path folder =
        std::filesystem::temp_directory_path() / ("rankmesh-settings-" + std::to_string(getpid()));
};

std::string quiet(const std::string& words) { return rankmesh("convert --quiet " + words).output; }

TEST_F(Files, AreReadInEveryForm) {
    const auto expected =
        quiet("--from torchtitan --to picotron tensor_parallel_degree=2 data_parallel_shard_degree=4");
    EXPECT_EQ(nlohmann::json::parse(expected)["distributed"]["dp_size"], 4);
    const auto toml = std::string(
        "[model]\nname = 'x'\n\n[parallelism]\ntensor_parallel_degree = 2 # of 8\ndata_parallel_shard_degree "
        "= 4\n");
    const auto json =
        std::string(R"({"parallelism": {"tensor_parallel_degree": 2, "data_parallel_shard_degree": 4}})");
    for (const auto& settings :
         {"-- --parallelism.tensor_parallel_degree 2 --parallelism.data_parallel_shard_degree=4",
          "--world 8 tensor-parallel-degree=2"})
        EXPECT_EQ(quiet(std::string("--from torchtitan --to picotron ") + settings), expected) << settings;
    EXPECT_EQ(quiet("--from torchtitan --to picotron '" + json + "'"), expected);
    EXPECT_EQ(quiet("--from torchtitan --to picotron \"" + toml + "\""), expected);
    EXPECT_EQ(quiet("--from torchtitan --to picotron " + file("a.toml", toml)), expected);
    EXPECT_EQ(quiet("--from torchtitan --to picotron " + file("a.json", json)), expected);
    EXPECT_EQ(rankmesh("convert --quiet --from torchtitan --to picotron - < " + file("b.json", json)).output,
              expected);
}

TEST_F(Files, SayOtherThingsTooButNoSettingIsMisspelt) {
    const auto whole = file("args.txt", "--tensor-model-parallel-size 2 --num-layers 24 --bf16");
    EXPECT_EQ(rankmesh("convert --from megatron --to picotron --world 4 " + whole).exit_code, 0);
    const auto misspelt = file("bad.txt", "--tensor-model-paralel-size 2");
    EXPECT_EQ(rankmesh("convert --from megatron --to picotron --world 4 " + misspelt).output,
              "rankmesh: megatron has no setting '--tensor-model-paralel-size' that says where ranks stand; "
              "did you "
              "mean '--tensor-model-parallel-size'?\n");
}

void expect_misuse(const std::string& words, const std::string& text) {
    const auto outcome = rankmesh("convert " + words + " 2>&1 >/dev/null");
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
}

TEST(Settings, SayWhatIsWrongWithThem) {
    const auto pico = std::string("--from picotron --to megatron ");
    expect_misuse(pico + "tp_sise=2",
                  "picotron has no setting 'tp_sise' that says where ranks stand; did you mean 'tp_size'?");
    expect_misuse(pico + "tp_size", "the setting 'tp_size' has no value; write tp_size=VALUE");
    expect_misuse(pico + "tp_size=two", "tp_size is 'two'; it is a whole number up to 2147483647");
    expect_misuse(pico + "tp_size=0", "tp_size is 0; it is 1 or more");
    expect_misuse(pico + "tp_size=2 tp_size=4", "the settings say tp_size twice; say it once");
    expect_misuse(pico + "'{\"tp_size\": }'", "the settings are no JSON: something is wrong at character 13");
    expect_misuse(pico + "gone.toml", "the settings file 'gone.toml' can not be read");
    expect_misuse(pico + "tp_size=2 --world 3", "World size (3) != TP (2) * CP (1) * PP (1) * DP (1)");
    expect_misuse(
        "--from megatron --to picotron -- --tensor-model-parallel-size 2",
        "megatron's data parallel size is what the world leaves over, and nobody says how many ranks there "
        "are; add --world N");
    expect_misuse("--from megatron --to picotron --tensor-model-parallel-size 2",
                  "rankmesh convert has no option '--tensor-model-parallel-size'; flags of a framework stand "
                  "behind --");
    expect_misuse("--from megatron --to picotron --world 8 -- --world-size 4",
                  "--world says 8 ranks, --world-size 4; say it once");
    expect_misuse("--to picotron a=1",
                  "rankmesh convert needs --from FRAMEWORK; see rankmesh convert --help");
    expect_misuse("--from torch --to picotron 'mesh_shape=(2,4), mesh_dim_names=(\"dp\",)'",
                  "mesh_shape has 2 sizes and mesh_dim_names 1 names; give each size a name");
    const auto outcome = rankmesh("convert --from megtron --to picotron a=1");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(outcome.output.ends_with("; did you mean 'megatron'?\n")) << outcome.output;
}

}  // namespace
}  // namespace rankmesh::tests
