"""Process topologies of large parallel jobs: declare a mesh, ask it anything, check it, draw it, run on it."""

from rankmesh._core import (
    CheckedSet,
    Coordinate,
    Group,
    Mesh,
    Partition,
    Picture,
    Placement,
    Report,
    check,
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

__all__ = [
    "CheckedSet",
    "Coordinate",
    "Disagreement",
    "EngineFailure",
    "Error",
    "Group",
    "Mesh",
    "NotBuilt",
    "Partition",
    "PeerLost",
    "Picture",
    "Placement",
    "Report",
    "Timeout",
    "UnknownName",
    "UsageError",
    "UsageTypeError",
    "__version__",
    "check",
    "show",
]
