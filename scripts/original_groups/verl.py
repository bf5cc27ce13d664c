# SPDX-License-Identifier: Apache-2.0
"""verl's device meshes: those of the actor's FSDPEngine, and the rollout's of ActorRolloutRefWorker.init_model.

The settings are FSDPEngineConfig's `fsdp_size` and `ulysses_sequence_parallel_size`, and `rollout`, the sizes of
RolloutConfig: tensor_model_parallel_size, data_parallel_size and pipeline_model_parallel_size; None: there is none.
The meshes are `device_mesh` (ddp, fsdp), `ulysses_device_mesh` (dp, sp) and `rollout_device_mesh` (dp, infer_tp,
infer_pp). The kinds are the names of these with their axes, as device_mesh.fsdp.
"""

import importlib
from types import SimpleNamespace
from unittest import mock

from .answers import Answers, Raised, ask, refusal
from .draws import factors
from .meshes import described, fake_world, group_of, members, partition_of
from .ours import by_rows

DISTRIBUTION = PACKAGE = "verl"
RUNS = ("verl.workers.engine.fsdp.utils", "verl.workers.engine.fsdp.transformer_impl", "verl.workers.engine_workers")

MESHES = ("device_mesh", "ulysses_device_mesh", "rollout_device_mesh")
OF_ENGINE = ("get_data_parallel_rank", "get_data_parallel_size", "is_mp_src_rank_with_outputs")
SIZES = ("tensor_model_parallel_size", "data_parallel_size", "pipeline_model_parallel_size")

source = _engine = _workers = None


def start(of):
    global source, _engine, _workers
    source = of
    for name in ("torch.distributed.fsdp", "torch.distributed.tensor"):
        importlib.import_module(name)  # what they import is looked for before stubs stand in for packages
    source.given = {
        "verl.utils.device": {"get_device_name": lambda: "cpu", "is_npu_available": False},
        "verl.utils.config": {"omega_conf_to_dataclass": lambda config: config},
    }
    _, _engine, _workers = map(source.load, RUNS)


class _Made(Exception):
    """The rollout's mesh, which is what is asked of init_model."""


def _rollout_mesh(sizes, world):
    """The mesh that init_model makes for a worker that has only the rollout."""
    config = SimpleNamespace(**dict.fromkeys(SIZES, 1) | sizes | {"name": "sglang", "mode": "async"})
    worker = SimpleNamespace(config=SimpleNamespace(model=None, rollout=config), role="rollout", world_size=world)

    def rollout(config, model_config, device_mesh):
        raise _Made(device_mesh)

    with mock.patch.object(_workers, "get_rollout_class", return_value=rollout):
        try:
            _workers.ActorRolloutRefWorker.init_model(worker)
        except _Made as made:
            return made.args[0]


def original(settings, rank, world):
    """What verl answers."""
    engine = object.__new__(_engine.FSDPEngine)
    engine.engine_config = SimpleNamespace(
        fsdp_size=settings.get("fsdp_size", -1),
        ulysses_sequence_parallel_size=settings.get("ulysses_sequence_parallel_size", 1),
    )
    with fake_world(rank, world):
        try:
            engine._init_device_mesh()
            meshes = {name: getattr(engine, name) for name in MESHES[:2]}
            if settings.get("rollout") is not None:
                meshes["rollout_device_mesh"] = _rollout_mesh(settings["rollout"], world)
        except Exception as error:
            return refusal(error)
        answers = {name: ask(getattr(engine, name)) for name in OF_ENGINE}
        group = ask(engine.get_data_parallel_group)
        answers["get_data_parallel_group"] = group if isinstance(group, Raised) else members(group)
        answers |= {name: described(mesh) for name, mesh in meshes.items()}
        kinds = {
            f"{name}.{along}": (mesh, axis)
            for name, mesh in meshes.items()
            if mesh is not None
            for axis, along in enumerate(mesh.mesh_dim_names)
        }
        # rankmesh has no groups of these names where they are not the engine's.
        tp, dp, pp = (settings["rollout"].get(name, 1) for name in SIZES) if settings.get("rollout") else (1, 1, 1)
        if dp > 1 or (tp > 1 and pp > 1):
            kinds.pop("rollout_device_mesh.infer_tp", None)
        if tp > 1 and pp > 1:
            kinds.pop("rollout_device_mesh.infer_pp", None)
        return Answers(
            partitions={kind: partition_of(*place) for kind, place in kinds.items()},
            groups={kind: group_of(*place) for kind, place in kinds.items()},
            answers=answers,
        )


_by_rows = by_rows("verl")


def ours(settings, rank, world):
    """What rankmesh answers, whose settings of the rollout stand beside the actor's."""
    own = {name: value for name, value in settings.items() if name != "rollout"}
    if settings.get("rollout") is not None:
        own |= {f"rollout_{name}": settings["rollout"].get(name, 1) for name in SIZES}
    return _by_rows(own, rank, world)


def settings(random):
    """A world and settings for it."""
    replicas, shards, ulysses = factors(random, 3)
    world = replicas * shards * ulysses
    given = {}
    if random.random() < 0.8:
        given["fsdp_size"] = random.choice((-1, shards, shards * ulysses, world, world + 1, random.randint(-2, 8)))
    if random.random() < 0.7:
        given["ulysses_sequence_parallel_size"] = random.choice((ulysses, ulysses, ulysses, random.randint(1, 6)))
    if random.random() < 0.7:
        sizes = random.sample((replicas, shards, ulysses), 3)
        given["rollout"] = {name: size for name, size in zip(SIZES, sizes, strict=True) if random.random() < 0.7}
        if random.random() < 0.1:
            given["rollout"][random.choice(SIZES)] = random.choice((0, -1, 3, 5))
    return world, given
