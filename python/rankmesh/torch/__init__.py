"""The process groups and device meshes of torch.distributed for a plan.

>>> me = rankmesh.torch.init("dp=* tp=2", over=[("dp", "tp")])  # doctest: +SKIP
>>> torch.distributed.all_reduce(gradient, group=me.group("dp"))  # doctest: +SKIP
"""

from __future__ import annotations

try:
    import torch.distributed as _distributed
except ModuleNotFoundError as _error:
    if _error.name is None or _error.name.partition(".")[0] != "torch":
        raise
    raise ImportError("rankmesh.torch works on PyTorch, which is not installed here; pip install torch") from None
if not _distributed.is_available():
    raise ImportError("rankmesh.torch works on torch.distributed, which this PyTorch was built without")

from rankmesh.torch._init import init
from rankmesh.torch._init_device_mesh import init_device_mesh, install, uninstall
from rankmesh.torch._member import Member
from rankmesh.torch._plan import Axes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from rankmesh.torch._conversions import from_device_mesh, from_placements, to_device_mesh, to_placements

# These names need torch.distributed.tensor, whose import takes as long as everything else; they load on first use.
_CONVERSIONS = ("from_device_mesh", "from_placements", "to_device_mesh", "to_placements")


def __getattr__(name: str) -> Any:
    if name not in _CONVERSIONS:
        raise AttributeError(f"module 'rankmesh.torch' has no attribute {name!r}")
    from rankmesh.torch import _conversions

    value = globals()[name] = getattr(_conversions, name)
    return value


__all__ = [
    "Axes",
    "Member",
    "from_device_mesh",
    "from_placements",
    "init",
    "init_device_mesh",
    "install",
    "to_device_mesh",
    "to_placements",
    "uninstall",
]
