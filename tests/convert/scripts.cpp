// SPDX-License-Identifier: Apache-2.0
// Launch scripts: what decides a branch of them, what they call and what they read.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

class Scripts : public testing::Test {
protected:
    std::string file(const std::string& name, const std::string& text) {
        std::ofstream(folder_ / name) << text;
        return (folder_ / name).string();
    }
    /// The mesh of a script, or the error with FILE for its name.
    std::string mesh(const std::string& text, const std::string& from = "megatron",
                     const std::string& name = "run.sh") {
        const auto path = file(name, text);
        try {
            return rankmesh::convert(from, "rankmesh", {path}).mesh_from;
        } catch (const UsageError& error) {
            auto said = std::string(error.what());
            if (const auto at = said.find(path); at != std::string::npos)
                said.replace(at, path.size(), "FILE");
            return said;
        }
    }
    /// That of a script of these lines, which start 8 ranks with the flags `$ARGS`.
    std::string tp(const std::string& lines) {
        const auto said = mesh("#!/bin/bash\n" + lines + "\ntorchrun --nproc_per_node 8 t.py $ARGS\n");
        return said.starts_with("pp=1") ? said.substr(said.rfind('=') + 1) : said;
    }
    support::Folder own_;
    std::filesystem::path folder_ = own_.path();
};

constexpr auto two = "--tensor-model-parallel-size 2";
constexpr auto four = "--tensor-model-parallel-size 4";
constexpr auto unknown =
    "the settings in FILE pass '$ARGS', whose value they do not give; write the flags that it "
    "stands for";

std::string either(const std::string& condition) {
    return "if " + condition + "; then ARGS='" + two + "'; else ARGS='" + four + "'; fi";
}

TEST_F(Scripts, TestsOfTheirOwnVariablesDecide) {
    const auto set = std::string("N=4 M=large E=\n");
    for (const auto* holds : {"[ $N -gt 1 ]",
                              "[ \"$N\" -ge 4 ]",
                              "[[ $N -le 4 && $M == large ]]",
                              "test $M = large",
                              "(( N > 1 ))",
                              "((N == 4 && 2 * N == 8))",
                              "((N))",
                              "[ -n \"$M\" ]",
                              "[[ -z $E ]]",
                              "[[ -z \"${X:-}\" ]]",
                              "[ \"${X:-1}\" = 1 ]",
                              "! [ $N -lt 2 ]",
                              "[[ ! $N -eq 5 ]]",
                              "[[ $M == l*e ]]",
                              "[[ $M != \"small\" ]]",
                              "[ $M = small ] || [ $N = 4 ]",
                              "[ $M = large -a $N -ne 3 ]",
                              "true",
                              "[ \"x$E\" = \"x\" ]",
                              "[[ \"$M\" = \"large\" ]] && [[ $N != 1 ]]",
                              "[ -z \"${X+set}\" ]"})
        EXPECT_EQ(tp(set + either(holds)), "2") << holds;
    for (const auto* fails : {"[ $N -lt 1 ]", "[[ $M == l ]]", "(( N >= 5 ))", "[[ $N -gt 1 && -n $E ]]",
                              "false", "[ \"$M\" = \"l*\" ]", "((N - 4))"})
        EXPECT_EQ(tp(set + either(fails)), "4") << fails;
    for (const auto* open :
         {"[ $X -gt 1 ]", "[ -f $M ]", "[[ $M =~ l.* ]]", "nvidia-smi", "[[ -n $X && $N -eq 4 ]]",
          "[ $# -lt 2 ]", "[[ $(hostname) == a ]]", "[[ -n $M || -f $X ]]", "(( X > 1 ))"})
        EXPECT_EQ(tp(set + either(open)), unknown) << open;
}

