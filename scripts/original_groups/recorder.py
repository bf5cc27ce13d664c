# SPDX-License-Identifier: Apache-2.0
"""torch.distributed without processes: groups are lists of ranks, and nothing is sent."""

import contextlib

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d


class Group:
    """A process group as one rank sees it."""

    def __init__(self, ranks, rank, options):
        self.ranks, self._rank, self.options = ranks, ranks.index(rank) if rank in ranks else -1, options

    def rank(self):
        return self._rank

    def size(self):
        return len(self.ranks)

    def __repr__(self):
        return f"Group({self.ranks})"


class Recorder:
    """What one rank asks of torch.distributed.

    `made` has every group in the order of the calls, also those without this rank; each knows the options of its call.
    """

    def __init__(self, rank, world):
        self.rank, self.world = rank, world
        self.everyone = Group(list(range(world)), rank, {})
        self.made = []

    def new_group(
        self,
        ranks=None,
        timeout=None,
        backend=None,
        pg_options=None,
        use_local_synchronization=False,
        group_desc=None,
        device_id=None,
        **others,
    ):
        members = sorted(range(self.world) if ranks is None else map(int, ranks))
        if len(members) > self.world:
            raise ValueError("the new group is larger than the world")
        if any(not 0 <= each < self.world for each in members):
            raise ValueError("the new group has a rank outside the world")
        if len(set(members)) != len(members):
            raise ValueError("a group has a rank twice")
        group = Group(members, self.rank, {"desc": group_desc, "backend": backend})
        group.asked = members if ranks is None else list(map(int, ranks))
        self.made.append(group)
        return group if self.rank in members else dist.GroupMember.NON_GROUP_MEMBER

    def new_subgroups_by_enumeration(
        self, ranks_per_subgroup_list, timeout=None, backend=None, pg_options=None, group_desc=None
    ):
        groups = [self.new_group(ranks, backend=backend, group_desc=group_desc) for ranks in ranks_per_subgroup_list]
        own = [group for group in groups if isinstance(group, Group)]
        return own[0] if own else None, groups

    def new_subgroups(self, group_size=None, group=None, timeout=None, backend=None, pg_options=None, group_desc=None):
        if group_size is None or group_size <= 0 or self.world % group_size:
            raise ValueError(f"group_size {group_size} does not divide {self.world}")
        starts = range(0, self.world, group_size)
        return self.new_subgroups_by_enumeration([list(range(at, at + group_size)) for at in starts], backend=backend)

    def get_rank(self, group=None):
        return self.rank if group is None else group.rank() if isinstance(group, Group) else -1

    def get_world_size(self, group=None):
        return self.world if group is None else group.size() if isinstance(group, Group) else -1

    def get_process_group_ranks(self, group=None):
        return list((group or self.everyone).ranks)

    def get_global_rank(self, group, group_rank):
        return (group or self.everyone).ranks[group_rank]

    def get_group_rank(self, group, global_rank):
        return (group or self.everyone).ranks.index(global_rank)

    def get_backend(self, group=None):
        return "nccl"

    def is_initialized(self):
        return True

    def init_process_group(self, *args, **options):
        pass

    def all_reduce(self, *args, **options):
        pass

    barrier = broadcast = destroy_process_group = all_reduce

    def _get_default_group(self):
        return self.everyone


NAMES = [name for name in dir(Recorder) if not name.startswith("__")]
_MISSING = object()


@contextlib.contextmanager
def recording(recorder):
    """Within it torch.distributed is the recorder."""
    changed = {
        (place, name): getattr(recorder, name) for place in (dist, c10d) for name in NAMES if hasattr(place, name)
    }
    changed |= {(place, "ProcessGroup"): Group for place in (dist, c10d)}
    changed |= {
        (torch.cuda, "current_device"): lambda: 0,
        (torch.cuda, "device_count"): lambda: 8,
        (torch.cuda, "set_device"): lambda device: None,
    }
    before = {key: getattr(*key) for key in changed}
    for (place, name), value in changed.items():
        setattr(place, name, value)
    try:
        yield recorder
    finally:
        for (place, name), value in before.items():
            setattr(place, name, value)
