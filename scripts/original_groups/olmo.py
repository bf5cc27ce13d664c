# SPDX-License-Identifier: Apache-2.0
"""OLMo-core's olmo_core.distributed.parallel.

The settings are `dp`, DataParallelConfig's arguments, `pp`, PipelineParallelConfig's arguments, the degrees `tp`, `cp`
and `ep`, the degree `experts` of build_expert_parallel_mesh, and `nodes`, which NUM_NODES says. What is None or absent
is not configured. A partition is a description that torch's DeviceMesh gives its groups, such as mesh_tp.
"""

import enum
import os
from types import SimpleNamespace
from unittest import mock

import torch
import torch.distributed.pipelining  # what it imports is looked for before stubs stand in for packages

from .answers import Answers, ask, refusal
from .draws import factors
from .meshes import ask_mesh, described, fake_world, members, partitions_of

DISTRIBUTION, PACKAGE = "ai2-olmo-core", "olmo_core"
TRAIN_MODULE = "olmo_core.train.train_module.transformer.ddp_train_module"
RUNS = ("olmo_core.distributed.parallel.*", "olmo_core.distributed.utils", "olmo_core.exceptions", TRAIN_MODULE)
PARTS = (
    "get_dp_mesh", "get_dp_model_mesh", "get_dp_shard_mesh", "get_dp_replicate_mesh", "get_ep_mesh", "get_tp_mesh",
    "get_cp_mesh", "get_pp_mesh", "get_pp_stage_mesh",
)  # fmt: skip
SCHEDULES = ("1F1B", "Interleaved1F1B", "GPipe", "LoopedBFS", "InterleavedZeroBubble", "ZBVZeroBubble",
             "Custom1F1B", "CustomInterleaved1F1B", "Custom1F1BV")  # fmt: skip

source = _module = _train = None


def start(of):
    global source, _module, _train
    source = of
    source.given = {
        "olmo_core.config": {"StrEnum": enum.StrEnum},
        "olmo_core.utils": {"get_default_device": lambda: torch.device("cpu")},
        "olmo_core.train.train_module.train_module": {"TrainModule": object},
    }
    _module = source.load("olmo_core.distributed.parallel")
    _train = source.load(TRAIN_MODULE).OLMoDDPTrainModule


def _configurations(module, settings):
    """The settings as the configurations of the original's module, or of ours."""
    given = {}
    if settings.get("dp") is not None:
        name = module.DataParallelType(settings["dp"]["name"])
        given["dp"] = module.DataParallelConfig(**settings["dp"] | {"name": name})
    if settings.get("pp") is not None:
        pipeline = dict(settings["pp"])
        kinds = {"schedule": module.PipelineScheduleType, "style": module.PipelineSplitStyle}
        for key, kind in (kinds | {"p2p_backend": module.PipelineP2PBackend}).items():
            if pipeline.get(key) is not None:
                pipeline[key] = kind(pipeline[key])
        given["pp"] = module.PipelineParallelConfig(**pipeline)
    for name, kind in (("tp", "TensorParallel"), ("cp", "ContextParallel"), ("ep", "ExpertParallel")):
        if settings.get(name) is not None:
            given[name] = getattr(module, f"{kind}Config")(degree=settings[name])
    return given


def _ask(module, mesh, experts, pipeline):
    """What both answer, since they have the same functions."""
    answers = {"build_world_mesh()": described(mesh), "get_device_mesh_info()": module.get_device_mesh_info(mesh)}
    answers |= {f"{name}()": ask_mesh(getattr(module, name), mesh) for name in PARTS}
    answers["get_dp_process_group()"] = members(module.get_dp_process_group(mesh))
    if experts is not None:
        answers["build_expert_parallel_mesh()"] = described(experts)
        answers |= {f"{name}(experts)": ask_mesh(getattr(module, name), experts) for name in PARTS[:5]}
    if pipeline is not None:
        answers |= {
            "infer_style()": _text(pipeline.infer_style),
            "final_stage_rank()": _text(pipeline.final_stage_rank),
            "rank_completion_order()": _text(lambda: list(pipeline.rank_completion_order())),
        }
        for rank in range(pipeline.degree):
            for stages in (pipeline.degree, 2 * pipeline.degree, 3 * pipeline.degree, 5):
                answers[f"stage_ids_this_rank({rank}, {stages})"] = _text(pipeline.stage_ids_this_rank, rank, stages)
    return answers


def _dense_and_moe(build):
    """The meshes of OLMoDDPTrainModule, and its group over dp and cp."""
    try:
        meshes, group = build()
    except Exception:
        return {"dense and moe": "raises"}
    return {"dense": described(meshes["dense"]), "moe": described(meshes["moe"]), "dense_dp_cp_group": members(group)}


def _text(call, *arguments):
    """The answer as text, without the text of an error."""
    found = ask(call, *arguments)
    return "raises" if hasattr(found, "text") else str(found)


def _p2p_group(pipeline, mesh):
    found = ask(pipeline.build_p2p_process_group, mesh)
    return "raises" if hasattr(found, "text") else found and members(found)


