# SPDX-License-Identifier: Apache-2.0
"""What rankmesh answers for the frameworks that are described by rows."""

import importlib

from .answers import Answers, refusal


def by_rows(name):
    """The answers of rankmesh.frameworks."""

    def ours(settings, rank, world):
        frameworks = importlib.import_module("rankmesh.frameworks")
        try:
            state = frameworks.state(name, rank=rank, world_size=world, **settings)
        except Exception as error:
            return refusal(error)
        groups = state.groups()
        return Answers(
            partitions={kind: state.partition(kind) for kind in groups}, groups=groups, answers=state.answers()
        )

    return ours
