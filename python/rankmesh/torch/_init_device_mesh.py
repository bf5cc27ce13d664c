"""init_device_mesh like torch's, and install(), after which every DeviceMesh of the process is made like its meshes."""

from __future__ import annotations

import contextlib
import contextvars
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.distributed import device_mesh as of_torch
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.weak import WeakTensorKeyDictionary

from rankmesh._errors import UsageError
from rankmesh.torch import _log, _variables, backend
from rankmesh.torch._compat import group_named
from rankmesh.torch._device_mesh import group_of, has_layouts
from rankmesh.torch._mesh_groups import MeshText, create, initialise
from rankmesh.torch._rest import warm_up_group

_everywhere = False
_warms_up = False
_in_call: contextvars.ContextVar[bool | None] = contextvars.ContextVar("in_call", default=None)
_rank_maps = WeakTensorKeyDictionary()  # of the meshes of init_device_mesh: their submeshes have the same tensor
_PARAMETERS = ("layout", "rank_map", "mesh_dim_names", "backend_override")


def _keeps_order(rank_map: torch.Tensor) -> bool | None:
    """Returns True if groups of a mesh keep its order, False if their ranks ascend, None if torch creates them."""
    if rank_map in _rank_maps:
        return bool(_rank_maps[rank_map])
    in_call = _in_call.get()
    return in_call if in_call is not None else False if _everywhere else None


def _init_process_groups(
    layout: Any, rank_map: torch.Tensor, mesh_dim_names: Sequence[str] | None, backend_override: Any
) -> Any:
    keeps_order = _keeps_order(rank_map)
    if keeps_order is not None:
        names = create(layout, rank_map, mesh_dim_names, backend_override, keeps_order)
        if names is not None:
            if _warms_up:
                for group in map(group_named, names):
                    warm_up_group(group)
            return names
    return _torchs["_init_process_groups"].__func__(layout, rank_map, mesh_dim_names, backend_override)


def _setup_world_group_and_device(self: DeviceMesh) -> Any:
    if _keeps_order(self._rank_map) is not None:
        initialise(MeshText(self._layout, self._rank_map, self._mesh_dim_names))
    return _torchs["_setup_world_group_and_device"](self)


_ours: dict[str, Any] = {
    "get_group": group_of,
    "_init_process_groups": staticmethod(_init_process_groups),
    "_setup_world_group_and_device": _setup_world_group_and_device,
}
_torchs: dict[str, Any] = {}


def _put(call: str) -> None:
    """Puts our functions into DeviceMesh; they call torch's for meshes that are not ours."""
    if _torchs:
        return
    there = {name: vars(DeviceMesh).get(name) for name in _ours}
    groups = there["_init_process_groups"]
    takes = tuple(inspect.signature(groups.__func__).parameters) if isinstance(groups, staticmethod) else ()
    if takes != _PARAMETERS or not has_layouts():
        raise UsageError(
            f"{call} changes how PyTorch 2.13's DeviceMesh creates groups, which PyTorch {torch.__version__} does "
            "differently; use rankmesh.torch.init and device_mesh()"
        )
    _torchs.update(there)
    for name, function in _ours.items():
        setattr(DeviceMesh, name, function)


def install(*, warm_up: bool = False, log: str | None = None) -> contextlib.AbstractContextManager[object]:
    """From now on, rankmesh creates every DeviceMesh of this process, and watches its calls, until `uninstall`.

    That is every mesh of `torch.distributed.init_device_mesh`, `DeviceMesh(...)`, `_flatten` and `_unflatten`, also
    where a module has imported the name before. `init_process_group` without a backend makes the groups of
    `rankmesh.torch.init`, so every rank calls install before it. As a context it ends with the context. A second call
    does nothing. Raises UsageError for a version of PyTorch whose DeviceMesh is not supported. With the variable
    RANKMESH_TORCH=off it does nothing at all. `warm_up` and `log` are those of `rankmesh.torch.init`.

    >>> rankmesh.torch.install()  # doctest: +SKIP
    >>> mesh = torch.distributed.init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))  # doctest: +SKIP
    """
    global _everywhere, _warms_up
    context = contextlib.ExitStack()
    if _variables.is_off():
        return context
    _log.ask(log)
    _warms_up = warm_up
    _put("install")
    backend.put_default()
    if not _everywhere:
        _everywhere = True
        context.callback(uninstall)
    return context


def is_installed() -> bool:
    """Returns True between `install` and `uninstall`."""
    return _everywhere


def uninstall() -> None:
    """Ends `install`: torch creates the groups of DeviceMesh again. Meshes of `init_device_mesh` remain as they are.

    Does nothing without `install`.
    """
    global _everywhere, _warms_up
    _everywhere = _warms_up = False
    if not _variables.is_off():
        backend.take_back_default()
    placed = [vars(DeviceMesh)[name] is function for name, function in _ours.items()]
    if _torchs and not len(_rank_maps) and all(placed):  # others may have replaced our functions; those call ours
        for name, function in _torchs.items():
            setattr(DeviceMesh, name, function)
        _torchs.clear()


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: dict[Any, Any] | None = None,
) -> DeviceMesh:
    """Like `torch.distributed.init_device_mesh`, but a rank creates only groups of its own, and equal groups once.

    Every rank calls it. First the ranks compare the mesh. If meshes differ, every rank raises Disagreement. If a rank
    does not arrive before the timeout of torch.distributed, all others raise Timeout, which names it. Groups of equal
    ranks, backend and options are one group, also in several meshes. So are groups of `_flatten` and `_unflatten`.
    Raises what torch raises for wrong arguments.

    >>> mesh = init_device_mesh("cuda", (2, 4), mesh_dim_names=("dp", "tp"))  # doctest: +SKIP
    >>> mesh["tp"].get_group()  # doctest: +SKIP
    """
    with making("init_device_mesh") as made:
        return made(
            of_torch.init_device_mesh(
                device_type, mesh_shape, mesh_dim_names=mesh_dim_names, backend_override=backend_override
            )
        )


@contextlib.contextmanager
def making(call: str, *, keeps_order: bool = False) -> Iterator[Callable[[DeviceMesh], DeviceMesh]]:
    """A context in which DeviceMeshes are made like those of `init_device_mesh`.

    The function that it gives returns a mesh whose later groups are made so, too. `keeps_order`: the ranks of groups
    are in the order of the mesh; else they ascend, as torch has them.
    """

    def made(mesh: DeviceMesh) -> DeviceMesh:
        if mesh._rank_map not in _rank_maps:
            _rank_maps[mesh._rank_map] = keeps_order
        return mesh

    _put(call)
    token = _in_call.set(keeps_order)
    try:
        yield made
    finally:
        _in_call.reset(token)
