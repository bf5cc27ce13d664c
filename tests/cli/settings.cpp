// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "rankmesh.hpp"
#include "support/clean.hpp"

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
              "rankmesh: megatron has no setting '--tensor-model-paralel-size' that places ranks; "
              "did you "
              "mean '--tensor-model-parallel-size'?\n");
}

/// Settings of every framework, and what writes them.
const auto written = std::vector<std::pair<std::string, std::string>>{
    {"rankmesh", "pp=2 dp=2"},     {"torch", "pp=2 dp=2"},       {"megatron", "pp=2 dp=2"},
    {"megatron2022", "pp=2 dp=2"}, {"deepspeed", "pp=2 dp=2"},   {"areal", "pp=2 dp=2"},
    {"picotron", "pp=2 dp=2"},     {"olmo", "pp=2 dp=2"},        {"llamafactory", "dp=2 cp=2"},
    {"torchtitan", "pp=2 dp=2"},   {"tensorrt-llm", "pp=2 tp=2"}};

TEST_F(Files, AreReadAsConvertWritesThem) {
    for (const auto& [framework, mesh] : written) {
        const auto write = "convert --from rankmesh --to " + framework + " '" + mesh + "'";
        const auto read = "convert --quiet --world 4 --from " + framework + " --to torchtitan -";
        const auto direct = quiet("--from rankmesh --to torchtitan '" + mesh + "'");
        // Standard output has the settings only, and the notes do no harm if both are kept.
        for (const auto* streams : {" 2>/dev/null | ", " 2>&1 | "})
            EXPECT_EQ(rankmesh(write + streams + command + read).output, direct) << framework << streams;
        const auto both = rankmesh(write);
        EXPECT_EQ(rankmesh(write + " 2>/dev/null").output + rankmesh(write + " 2>&1 >/dev/null").output,
                  both.output);
        EXPECT_NE(both.output.find("\n# "), std::string::npos);
        EXPECT_EQ(rankmesh(write + " 2>/dev/null").output.find('#'), std::string::npos);
    }
    EXPECT_EQ(nlohmann::json::parse(rankmesh("convert --from rankmesh --to olmo dp=4 2>/dev/null").output),
              nlohmann::json::parse(R"({"dp_config": {"name": "fsdp"}})"));
    EXPECT_EQ(rankmesh("convert --from rankmesh --to tensorrt-llm dp=2 2>/dev/null").output, "");
}

TEST_F(Files, MayBeginWithAMarkAndHaveNotesAndLongLines) {
    const auto expected = quiet("--from megatron --to picotron --world 4 -- --tensor-model-parallel-size 2");
    const auto flags =
        "\xEF\xBB\xBF# of the small model\r\n--tensor-model-parallel-size \\\r\n 2 \\\n--bf16\n";
    EXPECT_EQ(quiet("--from megatron --to picotron --world 4 " + file("a.txt", flags)), expected);
    EXPECT_EQ(quiet("--from picotron --to picotron " +
                    file("b.json", "# a\n{\"tp_size\": 2,\n# b\n\"dp_size\": 2}")),
              expected);
    EXPECT_EQ(quiet("--from rankmesh --to picotron " + file("c.txt", "# a\r\ndp=2\r\n  # b\r\ntp=2\r\n")),
              expected);
    EXPECT_EQ(
        quiet("--from tensorrt-llm --to rankmesh " + file("d.py", "Mapping(\n  tp_size=2,\n  pp_size=2,\n)")),
        "pp=2 tp=2 cp=1\n");
    EXPECT_EQ(quiet("--from torch --to rankmesh " +
                    file("e.py", "mesh_shape=(2, 2),\nmesh_dim_names=('dp', 'tp'),\n")),
              "dp=2 tp=2\n");
}