TEST_F(Scripts, BranchesThatAreNotTakenSetNothing) {
    EXPECT_EQ(tp(std::string("M=7b\ncase $M in\n  7b | 8b) ARGS='") + two + "' ;;\n  *) ARGS='" + four +
                 "';;\nesac"),
              "2");
    EXPECT_EQ(tp(std::string("case ${M:-70b} in 7*b) A=1;; esac\ncase ${M:-70b} in 7b) ARGS='") + two +
                 "';; 70b) ARGS='" + four + "';; esac"),
              "4");
    EXPECT_EQ(tp(std::string("M=1\n[[ -n ${M} ]] && ARGS='") + two + "'\n[ $M = 2 ] && ARGS='" + four + "'"),
              "2");
    EXPECT_EQ(tp(std::string("M=1\nARGS='") + two + "'\n[ $M = 1 ] || ARGS='" + four + "'"), "2");
    EXPECT_EQ(tp(std::string("A=1\nif [ $A = 2 ]; then\n  if [ $X ]; then ARGS='") + two +
                 "'; fi\nelif [ $A = 1 ]\n" + "then\n  ARGS='" + four + "'\nelse\n  ARGS='--x'\nfi"),
              "4");
    EXPECT_EQ(tp(std::string("ARGS='") + two + "'\nif false; then MORE='--bf16'; fi\nARGS=\"$ARGS $MORE\""),
              "the settings in FILE pass '$MORE', whose value they do not give; write the flags that it "
              "stands for");
    EXPECT_EQ(tp(std::string("for i in 1 2; do ARGS='") + two + "'; done"), unknown);
}

TEST_F(Scripts, AreGivenNoWords) {
    const auto loop =
        std::string("ARGS='") + two + "'\nwhile [[ $# -gt 0 ]]; do\n  case \"$1\" in\n" +
        "    -t|--tp) ARGS=\"--tensor-model-parallel-size $2\"; shift 2 ;;\n    *) exit 1 ;;\n  esac\ndone";
    EXPECT_EQ(tp(loop), "2");
    EXPECT_EQ(tp(std::string("ARGS='") + two + "'\nwhile getopts 'a:' o; do ARGS=$OPTARG; done"), "2");
    EXPECT_EQ(tp(std::string("ARGS='") + two + "'\nfor a in \"$@\"; do ARGS=$a; done"), "2");
    EXPECT_EQ(tp("read ARGS"), unknown);
    EXPECT_EQ(mesh(std::string("#!/bin/sh\nset -- \"$@\" ") + two +
                   "\nexec torchrun --nproc_per_node 8 t.py \"$@\"\n"),
              "pp=1 dp=4 cp=1 tp=2");
    EXPECT_EQ(mesh(std::string("#!/bin/sh\nif [ \"${A:-1}\" = 1 ]; then torchrun --nproc_per_node 8 t.py ") +
                   two + "; exit 0; fi\ntorchrun --nproc_per_node 8 t.py " + four + "\n"),
              "pp=1 dp=4 cp=1 tp=2");
}

TEST_F(Scripts, FunctionsAreReadWhereTheyAreCalled) {
    const auto launch = std::string(
        "launch() {\n  local tp=$1\n  shift\n  torchrun --nproc_per_node 8 t.py "
        "--tensor-model-parallel-size $tp\n}\n");
    EXPECT_EQ(mesh("#!/bin/bash\n" + launch + "launch 4 --x\n"), "pp=1 dp=2 cp=1 tp=4");
    EXPECT_EQ(mesh("#!/bin/bash\nfunction other { torchrun a.py --x 1; }\n" + launch + "launch 2\n"),
              "pp=1 dp=4 cp=1 tp=2");
    EXPECT_EQ(mesh("#!/bin/bash\nmain() {\n  torchrun --nproc_per_node 8 t.py " + std::string(two) +
                   "\n}\n\"$1\"\n"),
              "pp=1 dp=4 cp=1 tp=2");
    EXPECT_NE(mesh("#!/bin/bash\nf() { f; }\nf\n").find("more than 10 levels deep"), std::string::npos);
}

TEST_F(Scripts, TextsThatOtherShellsReadAreRead) {
    const auto job = std::string("torchrun --nnodes $N --nproc_per_node 8 t.py ") + two;
    EXPECT_EQ(mesh("#!/bin/bash\nN=2\nsbatch <<EOF\n#!/bin/bash\n#SBATCH -N $N\nsrun " + job + "\nEOF\n"),
              "pp=1 dp=8 cp=1 tp=2");
    EXPECT_EQ(
        mesh("#!/bin/bash\nsbatch << 'EOF'\n#SBATCH --nodes=2\nN=\"$SLURM_NNODES\"\n" + job + "\nEOF\n"),
        "pp=1 dp=8 cp=1 tp=2");
    for (const auto* shell :
         {"bash -c", "bash -x -c", "bash -lc", "sh -euo pipefail -c", "/bin/bash -o pipefail -c"})
        EXPECT_EQ(mesh("#!/bin/bash\nN=2\nsrun -l " + std::string(shell) + " \"" + job + "\"\n"),
                  "pp=1 dp=8 cp=1 tp=2")
            << shell;
    EXPECT_EQ(
        mesh("#!/bin/bash\ncat <<EOF > x\n" + job + "\nEOF\ntorchrun --nproc_per_node 8 t.py " + four + "\n"),
        "pp=1 dp=2 cp=1 tp=4");
}

