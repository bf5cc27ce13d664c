"""What went wrong in a job, from the flight records of its ranks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from rankmesh._core import Mesh, Placement
from rankmesh._frameworks import explained


class Explanation(dict[str, Any]):
    """The answer of `explain`: the keys of `rankmesh explain --json`. `str()` is the answer in words."""

    text = ""

    def __str__(self) -> str:
        return self.text


def explain(
    records: str | os.PathLike[str] | Iterable[str | os.PathLike[str]], *, mesh: str | Mesh | Placement | None = None
) -> Explanation:
    """Finds what went wrong in a job from the flight records of its ranks, like `rankmesh explain`.

    `records`: a folder, a file or several, such as one folder per host. They hold records of rankmesh, dumps of
    PyTorch's flight recorder, logs, or reports of NCCL's RAS. `mesh`: the mesh of the job, if its records do not have
    it. Raises UsageError if no file has a record or a known line.

    >>> answer = rankmesh.explain("/tmp/records")  # doctest: +SKIP
    >>> answer["findings"][0]["ranks"]  # doctest: +SKIP
    [2]
    """
    paths = [records] if isinstance(records, (str, os.PathLike)) else records
    if isinstance(mesh, Placement):
        mesh = f"{mesh.mesh} @[{','.join(map(str, mesh.ranks))}]"
    fields, text = explained(paths, mesh)
    answer = Explanation(fields)
    answer.text = text
    return answer