TEST_F(Files, TakeWordsBehindThem) {
    const auto hsdp = file("a.json", R"({"train_module": {"dp_config": {"name": "hsdp"}}})");
    const auto to = std::string("--from olmo --to rankmesh --world 8 ");
    EXPECT_EQ(quiet(to + hsdp + " num_nodes=2"), "dp_replicate=2 dp_shard=4\n");
    EXPECT_EQ(quiet(to + "'{\"dp_config\": {\"name\": \"hsdp\"}}' LOCAL_WORLD_SIZE=2"),
              "dp_replicate=4 dp_shard=2\n");
    EXPECT_EQ(rankmesh("convert --quiet " + to + hsdp, "NUM_NODES=4").output, "dp_replicate=4 dp_shard=2\n");
    EXPECT_EQ(
        rankmesh("convert --quiet " + to + hsdp).output,
        "rankmesh: OLMo-core's hsdp makes a replica of each node, and how many nodes a world of 8 ranks has "
        "is not known; give num_replicas, shard_degree, num_nodes or local_world_size, or give NUM_NODES or "
        "LOCAL_WORLD_SIZE in the environment\n");
    for (const auto* name : {"dp_config.name", "tp_config.degree", "pp_config.degree"})
        EXPECT_EQ(quiet(to + "'{\"" + std::string(name).substr(0, 9) + "\": {\"schedule\": \"1F1B\"}}'"),
                  "rankmesh: " + std::string(name) + " is not given; " + std::string(name).substr(0, 9) +
                      " needs it\n");
    EXPECT_EQ(quiet("--from olmo --to rankmesh " + hsdp + " world_size=8 num_nodes=8"),
              "dp_replicate=8 dp_shard=1\n");
    EXPECT_EQ(quiet(to + hsdp + " num_nodes=2 nodes=2"),
              "rankmesh: olmo has no setting 'nodes' that places ranks; settings are cp_config, dp_config, "
              "ep_config, pp_config, tp_config\n");
}

TEST_F(Files, ThatSayNothingAreNoLayout) {
    const auto say = [&](const std::string& framework, const std::string& content,
                         const std::string& name = "f.json") {
        const auto path = file(name, content);
        const auto outcome =
            rankmesh("convert --world 4 --from " + framework + " --to torch " + path + " 2>&1 >/dev/null");
        EXPECT_EQ(outcome.exit_code, 2) << content;
        auto text = outcome.output;
        if (const auto at = text.find(path); at != std::string::npos) text.replace(at, path.size(), "FILE");
        return text;
    };
    const auto pico = std::string("cp_size, distributed, dp_size, pp_engine, pp_size, tp_size, world_size\n");
    for (const auto* content : {R"({"model": {"name": "x"}})", R"({"name": "x"})", "{}"})
        EXPECT_EQ(
            say("picotron", content),
            "rankmesh: the settings in FILE give nothing that picotron has a setting for; it reads " + pico);
    EXPECT_EQ(
        say("picotron", "[a]\nb = 1\n", "f.toml"),
        "rankmesh: the settings in FILE give nothing that picotron has a setting for; it reads " + pico);
    for (const auto* framework : {"olmo", "llamafactory", "torchtitan", "tensorrt-llm", "tensorrt-llm-old",
                                  "megatron", "megatron2022"})
        EXPECT_TRUE(say(framework, R"({"model_name": "x", "lr": 0.1})")
                        .starts_with(std::string("rankmesh: the settings in FILE give nothing that ") +
                                     framework + " has"))
            << framework;
    EXPECT_EQ(say("picotron", R"({"distributed": {"tp_size": 2, "dp": 2}})"),
              "rankmesh: picotron has no setting 'dp' that places ranks; did you mean 'dp_size'?\n");
    EXPECT_EQ(say("picotron", R"({"tensor_parallel_size": 2, "dp_size": 2})"),
              "rankmesh: picotron has no setting 'tensor_parallel_size' that places ranks; did you mean "
              "'tp_size'?\n");
    EXPECT_EQ(say("picotron", R"({"distributed": {"tp_size": 4, "mp": 2}})"),
              "rankmesh: picotron has no setting 'mp' that places ranks; did you mean 'tp_size'?\n");
    EXPECT_EQ(say("picotron", R"({"distributed": {"tp_size": 4, "ep": 2}})"),
              "rankmesh: picotron has no setting 'ep' that places ranks; settings are cp_size, "
              "dp_size, pp_engine, pp_size, tp_size\n");
    EXPECT_EQ(say("picotron", R"({"distributed": [2]})"),
              "rankmesh: distributed is [2]; it must be a table of settings\n");
    EXPECT_EQ(say("picotron", R"({"dist": {"tp_size": 2}})"),
              "rankmesh: picotron reads tp_size in 'distributed', not in 'dist'; move it there\n");
    EXPECT_EQ(say("torchtitan", "tensor_parallel_degree = 2\n[parallelism]\npipeline_parallel_degree = 2\n",
                  "f.toml"),
              "rankmesh: torchtitan reads tensor_parallel_degree in 'parallelism', not outside it; move it "
              "there\n");
    EXPECT_EQ(say("torchtitan", "[training]\ntensor_parallel_degree = 2\n[parallelism]\n", "f.toml"),
              "rankmesh: torchtitan reads tensor_parallel_degree in 'parallelism', not in 'training'; "
              "move it there\n");
    EXPECT_EQ(say("deepspeed", R"({"train_batch_size": 32})"),
              "rankmesh: the configuration has train_batch_size, but neither tensor_parallel nor "
              "expert_parallel, so it gives no layout; if all ranks are data parallel, write data=N\n");
    EXPECT_EQ(
        say("megatron", "run_it --nproc-per-node 8 \\\n --tensor-model-parallel-size 2\n", "launch.txt"),
        "rankmesh: the settings in FILE begin with the command 'run_it', which is not a known launcher or "
        "program; keep only the flags of megatron\n");
    EXPECT_EQ(say("torch", "mesh_shape=(-1, 2),\nmesh_dim_names=('dp', 'tp')\n", "f.txt").find("shell"),
              std::string::npos);
    // A launch script, by its name or as one.
    const auto launch =
        file("run.sh", "TP=2\ntorchrun --nproc_per_node 8 train.py --tensor-model-parallel-size $TP\n");
    EXPECT_EQ(quiet("--from megatron --to rankmesh --script " + launch), "pp=1 dp=4 cp=1 tp=2\n");
    EXPECT_EQ(
        quiet("--from megatron --to rankmesh --script " + launch + " -- --tensor-model-parallel-size 4"),
        "pp=1 dp=2 cp=1 tp=4\n");
    // What is somebody else's is let be.
    const auto whole =
        R"({"distributed": {"tp_size": 4, "backend": "nccl"}, "model": {"dp": 3}, "logging": 1})";
    EXPECT_EQ(quiet("--from picotron --to rankmesh " + file("g.json", whole)), "dp=1 pp=1 cp=1 tp=4\n");
}

