"""The process groups and device meshes of torch.distributed for a plan.

>>> me = rankmesh.torch.init("dp=* tp=2", over=[("dp", "tp")])  # doctest: +SKIP
>>> torch.distributed.all_reduce(gradient, group=me.group("dp"))  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import torch.distributed as _distributed
except ModuleNotFoundError as _error:
    if _error.name is None or _error.name.partition(".")[0] != "torch":
        raise
    raise ImportError("rankmesh.torch requires PyTorch, which is not installed here; pip install torch") from None
if not _distributed.is_available():
    raise ImportError("rankmesh.torch requires torch.distributed, which this PyTorch was built without")

from rankmesh.torch import _record, _variables, data
from rankmesh.torch._elastic import Standby
from rankmesh.torch._init import init, rejoin
from rankmesh.torch._init_device_mesh import init_device_mesh, install, is_installed, uninstall
from rankmesh.torch._member import Member
from rankmesh.torch._plan import Axes
from rankmesh.torch._verify import verify
from rankmesh.torch.backend import put_default as _put_default_backend
from rankmesh.torch.backend import register as _register

if TYPE_CHECKING:
    from rankmesh.torch._conversions import from_device_mesh, from_placements, to_device_mesh, to_placements
    from rankmesh.torch._reshard.api import reshard, reshard_plan
    from rankmesh.torch._reshard.describe import Fused

__all__ = [
    "Axes",
    "Fused",
    "Member",
    "Standby",
    "data",
    "from_device_mesh",
    "from_placements",
    "init",
    "init_device_mesh",
    "install",
    "is_installed",
    "rejoin",
    "reshard",
    "reshard_plan",
    "to_device_mesh",
    "to_placements",
    "uninstall",
    "verify",
]

_LAZY = {
    **dict.fromkeys(("from_device_mesh", "from_placements", "to_device_mesh", "to_placements"), "_conversions"),
    **{"Fused": "_reshard.describe", "reshard": "_reshard.api", "reshard_plan": "_reshard.api"},
}
"""Names whose modules import torch.distributed.tensor, which takes as long as everything else: at their first use."""


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'rankmesh.torch' has no attribute {name!r}")
    import importlib

    value = globals()[name] = getattr(importlib.import_module(f"rankmesh.torch.{_LAZY[name]}"), name)
    return value


_register()
_variables.log(None)
if _variables.is_off():
    _put_default_backend()
else:
    _record.begin()
