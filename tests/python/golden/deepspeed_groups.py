"""DeepSpeed's utils/groups.py."""

from __future__ import annotations

from typing import Any

from rankmesh.deepspeed import groups

Config = dict[str, Any]


def of_rank(config: Config) -> groups.Groups:
    """The original was asked by the last rank where the case names none."""
    return groups.Groups(rank=config.get("rank", config["world_size"] - 1), world_size=config["world_size"])


def get_expert_parallel_ranks(config: Config, meta: Config) -> Any:
    sizes = (config["world_size"], config["tp"], config["ep"], config["pp"])
    expert, data = groups._get_expert_parallel_ranks(*sizes, config.get("data_before_expert", False))
    return {"expert_parallel": expert, "expert_data_parallel": data}


get_expert_parallel_ranks_error = get_expert_parallel_ranks


def create_expert_and_data_parallel(config: Config, meta: Config) -> Any:
    place = of_rank(config)
    place._create_expert_and_data_parallel(
        config["ep"],
        mp_size=config.get("mp"),
        pp_size=config.get("pp"),
        mp_mode=config.get("mode", "tp"),
        use_data_before_expert_parallel_=config.get("data_before_expert", False),
    )
    name, made = place._get_max_expert_size_name(), place._state.groups
    # With tensor lanes the original makes the groups of both kinds stage by stage.
    steps = (config.get("pp") or 1) if (config.get("mp") or 1) > 1 else 1
    kinds = [made.partition(kind) for kind in made.kinds()]
    return {
        "calls": [
            group for i in range(steps) for all in kinds for group in all[i * len(all) // steps :][: len(all) // steps]
        ],
        "ep_ranks": place._get_expert_parallel_group_ranks(name),
        "edp_ranks": place._get_expert_data_parallel_group_ranks(name),
        "max_ep": place._get_max_expert_size(),
        "ep_rank": place._get_expert_parallel_rank(name),
        "ep_src_rank": place._get_expert_parallel_src_rank(name),
    }


def zero_hpz(config: Config, meta: Config) -> Any:
    calls = []
    for rank in range(config["world_size"]):
        place = of_rank({**config, "rank": rank})
        place._create_zero_param_parallel_group(config["group_size"])
        if place._get_zero_param_intra_parallel_rank_in_mygroup() == 0:
            calls.append(place._get_zero_param_intra_parallel_group_ranks())
    place = of_rank(config)
    place._create_zero_param_parallel_group(config["group_size"])
    return {"calls": calls, "mine": place._get_zero_param_intra_parallel_group_ranks()}


def all_to_all(config: Config, meta: Config) -> Any:
    made = of_rank(config)._get_local_all_to_all_group(device_per_node=config["devices_per_node"])
    return {"keys": list(made), "calls": [list(group) for group in made.values()]}


def init_tp_groups(config: Config, meta: Config) -> Any:
    firsts = []
    for rank in range(config["world_size"]):
        place = of_rank({**config, "rank": rank})
        data, tensor = place._init_tp_mesh_device(config["tp"], config["dp"])
        firsts += [(0, list(data))] * (place.get_data_parallel_rank() == 0)
        firsts += [(1, list(tensor))] * (place.get_tensor_model_parallel_rank() == 0)
    place = of_rank(config)
    data, tensor = place._init_tp_mesh_device(config["tp"], config["dp"])
    return {
        "calls": [group for _, group in sorted(firsts)],
        "dp": list(data),
        "tp": list(tensor),
        "src": place.get_tensor_model_parallel_src_rank(),
    }