void expect_misuse(const std::string& words, const std::string& text) {
    const auto outcome = rankmesh("convert " + words + " 2>&1 >/dev/null");
    EXPECT_EQ(outcome.exit_code, 2) << words;
    EXPECT_EQ(outcome.output, "rankmesh: " + text + "\n") << words;
}

TEST(Settings, SayWhatIsWrongWithThem) {
    const auto pico = std::string("--from picotron --to megatron ");
    expect_misuse(pico + "tp_sise=2",
                  "picotron has no setting 'tp_sise' that places ranks; did you mean 'tp_size'?");
    expect_misuse(pico + "tp_size",
                  "the setting 'tp_size' has no value, and no file has that name; write tp_size=VALUE");
    expect_misuse(pico + "'tp_size= pp_size=2'",
                  "the setting 'tp_size' has no value before 'pp_size=2'; write tp_size=VALUE");
    expect_misuse(pico + "tp_size=", "the setting 'tp_size' has no value; write tp_size=VALUE");
    expect_misuse(pico + "-- -tp 4",
                  "picotron has no setting '--tp' that places ranks; did you mean '--tp-size'?");
    expect_misuse(pico + "-- -tp-size 4",
                  "'-tp-size' is no short flag; long flags have two dashes: --tp-size");
    expect_misuse("--from megatron --to picotron -- --world-size",
                  "--world-size has no value; write --world-size VALUE, a whole number up to 2147483647");
    expect_misuse("--from megatron --to picotron --world 8 -- --num-layers 96 --tp 4",
                  "megatron has no setting '--tp' that places ranks; did you mean "
                  "'--tensor-model-parallel-size'?");
    expect_misuse(
        "--from megatron --to picotron --world 8 -- --tensor-model-parallel-size 2 --data-parallel-size 8",
        "--data-parallel-size is 8, but a world of 8 ranks leaves 4 to it");
    expect_misuse(pico + "/", "the settings file '/' cannot be read: Is a directory");
    expect_misuse(
        "--from torchtitan --to picotron --world 8 data_parallel_shard_degree=4 tensor_parallel_degre=2",
        "torchtitan has no setting 'tensor_parallel_degre' that places ranks; did you mean "
        "'tensor_parallel_degree'?");
    const auto topology =
        std::string("--from deepspeed --to picotron --world 8 'PipeModelDataParallelTopology(");
    expect_misuse(topology + "num_pp=2, num_mp=2)'",
                  "PipeModelDataParallelTopology needs num_dp; add num_dp=2");
    expect_misuse(topology + "num_pp=2, num_tp=2, num_dp=2)'",
                  "deepspeed has no setting 'num_tp' that places ranks; did you mean 'num_mp'?");
    const auto layers =
        std::string("--from megatron --to picotron --world 4 -- --pipeline-model-parallel-size 4 ");
    expect_misuse(
        layers + "--num-layers 24 --num-layers-per-virtual-pipeline-stage 4",
        "--num-layers-per-virtual-pipeline-stage is 4, which must divide the layers of a rank: 24 over "
        "4 stages");
    expect_misuse(pico + "gone.txt",
                  "the settings file 'gone.txt' cannot be read: No such file or directory");
    const auto longest = std::string(500, 'x');
    for (const auto& words : {"tp_size=" + longest, longest + "=2", longest, "'" + longest + " 1'",
                              "'{\"" + longest + "\": 1}'", "-- --" + longest, "'(" + longest + "'"}) {
        const auto text = rankmesh("convert " + pico + words).output;
        EXPECT_EQ(text.find(std::string(101, 'x')), std::string::npos) << text;
        EXPECT_EQ(text.find('\n'), text.size() - 1) << text;
        EXPECT_TRUE(text.starts_with("rankmesh: ")) << text;
    }
    expect_misuse("--from deepspeed --to torch " + longest + "=2",
                  "the name " + detail::in_quotes(longest) + " has 500 characters; at most 31 fit");
    auto sentence = std::string{};
    for (int i = 0; i < 100; ++i) sentence += "x y ";
    expect_misuse(
        "--from rankmesh --to torch '" + sentence + "'",
        "the mesh " + detail::in_quotes(sentence.substr(0, sentence.size() - 1)) +
            " cannot be read: expected '=' and a size, as in x=8, after 'x', found ' ' at character 2");
    expect_misuse(pico + "tp_size=two", "tp_size is 'two'; it must be a whole number up to 2147483647");
    expect_misuse(pico + "tp_size=0", "tp_size is 0; it must be 1 or more");
    expect_misuse(pico + "tp_size=2 tp_size=4", "the settings give tp_size twice; give it once");
    expect_misuse(pico + "'{\"tp_size\": }'", "the settings are no JSON: something is wrong at character 13");
    expect_misuse(pico + "gone.toml",
                  "the settings file 'gone.toml' cannot be read: No such file or directory");
    expect_misuse(pico + "tp_size=2 --world 3", "World size (3) != TP (2) * CP (1) * PP (1) * DP (1)");
    expect_misuse(
        "--from megatron --to picotron -- --tensor-model-parallel-size 2",
        "megatron's data parallel size follows from the number of ranks, which is not given; add --world N");
    expect_misuse("--from megatron --to picotron --tensor-model-parallel-size 2",
                  "unknown option '--tensor-model-parallel-size'; put a framework's flags "
                  "after --");
    expect_misuse("--from megatron --to picotron --world 8 -- --world-size 4",
                  "--world says 8 ranks, --world-size 4; say it once");
    expect_misuse("--to picotron a=1", "missing option --from FRAMEWORK; see rankmesh convert --help");
    expect_misuse("--from torch --to picotron 'mesh_shape=(2,4), mesh_dim_names=(\"dp\",)'",
                  "mesh_shape has 2 sizes and mesh_dim_names 1 names; give each size a name");
    const auto outcome = rankmesh("convert --from megtron --to picotron a=1");
    EXPECT_EQ(outcome.exit_code, 2);
    EXPECT_TRUE(outcome.output.ends_with("; did you mean 'megatron'?\n")) << outcome.output;
}

