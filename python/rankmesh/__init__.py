"""Process topologies of large parallel jobs: declare a mesh, ask it anything, check it, draw it, run on it."""

from __future__ import annotations

from rankmesh._core import (
    AxisDifference,
    CheckedSet,
    Coordinate,
    Difference,
    Group,
    Mesh,
    Partition,
    Picture,
    Placed,
    PlacedAxis,
    Placement,
    Report,
    Reshard,
    Sharding,
    Transfer,
    check,
    diff,
    draw,
    place,
    show,
)
from rankmesh._core import version as __version__
from rankmesh._errors import (
    Disagreement,
    EngineFailure,
    Error,
    NotBuilt,
    PeerLost,
    Timeout,
    UnknownName,
    UsageError,
    UsageTypeError,
)

TYPE_CHECKING = False  # importing typing would take longer than everything else
if TYPE_CHECKING:
    from typing import Any

    from rankmesh._engine import (
        Communicator,
        Member,
        Pending,
        Usage,
        World,
        engines,
        from_mpi4py,
        run,
        to_mpi4py,
        wait_all,
        wait_any,
    )
    from rankmesh._explain import Explanation, explain
    from rankmesh._frameworks import Conversion, Loss, convert, frameworks, plan
    from rankmesh._models import plan_model
    from rankmesh._plan import Axes, Declaration, Pick

# These names need the engines, which load MPI if it is built in; therefore they load on first use.
_LATER = {
    name: f"rankmesh.{module}"
    for module, names in {
        "_frameworks": "Conversion Loss convert frameworks plan",
        "_engine": "Communicator Member Pending Usage World engines from_mpi4py run to_mpi4py wait_all wait_any",
        "_explain": "Explanation explain",
        "_models": "plan_model",
        "_plan": "Axes Declaration Pick",
    }.items()
    for name in names.split()
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'rankmesh' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(_LATER[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


__all__ = [
    "Axes",
    "AxisDifference",
    "CheckedSet",
    "Communicator",
    "Conversion",
    "Coordinate",
    "Declaration",
    "Difference",
    "Disagreement",
    "EngineFailure",
    "Error",
    "Explanation",
    "Group",
    "Loss",
    "Member",
    "Mesh",
    "NotBuilt",
    "Partition",
    "PeerLost",
    "Pending",
    "Pick",
    "Picture",
    "Placed",
    "PlacedAxis",
    "Placement",
    "Report",
    "Reshard",
    "Sharding",
    "Timeout",
    "Transfer",
    "UnknownName",
    "Usage",
    "UsageError",
    "UsageTypeError",
    "World",
    "__version__",
    "check",
    "convert",
    "diff",
    "draw",
    "engines",
    "explain",
    "frameworks",
    "from_mpi4py",
    "place",
    "plan",
    "plan_model",
    "run",
    "show",
    "to_mpi4py",
    "wait_all",
    "wait_any",
]