def _nodes(settings):
    nodes = settings.get("nodes")
    return mock.patch.dict(os.environ, {"NUM_NODES": str(nodes)} if nodes else {})


def _of_train_module(given):
    """What OLMoDDPTrainModule keeps of these configurations."""
    of = SimpleNamespace(world_mesh={}, _build_mesh_dim_process_group=_train._build_mesh_dim_process_group)
    _train._build_world_mesh(of, **given)
    return of.world_mesh, of.dense_dp_cp_group


def original(settings, rank, world):
    """What OLMo-core answers."""
    with (
        fake_world(rank, world) as made,
        _nodes(settings),
        mock.patch.object(_module, "_WORLD_MESH", None),
        mock.patch.object(torch.distributed, "ProcessGroupNCCL", mock.MagicMock(), create=True),
    ):
        try:
            given = _configurations(_module, settings)
            mesh = _module.build_world_mesh(**given)
            partitions = partitions_of(made, world)
            experts = settings.get("experts")
            if experts is not None:
                experts = _module.build_expert_parallel_mesh(_module.ExpertParallelConfig(degree=experts))
        except Exception as error:
            return refusal(error)
        answers = _ask(_module, mesh, experts, given.get("pp"))
        if given.get("pp") is not None:
            answers["build_p2p_process_group()"] = _p2p_group(given["pp"], mesh)
        if "tp" not in given:  # which leaves ranks out there
            answers |= _dense_and_moe(lambda: _of_train_module(given))
        return Answers(partitions=partitions, answers=answers)


def ours(settings, rank, world):
    """What rankmesh.olmo answers."""
    from rankmesh import olmo

    place = {"RANK": str(rank), "WORLD_SIZE": str(world), "LOCAL_WORLD_SIZE": str(world)}
    with mock.patch.dict(os.environ, place), _nodes(settings):
        try:
            given = _configurations(olmo, settings)
            made = olmo.WorldMesh(rank=rank, world_size=world)
            mesh = made.build_world_mesh(**given)
            groups = made._state.groups
            kinds = [kind for kind in groups.kinds() if kind != "mesh_dp_cp"]  # which get_dp_model_mesh makes
            partitions = partitions_of({kind: groups.partition(kind) for kind in kinds}, world)
            experts = settings.get("experts")
            if experts is not None:
                degree = olmo.ExpertParallelConfig(degree=experts)
                experts = olmo.build_expert_parallel_mesh(degree, rank=rank, world_size=world)
        except Exception as error:
            return refusal(error)
        answers = _ask(olmo, mesh, experts, given.get("pp"))
        if given.get("pp") is not None:
            answers["build_p2p_process_group()"] = _p2p_group(given["pp"], mesh)

        def dense_and_moe():
            meshes = olmo.build_dense_and_moe_mesh(**given, rank=rank, world_size=world)
            return meshes, olmo.get_dp_model_mesh(meshes["dense"]).get_group()

        if "tp" not in given:
            answers |= _dense_and_moe(dense_and_moe)
        return Answers(partitions=partitions, answers=answers)


def settings(random):
    """A world and settings for it."""
    replicas, shards, tp, cp, pp = factors(random, 5)
    world = replicas * shards * tp * cp * pp
    given = {}
    name = random.choice(("fsdp", "hsdp", "hsdp", "ddp"))
    given["dp"] = {"name": name}
    if name == "hsdp" or random.random() < 0.1:
        if random.random() < 0.7:
            given["dp"]["num_replicas"] = random.choice((replicas, replicas, random.randint(1, 4)))
        if random.random() < 0.7:
            given["dp"]["shard_degree"] = random.choice((shards, shards, random.randint(1, 4)))
    if random.random() < 0.5:
        given["tp"] = tp
    elif random.random() < 0.7:
        given["ep"] = random.choice((shards, random.randint(-1, 8)))
    if random.random() < 0.5:
        given["cp"] = cp
    if random.random() < 0.5:
        given["pp"] = {"degree": pp, "schedule": random.choice(SCHEDULES)}
        if random.random() < 0.5:
            given["pp"]["style"] = random.choice(("loop", "v"))
        if random.random() < 0.5:
            given["pp"]["p2p_use_separate_group"] = random.random() < 0.8
            given["pp"]["p2p_backend"] = random.choice(("nccl", "nccl", "nccl_rma", "nccl_rma_ack", "nccl_device"))
        for name in ("p2p_nccl_min_ctas", "p2p_nccl_max_ctas"):
            if random.random() < 0.2:
                given["pp"][name] = random.choice((0, 1, 2, 4))
    if random.random() < 0.3:
        given["experts"] = random.choice((1, 2, 4, -1, random.randint(1, 8)))
    if random.random() < 0.3:
        given["nodes"] = random.choice((1, 2, replicas))
    if random.random() < 0.05:
        given["dp"] = None
    if random.random() < 0.05:
        given[random.choice(("tp", "cp"))] = random.choice((0, -1, 3))
    if random.random() < 0.1:
        world = random.randint(1, 64)
    return world, given