/// Settings with `n` levels, and with `n` keys, in every form.
const auto forms = std::vector<std::pair<std::string, std::function<std::string(std::size_t)>>>{
    {"levels.json",
     [](auto n) {
         return "{\"tp_size\": 2, \"a\": " + std::string(n - 1, '[') + std::string(n - 1, ']') + "}";
     }},
    {"tables.json",
     [](auto n) {
         auto text = std::string("{\"tp_size\": 2");
         for (std::size_t i = 1; i < n; ++i) text += ", \"a\": {\"b\": 1";
         return text + std::string(n, '}');
     }},
    {"levels.toml",
     [](auto n) { return "tp_size = 2\na = " + std::string(n - 1, '[') + std::string(n - 1, ']'); }},
    {"dots.toml",
     [](auto n) {
         auto text = std::string("tp_size = 2\na");
         for (std::size_t i = 1; i < n; ++i) text += ".a";
         return text + " = \"[[[...\" # {{{...";
     }},
    {"tables.toml",
     [](auto n) {
         auto text = std::string("tp_size = 2\n[a");
         for (std::size_t i = 2; i < n; ++i) text += ".a";
         return text + "]\nb = \"\"\"\"x\"\"\"\"\"";
     }},
    {"flags.txt",
     [](auto n) {
         auto text = std::string("--tp-size 2 --a");
         for (std::size_t i = 1; i < n; ++i) text += ".a";
         return text + " 1";
     }},
    {"words.txt", [](auto n) { return "tp_size=2 a=" + std::string(n - 1, '(') + std::string(n - 1, ')'); }},
};
const auto keyed = std::vector<std::pair<std::string, std::function<std::string(std::size_t)>>>{
    {"keys.json",
     [](auto n) {
         auto text = std::string("{\"tp_size\": 2");
         for (std::size_t i = 1; i < n; ++i) text += ",\"k" + std::to_string(i) + "\":1";
         return text + "}";
     }},
    {"keys.toml",
     [](auto n) {
         auto text = std::string("tp_size = 2\n");
         for (std::size_t i = 1; i < n; ++i) text += "k" + std::to_string(i) + " = 1\n";
         return text;
     }},
    {"flags.txt",
     [](auto n) {
         auto text = std::string("--tp-size 2");
         for (std::size_t i = 1; i < n; ++i) text += " --k" + std::to_string(i);
         return text;
     }},
    {"words.txt",
     [](auto n) {
         auto text = std::string("tp_size=2");
         for (std::size_t i = 1; i < n; ++i) text += " k" + std::to_string(i) + "=1";
         return text;
     }},
};

