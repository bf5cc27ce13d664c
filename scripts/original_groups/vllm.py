# SPDX-License-Identifier: Apache-2.0
"""vLLM's vllm.distributed.parallel_state.

The settings are the arguments of initialize_model_parallel, and what it reads from the configuration:
data_parallel_size, is_moe, enable_expert_parallel, enable_eplb, nnodes_within_dp, engram_tensor_parallel_size (None:
no engrams) and engram_data_parallel_size, which vLLM derives from its hosts.
"""

from types import SimpleNamespace

from .answers import Answers, ask, refusal
from .coordinators import answers_of
from .draws import factors
from .ours import by_rows

DISTRIBUTION = PACKAGE = "vllm"
RUNS = ("vllm.distributed.parallel_state",)

KINDS = {
    "world": "_WORLD",
    "inner_dp_world": "_INNER_DP_WORLD",
    "tp": "_TP",
    "etp": "_ETP",
    "edp": "_ENGRAM_DP",
    "dcp": "_DCP",
    "pcp": "_PCP",
    "pp": "_PP",
    "dp": "_DP",
    "ep": "_EP",
    "eplb": "_EPLB",
}
ACCESSORS = (
    "get_world_group",
    "get_inner_dp_world_group",
    "get_tp_group",
    "get_etp_group",
    "get_engram_dp_group",
    "get_dcp_group",
    "get_pcp_group",
    "get_pp_group",
    "get_dp_group",
    "get_ep_group",
    "get_eplb_group",
    "get_engram_dp_size",
    "get_tensor_model_parallel_world_size",
    "get_tensor_model_parallel_rank",
    "get_pipeline_model_parallel_rank",
    "get_dcp_world_size_and_rank",
)
ARGUMENTS = ("tensor", "pipeline", "prefill_context", "decode_context")

source = _state = _config = None


def start(of):
    global source, _state
    source = of
    no = lambda *args: False  # noqa: E731
    source.given = {
        "vllm.config": {"get_current_vllm_config": lambda: _config, "get_current_vllm_config_or_none": lambda: _config},
        "vllm.distributed.device_communicators.shm_broadcast": {
            "MessageQueue": SimpleNamespace(create_from_process_group=lambda *args, **options: None)
        },
        "vllm.utils.torch_utils": {"supports_custom_op": no},
    }
    _state = source.load("vllm.distributed.parallel_state")
    _state._node_count = lambda group: 1


def original(settings, rank, world):
    """What vLLM answers."""
    global _config
    sizes = {f"{name}_model_parallel_size": settings.get(f"{name}_model_parallel_size", 1) for name in ARGUMENTS}
    dp = settings.get("data_parallel_size", 1)
    nodes = settings.get("nnodes_within_dp", 1)
    etp = settings.get("engram_tensor_parallel_size")
    edp = settings.get("engram_data_parallel_size", 1)
    replica = world // dp if dp > 0 and world % dp == 0 else 0
    parallel = SimpleNamespace(
        data_parallel_size=dp, enable_elastic_ep=False, enable_eplb=settings.get("enable_eplb", False),
        enable_expert_parallel=settings.get("enable_expert_parallel", False), nnodes=nodes, nnodes_within_dp=nodes,
        distributed_executor_backend="mp" if nodes > 1 else "external_launcher", use_all2all=False,
        data_parallel_rank=rank // replica if replica else 0, world_size=replica, world_size_across_dp=world,
        master_addr="localhost", master_port=0)  # fmt: skip
    _config = SimpleNamespace(
        parallel_config=parallel,
        model_config=SimpleNamespace(is_moe=settings.get("is_moe", True), architecture="DeepseekV41ForCausalLM"),
        engram_config=None if etp is None and edp == 1 else SimpleNamespace(
            cpu_offload=True, embedding_across_dp=True,
            get_parallel_size=lambda config: etp or sizes["tensor_model_parallel_size"]))  # fmt: skip
    for name in KINDS.values():
        setattr(_state, name, None)
    _state._NODE_COUNT = None
    _state._engram_dp_shard_size = lambda *args: edp
    with source.on(rank, world):
        try:
            own = (replica, rank % replica) if nodes > 1 and replica else (world, rank)
            _state.init_distributed_environment(*own, distributed_init_method="tcp://localhost:0", local_rank=0)
            _state.initialize_model_parallel(**sizes)
        except Exception as error:
            return refusal(error)
        made = {kind: getattr(_state, name) for kind, name in KINDS.items()}
        made = {kind: group for kind, group in made.items() if group is not None}
        answers = answers_of(_state, {name: ask(getattr(_state, name)) for name in ACCESSORS})
    return Answers(
        partitions={kind: [list(ranks) for ranks in group.group_ranks] for kind, group in made.items()},
        groups={kind: list(group.ranks) for kind, group in made.items()},
        answers=answers,
    )


ours = by_rows("vllm")


def settings(random):
    """A world and settings for it."""
    tp, pp, pcp, dp, external = factors(random, 5)
    world = tp * pp * pcp * dp * external
    given = {"tensor_model_parallel_size": tp, "pipeline_model_parallel_size": pp,
             "prefill_context_model_parallel_size": pcp, "data_parallel_size": dp,
             "decode_context_model_parallel_size": random.choice([None, 1, pcp, tp, tp * pcp, random.randint(1, 6)]),
             "is_moe": random.random() < 0.8, "enable_expert_parallel": random.random() < 0.5,
             "enable_eplb": random.random() < 0.5}  # fmt: skip
    if random.random() < 0.2:
        given["engram_tensor_parallel_size"] = random.choice([tp, tp * dp, random.randint(1, 8)])
    if random.random() < 0.2:
        given["engram_data_parallel_size"] = random.choice([dp, random.randint(1, 4)])
    if external == 1 and random.random() < 0.2:
        given["nnodes_within_dp"] = random.randint(1, 3)
    elif random.random() < 0.1:
        world = random.randint(1, 64)
    elif random.random() < 0.05:
        given[random.choice([name for name in given if name.endswith("parallel_size")])] = random.choice([0, -1, 3, 5])
    return world, given
