"""Megatron-core's RankGenerator, of the dense layers and of the experts."""

from __future__ import annotations

from typing import Any

from rankmesh.megatron import parallel_state
from rankmesh.megatron.parallel_state import RankGenerator, _inject_gtp_remat_axis


def generator(config: dict[str, Any]) -> RankGenerator:
    sizes = {axis: config.get(axis, 1) for axis in ("tp", "ep", "dp", "pp", "cp")}
    given = {name: config[name] for name in ("rank_offset", "gtp_remat") if name in config}
    return RankGenerator(**sizes, order=config["order"], **given)


def ranks(config: dict[str, Any], meta: dict[str, Any]) -> Any:
    made = generator(config)
    return lambda expected: {
        "world_size": made.world_size,
        "order": made.order,
        "ordered_size": made.ordered_size,
        "ranks": {token: made.get_ranks(token) for token in expected.get("ranks", made.order.split("-"))},
    }


special = invalid_or_odd = ranks


def get_ranks_token(config: dict[str, Any], meta: dict[str, Any]) -> Any:
    return generator(config).get_ranks(config["token"])


def get_mask(config: dict[str, Any], meta: dict[str, Any]) -> Any:
    return RankGenerator(1, 1, 1, 1, 1, "tp").get_mask(config["order"], config["token"])


def unit_test_table(config: dict[str, Any], meta: dict[str, Any]) -> Any:
    tp, pp, cp, ep = (config[axis] for axis in ("tp", "pp", "cp", "ep"))
    dense = RankGenerator(tp=tp, ep=1, dp=config["dp"], pp=pp, cp=cp, order="tp-cp-ep-dp-pp")
    expert = RankGenerator(tp=tp, ep=ep, dp=config["expert_dp"], pp=pp, cp=1, order="tp-cp-ep-dp-pp")
    return lambda names: {
        name: expert.get_ranks(name[len("expert_") :]) if name.startswith("expert_") else dense.get_ranks(name)
        for name in names
    }


def inject_gtp_remat_axis(config: dict[str, Any], meta: dict[str, Any]) -> Any:
    return _inject_gtp_remat_axis(config["order"], *(config[name] for name in ("after",) if name in config))


def default_embedding_ranks(config: dict[str, Any], meta: dict[str, Any]) -> Any:
    ranks = config["pp_ranks"]
    return [
        parallel_state.default_embedding_ranks(ranks),
        parallel_state.default_position_embedding_ranks(ranks),
    ]
