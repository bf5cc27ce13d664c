"""rankmesh.torch.reshard: tensors between meshes of a running world, held against full tensors that torch shards."""

from __future__ import annotations

import gc
import weakref
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
from rankmesh import Disagreement, Mesh, Sharding, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import rankmesh.torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from rankmesh.torch import Fused, reshard  # noqa: E402
from rankmesh.torch import _device_mesh as meshes  # noqa: E402
from rankmesh.torch._reshard import api  # noqa: E402
from reshard_cases import Case, Random, here, same, values  # noqa: E402
from torch.distributed.tensor import DTensor, Partial, Shard, distribute_tensor  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402
from torch_ranks import example, free_port, preload, ranks  # noqa: E402

preload("torch.distributed.tensor", "torch._dynamo", "rankmesh.torch._reshard.api")


def hand_over(rank: int, size: int, seed: int, cases: int) -> None:
    for number in range(cases):
        case = Case(Random(seed * 1000 + number), rank, size)
        got = reshard(case.state, case.to, from_=case.from_, out=case.out, host=case.host, staging=case.staging)
        assert got.keys() == case.expected.keys(), (seed, number)
        assert all(got[name] is out for name, out in case.out.items())
        for name, expected in case.expected.items():
            assert same(got[name], expected), (seed, number, name, got[name], expected)


@pytest.mark.parametrize(("size", "seed", "cases"), [(4, 1, 50), (3, 2, 30), (1, 3, 20)])
def test_reshard_brings_what_torch_would_shard(size: int, seed: int, cases: int, tmp_path: Path) -> None:
    ranks(size, hand_over, tmp_path, seed, cases)


# --- from FSDP2 and tensor parallelism to rollout


class Layer(torch.nn.Module):
    """A layer with fused QKV, as a trainer has it."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = torch.nn.Linear(10, 16 + 4 + 4, bias=False)
        self.gate = torch.nn.Linear(10, 14, bias=False)
        self.up = torch.nn.Linear(10, 14, bias=False)
        self.down = torch.nn.Linear(14, 10)
        self.register_buffer("scale", torch.arange(3.0))


def full_layer() -> tuple[Layer, dict[str, Any]]:
    torch.manual_seed(3)
    layer = Layer()
    return layer, {name: value.detach().clone() for name, value in layer.state_dict().items()}


def trainer_to_rollout(rank: int, size: int) -> None:
    """Ranks 0 and 1 train with FSDP2; ranks 2 and 3 are tp=2 with vLLM's layout."""
    from torch.distributed.fsdp import fully_shard

    layer, full = full_layer()
    state: dict[str, Any] = {}
    from_ = {}
    if rank < 2:
        group = dist.new_group([0, 1], use_local_synchronization=True)
        mesh = meshes.device_mesh("cpu", [0, 1], (2,), ("dp",), [group])
        state = dict(fully_shard(layer, mesh=mesh).state_dict())
        from_ = {"qkv.weight": Fused({"q": 16, "k": 4, "v": 4})}
    tp = Mesh("tp=2 @2")
    halves = {"q": 16, "k": 4, "v": 4, "gate.weight": 14, "up.weight": 14}
    split = {name: Sharding(tp, (rows, 10), "0=tp") for name, rows in halves.items()}
    to = {
        "qkv_proj": Fused({part: split[part] for part in ("q", "k", "v")}),
        "gate_up_proj": Fused({part: split[part] for part in ("gate.weight", "up.weight")}),
        "down.weight": Sharding(tp, (10, 14), "1=tp"),
        "down.bias": Sharding(tp, (10,)),
        "scale": Sharding(tp, (3,)),
    }
    got = reshard(state, to, from_=from_, host=2)
    if rank < 2:
        assert got == {}
        return
    at = rank - 2
    parts = dict(zip("qkv", full["qkv.weight"].split([16, 4, 4]), strict=True)) | full
    expected = {
        "qkv_proj": torch.cat([parts[part].chunk(2)[at] for part in "qkv"]),
        "gate_up_proj": torch.cat([full[f"{part}.weight"].chunk(2)[at] for part in ("gate", "up")]),
        "down.weight": full["down.weight"].chunk(2, dim=1)[at],
        "down.bias": full["down.bias"],
        "scale": full["scale"],
    }
    assert list(got) == list(expected)
    assert all(torch.equal(got[name], value) for name, value in expected.items())


