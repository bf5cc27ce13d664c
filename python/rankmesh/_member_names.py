"""What both kinds of Member have: a size along axes, and the right name in the error of a wrong one."""

from __future__ import annotations

import difflib
import math

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from typing_extensions import Self


class Size(int):
    """The number of ranks of the world. `me.size("dp")` is the number along axes, or in a declared group."""

    _member: Any

    def __new__(cls, ranks: int, member: Any) -> Self:
        self = super().__new__(cls, ranks)
        self._member = member
        return self

    def __call__(self, *axes: str) -> int:
        """Returns the number of ranks along these axes, or in a declared group."""
        mesh = self._member.mesh if axes else None
        if mesh is None:
            return int(self)
        return math.prod(map(mesh.size_of, {*axes})) if {*axes} <= {*mesh.axes} else len(self._member.ranks(*axes))

    def __reduce__(self) -> tuple[type[int], tuple[int]]:
        return int, (int(self),)


_SAID = {
    **dict.fromkeys(("get_rank", "global_rank"), "rank"),
    **dict.fromkeys(("get_world_size", "num_ranks"), "world_size"),
    **dict.fromkeys(("get_size", "size_of", "group_size"), 'size("dp")'),
    **dict.fromkeys(("get_local_rank", "get_group_rank", "group_rank", "index", "index_of"), 'at("dp")'),
    **dict.fromkeys(("coords", "coordinate", "coordinates", "get_coordinate"), "coord"),
    **dict.fromkeys(("axes", "names", "mesh_dim_names", "axis_names"), "mesh.axes"),
    **dict.fromkeys(("shape", "sizes"), "mesh.shape"),
    **dict.fromkeys(("comm", "communicator", "process_group", "get_comm"), 'on("dp")'),
    **dict.fromkeys(("peers", "get_ranks", "group_ranks", "get_process_group_ranks"), 'ranks("dp")'),
    **dict.fromkeys(("next", "next_rank"), 'neighbor("pp", +1)'),
    **dict.fromkeys(("prev", "previous", "prev_rank"), 'neighbor("pp", -1)'),
    **dict.fromkeys(("is_first_stage", "is_first_rank"), 'is_first("pp")'),
    **dict.fromkeys(("is_last_stage", "is_last_rank"), 'is_last("pp")'),
}
_COLLECTIVES = ("all_reduce", "all_gather", "broadcast", "reduce_scatter", "all_to_all", "reduce", "gather", "scatter")


def missing(self: object, name: str) -> NoReturn:
    """The `__getattr__` of a Member: raises AttributeError with the name that is meant."""
    is_torchs = hasattr(type(self), "destroy")
    if name in _COLLECTIVES:
        right = f'torch.distributed.{name}(..., group=me.group("dp"))' if is_torchs else f'me.on("dp").{name}(...)'
    elif name in ("close", "shutdown", "finalize"):
        right = "me.destroy()" if is_torchs else "world.close()"
    elif name == "write_record":
        right = "world.write_record(path)"
    else:
        near = difflib.get_close_matches(name, [each for each in dir(type(self)) if each[0] != "_"], 1)
        right = "me." + _SAID[name] if name in _SAID else f"me.{near[0]}" if near else ""
    raise AttributeError(f"a Member has no '{name}'" + (f"; it is {right}" if right else ""), name=name, obj=self)