TEST_F(Scripts, FilesBesideThemAreRead) {
    std::filesystem::create_directories(folder_ / "models");
    file("models/a.sh", std::string("ARGS=(") + two + ")\n");
    const auto launch = std::string("\ntorchrun --nproc_per_node 8 t.py ${ARGS[@]}\n");
    for (const auto* folder : {"\"$(cd -- \"$(dirname -- \"${BASH_SOURCE[0]}\")\" &>/dev/null && pwd)\"",
                               "$(dirname $0)", "$(cd \"$(dirname \"$0\")/models/..\" && pwd)", "."})
        EXPECT_EQ(mesh("#!/bin/bash\nD=" + std::string(folder) + "\nsource \"${D}/models/a.sh\"" + launch),
                  "pp=1 dp=4 cp=1 tp=2")
            << folder;
    EXPECT_NE(mesh("#!/bin/bash\n. ./models/b.sh\nARGS+=(--x)" + launch).find("pass '${ARGS[@]}'"),
              std::string::npos);
}

TEST_F(Scripts, WhatWouldBeLostIsRefused) {
    EXPECT_EQ(mesh("#!/bin/bash\ntorchrun --nproc_per_node 8 t.py --bf16 $EXTRA_ARGS\n"),
              "the settings in FILE pass '$EXTRA_ARGS', whose value they do not give; write the flags that "
              "it stands "
              "for");
    EXPECT_EQ(mesh("#!/bin/bash\ntorchrun --nproc_per_node 8 t.py --bf16\n  " + std::string(two) + "\n"),
              "the settings in FILE have the command '--tensor-model-parallel-size' in line 3; write a \\ at "
              "the end "
              "of the line before it");
    EXPECT_EQ(mesh("#!/bin/bash\ntorchrun --nproc_per_node 8 t.py --moe-expert-parallel-size 8 " +
                   std::string(two) + "\n"),
              "megatron has no setting '--moe-expert-parallel-size' that places ranks; did you mean "
              "'--expert-model-parallel-size'?");
    EXPECT_EQ(mesh("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - command: [vllm, serve, m, "
                   "'--port={{ .p }}']\n",
                   "vllm", "a.yaml"),
              "the settings in FILE have the template '{{ .p }}'; give the text that it makes, such as that "
              "of helm "
              "template");
    EXPECT_EQ(mesh("apiVersion: v1\nkind: Pod\nspec:\n  containers:\n    - command: [vllm, serve, m]\n"
                   "    - command: [bash, -c, vllm serve m $FLAGS]\n",
                   "vllm", "a.yaml")
                  .substr(0, 30),
              "the settings in FILE pass '$FL");
    EXPECT_EQ(mesh("#!/bin/bash\ndeepspeed --num_gpus 8 main.py --zero_stage 2\n", "deepspeed"),
              "the command names no file with DeepSpeed's settings; add --deepspeed_config FILE, or write "
              "data=N if all "
              "ranks are data parallel");
}

TEST_F(Scripts, ServersWithoutSizesHaveOneRank) {
    EXPECT_EQ(mesh("vllm serve org/model --trust-remote-code\n", "vllm"), "dp=1 pp=1 tp=1");
    EXPECT_EQ(
        mesh("docker run --gpus all -v a:b vllm/vllm-openai-rocm:v0.33 org/model --max-model-len 4096\n",
             "vllm"),
        "dp=1 pp=1 tp=1");
    EXPECT_EQ(
        mesh("sglang serve --model-path m\n\npython3 -m sglang.bench_serving --backend sglang\n", "sglang"),
        "pp=1 dp=1 cp=1 tp=1");
    EXPECT_EQ(mesh("vllm serve m -tp 4\nvllm bench serve --model m --num-prompts 10\n", "vllm"),
              "dp=1 pp=1 tp=4");
    EXPECT_NE(
        mesh("sglang serve --model-path m --ulysses-degree 2\n", "sglang").find("give nothing that sglang"),
        std::string::npos);  // an engine of another kind
}

