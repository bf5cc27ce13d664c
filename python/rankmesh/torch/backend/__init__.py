"""The c10d backends of rankmesh.

`rankmesh` moves CPU tensors by rankmesh's engines. `rankmesh+gloo`, `rankmesh+nccl` and so on leave the data to that
backend, and say more when something is wrong.

>>> import rankmesh.torch  # doctest: +SKIP
>>> torch.distributed.init_process_group("cpu:rankmesh,cuda:rankmesh+nccl")  # doctest: +SKIP
"""

from __future__ import annotations

import contextlib
import functools
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import config as dist_config
from torch.distributed import distributed_c10d as c10d

from rankmesh._engine import Communicator
from rankmesh.torch import _record, _variables
from rankmesh.torch._compat import default_group, tables
from rankmesh.torch._errors import Disagreement, EngineFailure, PeerLost, Timeout, errors_of_backend
from rankmesh.torch.backend import _kernels
from rankmesh.torch.backend._engine_world import EngineWorld, start
from rankmesh.torch.backend._process_group import ProcessGroup
from rankmesh.torch.backend._watched import WatchedGroup

__all__ = ["Disagreement", "EngineFailure", "PeerLost", "ProcessGroup", "Timeout", "locate", "register"]

NAME = "rankmesh"

_connected: list[EngineWorld] = []
_torchs: dict[str, Any] = {}  # what `put_default` has replaced: torch's function, and its backends of devices


def register() -> None:
    """Registers the backends with c10d that are not registered yet."""
    torchs, defaults = dist.Backend, dict(dist.Backend.default_device_backend_map)
    others = {name: devices for name, devices in torchs.backend_capability.items() if not name.startswith(NAME)}
    if NAME not in torchs.backend_list:
        _install_batches()
        torchs.register_backend(NAME, functools.partial(_create, ""), extended_api=True, devices=["cpu"])
    for name, devices in others.items():
        if f"{NAME}+{name}" not in torchs.backend_list and name != torchs.UNDEFINED:
            make = functools.partial(_create, name)
            torchs.register_backend(f"{NAME}+{name}", make, extended_api=True, devices=devices)
    torchs.default_device_backend_map.clear()  # of devices whose own backend comes later
    torchs.default_device_backend_map.update(defaults)


def locate(
    where: Callable[[Iterable[int]], str], mesh: str, ranks: Sequence[int], *, is_placed: bool, replace: bool = True
) -> None:
    """Makes errors of the backend end with the coordinates of the ranks that they name, as `where` writes them.

    Flight records have the `mesh`, and the `ranks` of its positions if it is placed. Without `replace` a mesh that was
    known before stays.
    """
    default = dist.group.WORLD
    _record.declare(mesh, ranks, is_placed=is_placed, replace=replace)
    if isinstance(default, ProcessGroup) and (replace or default.engine.where is None):
        default.engine.where = where
        default.engine.world._declare(mesh, list(ranks), is_placed)  # type: ignore[attr-defined]


@contextlib.contextmanager
def on(engine: EngineWorld) -> Iterator[None]:
    """A context in which the default group takes this engine instead of starting one."""
    _connected.append(engine)
    try:
        yield
    finally:
        _connected.clear()


@errors_of_backend()
def _create(around: str, options: Any, pg_options: object) -> ProcessGroup:
    """Makes the process group of c10d's options on rankmesh; `around` another backend if that is not empty."""
    name = f"rankmesh+{around}" if around else "rankmesh"
    _variables.tell_unused(name, options.group_rank, options.group_size)
    engine, on, owns = _communicator(options, checked=False if around else None)
    if around:
        return WatchedGroup(options, engine, on, owns_engine=owns, backend=around)
    return ProcessGroup(options, engine, on, owns_engine=owns)


def _communicator(options: Any, checked: bool | None) -> tuple[EngineWorld, Communicator, bool]:
    """The engine of a group, its communicator, and whether the group owns the engine: others use its parent's."""
    if options.timeout == c10d.default_pg_timeout:  # the program sets none
        options.timeout = _variables.timeout() or options.timeout
    _kernels.install()
    ranks, timeout = options.global_ranks_in_group, options.timeout
    default = c10d.GroupMember.WORLD
    if isinstance(default, ProcessGroup):  # also where it makes the group of another device
        ranks = ranks or range(options.group_size)
        # Errors call a group as `rankmesh.torch.init` declared it, else as torch does.
        parts = options.group_id.split("/")
        label = parts[1] if len(parts) > 2 and parts[0].startswith("rankmesh") else options.group_id
        return default.engine, default.engine.group(ranks, label, timeout), False
    if _connected:
        engine = _connected.pop()
    else:
        engine = start(options.store, options.group_rank, options.group_size, timeout, checked)
    return engine, engine.whole(), True


# --- the backend of process groups for which the program names none: rankmesh's, on every device of the machine


