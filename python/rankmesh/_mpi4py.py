"""The return type of to_mpi4py."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from rankmesh._errors import UsageError


class Intracomm(MPI.Intracomm):  # type: ignore[misc, unused-ignore]
    """The MPI communicator of a Communicator, which it keeps alive. The caller owns communicators made from it."""

    _rankmesh: Any = None

    def _refuse(self, call: str) -> None:
        if self._rankmesh is not None:
            raise UsageError(
                f"{call} of the communicator that to_mpi4py gave for {self._rankmesh.label}, which is rankmesh's; "
                "free a Dup() of it"
            )

    def Free(self) -> None:  # noqa: N802
        """Raises UsageError, because rankmesh frees it."""
        self._refuse("Free")
        super().Free()

    def Disconnect(self) -> None:  # noqa: N802
        """Raises UsageError, because rankmesh frees it."""
        self._refuse("Disconnect")
        super().Disconnect()