TEST_F(Scripts, OthersThatStartMegatronSayTheWorld) {
    EXPECT_EQ(mesh("NNODES=2 NPROC_PER_NODE=8 \\\nmegatron sft \\\n  --model a/b \\\n  "
                   "--tensor_model_parallel_size 2\n"),
              "pp=1 dp=8 cp=1 tp=2");
    EXPECT_EQ(mesh("#!/bin/bash\nA=(--actor-num-nodes 2)\nray job submit -- python3 train.py ${A[@]} "
                   "--actor-num-gpus-per-node 8 ${EVAL_ARGS[@]} --colocate --sizes 1 2 $(seq 4 4 16) " +
                   std::string(two) + "\n"),
              "pp=1 dp=8 cp=1 tp=2");
    EXPECT_EQ(mesh("MODEL_ARGS:\n  --tensor-model-parallel-size: 2\n  --use-distributed-optimizer: true\n  "
                   "--world-size: 8\n",
                   "megatron", "model_config.yaml"),
              "pp=1 dp=4 cp=1 tp=2");
}

/// What bash says of a script: its last line.
std::string of_bash(const std::string& path) {
    const auto close = [](std::FILE* pipe) { ::pclose(pipe); };
    const auto pipe =
        std::unique_ptr<std::FILE, decltype(close)>(::popen(("bash " + path).c_str(), "r"), close);
    auto text = std::array<char, 64>{};
    const auto size = std::fread(text.data(), 1, text.size(), pipe.get());
    return {text.data(), text.data() + size};
}

/// Random lines that set T and U.
class Lines {
public:
    explicit Lines(unsigned seed) : random_(seed) {}
    std::string block(int depth) {
        auto text = std::string{};
        for (int i = up_to(3); i >= 0; --i) text += line(depth) + "\n";
        return text;
    }

private:
    int up_to(int most) { return std::uniform_int_distribution(0, most)(random_); }
    std::string pick(const std::vector<std::string>& all) {
        return all[static_cast<std::size_t>(up_to(static_cast<int>(all.size()) - 1))];
    }
    std::string number() { return std::to_string(1 << up_to(3)); }
    std::string name() { return pick({"T", "U"}); }
    std::string test() {
        const auto plain =
            pick({"[ $" + name() + " -gt " + number() + " ]", "[[ \"$" + name() + "\" == " + number() + " ]]",
                  "(( " + name() + " <= " + number() + " ))", "[ -z \"$" + name() + "\" ]",
                  "test ${" + name() + ":-1} != " + number(), "[[ -n $T && $U -lt " + number() + " ]]"});
        return pick({plain, "! " + plain, plain + " && [ $T = " + number() + " ]", plain + " || true"});
    }
    std::string line(int depth) {
        const auto set = name() + "=" + pick({number(), "$" + name(), "$(( " + name() + " * 2 % 15 ))"});
        if (depth == 0) return set;
        switch (up_to(6)) {
            case 0:
                return "if " + test() + "; then\n" + block(depth - 1) +
                       pick({"", "else\n" + block(depth - 1)}) + "fi";
            case 1:
                return "if " + test() + "; then\n" + block(depth - 1) + "elif " + test() + "; then\n" +
                       block(depth - 1) + "fi";
            case 2:
                return "case $" + name() + " in\n  " + number() + "|" + number() + ") " + set +
                       " ;;\n  [1-4]) " + set + "\n  ;;\n  *)\n" + block(depth - 1) + "  ;;\nesac";
            case 3:
                return test() + " && " + set;
            case 4:
                return test() + " || { " + set + "; }";
            case 5:
                return "f() {\n" + block(depth - 1) + "}\n" + pick({"f", "f $T", ": f"});
            default:
                return set;
        }
    }
    std::mt19937 random_;
};

TEST_F(Scripts, AreReadAsBashRunsThem) {
    for (auto seed = 0U; seed < 300; ++seed) {
        auto lines = Lines(seed);
        const auto text = "T=2\nU=4\n" + lines.block(3);
        const auto path = file("oracle.sh", text + "echo -n $T\n");
        const auto tp = of_bash(path);
        const auto said = mesh("#!/bin/bash\n" + text +
                               "torchrun --nproc_per_node 840 t.py --tensor-model-parallel-size $T\n");
        if (tp != "0") {
            EXPECT_EQ(said.substr(std::min(said.rfind('=') + 1, said.size())), tp) << seed << "\n"
                                                                                   << text << said;
        }
    }
}

