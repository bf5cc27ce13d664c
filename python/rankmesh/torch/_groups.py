"""Creates torch process groups, by their members only, under names that they all know; equal groups once."""

from __future__ import annotations

import contextlib
import datetime
import inspect
import logging
import threading
import time
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh._errors import UsageError
from rankmesh.torch import _variables
from rankmesh.torch._agree import seconds, text_of
from rankmesh.torch._compat import default_group, device_types, replaced, tables
from rankmesh.torch._gloo import connecting, wait_until_connected
from rankmesh.torch._plan import Options
from rankmesh.torch.backend._kernels import refusing_backend
from rankmesh.torch.backend._process_group import ProcessGroup

_naming = threading.Lock()


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """A context in which torch gives a new group this name.

    torch's default name contains the number of groups of this rank. Members with different numbers would wait for
    each other under different names. A name would also be reused after its group was destroyed.
    """
    with _naming, replaced(c10d, "_process_group_name", lambda *args, **options: name):
        yield


def can_split(backend: str | None) -> bool:
    """Returns True if `torch.distributed.init_device_mesh` splits groups of this backend from the default group.

    The default group is then bound to a device, and its communicator exists (torch 2.13, device_mesh.py,
    `_init_one_process_group`).
    """
    default, accelerator = default_group(), torch.accelerator.current_accelerator(check_available=True)
    if default.bound_device_id is None or accelerator is None or accelerator.type not in device_types(default):
        return False
    parent = default._get_backend(accelerator)
    return bool(parent.supports_splitting) and backend in (None, parent.name())


def split_group(
    name: str, description: str, parts: Sequence[Sequence[int]], options: Options
) -> dist.ProcessGroup | None:
    """Splits these groups from the default group and returns this rank's group; None if it is in none of them.

    Every rank of the world calls it with equal parts; ranks ascend in each part.
    """
    begin = time.monotonic()
    with _named(name):
        made = dist.split_group(
            None,
            [list(part) for part in parts],
            timeout=options.timeout,
            pg_options=options.pg_options,
            group_desc=description,
        )
    if not isinstance(made, dist.ProcessGroup):  # without a group: None, or since 2.14 an int
        return None
    log_made(description, made, begin)
    return made


def new_group(name: str, description: str, ranks: Sequence[int], options: Options) -> dist.ProcessGroup:
    """Creates the group of these ranks in this order. Exactly these ranks call it."""
    order: dict[str, Any] = {}
    if list(ranks) != sorted(ranks):
        if "sort_ranks" not in inspect.signature(dist.new_group).parameters:
            raise UsageError(
                f"the ranks {list(ranks)} of '{description}' do not ascend, and new_group of PyTorch "
                f"{torch.__version__} sorts them; a newer one has sort_ranks"
            )
        order["sort_ranks"] = False
    begin = time.monotonic()
    # new_group splits new groups from a bound default group, and then NCCL requires every rank of the default group.
    with _named(name), connecting(), replaced(default_group(), "bound_device_id", None):
        group = dist.new_group(
            list(ranks),
            timeout=options.timeout,
            backend=options.backend,
            pg_options=options.pg_options,
            use_local_synchronization=True,
            group_desc=description,
            **order,
        )
    assert isinstance(group, dist.ProcessGroup)
    if not isinstance(group, ProcessGroup):  # whose inner groups do so
        wait_until_connected(group)
    log_made(description, group, begin)
    return group


def log_made(what: str, group: dist.ProcessGroup, begin: float) -> None:
    """Logs on rank 0 that it has made a group, since `begin` of the monotonic clock; on other ranks at level DEBUG."""
    level = logging.INFO if dist.get_rank() == 0 else logging.DEBUG
    if _variables.logger.isEnabledFor(level):
        ranks, timeout = dist.get_process_group_ranks(group), timeout_of(group)
        limit = "no timeout" if timeout is None else f"timeout {seconds(timeout)}"
        text = f"{len(ranks)} ranks {text_of(ranks)}, {dist.get_backend_config(group)}, {limit}"
        text = f"rank {dist.get_rank()} made '{what}': {text}, in {time.monotonic() - begin:.3g} s"
        _variables.logger.log(level, text)


def is_made_with(group: dist.ProcessGroup, timeout: datetime.timedelta | None, backend: str | None) -> bool:
    """Returns True if a new group with this timeout and backend (None: any) would equal this group."""
    if backend not in (None, dist.get_backend(group)):
        return False
    return timeout is None or all(each == timeout for each in _timeouts(group))


def timeout_of(group: dist.ProcessGroup) -> datetime.timedelta | None:
    """Returns the timeout of a group's operations; None for a group without timeouts."""
    return max((each for each in _timeouts(group) if each is not None), default=None)


def timeout_of_default() -> datetime.timedelta | None:
    """Returns the timeout of our default group, because it names missing ranks; None, torch's default, with another."""
    default = default_group()
    return timeout_of(default) if isinstance(default, ProcessGroup) else None


def _timeouts(group: dist.ProcessGroup) -> list[datetime.timedelta | None]:
    if isinstance(group, ProcessGroup):  # the backends of its devices may not exist yet
        return [group.options._timeout]
    options = (group._get_backend(each).options for each in group._device_types)  # the fake backend has no options
    return [getattr(each, "_timeout", None) for each in options]


def is_on_host(group: dist.ProcessGroup) -> bool:
    return "cpu" in device_types(group)


class GroupTable:
    """Process groups that this rank has created and that nobody has destroyed."""

    def __init__(self) -> None:
        self._made: dict[Hashable, tuple[dist.ProcessGroup | None, Options]] = {}  # keeps the options, and so their ids

    def get(
        self, ranks: Hashable, options: Options, make: Callable[[], dist.ProcessGroup | None]
    ) -> dist.ProcessGroup | None:
        """Returns the group of these ranks with equal options, which `make` creates at the first call."""
        key = ranks, *options.key
        group, _ = self._made.get(key, (None, options))
        if key not in self._made or (group is not None and group not in tables.pg_names):
            group, _ = self._made[key] = make(), options
        return group

    def put(self, ranks: Hashable, options: Options, group: dist.ProcessGroup) -> None:
        self._made.setdefault((ranks, *options.key), (group, options))

    def __iter__(self) -> Iterator[dist.ProcessGroup]:
        return iter({id(group): group for group, _ in self._made.values() if group is not None}.values())

    def drop(self, group: dist.ProcessGroup) -> None:
        """Destroys a group. All its ranks call it."""
        self._made = {key: made for key, made in self._made.items() if made[0] is not group}
        dist.destroy_process_group(group)
        refusing = refusing_backend(group.rank(), group.size())  # the program may hold the group, and Gloo go on
        for device in group._device_types:
            group._register_backend(device, dist.ProcessGroup.BackendType.CUSTOM, refusing)
