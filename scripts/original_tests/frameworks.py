# SPDX-License-Identifier: Apache-2.0
"""Which tests of which framework run, and what they need."""

from dataclasses import dataclass, field

from processes import Original


@dataclass(frozen=True)
class Framework(Original):
    files: dict = field(default_factory=dict)  # the file of tests: on how many ranks torchrun starts it; 0: it starts its ranks by itself
    options: tuple = ()  # of pytest


FRAMEWORKS = {
    "megatron": Framework(
        package="megatron",
        install="rankmesh.megatron",
        # As run_ci_test.sh there runs them.
        files={
            "tests/unit_tests/test_hyper_comm_grid.py": 8,
            "tests/unit_tests/test_parallel_state.py": 8,
            "tests/unit_tests/test_process_groups_config.py": 8,
            **{f"tests/unit_tests/tensor_parallel/test_{n}.py": 8 for n in "cross_entropy data initialization layers mappings random tensor_parallel_utils tp_attrs_without_init".split()},
            **{f"tests/unit_tests/pipeline_parallel/test_{n}.py": 8 for n in "bridge_communicator multimodule_communicator".split()},
            **{f"tests/unit_tests/models/mimo/test_mimo_colocated_communicator.py": 8},
            **{f"tests/unit_tests/resharding/test_{n}.py": 8 for n in "cache_refresh communication_scheduler copy_services dp_balancing execution model_swap mxfp8_refit planner refit_cache task_segmenter workload_packer".split()},
            **{f"tests/unit_tests/dist_checkpointing/test_{n}.py": 8 for n in "async_save async_utils_shutdown checkpointable drop_redundant_extra_state fp8 fully_parallel global_metadata_reuse integrity layer_wise_optimizer local mapping msc nonpersistent optimizer pg_distribution_cache pipeline_parallel_layout replication rerun_state_machine_ckpt safe_globals save_tokenizer_assets serialization strict torch_dist validation".split()},
            "tests/unit_tests/dist_checkpointing/models/test_mlp_glu.py": 8,
        },
        stubs=("megatron.training","tests.test_utils.python_scripts.download_unit_tests_dataset"),  # which test_utilities.py imports
        bare=(),
        needs={"pytest_mock": "pytest-mock"},
    ),
    "deepspeed": Framework(
        package="deepspeed",
        install="rankmesh.deepspeed",
        files={"tests/unit/runtime/pipe/test_topology.py": 0, "tests/unit/utils/test_groups.py": 0},
        paths=(".", "tests"),
        needs={
            "einops": "einops",
            "hjson": "hjson",
            "msgpack": "msgpack",
            "psutil": "psutil",
            "cpuinfo": "py-cpuinfo",
            "pydantic": "pydantic",
            "tqdm": "tqdm",
        },
        # Its accelerator counts the host's sockets, unless it is told how many ranks are here.
        environment={"DS_ACCELERATOR": "cpu", "LOCAL_SIZE": "8", "DS_IGNORE_CUDA_DETECTION": "1"},
    ),
    "olmo": Framework(
        package="olmo_core",
        install="rankmesh.olmo",
        files={
            "src/test/distributed/parallel/parallel_test.py": 0,
            "src/test/distributed/parallel/context_parallel_test.py": 0,
        },
        paths=("src",),
        stubs=("cached_path",),
        bare=("olmo_core.nn", "olmo_core.nn.attention"),
        needs={"dataclass_extensions": "dataclass-extensions", "rich": "rich", "yaml": "PyYAML"},
    ),
    "torchtitan": Framework(
        package="torchtitan",
        install="rankmesh.torchtitan",
        files={"tests/unit_tests/test_parallel_dims.py": 0},
        stubs=("tyro", "grain", "datasets", "tokenizers", "torch_checkpointing", "safetensors"),
        needs={"spmd_types": "spmd_types==0.2.3", "triton": "triton", "expecttest": "expecttest"},
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
        needs={"expecttest": "expecttest"},
        options=("-p", "torch_forks"),
        torch=False,
    ),
}