// As in Pai-Megatron-Patch and ms-swift.
TEST_F(Scripts, AVariableUnderTheNameOfItsFlagIsItsValue) {
    const auto torchrun =
        std::string("#!/bin/bash\ntorchrun --nproc_per_node 4 train.py --tensor-model-parallel-size 2 ");
    EXPECT_EQ(mesh(torchrun + "--extra-vocab-size ${EXTRA_VOCAB_SIZE}\n", "megatron"), "pp=1 dp=2 cp=1 tp=2");
    EXPECT_EQ(
        mesh(torchrun + "--extra-options ${EXTRA_ARGS}\n", "megatron"),
        "the settings in FILE pass '${EXTRA_ARGS}', whose value they do not give; write the flags that it "
        "stands for");
    // Another program's flag, which is near one that is the size of no axis.
    EXPECT_EQ(mesh(torchrun + "--num-labels 2\n", "megatron"), "pp=1 dp=2 cp=1 tp=2");
    EXPECT_TRUE(
        mesh("#!/bin/bash\npython3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8 "
             "actor_rollout_ref.actor.megatron.tensor_model_parallel_size=2 "
             "actor_rollout_ref.rollout.tensor_model_parallel_size=2\n",
             "megatron")
            .ends_with("; a file of verl is read with --from verl"));
}

// verl's trainer of SFT has its engine in a table of its own, of a group of Hydra's.
TEST_F(Scripts, AGroupOfHydrasIsNoSecondValue) {
    const auto sft = [&](const std::string& engine) {
        return mesh(
            "#!/bin/bash\ntorchrun --nproc_per_node=8 -m verl.trainer.sft_trainer model=hf_model "
            "model.path=x "
            "trainer.nnodes=1 trainer.n_gpus_per_node=8 " +
                engine + "\n",
            "verl");
    };
    EXPECT_EQ(sft("engine=fsdp engine.ulysses_sequence_parallel_size=2"), "dp_shard=4 cp=2");
    EXPECT_EQ(
        sft("engine=megatron engine.tensor_model_parallel_size=2 engine.pipeline_model_parallel_size=2"),
        "pp=2 dp=2 cp=1 tp=2");
    for (const auto* other :
         {"engine=veomni engine.ulysses_parallel_size=2", "engine=automodel engine.ep_size=8",
          "engine=torchtitan engine.data_parallel_shard_size=4 engine.tensor_parallel_size=2"})
        EXPECT_NE(sft(other).find("--engine."), std::string::npos) << sft(other);
}

// What says the layout of verl's other engines, and of servers on ranks of their own, is not left out.
TEST_F(Scripts, EnginesOfVerlThatAreNotReadAreRefused) {
    const auto ppo = [&](const std::string& words) {
        return mesh(
            "#!/bin/bash\npython3 -m verl.trainer.main_ppo trainer.nnodes=1 trainer.n_gpus_per_node=8 "
            "actor_rollout_ref.rollout.tensor_model_parallel_size=2 " +
                words + "\n",
            "verl");
    };
    EXPECT_EQ(ppo("actor_rollout_ref.actor.veomni.param_offload=True"),
              "dp_shard=8; servers=4 dp=1 pp=1 tp=2");
    for (const auto* words :
         {"actor_rollout_ref.actor.veomni.ulysses_parallel_size=2", "actor_rollout_ref.actor.engine.tp=2",
          "actor_rollout_ref.actor.torchtitan.data_parallel_shard_size=4",
          "actor_rollout_ref.actor.fsdp_config.turbo_config.distributed.ulysses_parallel_size=2",
          "rollout.nnodes=2 rollout.n_gpus_per_node=8",
          "actor_rollout_ref.rollout.nnodes=1 actor_rollout_ref.rollout.n_gpus_per_node=8"})
        EXPECT_NE(ppo(words).find("places ranks, and convert does not read it"), std::string::npos)
            << ppo(words);
}

TEST_F(Scripts, ALoopOverLayoutsAsksWhich) {
    const auto* loop = "#!/bin/bash\nfor tp in 1 2 4; do\n  vllm serve m --tensor-parallel-size $tp\ndone\n";
    EXPECT_EQ(mesh(loop, "vllm"),
              "--tensor-parallel-size is '$tp', which has several values here, or none; write "
              "--tensor-parallel-size VALUE behind the settings");
    EXPECT_EQ(rankmesh::convert("vllm", "rankmesh", {file("run.sh", loop), "--tensor-parallel-size", "4"})
                  .mesh_from,
              "dp=1 pp=1 tp=4");
}

}  // namespace
}  // namespace rankmesh::tests