def default_backend() -> str:
    """Returns 'cpu:rankmesh', and beside an accelerator 'cpu:rankmesh,cuda:rankmesh+nccl'.

    An accelerator is left out if this PyTorch lacks its backend. With torchcomms, and with RANKMESH_TORCH=off, it is
    torch's default.
    """
    if dist_config.use_torchcomms or _variables.is_off():  # torchcomms has communicators of its own names
        return dist.Backend.UNDEFINED
    register()  # also around backends that came after the import
    device = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    around = _around(device.type) if device is not None else None
    return f"cpu:{NAME}" + (f",{device.type}:{around}" if device is not None and around is not None else "")


def _around(device: str) -> str | None:
    """Returns the backend around torch's default backend of an accelerator; None if there is none."""
    backend = dist.Backend.default_device_backend_map.get(device, "fake").removeprefix(f"{NAME}+")
    return f"{NAME}+{backend}" if backend != "fake" and dist.is_backend_available(backend) else None


def put_default() -> None:
    """Makes `init_process_group` without a backend, also where a module has imported it, make rankmesh's groups.

    With RANKMESH_TORCH=off it makes torch's instead, also where the program names rankmesh's.
    """
    if _torchs:
        return
    register()
    is_off = _variables.is_off()
    helper, backends = c10d._new_process_group_helper, dist.Backend.default_device_backend_map
    _torchs.update(helper=helper, backends=dict(backends))

    @functools.wraps(helper)
    def ours(size: int, rank: int, ranks: Any, backend: Any, *arguments: Any, **options: Any) -> Any:
        named = default_backend() if backend == dist.Backend.UNDEFINED else backend
        if is_off and named is not None:  # cpu:rankmesh,cuda:rankmesh+nccl becomes cpu:gloo,cuda:nccl
            named = re.sub(r"\brankmesh\b", "gloo", str(named).replace(f"{NAME}+", ""))
        return helper(size, rank, ranks, named, *arguments, **options)

    setattr(c10d, "_new_process_group_helper", ours)  # noqa: B010 (mypy: it is a function)
    if is_off:
        return
    # init_process_group(device_id=...) and get_default_backend_for_device
    around = {device: NAME if device == "cpu" else _around(device) for device in backends}
    backends.update({device: name for device, name in around.items() if name is not None})


def take_back_default() -> None:
    """Ends `put_default`."""
    if _torchs:
        setattr(c10d, "_new_process_group_helper", _torchs["helper"])  # noqa: B010
        dist.Backend.default_device_backend_map.update(_torchs["backends"])
        _torchs.clear()


# --- batches of torch: batch_isend_irecv and _coalescing_manager. Before 2.14, torch lets a backend group the messages
# of a batch for its own type of process group only. Ungrouped messages in both directions wait for each other on NCCL.

_batch_of_torch: Callable[[list[dist.P2POp]], list[dist.Work]] = c10d.batch_isend_irecv
_coalescing_of_torch: Any = c10d._coalescing_manager.__wrapped__  # type: ignore[attr-defined]


@functools.wraps(_batch_of_torch)
def _batch_isend_irecv(p2p_op_list: list[dist.P2POp]) -> list[dist.Work]:
    first = p2p_op_list[0] if isinstance(p2p_op_list, list) and p2p_op_list else None
    if not isinstance(first, dist.P2POp) or first.tensor.device.type == "cpu":
        return _batch_of_torch(p2p_op_list)
    device, group = first.tensor.device, first.group or dist.group.WORLD
    if not isinstance(group, ProcessGroup):
        return _batch_of_torch(p2p_op_list)
    inner = group.inner(device)
    moved = [dist.P2POp(op.op, op.tensor, group=inner, tag=op.tag, group_peer=op.group_peer) for op in p2p_op_list]
    works = _batch_of_torch(moved)
    if isinstance(group, WatchedGroup):
        return group.watched(works, f"batch_isend_irecv of {len(moved)} messages", device)
    return works


def _coalescing(
    group: dist.ProcessGroup | None = None, device: torch.device | None = None, async_ops: bool = False
) -> Iterator[Any]:
    """torch's generator, but what it has begun ends if something raises.

    torch's own leaves its list of calls, and later calls of the group are appended to that list and never made.
    """
    group = group or default_group()
    calls = tables.pg_coalesce_state
    is_inside = group in calls
    steps = _coalescing_of_torch(group, device, async_ops)
    try:
        manager = next(steps)
        try:
            yield manager
            next(steps, None)
        except BaseException:
            if device is not None:
                with contextlib.suppress(Exception):  # torch has ended it, or the backend refuses
                    group._end_coalescing(device)
            raise
    finally:
        if not is_inside:
            calls.pop(group, None)


def _install_batches() -> None:
    """Puts these functions in the place of torch's, which they call."""
    functional = sys.modules.get("torch.distributed._functional_collectives")
    if functional is not None:  # else it finds our function; compiled functions then have its functional collective
        remaps = functional.traceable_collective_remaps
        if _batch_of_torch in remaps:
            remaps[_batch_isend_irecv] = remaps[_batch_of_torch]
    dist.batch_isend_irecv = c10d.batch_isend_irecv = _batch_isend_irecv
    for cell in c10d._coalescing_manager.__closure__ or ():  # other modules have imported the name
        if cell.cell_contents is _coalescing_of_torch:
            cell.cell_contents = _coalescing
