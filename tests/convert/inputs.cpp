// SPDX-License-Identifier: Apache-2.0
// Settings as people have them: YAML, launch scripts and the commands that start a job.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>

#include <rankmesh/convert/convert.hpp>
#include <rankmesh/core/error.hpp>

#include "support/processes.hpp"

namespace rankmesh::tests {
namespace {

class Inputs : public testing::Test {
protected:
    std::string file(const std::string& name, const std::string& text) {
        const auto path = folder_ / name;
        std::ofstream(path) << text;
        return path.string();
    }
    /// The mesh that settings say.
    static std::string mesh(const std::string& from, const std::vector<std::string>& words,
                            std::optional<int> world = {}) {
        try {
            return rankmesh::convert(from, "rankmesh", words, world).mesh_from;
        } catch (const UsageError& error) {
            return error.what();
        }
    }
    std::string script(const std::string& text, const std::string& from = "megatron") {
        auto said = mesh(from, {file("run.sh", text)});
        const auto name = (folder_ / "run.sh").string();
        if (const auto at = said.find(name); at != std::string::npos) said.replace(at, name.size(), "FILE");
        return said;
    }

private:
    support::Folder own_;
    std::filesystem::path folder_ = own_.path();
};

TEST_F(Inputs, YamlIsReadAsPyYamlReadsIt) {
    EXPECT_EQ(mesh("nanotron", {file("a.yaml",
                                     "general:\n  run: x\nparallelism:\n  dp: 4\n  pp: 1\n  tp: 2\n"
                                     "  pp_engine: 1f1b\n")}),
              "pp=1 dp=4 tp=2");
    EXPECT_EQ(mesh("nanotron", {file("a.yaml",
                                     "parallelism: {dp: 4, pp: 1, tp: 2}\n"
                                     "lighteval: {parallelism: {dp: 1, pp: 1, tp: 8}}\n")}),
              "pp=1 dp=4 tp=2");
    EXPECT_EQ(mesh("accelerate", {file("b.yml",
                                       "distributed_type: FSDP\nnum_processes: 16\nparallelism_config:\n"
                                       "  parallelism_config_dp_replicate_size: 2\n"
                                       "  parallelism_config_dp_shard_size: 4\n"
                                       "  parallelism_config_tp_size: 2\n")}),
              "dp_replicate=2 dp_shard=4 cp=1 sp=1 tp=2");
    EXPECT_EQ(mesh("verl", {file("c.yaml",
                                 "trainer: {nnodes: 2, n_gpus_per_node: 8}\nactor_rollout_ref:\n  actor:\n"
                                 "    ulysses_sequence_parallel_size: 2\n    fsdp_config:\n"
                                 "      fsdp_size: 8\n")}),
              "dp_replicate=2 dp_shard=4 cp=2");
    EXPECT_EQ(mesh("llamafactory", {file("f.yaml", "dist_config: {name: fsdp2, ep_size: 4}\n")}, 16),
              "ep_size is 4, but dist_config.name is fsdp2, which ignores it; leave ep_size out, or name "
              "fsdpturbo");
    EXPECT_EQ(mesh("veomni", {file("d.yaml", "train:\n  accelerator: {ulysses_size: 2, ep_size: 4}\n")}, 16),
              "pp=1 dp_replicate=1 dp_shard=8 cp=2 tp=1; edp=4 ep=4");
    // Merges, aliases, words of YAML 1.1, and keys with dashes.
    EXPECT_EQ(mesh("vllm", {file("e.yaml",
                                 "base: &a {tensor-parallel-size: 0x4}\n<<: *a\nenable-expert-parallel: off\n"
                                 "pipeline-parallel-size: 2\n")}),
              "dp=1 pp=2 tp=4");
}

TEST_F(Inputs, YamlThatIsWrongOrTooMuchIsRefused) {
    const auto refused = [&](const std::string& text) { return mesh("nanotron", {file("a.yaml", text)}); };
    EXPECT_NE(refused("a: [1\n").find(" are not YAML: "), std::string::npos) << refused("a: [1\n");
    EXPECT_NE(refused("a: 1\n---\nb: 2\n").find(" have more than one YAML document"), std::string::npos);
    EXPECT_NE(refused(",\n").find(" have more than one YAML document"), std::string::npos);  // ends
    EXPECT_NE(refused("parallelism: {dp: 2, dp: 4}\n").find(" give 'dp' twice"), std::string::npos);
    EXPECT_NE(refused("- dp\n").find("not a table of settings"), std::string::npos);
    auto bomb = std::string("a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n");
    for (auto c = 'b'; c < 'k'; ++c)
        bomb += std::string{c, ':', ' ', '&', c, ' ', '['} + std::string{'*', static_cast<char>(c - 1)} +
                ", *" + std::string{static_cast<char>(c - 1)} + ", *" +
                std::string{static_cast<char>(c - 1)} + "]\n";
    EXPECT_NE(refused(bomb).find(" have more than 10000 keys"), std::string::npos) << refused(bomb);
    EXPECT_NE(refused(std::string(300, '[')).find("a.yaml"), std::string::npos);
}

TEST_F(Inputs, CommandsAreTakenApart) {
    const auto words = [](const std::string& command) {
        auto all = std::vector<std::string>{};
        for (std::size_t begin = 0; begin < command.size();) {
            const auto end = std::min(command.find(' ', begin), command.size());
            all.push_back(command.substr(begin, end - begin));
            begin = end + 1;
        }
        return all;
    };
    EXPECT_EQ(mesh("vllm", words("vllm serve org/model --tensor-parallel-size 8 --pipeline-parallel-size 2")),
              "dp=1 pp=2 tp=8");
    EXPECT_EQ(mesh("sglang", words("HF_HOME=/x python3 -m sglang.launch_server --model-path m --tp 8")),
              "pp=1 dp=1 cp=1 tp=8");
    EXPECT_EQ(mesh("tensorrt-llm", words("trtllm-llmapi-launch trtllm-serve m --tp_size 8 --ep_size 4")),
              "pp=1 tp=8 cp=1; pp=1 etp=2 ep=4");
    EXPECT_EQ(mesh("tensorrt-llm", {"LLM(model='m', tensor_parallel_size=8, max_batch_size=4)"}),
              "pp=1 tp=8 cp=1");
    EXPECT_EQ(mesh("tensorrt-llm", words("trtllm-bench --model m throughput --tp 8 --pp 2 --dataset d")),
              "pp=2 tp=8 cp=1");
    EXPECT_EQ(mesh("tensorrt-llm", words("trtllm-serve m --tp_size 4 --tensor_parallel_size 8")),
              "--tp-size and --tensor-parallel-size say two sizes of the same axis; leave one out");
    EXPECT_EQ(
        mesh("megatron", words("torchrun --nnodes 2 --nproc-per-node=8 --rdzv-backend c10d pretrain_gpt.py "
                               "--tensor-model-parallel-size 4")),
        "pp=1 dp=4 cp=1 tp=4");
    EXPECT_EQ(mesh("megatron",
                   words("srun -N 2 --ntasks-per-node=1 torchrun --nnodes 2 --nproc_per_node 4 a/train.py "
                         "--pipeline-model-parallel-size 2")),
              "pp=2 dp=4 cp=1 tp=1");
    EXPECT_EQ(
        mesh("megatron", words("mpirun -np 16 numactl -l python -u train.py --tensor-model-parallel-size 4")),
        "pp=1 dp=4 cp=1 tp=4");
    EXPECT_EQ(mesh("accelerate", words("accelerate launch --num_processes 8 --parallelism_config_tp_size 2 "
                                       "--parallelism_config_dp_shard_size 4 train.py --lr 3")),
              "dp_replicate=1 dp_shard=4 cp=1 sp=1 tp=2");
    EXPECT_EQ(mesh("verl", words("python3 -m verl.trainer.main_ppo data.train_batch_size=1024 "
                                 "actor_rollout_ref.actor.ulysses_sequence_parallel_size=2 trainer.nnodes=1 "
                                 "+trainer.n_gpus_per_node=8")),
              "dp_shard=4 cp=2");
    const auto config = file("llama.toml", "[parallelism]\ntensor_parallel_degree = 2\n");
    EXPECT_EQ(mesh("torchtitan", words("torchrun --nproc_per_node 8 -m torchtitan.train --job.config_file " +
                                       config + " --parallelism.tensor_parallel_degree 4")),
              "pp=1 dp_replicate=1 dp_shard=2 cp=1 tp=4");
    EXPECT_EQ(mesh("deepspeed", words("deepspeed --num_gpus 8 train.py --deepspeed_config " +
                                      file("ds.json", R"({"tensor_parallel": {"autotp_size": 2}})"))),
              "dp=4 tp=2");
    // The last of a repeated flag wins, also by another name, and so does a negated one.
    EXPECT_EQ(mesh("vllm", words("vllm serve m -tp 8 --tensor-parallel-size 2 --no-enable-expert-parallel")),
              "dp=1 pp=1 tp=2");
    EXPECT_EQ(
        mesh("megatron",
             words("torchrun train.py --tensor-model-parallel-size 2 --tensor-model-parallel-size 4"), 8),
        "pp=1 dp=2 cp=1 tp=4");
}

TEST_F(Inputs, ScriptsAreEvaluatedAndNotRun) {
    EXPECT_EQ(script(R"sh(#!/bin/bash
# Runs the "175B" model
export CUDA_DEVICE_MAX_CONNECTIONS=1
GPUS_PER_NODE=8
NUM_NODES=${NNODES:-16}
WORLD_SIZE=$(($GPUS_PER_NODE * NUM_NODES))
CHECKPOINT_PATH=$1 #<Specify path>
TP=${TP:-8}
DISTRIBUTED_ARGS=(
    --nproc_per_node $GPUS_PER_NODE
    --nnodes ${NUM_NODES}   # hosts
    --master_addr "$(hostname)"
)
MODEL_PARALLEL_ARGS=(
	--tensor-model-parallel-size $TP
	--pipeline-model-parallel-size $((WORLD_SIZE / TP))
)
DATA_ARGS="--data-path '$2' \
    --split 949,50,1"
cat <<EOF
torchrun other.py --tensor-model-parallel-size 2
EOF
torchrun ${DISTRIBUTED_ARGS[@]} pretrain_gpt.py \
    "${MODEL_PARALLEL_ARGS[@]}" \
    $DATA_ARGS --save $CHECKPOINT_PATH 2>&1 | tee log > x
)sh"),
              "pp=16 dp=1 cp=1 tp=8");
    EXPECT_EQ(
        script("CMD=\"torchrun --nproc_per_node 8 train.py\"\nCMD+=\" --tensor-model-parallel-size 2\"\n"
               "echo $CMD\neval $CMD\n"),
        "pp=1 dp=4 cp=1 tp=2");
    EXPECT_EQ(script("#SBATCH --nodes=2\nexport N=2\nsrun --ntasks-per-node=1 bash -c \"torchrun --nnodes $N "
                     "--nproc_per_node 4 t.py --tensor-model-parallel-size 2\"\n"),
              "pp=1 dp=4 cp=1 tp=2");
    EXPECT_EQ(
        script("#!/bin/sh\nray job submit --address=x -- python3 -m verl.main trainer.nnodes=1 "
               "trainer.n_gpus_per_node=8 \\\n  actor_rollout_ref.actor.ulysses_sequence_parallel_size=2\n",
               "verl"),
        "dp_shard=4 cp=2");
    EXPECT_EQ(script("export A=1; cd /x && exec vllm serve m \\\n  --tensor-parallel-size 4 \"$@\" &\nwait\n",
                     "vllm"),
              "dp=1 pp=1 tp=4");
}

TEST_F(Inputs, QuotesInsideOfQuotesAreText) {
    EXPECT_EQ(script("#!/bin/bash\nA=\"--data-path '$2' (x|y)\"\nL=\"Ett|(tt|)*6ttL\"\ntorchrun "
                     "--nproc_per_node 8 t.py $A "
                     "--pipeline-model-parallel-size 4 --pipeline-model-parallel-layout \"$L\"\n"),
              "pp=4 dp=2 cp=1 tp=1");
    const auto kept = rankmesh::convert("megatron", "megatron",
                                        {file("l.sh",
                                              "#!/bin/sh\nL=\"Ett|(tt|)*6ttL\"\npython t.py --world-size 4 "
                                              "--pipeline-model-parallel-size 4 "
                                              "--pipeline-model-parallel-layout \"$L\"\n")});
    EXPECT_NE(kept.text->find("'Ett|(tt|)*6ttL'"), std::string::npos) << *kept.text;
}

TEST_F(Inputs, ScriptsThatAreTooMuchAreRefused) {
    const auto limit = [&](const std::string& lines, const std::string& what) {
        const auto said = script("#!/bin/bash\n" + lines + "\ntorchrun --nproc_per_node 8 t.py --lr $A\n");
        EXPECT_NE(said.find(what), std::string::npos) << said;
    };
    auto doubled = std::string("A=xxxxxxxx\n");
    for (int i = 0; i < 40; ++i) doubled += "A+=$A\n";
    limit(doubled, "expands to more than 16777216 bytes");
    auto nested = std::string("A=");
    for (int i = 0; i < 100'000; ++i) nested += "$(";
    limit(nested, "nests more than 100 levels deep");
    limit("A='eval $A'\neval $A", "evaluate a text more than 10 times");
    EXPECT_NE(script("#!/bin/bash\ntorchrun --nproc_per_node 8 t.py --tensor-model-parallel-size $((" +
                     std::string(100'000, '-') + "1))\n")
                  .find("behind the settings"),
              std::string::npos);
    // A configuration that names itself holds no table.
    const auto self = file("self.json", "vllm serve --config self.json");
    EXPECT_NE(mesh("vllm", {"vllm", "serve", "--config", self}).find("are no JSON"), std::string::npos);
}

TEST_F(Inputs, WhatAScriptDoesNotSayIsNamed) {
    const auto launch = std::string("#!/bin/bash\n");
    EXPECT_EQ(script(launch + "torchrun --nproc_per_node 8 t.py --tensor-model-parallel-size $TP\n"),
              "--tensor-model-parallel-size is '$TP', which has several values here, or none; write "
              "--tensor-model-parallel-size VALUE behind the settings");
    EXPECT_EQ(script(launch + "TP=2\nif [ -n \"$X\" ]; then TP=4; fi\n"
                              "torchrun --nproc_per_node 8 t.py --tensor-model-parallel-size $TP\n"),
              "--tensor-model-parallel-size is '$TP', which has several values here, or none; write "
              "--tensor-model-parallel-size VALUE behind the settings");
    EXPECT_EQ(
        script(launch + "torchrun --nproc_per_node 8 t.py $EXTRA_ARGS\n"),
        "the settings in FILE pass '$EXTRA_ARGS', whose value they do not give; write the flags that it "
        "stands for");
    // An array is an error only where the launch uses it.
    const auto arrays = launch + "EXTRA=($1 --lr 3)\nARGS=(--tensor-model-parallel-size 2 $MORE)\n";
    EXPECT_EQ(script(arrays + "torchrun --nproc_per_node 8 t.py --pipeline-model-parallel-size 2\n"),
              "pp=2 dp=4 cp=1 tp=1");
    EXPECT_EQ(script(arrays + "torchrun --nproc_per_node 8 t.py \"${ARGS[@]}\"\n"),
              "the settings in FILE pass '${ARGS[@]}', whose value they do not give; write the flags that it "
              "stands for");
    EXPECT_EQ(
        script(launch + "ARGS=( --tensor-model-parallel-size 2 )\n"),
        "the settings in FILE are a shell script that starts no program that is known, such as torchrun "
        "FILE.py; write the program's flags after --");
    EXPECT_EQ(
        script(launch + "torchrun --nproc_per_node 8 a.py --x 1\n\ntorchrun --nproc_per_node 8 b.py --x 2\n"),
        "the settings in FILE are a shell script that starts 2 programs, in lines 2, 4; keep one of them");
}

TEST_F(Inputs, WhatFollowsAFileWins) {
    const auto config =
        file("c.toml", "[parallelism]\ntensor_parallel_degree = 2\npipeline_parallel_degree = 2\n");
    EXPECT_EQ(mesh("torchtitan", {config, "--parallelism.tensor_parallel_degree", "4"}, 16),
              "pp=2 dp_replicate=1 dp_shard=2 cp=1 tp=4");
    EXPECT_EQ(
        mesh("megatron", {"model.tensor_model_parallel_size=4", "model.pipeline_model_parallel_size=2"}, 64),
        "pp=2 dp=8 cp=1 tp=4");
}

TEST_F(Inputs, NoSuggestionOffersAnotherAxis) {
    for (const auto& [from, word] :
         {std::pair("accelerate", "pp_size=2"), {"verl", "rollout_context_parallel_size=4"}}) {
        const auto said = mesh(from, {word, "world_size=8"});
        EXPECT_NE(said.find("has no setting"), std::string::npos) << said;
        EXPECT_EQ(said.find("did you mean"), std::string::npos) << said;
    }
}

TEST_F(Inputs, AnErrorOfExpertsSaysWhereTheirSizeIsFrom) {
    const auto flags =
        std::vector<std::string>{"--tensor-model-parallel-size", "4", "--expert-model-parallel-size", "2"};
    EXPECT_EQ(mesh("megatron", flags, 12),
              "world_size (12) is not divisible by expert_tensor_model_pipeline_parallel size (8); "
              "--expert-tensor-parallel-size is not given, so it is tp, 4");
    auto given = flags;
    given.insert(given.end(), {"--expert-tensor-parallel-size", "4"});
    EXPECT_EQ(mesh("megatron", given, 12),
              "world_size (12) is not divisible by expert_tensor_model_pipeline_parallel size (8)");
}

TEST_F(Inputs, ASizeOf0IsRefusedBeforeItDivides) {
    EXPECT_EQ(mesh("verl", {"fsdp_size=0"}, 8), "fsdp_size is 0; every size is 1 or more");
}

TEST_F(Inputs, RolloutsOfVerlHaveExperts) {
    const auto rollout = [](const std::string& to, const std::string& ep) {
        return rankmesh::convert("verl", to,
                                 {"actor_rollout_ref.rollout.tensor_model_parallel_size=2",
                                  "actor_rollout_ref.rollout.data_parallel_size=4",
                                  "actor_rollout_ref.rollout.expert_parallel_size=" + ep},
                                 8);
    };
    EXPECT_EQ(rollout("vllm", "8").text,
              "--tensor-parallel-size 2 --data-parallel-size 4 --enable-expert-parallel");
    EXPECT_EQ(rollout("sglang", "8").text,
              "--tensor-parallel-size 8 --attention-data-parallel-size 4 --expert-parallel-size 8");
    EXPECT_EQ(rollout("vllm", "1").text, "--tensor-parallel-size 2 --data-parallel-size 4");
    EXPECT_TRUE(rollout("verl", "8").lost.empty());
    EXPECT_EQ(rollout("torchtitan", "8").lost.back().what, "verl's rollout_expert_parallel_size 8");
    EXPECT_THROW(rollout("vllm", "2"), UsageError);
}

TEST_F(Inputs, WhatALauncherIsGivenMayBeUnknown) {
    EXPECT_EQ(script("docker run --rm ${HF_TOKEN:+-e HF_TOKEN=\"${HF_TOKEN}\"} -v $HOME:/h \"$IMAGE\" \\\n"
                     "    python -m vllm.entrypoints.openai.api_server --model \"$MODEL\" -tp 4\n",
                     "vllm"),
              "dp=1 pp=1 tp=4");
    EXPECT_EQ(
        script("#!/bin/bash\nexec \"${PYTHON}\" -m vllm.entrypoints.openai.api_server -tp 2 --model m\n",
               "vllm"),
        "dp=1 pp=1 tp=2");
}

TEST_F(Inputs, BesideTheServerAScriptMayStartOthers) {
    const auto server = [&](const std::string& command) {
        return script(
            "#!/bin/bash\ndocker pull vllm/vllm-openai:latest\nray start --head --block &\n" + command +
                " > $LOGS/vllm.log 2>&1 &\nuntil curl -s $URL; do sleep 1; done\npython client.py\n",
            "vllm");
    };
    EXPECT_EQ(server("vllm serve org/model --tensor-parallel-size 8"), "dp=1 pp=1 tp=8");
    EXPECT_EQ(server("docker run --gpus all vllm/vllm-openai:latest --model m -tp 4"), "dp=1 pp=1 tp=4");
    EXPECT_EQ(
        server("docker run vllm/vllm-openai:latest python3 -m vllm.entrypoints.openai.api_server -pp 2"),
        "dp=1 pp=2 tp=1");
    EXPECT_EQ(server("vllm serve a -tp 4 &\nvllm serve b -tp 2"),
              "the settings in FILE are a shell script that starts 3 programs, in lines 4, 5, 7; keep one of "
              "them");
}

TEST_F(Inputs, FlagsOfSbatchAreThoseOfSrunAndOfSlurmsVariables) {
    const auto job = [&](const std::string& flags, const std::string& command) {
        return script("#!/bin/bash\n#SBATCH " + flags + "  # all\n#SBATCH --gpus-per-node=8\nsrun " +
                      command + " pretrain_gpt.py --tensor-model-parallel-size 4\n");
    };
    EXPECT_EQ(job("-N 2 --ntasks-per-node=8", "python"), "pp=1 dp=4 cp=1 tp=4");
    EXPECT_EQ(job("--nodes=2 --ntasks-per-node=8", "-N 1 python"), "pp=1 dp=2 cp=1 tp=4");
    EXPECT_EQ(job("--nodes=4", "torchrun --nnodes $SLURM_NNODES --nproc-per-node $SLURM_GPUS_PER_NODE"),
              "pp=1 dp=8 cp=1 tp=4");
}

// As in verl's own examples.
TEST_F(Inputs, ScriptsOfVerlHaveActorsOfBothEngines) {
    const auto run = [&](const std::string& overrides) {
        return script(
            "#!/bin/bash\nTP=${1:-2}\nconf=\"$(pwd)/config (new)\"\n"
            "python3 -m verl.trainer.main_ppo --config-path=\"$conf\" \\\n"
            "    data.train_files=\"['$HOME/a b.parquet','$HOME/c.parquet']\" data.val_files= \\\n"
            "    actor_rollout_ref.model.path=\"${MODEL:-m}\" actor_rollout_ref.model.path=n \\\n"
            "    +ray_kwargs.ray_init.num_cpus=8 trainer.logger='[\"console\",\"wandb\"]' \\\n"
            "    actor_rollout_ref.rollout.name=vllm trainer.nnodes=1 trainer.n_gpus_per_node=8 \\\n"
            "    actor_rollout_ref.rollout.tensor_model_parallel_size=${TP} " +
                overrides + " $@\n",
            "verl");
    };
    const auto megatron = std::string("actor_rollout_ref.actor.megatron.");
    const auto servers = std::string("; servers=4 dp=1 pp=1 tp=2");
    EXPECT_EQ(run(""), "dp_shard=8" + servers);
    EXPECT_EQ(run("actor_rollout_ref.actor.ulysses_sequence_parallel_size=2"), "dp_shard=4 cp=2" + servers);
    EXPECT_EQ(run(megatron + "pipeline_model_parallel_size=2 " + megatron + "tensor_model_parallel_size=2 " +
                  megatron + "tensor_model_parallel_size=4"),
              "pp=2 dp=1 cp=1 tp=4" + servers);
    EXPECT_EQ(run(megatron + "tensor_model_parallel_size=2 " + megatron + "expert_model_parallel_size=4 " +
                  megatron + "expert_tensor_parallel_size=1 " + megatron +
                  "virtual_pipeline_model_parallel_size=null"),
              "pp=1 dp=4 cp=1 tp=2; pp=1 edp=2 ep=4 etp=1" + servers);
    const auto back = rankmesh::convert("rankmesh", "verl", {"pp=2 dp=2 tp=2"}, {});
    EXPECT_EQ(back.text,
              megatron + "tensor_model_parallel_size=2 " + megatron + "pipeline_model_parallel_size=2");
    EXPECT_EQ(rankmesh::convert("verl", "rankmesh", {*back.text}, 8).mesh_from, "pp=2 dp=2 cp=1 tp=2");
    EXPECT_EQ(run("$MORE"),
              "the settings in FILE pass '$MORE', whose value they do not give; write the flags that it "
              "stands for");
}

TEST_F(Inputs, ExpertsThatAllRanksOfAStageShareHaveNoFlagInVllm) {
    const auto vllm = [](const std::string& of_experts) {
        return rankmesh::convert("megatron", "vllm", {of_experts}, 8);
    };
    EXPECT_EQ(vllm("--expert-tensor-parallel-size=8").text, "--data-parallel-size 8");
    EXPECT_TRUE(vllm("--expert-tensor-parallel-size=8").lost.empty());
    EXPECT_EQ(vllm("--expert-model-parallel-size=8").text, "--data-parallel-size 8 --enable-expert-parallel");
    EXPECT_FALSE(vllm("--expert-tensor-parallel-size=2").lost.empty());
}

TEST_F(Inputs, OfAManifestTheContainersCommandCounts) {
    const auto manifest = [&](const std::string& text, const std::string& from) {
        return mesh(from, {file("manifest.yaml", text)});
    };
    const auto services =
        std::string("services:\n  web: {image: nginx, command: nginx -g 'daemon off;'}\n  llm:\n");
    EXPECT_EQ(manifest(services + "    image: lmsysorg/sglang\n    environment: [TP=4]\n    command: >\n"
                                  "      python3 -m sglang.launch_server\n      --tp ${TP:-1}\n",
                       "sglang"),
              "pp=1 dp=1 cp=1 tp=4");
    EXPECT_EQ(manifest(services + "    image: vllm/vllm-openai\n    command: [--model, X, -tp, 4]\n", "vllm"),
              "dp=1 pp=1 tp=4");

    // A file of several objects. Two containers are hosts of one job; one of them starts it by a shell.
    const auto server = std::string("--tp 16 --nnodes $(LWS_GROUP_SIZE) --node-rank ");
    const auto set =
        "kind: Service\napiVersion: v1\n---\nkind: LeaderWorkerSet\napiVersion: v1\nspec:\n"
        "  leaderWorkerTemplate:\n    size: 2\n    leader: {command: [/bin/sh, -c, "
        "'python3 -m sglang.launch_server " +
        server + "0']}\n    worker: {args: [";
    auto words = std::string("python3, -m, sglang.launch_server");
    for (const auto* word :
         {"--tp", "16", "--nnodes", "$(LWS_GROUP_SIZE)", "--node-rank", "$(LWS_WORKER_INDEX)"})
        words += std::string(", ") + word;
    EXPECT_EQ(manifest(set + words + "]}\n", "sglang"), "pp=1 dp=1 cp=1 tp=16");
    EXPECT_NE(manifest(set + words + ", --dp-size, 2]}\n", "sglang")
                  .find(" are a manifest, 2 of whose containers start different jobs: "),
              std::string::npos);

    // An operator tells torchrun how many hosts there are.
    const auto job = std::string(
        "kind: PyTorchJob\napiVersion: kubeflow.org/v1\nspec: {pytorchReplicaSpecs: {"
        "Master: {containers: [{command: [torchrun, --nproc_per_node=8, "
        "pretrain_gpt.py, --tensor-model-parallel-size, 4]}]}, Worker: {replicas: 3}}}");
    EXPECT_EQ(manifest(job, "megatron"), "pp=1 dp=8 cp=1 tp=4");

    auto doubled =
        std::string("kind: Pod\napiVersion: v1\nspec: {containers: [{args: [vllm, serve, $(A0)], env: [");
    for (int i = 0; i < 40; ++i)
        doubled += "{name: A" + std::to_string(i) + ", value: $(A" + std::to_string(i + 1) + ")$(A" +
                   std::to_string(i + 1) + ")}, ";
    EXPECT_NE(
        manifest(doubled + "]}]}", "vllm").find(" expand to more than 1048576 bytes, the most that is read"),
        std::string::npos);

    EXPECT_NE(manifest("kind: Pod\napiVersion: v1\nreplicas: 5000000000\n", "vllm")
                  .find("the manifest has replicas: 5000000000; it must be 0 to 100000"),
              std::string::npos);
    const auto replicas = file("servers.yaml",
                               "kind: Deployment\napiVersion: v1\nspec:\n  replicas: 2\n"
                               "  containers: [{args: [vllm, serve, M, -tp, 8]}]\n");
    const auto lost = rankmesh::convert("vllm", "sglang", {replicas}, {}).lost;
    ASSERT_EQ(lost.size(), 1U);
    EXPECT_EQ(lost[0].what, "vllm's replicas 2");
    EXPECT_NE(
        manifest("kind: Pod\napiVersion: v1\nspec: {containers: [{command: [sleep, '1']}]}", "vllm")
            .find(
                " are a manifest, none of whose containers starts vllm; write the program's flags after --"),
        std::string::npos);
}

TEST_F(Inputs, OfDocumentsAreReadAsTheySay) {
    auto page = std::ifstream(RANKMESH_FRAMEWORKS_PAGE);
    const auto section = std::string{std::istreambuf_iterator<char>(page), {}};
    const auto block =
        std::regex("```(sh|yaml|toml|json|python)\n# ([a-z0-9-]+)(?: on ([0-9]+))?: ([^\n]*)\n([^`]*)```");
    // The files that commands name.
    const auto last = std::filesystem::current_path();
    file("ds_config.json", R"({"tensor_parallel": {"autotp_size": 2}})");
    file("config.yaml", "parallelism: {dp: 4, pp: 1, tp: 2}\ntrain: {accelerator: {}}\n");
    std::filesystem::current_path(std::filesystem::path(file("gsm8k.yaml", "seed: 1\n")).parent_path());
    auto seen = std::map<std::string, int>{};
    for (auto at = std::sregex_iterator(section.begin(), section.end(), block); at != std::sregex_iterator();
         ++at) {
        const auto& found = *at;
        const auto world = found[3].matched ? std::optional(std::stoi(found[3])) : std::nullopt;
        ++seen[found[2]];
        EXPECT_EQ(mesh(found[2], {file("block." + found[1].str(), found[5])}, world), found[4]) << found[0];
    }
    std::filesystem::current_path(last);
    for (const auto& framework : known_frameworks())
        EXPECT_TRUE(framework.version.empty() || seen[std::string(framework.name)] > 0) << framework.name;
}

TEST_F(Inputs, RolloutsAndTrainingAreTwoLayouts) {
    const auto both = rankmesh::convert("areal", "sglang", {"sglang:d4t2+fsdp:d8"}, {});
    EXPECT_TRUE(both.text->starts_with("--tensor-parallel-size 2  # server 0 of 4\n")) << *both.text;
    ASSERT_EQ(both.lost.size(), 1U);
    EXPECT_EQ(both.lost[0].what, "servers=4");
    EXPECT_EQ(both.notes.back(), "this is the layout of the rollouts; training has pp=1 dp=8 cp=1 tp=1");
    const auto trained = rankmesh::convert("areal", "torchtitan", {"sglang:d4t2+fsdp:d8"}, {});
    ASSERT_EQ(trained.lost.size(), 1U);
    EXPECT_EQ(trained.lost[0].what, "servers=4 pp=1 tp=2");
}

}  // namespace
}  // namespace rankmesh::tests
