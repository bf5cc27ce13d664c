"""The errors of rankmesh.torch: rankmesh's, which are also the errors that torch's own backends raise."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch.distributed as dist

import rankmesh._errors


class Disagreement(rankmesh._errors.Disagreement, dist.DistBackendError):
    """Ranks made different calls, or declared different plans."""


class PeerLost(rankmesh._errors.PeerLost, dist.DistBackendError):
    """Peers of a process group are gone."""


class Timeout(rankmesh._errors.Timeout, dist.DistBackendError):
    """The timeout of a start, or of a call of a process group, expired."""


class EngineFailure(rankmesh._errors.EngineFailure, dist.DistBackendError):
    """The engine, or torch's store, reported an error."""


class UsageError(rankmesh._errors.UsageError, RuntimeError):
    """The arguments of a call are wrong; torch's own backends raise RuntimeError then."""


class NotTaken(UsageError, NotImplementedError):
    """A list is empty, or a tensor has a layout that no backend takes; torch raises NotImplementedError then."""


_KINDS = (Disagreement, PeerLost, Timeout, EngineFailure, UsageError)
for _error in (*_KINDS, NotTaken):
    _error.__module__ = "rankmesh.torch.backend"  # a traceback shows where a program finds it

ENGINE_ERRORS: tuple[type[Exception], ...] = tuple(kind.__bases__[0] for kind in _KINDS)


def of_backend(error: Exception, ending: str = "", *, without: str = "") -> Exception:
    """Returns an error of the engine as one of the backend, whose text ends with `ending`, `without` the mesh that its
    groups have in the engine; others as they are."""
    kind = next((each for each in _KINDS if isinstance(error, each.__bases__[0])), None)
    if kind is None or (isinstance(error, kind) and not ending):
        return error
    text = str(error).replace(without, "")
    made = kind(f"{text}\n{ending.removeprefix('; ')}" if ending and "\n" in text else f"{text}{ending}")
    made.__dict__.update(error.__dict__)  # the ranks
    return made


@contextlib.contextmanager
def errors_of_backend() -> Iterator[None]:
    """A context, or a decorator, which errors that ranks cause together leave as errors of the backend."""
    try:
        yield
    except ENGINE_ERRORS as error:
        if isinstance(error, rankmesh._errors.UsageError):
            raise
        raise of_backend(error) from error.__cause__
