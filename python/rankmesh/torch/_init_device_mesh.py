"""init_device_mesh like torch's, and install(), after which every DeviceMesh of the process is made like its meshes:
after its ranks have compared it, by members only, equal groups once."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
import weakref
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.distributed as dist
from torch.distributed import config as dist_config
from torch.distributed import device_mesh as of_torch
from torch.distributed.device_mesh import DeviceMesh
from torch.utils.weak import WeakTensorKeyDictionary

from rankmesh._core import Group
from rankmesh._errors import UsageError
from rankmesh.torch import _groups, _start, _variables
from rankmesh.torch._compat import PrefixStore, default_group, group_named
from rankmesh.torch._device_mesh import group_of, has_layouts
from rankmesh.torch._gloo import connecting_until
from rankmesh.torch._plan import MOST_SHOWN, Options
from rankmesh.torch._plan_groups import warm_up_group
from rankmesh.torch.backend import locate, put_default, take_back_default

if TYPE_CHECKING:  # PyTorch before 2.13 has other layouts, and torch creates their groups
    from torch.distributed._mesh_layout import _MeshLayout

MOST_CHARACTERS = 80  # most characters of the ranks of a mesh in an error

Override = tuple[str | None, Any]

_tables: weakref.WeakKeyDictionary[dist.ProcessGroup, _groups.GroupTable] = weakref.WeakKeyDictionary()
"""The groups of DeviceMeshes on each default group."""


class MeshText:
    """A mesh in errors: its sizes, and the coordinates of ranks."""

    def __init__(
        self,
        layout: _MeshLayout,
        rank_map: torch.Tensor,
        names: Sequence[str] | None,
        overrides: Sequence[Override] = (),
    ) -> None:
        self._layout, self._rank_map = layout, rank_map
        self.names = names or [f"dim_{dim}" for dim in range(len(layout))]
        self._overrides = overrides

    @property
    def sizes(self) -> str:
        """'dp=2 tp=2'."""
        return " ".join(f"{n}={size}" for n, size in zip(self.names, self._layout.top_level_sizes, strict=False))

    def __str__(self) -> str:
        """Equal exactly if the groups of two meshes are equal, but for values inside `pg_options`."""
        text = f"DeviceMesh {self.sizes}"
        if self._layout != self._layout.from_sizes_strides(self._layout.top_level_sizes):
            strides = [axis.stride if len(axis.stride) > 1 else sum(axis.stride) for axis in self._layout]
            text += f", stride ({', '.join(map(str, strides))})"
        ranks = self._rank_map.tolist()
        if ranks != list(range(len(ranks))):
            listed = str(Group(ranks))
            digest = f"{listed[:MOST_CHARACTERS]}... ({_start.digest(ranks)})"
            text += f", ranks {listed if len(listed) <= MOST_CHARACTERS else digest}"
        for name, override in zip(self.names, self._overrides, strict=False):
            if said := Options(None, *override).text:
                text += f", {name}{said}"
        return text

    def where(self, ranks: Iterable[int]) -> str:
        """'; in mesh dp=2 tp=2 that is rank 1 [dp=0 tp=1]': the coordinates of ranks."""
        places = self._layout.remap_to_tensor(self._rank_map)
        ranks = sorted(ranks)
        shown = []
        for rank in ranks[:MOST_SHOWN]:
            for place in (places == rank).nonzero()[:1, 1:].tolist():
                shown.append(f"{rank} [{' '.join(f'{n}={i}' for n, i in zip(self.names, place, strict=False))}]")
        more = ", ..." if len(ranks) > MOST_SHOWN else ""
        return f"; in mesh {self.sizes} that is rank{'s' * (len(ranks) > 1)} {', '.join(shown)}{more}" if shown else ""


def create(
    layout: _MeshLayout,
    rank_map: torch.Tensor,
    names: Sequence[str] | None,
    overrides: Sequence[Override],
    keeps_order: bool,
) -> list[Any] | None:
    """Returns the name of this rank's group of every dimension; [] on a rank outside the mesh.

    Exactly the ranks of the mesh call it. If a dimension needs a group, they compare the mesh first: if meshes differ,
    every rank raises Disagreement; if a rank is missing, all others raise Timeout. Returns None if only torch can
    create these groups, and then nothing was done. `keeps_order`: the ranks of groups are in the order of the mesh,
    else they ascend, as torch has them.
    """
    members, backends = set(rank_map.tolist()), {dist.get_backend(), *(backend for backend, _ in overrides)}
    # Others are ranks that torch refuses, and groups that their members alone cannot create.
    is_valid = len(members) == rank_map.numel() and min(members) >= 0 and max(members) < dist.get_world_size()
    if not is_valid or backends & {"mpi", "threaded"} or dist_config.use_torchcomms:
        return None
    _variables.tell_unused_by_torch()
    text = MeshText(layout, rank_map, names, overrides)
    dims = list(zip([layout[dim : dim + 1] for dim in range(len(layout))], overrides, text.names, strict=True))
    # Where PyTorch has CUDA and the default group is Gloo's, torch does not use it for a mesh.
    uses_default = not (torch.cuda.is_available() and dist.get_backend() == "gloo")

    def way(axis: _MeshLayout, override: Override) -> str:
        if keeps_order and (axis.remap_to_tensor(rank_map).diff(dim=1) <= 0).any():  # torch's ranks ascend
            return "new"
        if uses_default and axis.numel() == dist.get_world_size() and override == (None, None):
            return "default"
        return "split" if _groups.can_split(override[0]) else "new"

    ways = [way(axis, override) for axis, override, _ in dims]
    inside = bool((rank_map == dist.get_rank()).any())
    key, meet_again = "", None
    ranks = layout.remap_to_tensor(rank_map).flatten().tolist()
    locate(text.where, text.sizes, ranks, is_placed=ranks != list(range(len(ranks))), replace=False)
    if inside and set(ways) != {"default"}:
        key, meet_again = _compare(text, rank_map.tolist())
    made: list[Any] = []
    with connecting_until(meet_again):
        for each, (axis, override, name) in zip(ways, dims, strict=True):
            if each == "default":
                made.append(default_group().group_name)
            elif each == "split":
                made.append(_split(axis, rank_map, name, override))
            elif inside:
                made.append(_new(axis, rank_map, f"mesh_{name}", override, f"{key}/{name}", keeps_order))
    return [name for name in made if name is not None]


def _compare(text: MeshText, ranks: Sequence[int]) -> tuple[str, Callable[[], None] | None]:
    """Compares a mesh on its ranks. Returns a text that is equal on them and new, and how they meet after it."""
    everyone = len(ranks) == dist.get_world_size()
    start = _start.adopt(None if everyone else ranks)
    if dist.get_backend() == "fake":  # such a world is this process
        return start.key, None
    patience = _groups.timeout_of(default_group()) or _start.DEFAULT_TIMEOUT
    if everyone:
        start.part_from_earlier(patience, text.where)
    elif not start.is_parted:
        return start.key, None
    start.agree(str(text), patience, text.where, ranks, "DeviceMesh")
    connected = _start.Start(start.rank, start.size, PrefixStore("connected", start.store), "")
    return start.key, lambda: connected.agree("", patience, text.where, ranks, "DeviceMesh")


def initialise(text: MeshText) -> None:
    """Initialises torch.distributed by the environment variables, after the ranks have compared a mesh.

    Does nothing if torch.distributed is initialised, or if a variable is missing: torch's own error says which.
    """
    needs = ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE")
    if dist.is_initialized() or not all(os.environ.get(each) for each in needs):
        return
    patience = _start.DEFAULT_TIMEOUT
    start = _start.begin(None, None, None, None, patience)
    start.part_from_earlier(patience, text.where)
    start.agree(str(text), patience, text.where, what="DeviceMesh")
    _start.initialise(start, None, None, patience)


def _name_of(ranks: Hashable, options: Options, make: Callable[[], dist.ProcessGroup | None]) -> str | None:
    """Returns the name of the group of these ranks, which `make` creates unless an earlier mesh has it."""
    group = _tables.setdefault(default_group(), _groups.GroupTable()).get(ranks, options, make)
    return None if group is None else group.group_name


def _new(
    axis: _MeshLayout, rank_map: torch.Tensor, description: str, override: Override, key: str, keeps_order: bool
) -> str | None:
    parts = axis.remap_to_tensor(rank_map)
    ranks = parts[(parts == dist.get_rank()).any(dim=1)][0].tolist()
    if not keeps_order:
        ranks.sort()
    options = Options(None, *override)

    def make() -> dist.ProcessGroup:
        timeout = override[1]._timeout if override[1] is not None else _groups.timeout_of_default()
        return _groups.new_group(f"{key}/{ranks[0]}", description, ranks, options._replace(timeout=timeout))

    return _name_of(tuple(ranks), options, make)


def _split(axis: _MeshLayout, rank_map: torch.Tensor, name: str, override: Override) -> str | None:
    """Splits the groups of a dimension from the default group, as torch does; every rank of the world calls it."""
    make: Any = functools.partial(DeviceMesh._init_one_process_group, axis[0], rank_map, name, override)
    if rank_map.numel() < dist.get_world_size():  # a rank outside would not know whether the members have it
        return make()  # type: ignore[no-any-return]
    ranks = axis[0], tuple(rank_map.tolist())
    return _name_of(ranks, Options(None, *override), lambda: group_named(make()))


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
    _variables.log(log)
    _warms_up = warm_up
    _put("install")
    put_default()
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
        take_back_default()
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
