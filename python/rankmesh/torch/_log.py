"""What rankmesh says of its start, for whoever asks: which groups were made, of what, and how long that took."""

from __future__ import annotations

import datetime
import logging
import os
import sys
import time
from collections.abc import Callable

import torch.distributed as dist

from rankmesh._errors import UsageError
from rankmesh.torch._agree import seconds, text_of

_logger = logging.getLogger("rankmesh")


def ask(level: str | None) -> None:
    """Has the logger `rankmesh` write lines of a level, by default RANKMESH_LOG's, to stderr: 'info', or 'off'."""
    given = level or os.environ.get("RANKMESH_LOG") or "off"
    if given not in ("info", "off"):
        raise UsageError(
            f"the log level '{given}' is neither 'info' nor 'off'; RANKMESH_LOG and log= have one of these"
        )
    if given == "info" and not _logger.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("rankmesh: %(message)s"))
        _logger.addHandler(handler)
        _logger.setLevel(logging.INFO)


def made(
    what: str,
    group: dist.ProcessGroup,
    timeout_of: Callable[[dist.ProcessGroup], datetime.timedelta | None],
    begin: float,
) -> None:
    """Says on rank 0 that it has made a group, since `begin` of the monotonic clock; on other ranks at level DEBUG."""
    level = logging.INFO if dist.get_rank() == 0 else logging.DEBUG
    if _logger.isEnabledFor(level):
        ranks = dist.get_process_group_ranks(group)
        timeout = timeout_of(group)
        limit = "no timeout" if timeout is None else f"timeout {seconds(timeout)}"
        of_all = f"{len(ranks)} ranks {text_of(ranks)}, {dist.get_backend_config(group)}, {limit}"
        _logger.log(level, "rank %d made '%s': %s, in %.3g s", dist.get_rank(), what, of_all, time.monotonic() - begin)
