"""Writes the calls of torch's own groups, which torch's flight recorder has, beside the records of our groups."""

from __future__ import annotations

import atexit
import collections
import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch.distributed as dist

from rankmesh._engine import _replace_file  # type: ignore[attr-defined]
from rankmesh.torch import _variables
from rankmesh.torch._compat import recorders, tables

MOST_CALLS = 64  # of a group, as the engines keep

_mesh: dict[str, Any] = {}  # as a record has it
_begin = time.time_ns()


def declare(mesh: str, ranks: Sequence[int], *, is_placed: bool, replace: bool) -> None:
    """Gives records the mesh in which `explain` names coordinates; without `replace` the first stays."""
    if _mesh and not replace:
        return
    _mesh.clear()
    _mesh.update({"name": "", "mesh": mesh}, **({"placed": list(ranks)} if is_placed else {}))


def begin() -> None:
    """Has this process write records each RANKMESH_RECORD_EVERY and at its exit, if torch makes groups of its own."""
    folder, every = _variables.record_every()
    if every:
        _variables.of_torchs_records += ["RANKMESH_RECORD", "RANKMESH_RECORD_EVERY"]
        os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "2000")  # torch reads it when it makes its first group
        threading.Thread(target=_keep_writing, args=(folder, every), daemon=True).start()
        atexit.register(_write, folder, every)


def _keep_writing(folder: str, every: int) -> None:
    while True:
        time.sleep(every)
        _write(folder, every)


def _write(folder: str, every: int) -> None:
    """Writes rank-N.NAME.json for each recorder of torch that has calls."""
    default = dist.group.WORLD
    if default is None:
        return
    for name, dump in recorders().items():
        record = json.loads(dump())
        if not record.get("entries"):
            continue
        path = Path(folder) / f"rank-{default.rank()}.{name}.json"
        if wrong := _replace_file(str(path), _completed(record, default, every)):
            _variables.logger.warning("the record of rank %d is not written: %s", default.rank(), wrong)


def _completed(record: dict[str, Any], default: dist.ProcessGroup, every: int) -> str:
    """Returns the JSON of torch's dump with the last calls of each group, and with what the dump lacks."""
    kept: collections.Counter[str] = collections.Counter()
    calls = []
    for call in reversed(record.pop("entries")):
        kept[call["process_group"][0]] += 1
        if kept[call["process_group"][0]] <= MOST_CALLS:
            calls.append(json.dumps(call))
    groups = {
        name: {"name": name, "desc": group.group_desc, "ranks": str(list(tables.pg_group_ranks.get(group, ())))}
        for group, name in list(tables.pg_names.items())
    }
    record["pg_config"] = groups | {name: each for name, each in record.get("pg_config", {}).items() if name}
    record.update(rank=default.rank(), world_size=default.size(), host=_variables.host_name(), pid=os.getpid())
    record.update(started_ns=_begin, written_ns=time.time_ns(), every_s=every, meshes=[_mesh] if _mesh else [])
    return json.dumps(record)[:-1] + ', "entries": [\n' + ",\n".join(reversed(calls)) + "\n]}\n"
