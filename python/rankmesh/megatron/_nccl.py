"""What Megatron-core sets for the communicators of NCCL and UCC: options of each group, SHARP, environment variables.

The names and rules are those of Megatron-core at d98e8a6 of August 2026, `megatron/core/parallel_state.py`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rankmesh._errors import NotBuilt
from rankmesh._frameworks import rows as _native

if TYPE_CHECKING:
    from rankmesh.torch._named import Named

# The group that SHARP serves, by the value of sharp_enabled_group.
_OF_SHARP = {"dp": "DATA_PARALLEL_GROUP_WITH_CP", "dp_replica": "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1"}

# What UCC is told unless the environment says otherwise, and what it is told always.
_UCC_IF_UNSET = {"TORCH_UCC_BLOCKING_WAIT": "none", "UCC_EC_CUDA_STREAM_TASK_MODE": "driver", "UCX_TLS": "ib,cuda_copy"}
_UCC = {
    "NSYS_UCP_COMM_PARAMS": "1",
    "UCX_RNDV_THRESH": "0",
    "UCX_NET_DEVICES": "all",
    "UCC_CL_BASIC_TLS": "^sharp,nccl",
}

Configs = dict[str, dict[str, Any]]


def read_configs(path: str | None, high_priority: Iterable[str] | None) -> Configs:
    """The options of each section: those of the YAML file, and a stream of high priority for the sections named."""
    configs: Configs = {}
    if path is not None:
        try:
            import yaml  # type: ignore[import-untyped, unused-ignore]
        except ImportError:
            raise RuntimeError(
                "Cannot import `yaml`. Setting custom nccl communicator configs requires the yaml package."
            ) from None
        with open(path) as stream:
            configs = yaml.safe_load(stream) or {}
    for section in high_priority or []:
        configs.setdefault(section, {})["is_high_priority_stream"] = True
    return configs


_SECTIONS = {
    kind: brief.removeprefix("hybrid_").removesuffix("_ag")
    for kind, *_, brief in _native.rows("megatron")["kinds"]
    if brief
}
"""The section with the options of the groups of a kind, whose number is left out."""


def check_sharp() -> None:
    """Raises NotBuilt where torch.distributed cannot make a communicator of NCCL."""
    import torch
    import torch.distributed as dist

    if not torch.cuda.is_available() or "nccl" not in dist.get_backend_config():
        raise NotBuilt(
            f"use_sharp requires GPUs and the backend nccl, and torch.distributed runs on {dist.get_backend()}; "
            "leave it out"
        )


def with_options(
    wanted: Iterable[Named], options: dict[str, Any], pipeline_backend: str | None, sharp: str | None
) -> Iterator[Named]:
    """The groups with the options of their sections, those of pipelines on their backend, one with SHARP.

    NCCL makes the communicator that SHARP serves while NCCL_COLLNET_ENABLE is set.
    """
    os.environ.pop("NCCL_COLLNET_ENABLE", None)
    for each in wanted:
        backend = pipeline_backend if each.name == "PIPELINE_MODEL_PARALLEL_GROUP" else None
        if backend == "ucc":
            os.environ.update({**_UCC_IF_UNSET, **os.environ, **_UCC})
            yield replace(each, backend=backend)
            continue
        section = _SECTIONS.get(each.name) or _SECTIONS.get(re.sub(r"_L?\d+$", "", each.name), "")  # "" on the host
        named = replace(each, backend=backend or each.backend, pg_options=options.get(section))
        if sharp is None or each.name != _OF_SHARP[sharp]:
            yield named
            continue
        os.environ["NCCL_COLLNET_ENABLE"] = "1"
        try:
            yield replace(named, apart=True, made=_connect)
        finally:
            os.environ.pop("NCCL_COLLNET_ENABLE", None)


def _connect(group: Any) -> None:
    """Has NCCL make the communicator of a group now: torch defers that to the first operation."""
    import torch
    import torch.distributed as dist

    dist.barrier(group=group, device_ids=[torch.cuda.current_device()])
    torch.cuda.synchronize()


def options_of(configs: Configs) -> dict[str, Any]:
    """`ProcessGroupNCCL.Options` of each section; NotBuilt where torch has no NCCL."""
    import torch.distributed as dist

    made: dict[str, Any] = {}
    for section, config in configs.items():
        if section not in _SECTIONS.values():
            continue
        if not hasattr(dist, "ProcessGroupNCCL"):
            raise NotBuilt(
                "this PyTorch is built without NCCL, whose options nccl_communicator_config_path and "
                "high_priority_stream_groups set; leave them out"
            )
        options = dist.ProcessGroupNCCL.Options(is_high_priority_stream=config.get("is_high_priority_stream", False))
        for name in config.keys() & {"cga_cluster_size", "max_ctas", "min_ctas", "net_name"}:
            setattr(options.config, name, config[name])
        if config.get("net_name", "ib").lower() not in ("ib", "socket"):
            raise RuntimeError(f"net_name ({config['net_name']}) is not supported.Accepted values: 'IB' or 'socket'.")
        made[section] = options
    return made
