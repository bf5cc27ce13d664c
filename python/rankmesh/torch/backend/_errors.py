"""The errors of the backend: rankmesh's, which are also torch's DistBackendError and so RuntimeErrors."""

from __future__ import annotations

import torch.distributed as dist

import rankmesh._errors


class Disagreement(rankmesh._errors.Disagreement, dist.DistBackendError):
    """Ranks of a process group made different calls."""


class PeerLost(rankmesh._errors.PeerLost, dist.DistBackendError):
    """Peers of a process group are gone."""


class Timeout(rankmesh._errors.Timeout, dist.DistBackendError):
    """The timeout of a call of a process group expired."""


class UsageError(rankmesh._errors.UsageError, RuntimeError):
    """The arguments of a call are wrong; torch's own backends raise RuntimeError then."""


class NotTaken(UsageError, NotImplementedError):
    """A list is empty, or a tensor has a layout that no backend takes; torch raises NotImplementedError then."""


for _error in (Disagreement, NotTaken, PeerLost, Timeout, UsageError):
    _error.__module__ = "rankmesh.torch.backend"  # a traceback shows where a program finds it

ENGINE_ERRORS = tuple(getattr(rankmesh._errors, name) for name in ("Disagreement", "PeerLost", "Timeout", "UsageError"))


def of_backend(error: Exception, ending: str) -> Exception:
    """Returns an error of the engine as an error of the backend, whose text ends with `ending`."""
    text = f"{error}\n{ending.removeprefix('; ')}" if ending and "\n" in str(error) else f"{error}{ending}"
    if isinstance(error, rankmesh._errors.Timeout):
        return Timeout(text, error.arrived, error.missing)
    if isinstance(error, rankmesh._errors.PeerLost):
        return PeerLost(text, error.ranks)
    if isinstance(error, rankmesh._errors.Disagreement):
        return Disagreement(text, error.ranks)
    if isinstance(error, rankmesh._errors.UsageError) and not isinstance(error, UsageError):
        return UsageError(text)
    return error