def test_reshard_when_trainer_and_rollout_are_disjoint(tmp_path: Path) -> None:
    ranks(4, trainer_to_rollout, tmp_path)


def fsdp_and_tp(rank: int, size: int) -> None:
    """Parameters of FSDP2 over tensor parallelism, which torch cuts along tp first."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    layer, full = full_layer()
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    plans = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    parallelize_module(layer, mesh["tp"], plans)
    fully_shard(layer, mesh=mesh["dp"])
    sharded = {name: each for name, each in layer.state_dict().items() if name not in ("scale", "qkv.weight")}
    assert any("_StridedShard" in str(each.placements) for each in sharded.values())
    one = {name: Sharding("r=1 @3", tuple(full[name].shape)) for name in sharded}
    got = reshard(sharded, one)
    assert (got.keys() == one.keys()) if rank == 3 else got == {}
    assert all(torch.equal(value, full[name]) for name, value in got.items())
    back = {name: each.clone() for name, each in sharded.items()}
    for each in back.values():
        each.to_local().zero_()
    reshard(got, back, from_=one)
    assert all(torch.equal(each.to_local(), sharded[name].to_local()) for name, each in back.items())


def test_reshard_when_fsdp_is_over_tensor_parallelism(tmp_path: Path) -> None:
    ranks(4, fsdp_and_tp, tmp_path)


def megatron_qkv(rank: int, size: int) -> None:
    """Megatron holds QKV by query group: here 2 heads of queries, one of keys and one of values, of 3 rows each."""
    groups, head, hidden = 4, 3, 5
    parts = {p: values((groups, n * head, hidden), torch.float32, n) for p, n in (("q", 2), ("k", 1), ("v", 1))}
    from_ = {"linear_qkv": Fused({p: Sharding("tp=4", tuple(w.shape), "0=tp") for p, w in parts.items()}, dim=1)}
    local = torch.cat(list(parts.values()), dim=1)[rank].reshape(-1, hidden)
    to = {p: Sharding("tp=2", tuple(w.shape), "0=tp") for p, w in parts.items()}
    got = reshard({"linear_qkv": local}, to, from_=from_)
    assert (got == {}) == (rank >= 2)
    assert all(torch.equal(value, parts[p].chunk(2)[rank]) for p, value in got.items())


def test_reshard_when_qkv_is_fused_by_query_group(tmp_path: Path) -> None:
    ranks(4, megatron_qkv, tmp_path)


def replicas(rank: int, size: int) -> None:
    """Each replica has its own mesh of one axis, as with tensor parallelism in data parallelism."""
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    whole = values((7, 4), torch.float32, 1)
    had = {"w": distribute_tensor(whole, mesh["tp"], [Shard(0)], src_data_rank=None)}
    to = {"w": distribute_tensor(torch.zeros(7, 4), mesh["tp"], [Shard(1)], src_data_rank=None)}
    got = reshard(had, to, host=2)
    assert torch.equal(got["w"].to_local(), whole.chunk(2, dim=1)[mesh.get_local_rank("tp")])


def test_reshard_when_each_replica_has_a_mesh_of_its_own(tmp_path: Path) -> None:
    ranks(4, replicas, tmp_path)


# --- what it costs


class Storages(TorchDispatchMode):
    """Counts the bytes of storages that are made and alive under it."""

    def __init__(self) -> None:
        super().__init__()
        self.alive: dict[int, int] = {}
        self.known: set[int] = set()
        self.most = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {each.untyped_storage()._cdata for each in args if isinstance(each, torch.Tensor)}
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.untyped_storage()._cdata not in before:
            key = result.untyped_storage()._cdata
            self.alive[key] = result.untyped_storage().nbytes()
            weakref.finalize(result, self.alive.pop, key, None)
            self.most = max(self.most, sum(self.alive.values()))
        return result


def bounded(rank: int, size: int, staging: int) -> tuple[int, int]:
    """Returns the most bytes that moving allocates, and the number of messages to and from this rank."""
    shape = (64, 33)
    before = Sharding("tp=4", shape, "0=tp")
    after = Sharding("tp=4", shape, "1=tp")
    whole = values(shape, torch.float32, 1)
    many = {f"w{i}": here(whole, before, rank) for i in range(5)}
    out = {name: torch.zeros_like(here(whole, after, rank)) for name in many}
    messages, storages = 0, Storages()
    exchange, move = dist.batch_isend_irecv, api.move

    def counted(ops: list[Any]) -> Any:
        nonlocal messages
        messages += len(ops)
        return exchange(ops)

    def watched(*args: Any) -> None:
        with storages:
            move(*args)

    dist.batch_isend_irecv, api.move = counted, watched
    try:
        got = reshard(many, dict.fromkeys(many, after), from_=dict.fromkeys(many, before), out=out, staging=staging)
    finally:
        dist.batch_isend_irecv, api.move = exchange, move
    assert all(torch.equal(each, here(whole, after, rank)) for each in got.values())
    return storages.most, messages


@pytest.mark.parametrize("staging", [64, 1000, 5000])
def test_reshard_stays_within_its_staging_memory(staging: int, tmp_path: Path) -> None:
    for most, messages in ranks(4, bounded, tmp_path, staging):
        assert staging // 2 < most <= staging
        assert messages > 6


def test_reshard_sends_small_tensors_in_one_message(tmp_path: Path) -> None:
    assert [messages for _, messages in ranks(4, bounded, tmp_path, 1 << 20)] == [6] * 4  # to and from three peers


def narrower(rank: int, size: int) -> None:
    """Elements become the dtype of the wanted tensor before they travel."""
    whole = values((6, 4), torch.float32, 1) / 7
    stated = {"w": Sharding("tp=2", (6, 4), "0=tp")}
    into = {"w": Sharding("tp=2 @2", (6, 4), "1=tp")}
    out = {"w": torch.zeros(6, 2, dtype=torch.bfloat16)} if rank > 1 else {}
    sent = []
    exchange = dist.batch_isend_irecv

    def counted(ops: list[Any]) -> Any:
        sent.extend(each.tensor.numel() for each in ops if each.op is dist.isend)
        return exchange(ops)

    dist.batch_isend_irecv = counted
    reshard({"w": here(whole, stated["w"], rank)} if rank < 2 else {}, into, from_=stated, out=out)
    dist.batch_isend_irecv = exchange
    if rank > 1:
        assert torch.equal(out["w"], whole.bfloat16().chunk(2, dim=1)[rank - 2])
    assert sum(sent) == (2 * 6 * 2 if rank < 2 else 0)


def test_reshard_sends_the_wanted_dtype(tmp_path: Path) -> None:
    ranks(4, narrower, tmp_path)


# --- errors


def wrong(rank: int, size: int) -> dict[str, str]:
    """The text of each error on this rank."""
    w = Sharding("tp=2", (4, 2), "0=tp")
    mine = torch.ones(2, 2)
    mesh = meshes.device_mesh("cpu", [0, 1], (2,), ("tp",), None)
    part = DTensor.from_local(mine, mesh, [Shard(0)], run_check=False)
    calls: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        "missing": ({"w": mine} if rank == 0 else {}, {"w": w}, {"from_": {"w": w}}),
        "elements": ({"w": torch.ones(3, 2)}, {"w": w}, {"from_": {"w": w}}),
        "differs": ({"w": mine}, {"w": w if rank == 0 else Sharding("tp=2", (4, 2))}, {"from_": {"w": w}}),
        "left out": ({"w": part} if rank == 0 else {}, {"w": w}, {}),
        "not wanted": ({"w": part}, {"w": w} if rank == 0 else {}, {}),
        "first": ({"w": part}, {"w": w} if rank == 1 else {}, {}),
        "staging": ({"w": mine}, {"w": w}, {"from_": {"w": w}, "staging": 64 + 64 * rank}),
        "held": ({"w": torch.ones(4, 2)}, {}, {"from_": {"w": Sharding(f"r=1 @{rank}", (4, 2) if rank else (2, 4))}}),
        "dtypes": (
            {"w": torch.ones(4, 2, dtype=torch.float64 if rank else torch.float32)},
            {},
            {"from_": {"w": Sharding(f"r=1 @{rank}", (4, 2))}},
        ),
        "plain": ({"w": mine}, {"w": w}, {}),
        "not a tensor": ({"step": 3}, {}, {}),
        "nobody": ({}, {"v": w}, {}),
        "outside": ({"w": mine}, {"w": Sharding("tp=2 @1", (4, 2), "0=tp")} if rank else {}, {"from_": {"w": w}}),
        "same memory": ({"w": part}, {"w": part}, {}),
        "sums": ({"f": torch.ones(4)}, {}, {"from_": {"f": Fused({"q": 3, "k": 2}, 0, Sharding("r=2", (4,)))}}),
        "partial": ({"w": DTensor.from_local(mine, mesh, [Partial()], run_check=False)}, {}, {}),
        "small": ({}, {}, {"staging": 8}),
        "mixed": ({}, {"f": Fused({"q": 3, "w": w}, 0, w)}, {}),
        "dimension": ({}, {"f": Fused({"w": w}, 2)}, {}),
        "nested": ({}, {"f": Fused({"w": w, "g": Fused({"w": w})})}, {}),  # type: ignore[dict-item]
        "nested sizes": ({}, {"f": Fused({"q": 3, "g": Fused({"w": w})}, 0, w)}, {}),  # type: ignore[dict-item]
        "no part": ({}, {"f": Fused({"w": w, "g": [4, 2]})}, {}),  # type: ignore[dict-item]
        "of": ({}, {"f": Fused({"q": 4})}, {}),
        "text": ({}, {"f": "0=tp"}, {}),
        "type": ({}, {} if rank else 3, {}),  # type: ignore[dict-item]
    }
    texts = {}
    for name, (state, to, options) in calls.items():
        kind = UsageError if name in USAGE[rank] else Disagreement
        with pytest.raises(kind) as caught:
            reshard(state, to, **options)
        texts[name] = str(caught.value)
    return texts


BOTH = {"elements", "plain", "not a tensor", "nobody", "outside", "same memory", "sums", "partial", "small"}
BOTH |= {"mixed", "dimension", "nested", "nested sizes", "no part", "of", "text"}
USAGE = [BOTH | {"type"}, BOTH | {"missing"}]


def test_reshard_raises_on_all_ranks_before_data_moves(tmp_path: Path) -> None:
    zero, one = ranks(2, wrong, tmp_path)
    missing = "rank 1 is in the mesh of 'w' and has no such tensor; pass it"
    assert one["missing"] == missing
    assert zero["missing"] == f"reshard failed on ranks {{1}} before data moved: rank 1: {missing}"
    assert one["elements"] == (
        "'w' has 6 elements on rank 1 (shape [3, 2]), but its layout says 4 (shape [2, 2]); pass this rank's shard"
    )
    assert one["differs"] == (
        "rank 1 states 'w' otherwise than rank 0, the first rank of its mesh; pass equal shapes, meshes and splits in "
        "to on both:\n"
        "  rank 0: 4x2 over tp=2, 0=tp\n"
        "  rank 1: 4x2 over tp=2, replicated"
    )
    for name, word in (("left out", "from_ or the state dict"), ("not wanted", "to")):
        text = f"rank 1 leaves out 'w', which rank 0 states; pass it in {word} on every rank of its mesh"
        assert one[name] == text
        assert zero[name] == f"reshard failed on ranks {{1}} before data moved: rank 1: {text}"
    first = "rank 0 leaves out 'w', which rank 1 states; pass it in to on every rank of its mesh"
    assert one["first"] == first
    assert zero["first"] == f"reshard failed on ranks {{1}} before data moved: rank 1: {first}"
    assert one["staging"] == (
        "ranks called reshard with different values of staging; pass one on all ranks:\n  rank 0: 64\n  rank 1: 128"
    )
    assert one["held"] == (
        "'w' is held in layouts that differ; hold replicas in one layout:\n"
        "  rank 0: 2x4 over r=1, replicated\n"
        "  rank 1: 4x2 over r=1 @1, replicated"
    )
    assert one["dtypes"] == (
        "'w' is held in dtypes that differ; hold replicas in one dtype:\n"
        "  rank 0: torch.float32\n"
        "  rank 1: torch.float64"
    )
    assert zero["plain"] == (
        "'w' is a plain tensor, and the state dict does not say which ranks hold it: it has no DTensor; state it in "
        "from_, as in from_={'w': Sharding(mesh, shape)}"
    )
    assert zero["not a tensor"] == "'step' is int, not a tensor; pass a flat state dict without it"
    assert zero["nobody"] == "'v' is wanted, but no rank passed it in its state dict; check the name"
    assert zero["outside"] == (
        "the mesh of 'w' has rank 2, which is not in the group; pass a group of all ranks of both meshes"
    )
    assert zero["same memory"] == "'w' would be written over 'w' of the state dict; pass a copy"
    assert zero["sums"] == (
        "the parts of 'f' have 5 rows together, but its shape is [4]; the sizes must add up to dimension 0"
    )
    assert zero["partial"] == (
        "'w' has the placements [Partial(sum)]: its ranks hold partial sums, which reshard does not add; sum them first"
    )
    assert zero["mixed"] == "'f' is fused of parts with a size and parts with a Sharding; give all a size, or none"
    assert zero["dimension"] == (
        "'f' is joined along dimension 2, but its part 'w' has the shape [4, 2]; give a dimension that all parts have"
    )
    for name in ("nested", "nested sizes"):
        assert zero[name] == (
            "the part 'g' of 'f' is a Fused; a part is a Sharding or a size, so list its parts in the Fused of 'f'"
        )
    assert zero["no part"] == (
        "the part 'g' of 'f' is a list; a part is a Sharding or a size, so state it by one of these"
    )
    assert zero["of"] == ("'f' is fused of parts with sizes, and no layout is stated; pass a Sharding as `of`")
    assert zero["text"] == "'f' is stated by str; state it by a Sharding, a Fused or a DTensor"
    assert one["type"] == (
        "reshard failed on ranks {0} before data moved: "
        "rank 0: to is of type int; pass a dict, such as model.state_dict()"
    )
    assert zero["small"] == "staging is 8 bytes and host 1; give 32 or more, and 1 or more"


class StateDict(dict[str, Any]):
    """A dict that a weak reference can watch."""


def left_by_an_error(rank: int, size: int) -> bool:
    state = StateDict(w=torch.ones(3, 2))
    seen = weakref.ref(state)
    gc.disable()
    try:
        reshard(state, {"w": Sharding("tp=2", (4, 2), "0=tp")}, from_={"w": Sharding("tp=2", (4, 2), "0=tp")})
    except UsageError:
        del state
    return seen() is None


def test_an_error_of_reshard_keeps_nothing_alive(tmp_path: Path) -> None:
    # a cycle would keep the group until the interpreter ends, where torch's Gloo can abort the process
    assert ranks(2, left_by_an_error, tmp_path) == [True, True]


def test_reshard_raises_without_torch_distributed() -> None:
    with pytest.raises(UsageError, match=r"reshard moves over a group of torch.distributed, which is not initialised"):
        reshard({}, {})


def two_engines(rank: int, size: int) -> None:
    """Two rollout engines want other layouts of the same weights; the group lacks a rank of the world."""
    group = dist.new_group([3, 0, 2], use_local_synchronization=True) if rank != 1 else None
    if group is None:
        return
    whole = values((5, 4), torch.float32, 1)
    from_ = {"w": Sharding("r=1", (5, 4))}
    to = {} if rank == 0 else {"w": Sharding(f"r=1 @{rank}", (5, 4))}
    if rank == 3:
        to = {"w": Sharding("r=1 @3", (5, 4), "0=r")}
    got = reshard({"w": whole} if rank == 0 else {}, to, from_=from_, group=group)
    assert rank == 0 or torch.equal(got["w"], whole)
    shared = {} if rank == 0 else {"w": Sharding("r=2 @2" if rank == 2 else "r=1 @3", (5, 4))}
    with pytest.raises(Disagreement, match=r"'w' is wanted in layouts that share ranks") as caught:
        reshard({"w": whole} if rank == 0 else {}, shared, from_=from_, group=group)
    assert str(caught.value).endswith(
        ", and a rank has one shard; pass one layout on its ranks:\n"
        "  rank 2: 5x4 over r=2 @2, replicated\n"
        "  rank 3: 5x4 over r=1 @3, replicated"
    )
    assert len(caught.value.ranks) == 1


def test_reshard_when_engines_want_different_layouts(tmp_path: Path) -> None:
    ranks(4, two_engines, tmp_path)


# --- documents

SOURCE = Path(__file__).parents[2]
EXAMPLE = SOURCE / "examples/python/hand_over.py"


NEEDED = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

def build():
    return torch.nn.Sequential(OrderedDict(up=torch.nn.Linear(6, 8), down=torch.nn.Linear(8, 6)))
"""


