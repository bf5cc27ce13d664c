# SPDX-License-Identifier: Apache-2.0
"""What rankmesh answers for the frameworks that are described by rows."""

import importlib

from .answers import Answers, ask, refusal
from .coordinators import answers_of


def listed(answer):
    """A group or an array as lists; any other answer as it is."""
    from rankmesh import Group

    return list(answer) if isinstance(answer, Group) else answer.tolist() if hasattr(answer, "tolist") else answer


def by_rows(name):
    """The answers of rankmesh.framework and of the framework's module in rankmesh."""

    def ours(settings, rank, world):
        from rankmesh import Error

        framework = importlib.import_module("rankmesh.framework")
        rows = importlib.import_module("rankmesh._rows")
        current = rows.Current(name)
        try:
            state = framework.state(name, rank=rank, world_size=world, **settings)
            current.initialize({**settings, "rank": rank, "world_size": world})
        except Error as error:
            return refusal(error)
        groups = state.groups
        answers = {accessor: ask(current.ask, accessor) for accessor in current.accessors}
        answers = {name: listed(each) for name, each in answers.items()}
        return Answers(
            partitions={kind: state.partition(kind) for kind in groups},
            groups=groups,
            answers=answers_of(rows, answers),
        )

    return ours