const auto to_mesh = std::string("--from picotron --to rankmesh ");
constexpr auto most_is_read = ", the most that is read; leave out what is not needed\n";

TEST_F(Files, AreReadUpToALimitOfLevelsAndKeys) {
    const auto expect = [&](const std::string& name, const std::string& content, const std::string& more) {
        const auto path = file(name, content);
        EXPECT_EQ(quiet(to_mesh + path), more.empty()
                                             ? "dp=1 pp=1 cp=1 tp=2\n"
                                             : "rankmesh: the settings in " + path + more + most_is_read)
            << name;
    };
    for (const auto& [name, content] : forms) {
        expect(name, content(100), "");
        for (const auto n : {101, 20'000, 50'000})
            if (name != "words.txt" || n == 101)
                expect(name, content(static_cast<std::size_t>(n)), " nest more than 100 levels deep");
    }
    EXPECT_EQ(quiet(to_mesh + file("words.txt", forms.back().second(20'000))),
              std::string("rankmesh: the script nests more than 100 levels deep") + most_is_read);
    for (const auto& [name, content] : keyed) {
        expect(name, content(10'000), "");
        for (const auto n : {10'001, 50'000})
            expect(name, content(static_cast<std::size_t>(n)), " have more than 10000 keys");
    }
}

TEST_F(Files, AreReadUpToALimitOfBytes) {
    const auto most = std::size_t{1} << 20;
    const auto text = [](std::size_t bytes) {
        const auto begin = std::string("{\"tp_size\": 2, \"note\": \"");
        return begin + std::string(bytes - begin.size() - 2, 'x') + "\"}";
    };
    EXPECT_EQ(quiet(to_mesh + file("a.json", text(most))), "dp=1 pp=1 cp=1 tp=2\n");
    const auto refused = [](const std::string& source) {
        return "rankmesh: the settings " + source + " have more than 1048576 bytes" + most_is_read;
    };
    const auto more = file("b.json", text(most + 1));
    EXPECT_EQ(quiet(to_mesh + more), refused("in " + more));
    const auto sparse = file("c.json", "{}");
    std::filesystem::resize_file(sparse, std::uintmax_t{1} << 30);
    EXPECT_EQ(quiet(to_mesh + sparse), refused("in " + sparse));
    EXPECT_EQ(quiet(to_mesh + "/dev/zero"), refused("in /dev/zero"));
    EXPECT_EQ(quiet(to_mesh + "- < /dev/zero"), refused("on standard input"));
}

TEST_F(Files, ThatNobodyWritesToAreNotWaitedFor) {
    const auto path = (folder / "pipe.json").string();
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    EXPECT_EQ(quiet(to_mesh + path),
              "rankmesh: the settings file '" + path +
                  "' is a pipe that nobody writes to; start what writes to it first\n");
    // What has a writer is waited for.
    const auto words = file("a.txt", "--tp-size 2");
    EXPECT_EQ(rankmesh("convert --quiet " + to_mesh + "/dev/stdin",
                       "{ sleep 0.2; cat " + words + "; sleep 0.2; echo ' --dp-size 3'; } | ")
                  .output,
              "dp=3 pp=1 cp=1 tp=2\n");
}

TEST_F(Files, ThatAreWrongAreRefusedInOurWords) {
    const auto expect = [&](const std::string& name, const std::string& content, const std::string& text) {
        const auto path = file(name, content);
        const auto outcome = rankmesh("convert " + to_mesh + path + " 2>&1 >/dev/null");
        EXPECT_EQ(outcome.exit_code, 2) << content;
        EXPECT_EQ(outcome.output, "rankmesh: the settings in " + path + text + "\n") << content;
    };
    expect("a.json", R"({"tp_size": 1e999})",
           " hold the number 1e999, which ends at character 17; numbers are below 1.8e308");
    expect("a.json", R"({"tp_size": 2, "tp_size": 4})", " say tp_size twice in one table; say it once");
    expect("a.json", "{\"tp_size\": 2 \xff}", " are not UTF-8 text: byte 15 is \\xff");
    expect("a.txt", std::string("tp_size=2\0", 10), " are not UTF-8 text: byte 10 is \\x00");
    expect("a.json", std::string("\xff\xfe{\0}\0", 6), " are not UTF-8 text: byte 1 is \\xff");
    expect("a.toml", "tp_size = 2\n tp_size = 4\n",
           " are no TOML: a key is given twice in line 2, 'tp_size = 4'");
    for (const auto* number : {"1e999", "99999999999999999999"})
        expect("a.toml", std::string("a = 1\r\ntp_size = ") + number + "\r\n",
               std::string(" are no TOML: something is wrong in line 2, 'tp_size = ") + number + "'");
    expect("a.toml", "[a\n", " are no TOML: something is wrong in line 1, '[a'");
    expect("a.toml", "a = \"\x1b\n", " are no TOML: something is wrong in line 1, 'a = \"\\x1b'");
    expect_misuse(to_mesh + file("a.json", R"({"tp_size": 99999999999999999999})"),
                  "tp_size is 1e+20; it must be a whole number up to 2147483647");
    expect_misuse(to_mesh + file("a.json", R"({"tp_size": -0})"), "tp_size is 0; it must be 1 or more");
    expect_misuse(to_mesh + file("a.json", R"({"tp_size": 2, "tp-size": 4})"),
                  "the settings give tp_size twice; give it once");
    expect_misuse(to_mesh + file("a.toml", "tp_size = inf"),
                  "tp_size is no finite number; it must be a whole number up to 2147483647");
    expect_misuse(to_mesh + file("a.json", R"({"tp_size": "\u001b[31m"})"),
                  "tp_size is '\\x1b[31m'; it must be a whole number up to 2147483647");
    expect_misuse("--from torchtitan --to rankmesh --world 2 " +
                      file("a.json", R"({"parallelism": {"pipeline_parallel_schedule": "\u0007"}})"),
                  "pipeline_parallel_schedule is '\\x07'; it must be a string without control characters");
}

TEST_F(Files, OfAnyBytesAreReadOrRefusedInACleanText) {
    const auto valid = std::vector<std::pair<std::string, std::string>>{
        {"a.json", R"({"distributed": {"tp_size": 2, "dp_size": 4}, "a": [1, "b"]})"},
        {"a.toml", "[distributed]\ntp_size = 2\ndp_size = 4\n"},
        {"a.txt", "--tp-size 2 --dp-size 4"},
        {"b.txt", "setup_process_group_manager(2, cp_size=1, dp_size=4)"}};
    auto errors = 0;
    for (unsigned n = 0; n < 200; ++n) {
        const auto& [name, text] = valid[n / 2 % valid.size()];
        const auto path = file(name, support::hostile(n, text));
        const auto outcome = rankmesh("convert " + to_mesh + path + " 2>&1 >/dev/null");
        EXPECT_TRUE(outcome.exit_code <= 2) << n << outcome.output;
        EXPECT_TRUE(support::is_clean(outcome.output)) << n << outcome.output;
        errors += outcome.exit_code == 2 ? 1 : 0;
    }
    EXPECT_GT(errors, 50);
}

TEST(Settings, AreReadAsACallIsWritten) {
    const auto mesh = [](const std::string& framework, const std::string& call) {
        return quiet("--from " + framework + " --to rankmesh '" + call + "'");
    };
    EXPECT_EQ(mesh("torch", "init_device_mesh(\"cuda\", (2,4), mesh_dim_names=(\"dp\",\"tp\"))"),
              "dp=2 tp=4\n");
    EXPECT_EQ(
        mesh("torch", "m = torch.distributed.init_device_mesh(\"cuda\", (8,), mesh_dim_names=(\"dp\",))"),
        "dp=8\n");
    EXPECT_EQ(mesh("deepspeed", "PipeModelDataParallelTopology(2, 3, 4)"), "pipe=2 data=4 model=3\n");
    EXPECT_EQ(mesh("deepspeed", "PipeModelDataParallelTopology(2, num_dp=4, num_mp=3)"),
              "pipe=2 data=4 model=3\n");
    EXPECT_EQ(mesh("deepspeed", "PipeDataParallelTopology(2, 3)"), "pipe=2 data=3 model=1\n");
    EXPECT_EQ(mesh("areal", "PipeDataTensorParallelTopology(num_pp=2,num_tp=3,num_dp=4)"),
              "pipe=2 data=4 tensor=3\n");
    EXPECT_EQ(
        mesh("areal", "DataPipeTensorParallelTopology(num_dp=4, num_pp=2, num_tp=3, sequence_parallel=True)"),
        "data=4 pipe=2 tensor=3\n");
    EXPECT_EQ(mesh("areal", "num_dp=4 num_pp=2"),
              "rankmesh: num_pp, num_tp and num_dp are of two topologies; write "
              "PipeDataTensorParallelTopology(...) or "
              "DataPipeTensorParallelTopology(...) around them\n");
    EXPECT_EQ(mesh("picotron", "Grid(2, 4)"),
              "rankmesh: the settings '2, 4' are not a list of key=value: '2' does not begin with a key\n");
    EXPECT_EQ(quiet("--from rankmesh --to megatron2022 'pp=2 dp=2 tp=2'"),
              "initialize_model_parallel(tensor_model_parallel_size=2, pipeline_model_parallel_size=2)\n");
}

TEST(Settings, GiveAKeyAValueOrATableInWhateverOrder) {
    for (const auto* settings : {"'tp.degree=1 tp=2'", "'tp=2 tp.degree=1'"}) {
        const auto answer = quiet(std::string("--from olmo --to rankmesh --world 8 ") + settings);
        EXPECT_TRUE(answer.ends_with("; give it only one of them\n")) << answer;
    }
}

TEST(Settings, OfALaunchLineSayOtherThingsToo) {
    EXPECT_EQ(quiet("--from megatron --to rankmesh --world 8 -- --num-layers 96 --bf16 "
                    "--tensor-model-parallel-size 2 --data-path a b"),
              "pp=1 dp=4 cp=1 tp=2\n");
}

TEST(Settings, MaySayTheWorldThemselves) {
    const auto mesh = [](const std::string& settings) {
        return quiet("--from llamafactory --to rankmesh " + settings);
    };
    EXPECT_EQ(mesh("mp_shard_size=4 dp_size=4 cp_size=1"), "dp_replicate=1 dp_shard=4 cp=1\n");
    EXPECT_EQ(mesh("dp_size=2 cp_size=2"), "dp_replicate=1 dp_shard=2 cp=2\n");
    EXPECT_EQ(mesh("mp_replicate_size=2 mp_shard_size=2"), "dp_replicate=2 dp_shard=2 cp=1\n");
    EXPECT_EQ(mesh("mp_shard_size=4 dp_size=2"),
              "rankmesh: mp_replicate_size * mp_shard_size must equal to world_size, got 1 * 4 != 2.\n");
    EXPECT_EQ(
        mesh("cp_size=2"),
        "rankmesh: LlamaFactory's mp_shard_size follows from the number of ranks, which is not given; add "
        "--world N\n");
}

}  // namespace
}  // namespace rankmesh::tests
