"""rankmesh.torch.verify: values that must be equal along an axis, and what a start says and connects when asked."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path

import pytest
import rankmesh
from rankmesh import Disagreement, UsageError

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
import torch.distributed as dist  # noqa: E402
from rankmesh.torch import init, install, verify  # noqa: E402
from rankmesh.torch._verify import CHUNK, ROW, _hash  # noqa: E402
from torch.distributed.tensor import Replicate, Shard, distribute_tensor  # noqa: E402
from torch_ranks import free_port, ranks  # noqa: E402

DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 3, 8 * ROW + 1, 8 * CHUNK + 9])
def test_a_hash_changes_with_each_bit(dtype: torch.dtype, size: int) -> None:
    if size > CHUNK and dtype is not torch.bool:
        return
    tensor = (
        torch.zeros(size, dtype=torch.uint8).view(torch.bool) if dtype is torch.bool else torch.ones(size).to(dtype)
    )
    before = _hash(tensor)
    assert _hash(tensor.clone()) == before
    data = tensor.view(torch.uint8)
    for at in {0, data.numel() - 1, random.randrange(data.numel())}:
        data[at] ^= 1
        assert _hash(tensor) != before
        data[at] ^= 1
    assert _hash(tensor) == before


def test_a_hash_changes_with_length_and_order() -> None:
    assert len({int(_hash(torch.zeros(n, dtype=torch.uint8))) for n in range(20)}) == 20
    row = torch.arange(3 * ROW)
    assert _hash(row) != _hash(row.flip(0))
    assert _hash(row) == _hash(torch.stack([row, row], 1)[:, 0])  # which is not contiguous


def expected(wrong: dict[int, int], mesh: rankmesh.Mesh, axis: str, rank: int) -> tuple[int, list[int]] | None:
    """By brute force: the first tensor that differs in this rank's group, and the ranks outside most equal ones."""
    group = list(mesh.group(rank, axis))
    for number in range(3):
        odd = [each for each in group if wrong.get(each) == number]
        if odd and len(odd) < len(group):
            good = [each for each in group if each not in odd]
            return number, min(odd, good, key=lambda part: (len(part), part[0] == group[0]))
    return None


def check_plain(rank: int, size: int) -> None:
    me = init("pp=2 dp=3")
    shuffled = random.Random(1)
    for turn in range(20):
        wrong = {each: shuffled.randrange(3) for each in range(size) if shuffled.random() < 0.3}
        tensors = {f"t{number}": torch.arange(12.0).reshape(3, 4) for number in range(3)}
        if rank in wrong:
            tensors[f"t{wrong[rank]}"][2, 1] += 1 if turn % 2 else torch.nan
        for axis in ("pp", "dp"):
            found = expected(wrong, me.mesh, axis, rank)
            if all(expected(wrong, me.mesh, axis, each) is None for each in range(size)):
                verify(tensors, me, over=axis)
                continue
            with pytest.raises(Disagreement) as caught:
                verify(tensors, me if turn % 3 else me.device_mesh(), over=axis)
            text = str(caught.value)
            if found is None:
                assert re.match(
                    r"values differ in a group of rank \d+, whose error names them; in mesh pp=2 dp=3", text
                )
                assert caught.value.ranks == []
            else:
                assert text.startswith(f"'t{found[0]}' differs along '{axis}': rank"), (text, found)
                assert ", first at [2, 1]: " in text
                assert caught.value.ranks == found[1]
    me.destroy()


def test_the_ranks_that_differ_are_named(tmp_path: Path) -> None:
    ranks(6, check_plain, tmp_path)


