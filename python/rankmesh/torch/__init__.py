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
from rankmesh.torch._member import Member
from rankmesh.torch._plan import Axes
from rankmesh.torch._rejoin import rejoin
from rankmesh.torch._standby import Standby
from rankmesh.torch.backend import register as _register

_register()

__all__ = ["Axes", "Member", "Standby", "init", "rejoin"]
