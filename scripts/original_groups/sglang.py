# SPDX-License-Identifier: Apache-2.0
"""SGLang's sglang.srt.distributed.parallel_state.

The settings are the fields of ServerArgs that it follows: tp_size, pp_size, ep_size, moe_dp_size, attn_dp_size,
attn_cp_size, dcp_size, shared_experts_tp_size (None: no such groups); and duplicate_tp_group of
initialize_model_parallel.
"""

from .answers import Answers, ask, refusal
from .coordinators import answers_of
from .draws import divisors, factors
from .ours import by_rows

DISTRIBUTION = PACKAGE = "sglang"
RUNS = (
    "sglang.srt.distributed.parallel_state",
    "sglang.srt.environ",
    "sglang.srt.runtime_context",
    "sglang.srt.arg_groups.arg_utils",
    "sglang.srt.arg_groups.fields.parallel",
)
NEEDS = ("msgspec",)

KINDS = {
    "world": "_WORLD",
    "tp": "_TP",
    "pdmux_prefill_tp": "_PDMUX_PREFILL_TP_GROUP",
    "dcp": "_DCP",
    "attn_cp": "_ATTN_CP",
    "attn_tp": "_ATTN_TP",
    "shared_experts_tp": "_SHARED_EXPERTS_TP",
    "moe_dp": "_MOE_DP",
    "moe_ep": "_MOE_EP",
    "moe_tp": "_MOE_TP",
    "pp": "_PP",
    "self_pp": "_SELF_PP",
}
SIZES = {
    "tp_size": "tp_size",
    "pp_size": "pp_size",
    "ep_size": "moe_ep_size",
    "moe_dp_size": "moe_dp_size",
    "attn_dp_size": "attn_dp_size",
    "attn_cp_size": "attn_cp_size",
    "dcp_size": "attn_dcp_size",
}
ACCESSORS = (
    *(f"get_{kind}_group" for kind in KINDS if kind != "pdmux_prefill_tp"),
    *("get_dcp_group_no_assert", "get_world_size", "get_world_rank", "get_dcp_world_size", "get_dcp_rank"),
    *("get_tensor_model_parallel_world_size", "get_tensor_model_parallel_rank"),
    *("get_attn_tensor_model_parallel_world_size", "get_attn_tensor_model_parallel_rank"),
    *("get_attn_context_model_parallel_world_size", "get_attn_context_model_parallel_rank"),
    *("get_pipeline_model_parallel_world_size", "get_pipeline_model_parallel_rank"),
    *("get_moe_data_parallel_world_size", "get_moe_data_parallel_rank"),
    *("get_moe_expert_parallel_world_size", "get_moe_expert_parallel_rank"),
    *("get_moe_tensor_parallel_world_size", "get_moe_tensor_parallel_rank"),
)

source = _state = _context = None


def start(of):
    global source, _state, _context
    source = of
    source.given = {
        "sglang.srt.utils": {"is_cuda": lambda: True},
    }
    _context = source.load("sglang.srt.runtime_context")
    _context._parallel_config_leaves = lambda: frozenset([*SIZES, "shared_experts_tp_size"])
    _state = source.load("sglang.srt.distributed.parallel_state")


def original(settings, rank, world):
    """What SGLang answers."""
    for name in KINDS.values():
        setattr(_state, name, None)
    parallel = _context.get_parallel()
    parallel.clear_stamp()
    sizes = {theirs: settings.get(name, 1) for name, theirs in SIZES.items()}
    with source.on(rank, world) as recorder:
        try:
            # What SGLang does when it publishes the configuration.
            of_config = {
                name: sizes[name] for name in ("tp_size", "attn_cp_size", "attn_dp_size", "moe_ep_size", "moe_dp_size")
            }
            dcp = sizes["attn_dcp_size"]
            derived = _context.derive_parallel_widths(**of_config, dcp_size=dcp, dcp_enabled=dcp > 1)
            shared = settings.get("shared_experts_tp_size")
            parallel.override_permanently(**derived | sizes, shared_experts_tp_size=shared)
            _state.init_distributed_environment(world, rank, local_rank=0)
            _state.initialize_model_parallel(duplicate_tp_group=settings.get("duplicate_tp_group", False))
        except Exception as error:
            return refusal(error)
        made = {kind: getattr(_state, name) for kind, name in KINDS.items()}
        made = {kind: group for kind, group in made.items() if group is not None}
        answers = answers_of(_state, {name: ask(getattr(_state, name)) for name in ACCESSORS})
    partitions = {}
    for kind, group in made.items():
        called = group.unique_name.partition(":")[0]  # tp of a kind that is the tensor-parallel group
        partitions[kind] = [each.asked for each in recorder.made if each.options["desc"] == f"{called}:device"]
    return Answers(
        partitions=partitions, groups={kind: list(group.ranks) for kind, group in made.items()}, answers=answers
    )


ours = by_rows("sglang")


def settings(random):
    """A world and settings for it."""
    pp, attn_tp, cp, dp = factors(random, 4)
    tp = attn_tp * cp * dp
    ep = random.choice(divisors(tp))
    moe_dp = random.choice([1, *divisors(tp // ep)]) if random.random() < 0.95 else cp
    given = {"tp_size": tp, "pp_size": pp, "ep_size": ep, "moe_dp_size": moe_dp, "attn_dp_size": dp, "attn_cp_size": cp}
    world = tp * pp
    if random.random() < 0.4:
        given["dcp_size"] = random.choice([*divisors(tp), 3])
    if random.random() < 0.3:
        given["shared_experts_tp_size"] = random.choice([None, *divisors(attn_tp), 3])
    if random.random() < 0.1:
        given["duplicate_tp_group"] = True
    if random.random() < 0.05:
        world = random.randint(1, 64)
    elif random.random() < 0.08:
        given[random.choice([name for name in given if name in SIZES])] = random.choice([0, -1, 1, 3, 5])
    return world, given