def two_models(rank: int, size: int, block: str) -> None:
    torch.manual_seed(rank)  # the models differ before
    names: dict[str, Any] = {"torch": torch, "rankmesh": rankmesh, "OrderedDict": OrderedDict}
    exec(NEEDED + block, names)
    trained, rollout = names["trained"].state_dict(), names["rollout"].state_dict()
    for name, value in trained.items():
        assert same(whole(rollout[name]), whole(value)), name


def whole(tensor: Any) -> Any:
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def test_two_models_exchange_as_the_page_shows(tmp_path: Path) -> None:
    page = (SOURCE / "docs/python-torch-reshard.md").read_text().split("```")[1::2]
    (block,) = [block.removeprefix("python") for block in page if "parallelize_module(" in block]
    ranks(4, two_models, tmp_path, block)


def test_torch_loads_a_checkpoint_as_the_page_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (SOURCE / "docs/python-torch-reshard.md").read_text().split("```")[1::2]
    (block,) = [block.removeprefix("python") for block in page if "dcp.load(" in block]
    monkeypatch.chdir(tmp_path)
    parts = {"gate": torch.randn(7, 5), "up": torch.randn(7, 5)}
    dcp.save(parts, checkpoint_id="trained")
    names: dict[str, Any] = {"torch": torch}
    exec(block, names)
    assert torch.equal(names["gate_up"], torch.cat([*parts.values()]))


def test_the_example_prints_what_the_page_shows(tmp_path: Path) -> None:
    page = (SOURCE / "docs/python-torch-reshard.md").read_text().split("```")[1::2]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    printed = "".join(ranks(4, example, tmp_path, EXAMPLE, where, initialised=False))
    (shown,) = [block for block in page if "hand_over.py" in block]
    assert printed.splitlines() == shown.splitlines()[2:]
    lines = [line.strip() for line in EXAMPLE.read_text().splitlines()]
    for block in page:
        if block.startswith("python\n") and "reshard(state" in block:
            part = [line.strip() for line in block.splitlines()[1:]]
            assert any(lines[at : at + len(part)] == part for at in range(len(lines)))
            return
    raise AssertionError("the page does not show the example")
