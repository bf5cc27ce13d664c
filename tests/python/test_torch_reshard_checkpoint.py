"""rankmesh.torch.reshard_checkpoint: checkpoints of torch.distributed.checkpoint rewritten for other meshes."""

from __future__ import annotations

import gc
import random
from pathlib import Path
from typing import Any

import pytest
import rankmesh
from rankmesh import Mesh, Sharding, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
import torch.distributed.checkpoint as dcp  # noqa: E402
from rankmesh.torch import Fused, reshard_checkpoint  # noqa: E402
from rankmesh.torch._reshard import checkpoint  # noqa: E402
from torch.distributed.checkpoint.filesystem import FileSystemReader  # noqa: E402
from torch.distributed.device_mesh import init_device_mesh  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402
from torch_ranks import preload, ranks  # noqa: E402

preload(
    "torch.distributed.tensor", "torch.distributed.checkpoint", "torch._dynamo", "rankmesh.torch._reshard.checkpoint"
)

SHAPES = {"qkv": (12, 5), "gate": (7, 5), "up": (7, 5), "head": (3, 11), "empty": (0, 4), "one": ()}


def whole(name: str) -> Any:
    torch.manual_seed(sum(map(ord, name)))
    dtype = torch.bfloat16 if name == "head" else torch.float32
    return torch.randn(SHAPES[name]).to(dtype)


def save(rank: int, size: int, folder: str) -> None:
    mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    state: dict[str, Any] = {"step": 7, "plain": torch.arange(4.0)}
    for name, shape in SHAPES.items():
        cuts = [Shard(0), Shard(len(shape) - 1)] if shape else [Replicate(), Replicate()]
        state[name] = distribute_tensor(whole(name), mesh, cuts, src_data_rank=None)
    dcp.save(state, checkpoint_id=folder)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    ranks(4, save, tmp_path_factory.mktemp("stores"), str(folder))
    return folder


def load(folder: Path, names: list[str], more: dict[str, Any]) -> dict[str, Any]:
    """What torch loads into full tensors, without processes."""
    state = {name: torch.zeros_like(value) for name, value in more.items()}
    state |= {name: torch.zeros_like(whole(name)) for name in names}
    state["step"] = 0
    dcp.load(state, checkpoint_id=folder)
    return state


def test_checkpoint_when_rewritten_has_each_rank_s_chunks(saved: Path, tmp_path: Path) -> None:
    rng = random.Random(1)
    for number in range(10):
        mesh = Mesh({"dp": rng.choice([1, 2]), "tp": rng.choice([1, 3, 4])}).shifted(rng.randint(0, 2))
        splits = ["replicated", "0=tp", "1=tp", "0=tp 1=dp", "0=dp,tp", "1=dp"]
        to = {name: Sharding(mesh, SHAPES[name], rng.choice(splits)) for name in ("qkv", "gate", "up", "head")}
        folder = tmp_path / str(number)
        reshard_checkpoint(saved, folder, to)
        state = load(folder, list(SHAPES), {})
        assert state.pop("step") == 7
        assert all(torch.equal(value, whole(name)) for name, value in state.items())
        metadata = FileSystemReader(folder).read_metadata()
        files: dict[str, set[int]] = {}
        for name, sharding in to.items():
            chunks = {}
            for rank in mesh.ranks:
                box = tuple((each.start, each.stop) for each in sharding.slices(rank))
                if all(begin < end for begin, end in box):
                    chunks.setdefault(box, set()).add(rank)
            written = [checkpoint._box(chunk) for chunk in metadata.state_dict_metadata[name].chunks]
            assert sorted(written) == sorted(chunks)
            for index, info in metadata.storage_data.items():
                if index.fqn == name:
                    box = next(each for each in written if tuple(begin for begin, _ in each) == tuple(index.offset))
                    files.setdefault(info.relative_path, set()).update(chunks[box])
                    assert int(info.relative_path.removeprefix("__").partition("_")[0]) in chunks[box]


def test_checkpoint_when_tensors_are_joined_and_divided(saved: Path, tmp_path: Path) -> None:
    mesh = Mesh("tp=2")
    to: dict[str, Any] = {
        "gate_up": Fused({"gate": 7, "up": 7}, of=Sharding(mesh, (14, 5), "0=tp")),
        "q": Sharding(mesh, (6, 5), "0=tp"),
        "v_head": Fused({"v": 3, "k": 3}, of=Sharding(mesh, (6, 5), "1=tp")),
    }
    reshard_checkpoint(saved, tmp_path / "new", to, from_={"qkv": Fused({"q": 6, "k": 3, "v": 3})})
    q, k, v = whole("qkv").split([6, 3, 3])
    expected = {"gate_up": torch.cat([whole("gate"), whole("up")]), "q": q, "v_head": torch.cat([v, k])}
    state = load(tmp_path / "new", ["head"], expected)
    assert all(torch.equal(state[name], value) for name, value in expected.items())
    assert torch.equal(state["head"], whole("head"))
    assert sorted(FileSystemReader(tmp_path / "new").read_metadata().state_dict_metadata) == sorted(
        [*expected, "empty", "head", "one", "plain", "step"]
    )


