# SPDX-License-Identifier: Apache-2.0
"""What a framework answers on one rank, the original and ours alike."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Raised:
    """An accessor raises.

    One text equals another that goes on, and any other where one is not a sentence, as that of a KeyError is not. What ours
    refuses by a rule of docs/frameworks.md equals any answer.
    """

    text: str
    rule: str = ""

    def __eq__(self, other):
        if self.rule:
            return True
        if not isinstance(other, Raised):
            return False
        shorter, longer = sorted((self.text, other.text), key=len)
        return longer.startswith(shorter) or " " not in shorter

    __hash__ = None


@dataclass
class Answers:
    refused: str | None = None  # the text
    deliberately: str = ""  # the rule of docs/frameworks.md by which ours refuses what the original takes
    partitions: dict = field(default_factory=dict)  # kind: its groups in the order in which they are made
    groups: dict = field(default_factory=dict)  # kind: this rank's group, or None
    answers: dict = field(default_factory=dict)  # accessor: value


def ask(call, *arguments, **options):
    """What the call answers, or that it raises."""
    try:
        return call(*arguments, **options)
    except Exception as error:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
        return Raised(text, getattr(error, "rule", ""))


def refusal(error):
    """The answers of who refuses with this exception; ours has the rule of a deliberate refusal.

    What a refusal is not, such as a stub that does not do, is raised again.
    """
    if isinstance(error, AttributeError | NameError | ImportError):
        raise error
    return Answers(refused=f"{type(error).__name__}: {error}", deliberately=getattr(error, "rule", ""))
