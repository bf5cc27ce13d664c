# SPDX-License-Identifier: Apache-2.0
"""What the GroupCoordinator of vLLM and of its descendants answers."""

ATTRIBUTES = (
    *("rank_in_group", "world_size", "first_rank", "last_rank"),
    *("is_first_rank", "is_last_rank", "next_rank", "prev_rank"),
)


def answers_of(module, answers):
    """The answers with the members of each group, and what it says of itself as `get_tp_group.next_rank`."""
    groups = {name: group for name, group in answers.items() if isinstance(group, module.GroupCoordinator)}
    members = {name: list(group.ranks) for name, group in groups.items()}
    own = {f"{name}.{of}": getattr(group, of) for name, group in groups.items() for of in ATTRIBUTES}
    return answers | members | own