TENSORS, ROWS = 24, 1024  # of 4 MiB each


def rewrite_large(rank: int, size: int, folder: str) -> int:
    """Returns by how many bytes the process grows at most while it rewrites a checkpoint of 96 MiB."""
    dcp.save({f"w{i}": torch.full((ROWS, ROWS), float(i)) for i in range(TENSORS)}, checkpoint_id=f"{folder}/old")
    reshard_checkpoint(f"{folder}/old", f"{folder}/first", {})  # loads what is loaded late
    gc.collect()
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    resident = peak()
    to = {f"w{i}": Sharding("tp=2", (ROWS, ROWS), "0=tp") for i in range(TENSORS)}
    reshard_checkpoint(f"{folder}/old", f"{folder}/new", to)
    grown = peak() - resident
    last = {"w23": torch.zeros(ROWS, ROWS)}
    dcp.load(last, checkpoint_id=f"{folder}/new")
    assert torch.equal(last["w23"], torch.full((ROWS, ROWS), 23.0))
    return grown


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmHWM")).split()[1]) << 10


def test_checkpoint_is_rewritten_in_the_memory_of_two_chunks(tmp_path: Path) -> None:
    (tmp_path / "stores").mkdir()
    (grown,) = ranks(1, rewrite_large, tmp_path / "stores", str(tmp_path))
    assert grown < 24 << 20  # a chunk before has 4 MiB, one after 2 MiB; the file of a rank has 48 MiB


def distributed_load(rank: int, size: int, folder: str) -> None:
    mesh = init_device_mesh("cpu", (3,), mesh_dim_names=("tp",))
    state = {"qkv": distribute_tensor(torch.zeros(12, 5), mesh, [Shard(0)], src_data_rank=None)}
    dcp.load(state, checkpoint_id=folder)
    assert torch.equal(state["qkv"].to_local(), whole("qkv").chunk(3)[rank])
    dist.barrier()


def test_checkpoint_loads_on_the_mesh_that_it_is_for(saved: Path, tmp_path: Path) -> None:
    reshard_checkpoint(saved, tmp_path / "new", {"qkv": Sharding("tp=3", (12, 5), "0=tp")})
    (tmp_path / "stores").mkdir()
    ranks(3, distributed_load, tmp_path / "stores", str(tmp_path / "new"))


def test_checkpoint_raises_for_what_it_does_not_have(saved: Path, tmp_path: Path) -> None:
    w = Sharding("tp=2", (12, 5), "0=tp")
    cases: list[tuple[dict[str, Any], dict[str, Any], str]] = [
        ({"v": w}, {}, rf"'v' is not a tensor of the checkpoint {saved}; give a name that it has"),
        ({"step": w}, {}, r"'step' is not a tensor of the checkpoint"),
        ({"gate": w}, {}, r"'gate' has the shape \[7, 5\] in the checkpoint and is wanted with \[12, 5\]; state the"),
        (
            {"f": Fused({"gate": w})},
            {},
            r"'f' is fused without `of`, which a checkpoint needs; say its Sharding in `of`",
        ),
        ({"f": Fused({"gate": w}, of=w)}, {}, r"'f' is fused of Shardings, which a checkpoint cannot say; give each"),
        (
            {},
            {"qkv": Fused({"q": 6})},
            r"the parts of 'qkv' have 6 rows together, but its shape is \[12, 5\]; the sizes",
        ),
        (
            {"up": Fused({"q": 6, "k": 6}, of=w)},
            {"qkv": Fused({"q": 6, "k": 6})},
            r"'up' is made of parts, but the checkpoint has it too; give it another name",
        ),
    ]
    for to, from_, text in cases:
        with pytest.raises(UsageError, match=text):
            reshard_checkpoint(saved, tmp_path / "new", to, from_=from_)
        assert not (tmp_path / "new").exists()
    with pytest.raises(UsageError, match="has a checkpoint already; give another folder"):
        reshard_checkpoint(saved, saved, {})
    with pytest.raises(UsageError, match=r"nowhere has no checkpoint: there is no file \.metadata in this folder"):
        reshard_checkpoint(tmp_path / "nowhere", tmp_path / "new", {})


def test_the_page_s_checkpoint_is_rewritten(saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (Path(__file__).parents[2] / "docs/python-torch-reshard.md").read_text().split("```")[1::2]
    (block,) = [block for block in page if "reshard_checkpoint(" in block]
    (tmp_path / "trained").symlink_to(saved)
    monkeypatch.chdir(tmp_path)
    exec(block.removeprefix("python"), {"rankmesh": rankmesh, "Fused": Fused, "Sharding": Sharding})
    expected = {"gate_up": torch.cat([whole("gate"), whole("up")]), "q": whole("qkv")[:6]}
    state = load(tmp_path / "for_rollout", [], expected)
    assert all(torch.equal(state[name], value) for name, value in expected.items())
