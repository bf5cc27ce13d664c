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


for _error in (Disagreement, PeerLost, Timeout):
    _error.__module__ = "rankmesh.torch.backend"  # a traceback shows where a program finds it

ENGINE_ERRORS = (rankmesh._errors.Disagreement, rankmesh._errors.PeerLost, rankmesh._errors.Timeout)


def of_backend(error: Exception, ending: str) -> Exception:
    """Returns an error of the engine as an error of the backend, whose text ends with `ending`."""
    text = f"{error}\n{ending.removeprefix('; ')}" if ending and "\n" in str(error) else f"{error}{ending}"
    if isinstance(error, rankmesh._errors.Timeout):
        return Timeout(text, error.arrived, error.missing)
    if isinstance(error, rankmesh._errors.PeerLost):
        return PeerLost(text, error.ranks)
    if isinstance(error, rankmesh._errors.Disagreement):
        return Disagreement(text, error.ranks)
    return error
