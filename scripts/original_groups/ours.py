# SPDX-License-Identifier: Apache-2.0
"""What rankmesh answers for the frameworks that are described by rows."""

import importlib

from .answers import Answers, ask, refusal
from .coordinators import answers_of


def by_rows(name):
    """The answers of rankmesh.framework and of the framework's module in rankmesh."""

    def ours(settings, rank, world):
        from rankmesh import Error, Group

        framework = importlib.import_module("rankmesh.framework")
        rows = importlib.import_module("rankmesh._rows")
        current = rows.Current(name)
        try:
            state = framework.state(name, rank=rank, world_size=world, **settings)
            current.initialize(settings, rank, world)
        except Error as error:
            return refusal(error)
        groups = state.groups
        answers = {accessor: ask(current.ask, accessor) for accessor in current.accessors}
        answers = {name: list(each) if isinstance(each, Group) else each for name, each in answers.items()}
        return Answers(
            partitions={kind: state.partition(kind) for kind in groups},
            groups=groups,
            answers=answers_of(rows, answers),
        )

    return ours
