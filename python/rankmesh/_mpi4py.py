"""What to_mpi4py returns."""

from __future__ import annotations

from typing import Any

from mpi4py import MPI

from rankmesh._errors import UsageError


class Intracomm(MPI.Intracomm):  # type: ignore[misc, unused-ignore]
    """The MPI communicator of a Communicator, which it keeps; one that is made of it is the caller's."""

    _rankmesh: Any = None

    def _refuse(self, call: str) -> None:
        if self._rankmesh is not None:
            raise UsageError(
                f"{call} of the communicator that to_mpi4py gave for {self._rankmesh.label}, which is rankmesh's; "
                "free a Dup() of it"
            )

    def Free(self) -> None:  # noqa: N802
        """Refused: rankmesh frees it."""
        self._refuse("Free")
        super().Free()

    def Disconnect(self) -> None:  # noqa: N802
        """Refused: rankmesh frees it."""
        self._refuse("Disconnect")
        super().Disconnect()