def check_kinds(rank: int, size: int) -> None:
    me = init("dp=2 tp=2")
    mesh = me.device_mesh()
    torch.manual_seed(0)
    model = torch.nn.Linear(5, 3)
    optimizer = torch.optim.AdamW(model.parameters())
    model(torch.ones(2, 5)).sum().backward()
    optimizer.step()
    verify(model, me, over=["dp", "tp"])
    verify(optimizer, mesh, over="dp")
    verify(torch.get_rng_state(), me, over="tp")
    verify([torch.zeros(0), torch.tensor(1)], me, over="tp")
    sharded = distribute_tensor(torch.arange(8.0).reshape(4, 2), mesh, [Replicate(), Shard(0)])
    in_tp = distribute_tensor(torch.arange(8.0), mesh["tp"], [Shard(0)])
    verify({"sharded": sharded, "in tp": in_tp}, me)
    in_tp.to_local().add_(rank // 2)
    verify({"in tp": in_tp}, me)
    with pytest.raises(
        Disagreement, match=f"'in tp' differs along 'dp': rank {2 + rank % 2} has other values than rank {rank % 2}"
    ):
        verify({"in tp": in_tp}, me, over="dp")
    if rank == 2:
        sharded.to_local()[0, 1] = 9
    with pytest.raises(Disagreement) as caught:
        verify({"sharded": sharded}, me)
    assert str(caught.value) == (
        "'sharded' differs along 'dp': rank 2 has other values than rank 0, first at [0, 1]: 9.0 on rank 2, 1.0 on "
        "rank 0; in mesh dp=2 tp=2 that is rank 2 [dp=1 tp=0]"
        if rank % 2 == 0
        else "values differ in a group of rank 0, whose error names them; in mesh dp=2 tp=2 that is rank 0 [dp=0 tp=0]"
    )
    first = 2 * (rank // 2)
    with pytest.raises(
        Disagreement, match=f"rank {first + 1} along 'tp' has other names, types or shapes than rank {first}: 'a'"
    ):
        verify({"a": torch.ones(2 + rank % 2)}, me, over="tp")
    with pytest.raises(
        UsageError, match="'weight' is a plain tensor; say along which axes it must be equal: over='dp'"
    ):
        verify(model, me)
    with pytest.raises(UsageError, match="verify over 'pp', but the DeviceMesh is dp=2 tp=2"):
        verify(model, me, over="pp")
    with pytest.raises(UsageError, match="'a' is a str, and verify compares tensors"):
        verify({"a": "b"}, me, over="dp")
    me.destroy()


def test_every_kind_of_value_is_compared(tmp_path: Path) -> None:
    ranks(4, check_kinds, tmp_path)


# --- what a start says, connects or leaves


def started(rank: int, size: int, port: int, **environment: str) -> None:
    os.environ.update(environment, RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))


def speak(rank: int, size: int, port: int, path: str) -> str:
    started(rank, size, port, RANKMESH_LOG="info")
    with open(path + str(rank), "w") as out:
        os.dup2(out.fileno(), 2)
        init("dp=2 tp=2", timeout=20, warm_up=True).destroy()
    return Path(path + str(rank)).read_text()


def test_a_start_says_what_it_made(tmp_path: Path) -> None:
    said = ranks(4, speak, tmp_path, free_port(), str(tmp_path / "err"), initialised=False)
    assert said[1:] == [""] * 3
    assert re.sub(r"in [0-9.e-]+ s", "in T s", said[0]).splitlines() == [
        "rankmesh: rank 0 made 'the world': 4 ranks {0..3}, cpu:rankmesh, timeout 20 s, in T s",
        "rankmesh: rank 0 made 'dp': 2 ranks {0, 2}, cpu:rankmesh, timeout 20 s, in T s",
        "rankmesh: rank 0 made 'tp': 2 ranks {0, 1}, cpu:rankmesh, timeout 20 s, in T s",
    ]


def calls_after(rank: int, size: int, port: int, off: bool) -> tuple[str, int]:
    started(rank, size, port, **({"RANKMESH_TORCH": "off"} if off else {}))
    summed = []
    torchs = dist.all_reduce
    dist.all_reduce = lambda *a, **o: (summed.append(1), torchs(*a, **o))[1]
    install(warm_up=True)
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))
    value = torch.ones(1)
    torchs(value, group=mesh["tp"].get_group())
    assert value == 2
    return dist.get_backend_config(), len(summed)


@pytest.mark.parametrize(("off", "found"), [(False, ("cpu:rankmesh", 2)), (True, ("cpu:gloo", 0))])
def test_install_warms_up_or_steps_aside(tmp_path: Path, off: bool, found: tuple[str, int]) -> None:
    said = ranks(4, calls_after, tmp_path, free_port(), off, initialised=False)
    assert [backend.replace(",cuda:nccl", "") for backend, _ in said] == [found[0]] * 4
    assert [calls for _, calls in said] == [found[1]] * 4


def test_a_wrong_setting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="the log level 'debug' is neither 'info' nor 'off'"):
        install(log="debug")
    monkeypatch.setenv("RANKMESH_TORCH", "0")
    with pytest.raises(UsageError, match="RANKMESH_TORCH='0' is neither on nor off; set it to off for torch's own"):
        install()
