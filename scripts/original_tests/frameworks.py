# SPDX-License-Identifier: Apache-2.0
"""Which tests of which framework run, and what they need."""

from dataclasses import dataclass, field

from processes import Original


@dataclass(frozen=True)
class Framework(Original):
    files: dict = field(default_factory=dict)  # the file of tests: on how many ranks torchrun starts it; 0: it starts its ranks by itself
    options: tuple = ()  # of pytest


def _files(ranks, root, names, **folders):
    """Files of tests by their names: `a b` in the root, `folder="a b"` in root/folder; __ is / there."""
    files = [f"{root}/{name}.py" for name in names.split()]
    for folder, each in folders.items():
        files += [f"{root}/{folder.replace('__', '/')}/test_{name}.py" for name in each.split()]
    return dict.fromkeys(files, ranks)


FRAMEWORKS = {
    "megatron": Framework(
        package="megatron",
        install="rankmesh.megatron",
        # As run_ci_test.sh there runs them. Left out are files that need Transformer Engine, megatron.training or CUDA.
        files=_files(
            8,
            "tests/unit_tests",
            "test_hyper_comm_grid test_parallel_state test_process_groups_config",
            tensor_parallel="cross_entropy data layers mappings random tensor_parallel_utils tp_attrs_without_init",
            pipeline_parallel="bridge_communicator multimodule_communicator",
            models__mimo="mimo_colocated_communicator",
            resharding="cache_refresh communication_scheduler copy_services dp_balancing execution model_swap planner"
            " refit_cache task_segmenter workload_packer",
            dist_checkpointing="async_save async_utils_shutdown checkpointable drop_redundant_extra_state fully_parallel"
            " global_metadata_reuse integrity mapping msc nonpersistent pg_distribution_cache pipeline_parallel_layout"
            " safe_globals save_tokenizer_assets serialization torch_dist validation",
            dist_checkpointing__models="mlp_glu gpt_model",
        ),
        stubs=(
            "megatron.training",  # which test_utilities.py imports
            "tests.test_utils.python_scripts.download_unit_tests_dataset",  # which conftest.py calls
        ),
        needs={"numpy": "numpy", "pytest_mock": "pytest-mock", "triton": "triton"},
    ),
    "deepspeed": Framework(
        package="deepspeed",
        install="rankmesh.deepspeed",
        files=_files(
            0,
            "tests/unit",
            "",
            utils="groups",
            runtime__pipe="topology pipe_schedule pipe",
            v1__moe="autoep_unit fused_expert_layout autoep_autotp_folding_config autoep_autotp_folding_groups"
            " autoep_autotp_dispatch autoep_autotp_deepcompile_reject autoep_autotp_bf16_folding_parity"
            " autoep_autotp_zero1_overlap_folding autoep_autotp_runtime autoep_autotp_grad_parity autoep_grad_parity"
            " autoep_integration autoep_autotp_checkpoint autoep_checkpoint moe moe_tp",
            model_parallelism="autotp_custom_patterns autotp_training configurable_parallel_mp configurable_parallel_pp"
            " tp_plan_e2e tp_plan_real_models",
        ),
        paths=(".", "tests"),
        needs={
            "einops": "einops",
            "hjson": "hjson",
            "msgpack": "msgpack",
            "psutil": "psutil",
            "cpuinfo": "py-cpuinfo",
            "pydantic": "pydantic",
            "tqdm": "tqdm",
            "transformers": "transformers",
        },
        options=("-p", "deepspeed_forks"),
        # Its accelerator counts the host's sockets, unless it is told how many ranks are here.
        environment={"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "8", "DS_IGNORE_CUDA_DETECTION": "1"},
    ),
    "olmo": Framework(
        package="olmo_core",
        install="rankmesh.olmo",
        files={
            "src/test/distributed/parallel/parallel_test.py": 0,
            "src/test/distributed/parallel/context_parallel_test.py": 0,
            "src/test/distributed/nn_test.py": 0,
            "src/test/distributed/utils_test.py": 0,
            "src/test/distributed/checkpoint_test.py": 0,
            "src/test/distributed/checkpoint/filesystem_test.py": 0,
        },
        paths=("src",),
        bare=("olmo_core.nn", "olmo_core.nn.attention"),
        needs={
            "bettermap": "bettermap",
            "cached_path": "cached-path",  # with boto3 and google-cloud-storage, which conftest.py imports
            "dataclass_extensions": "dataclass-extensions",
            "numpy": "numpy",
            "requests": "requests",
            "rich": "rich",
            "safetensors": "safetensors",
            "yaml": "PyYAML",
        },
    ),
    "torchtitan": Framework(
        package="torchtitan",
        install="rankmesh.torchtitan",
        files=_files(
            0, "tests/unit_tests", "test_parallel_dims test_module test_set_determinism test_optimizer_param_groups"
            " test_dist_gemm test_train_spec test_compile_moe test_varlen_attention"
        ),
        stubs=("tyro", "grain", "datasets", "tokenizers", "torch_checkpointing", "safetensors", "torch.utils.tensorboard"),
        needs={"numpy": "numpy", "spmd_types": "spmd_types==0.2.3", "triton": "triton", "expecttest": "expecttest"},
        options=("-p", "torch_forks"),
    ),
    "llamafactory": Framework(
        package="llamafactory",
        install="rankmesh.llamafactory",
        files={"tests_v1/accelerator/test_interface.py": 0},
        paths=("src", "."),
        options=("--noconftest",),  # it skips all without transformers, and on the host what has two ranks
    ),
    "torch": Framework(
        package="torch.testing._internal",  # which all its tests import, when torch itself has been imported
        install="rankmesh.torch",
        files={"test/distributed/test_device_mesh.py": 0, "test/distributed/tensor/test_dtensor.py": 0},
        needs={"torch": "torch", "expecttest": "expecttest", "numpy": "numpy"},
        options=("-p", "torch_forks"),
        torch=False,
    ),
}
