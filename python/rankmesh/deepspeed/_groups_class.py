"""DeepSpeed's utils/groups.py: which ranks share tensors, experts, sequences and ZeRO's partitions.

The functions ask `current`, the Groups of this process, whose groups are torch's where torch.distributed is
initialised. A Groups of its own answers for any rank, without a process:

>>> of_rank = Groups(rank=5, world_size=8)
>>> of_rank._create_expert_and_data_parallel(4)
>>> of_rank._get_expert_parallel_group_ranks("ep_size_4")
[4, 5, 6, 7]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from rankmesh import Group, Mesh
from rankmesh._connected import Connected, Handle, group_named, of_mpu, place_in, rank_in, size_in, size_of
from rankmesh._dialects import deepspeed
from rankmesh._errors import UsageError
from rankmesh._originals import original, raises

__all__ = ["DeprecatedException", "_get_expert_parallel_ranks", "initialize"]


_TENSOR = ("get_tensor_model_parallel_world_size", "get_slice_parallel_world_size", "get_model_parallel_world_size")
_PIPELINE = ("get_pipeline_model_parallel_world_size", "get_pipe_parallel_world_size")
"""What a client's mpu is asked for its sizes: the first that it has."""


class DeprecatedException(Exception):
    """What the original raises for a call that is no longer there."""


class _Made(Connected):
    """What is made of groups.py's groups, and how."""

    mpu: Any
    mesh_device: Any
    expert_tensor_parallel_world_size: int
    """How many tensor ranks have their own expert groups, in the groups that were made last with an mpu."""

    def destroy(self) -> None:
        """Forgets every group, as in a process that starts; torch's are ended."""
        super().destroy()
        self.mpu = self.mesh_device = None
        self.expert_tensor_parallel_world_size = 1
        self._experts: dict[str, deepspeed.ExpertGroups] = {}
        self._all_to_all: tuple[int, dict[str, Handle]] | None = None
        self._set_size: int | None = None
        self._set_rank: int | None = None

    def _connect_mesh(self, said: str, make: Callable[[int], Mesh], names: dict[str, str]) -> Mesh:
        """The mesh that `make` gives for the world's size, whose groups of this rank have these names, by axis."""
        rank, world_size = self._rank()
        return self._connect(
            said,
            lambda: make(world_size),
            lambda mesh: {name: mesh.group(rank, axis) for axis, name in names.items()},
        )

    def _connect_experts(self, said: str, expert_size: int, make: Callable[[], deepspeed.ExpertGroups]) -> None:
        """Makes the groups of an expert size, unless they are there."""
        if f"ep_size_{expert_size}" in self._experts:
            make()  # which refuses what is wrong, also of groups that are there
            return
        made = self._connect(said, make, self._as_torch_sorts)
        self._experts[made.group_name] = made

    def _as_torch_sorts(self, made: deepspeed.ExpertGroups) -> dict[str, Group]:
        groups = zip(("expert", "expert data"), made.of_rank(self._rank()[0]), strict=True)
        return {f"{made.group_name} {kind}": Group(sorted(ranks)) for kind, ranks in groups}

    def _check_folded(self, made: deepspeed.ExpertGroups, spec: object) -> None:
        """Raises RuntimeError where this rank's groups are there and are not those of a folding."""
        rank, _ = self._rank()
        there = self._experts.get(made.group_name, made).of_rank(rank)
        for kind, ranks, wanted in zip(("expert", "expert-data"), there, made.of_rank(rank), strict=True):
            if tuple(ranks) != tuple(wanted):
                text = f"Cached {kind}-parallel group {tuple(ranks)} does not match folding spec {spec}."
                raise original(RuntimeError, text, "exists")

    def _along(self, axis: str) -> Handle | None:
        """This rank's group along an axis of `mesh_device`, None without one."""
        if self.mesh_device is not None:
            return self.mesh_device.get_group(mesh_dim=axis)
        return self._find(f"{axis} of sequences")

    def _zero_ranks(self) -> Group:
        """The ranks of hpZ's group, all ranks before it is made, as torch takes None."""
        made = self._ranks.get("zero_param_intra")
        return Mesh(f"world={self._rank()[1]}").ranks if made is None else made


class Groups(_Made):
    """What groups.py keeps for one rank, under its names.

    Without `rank` and `world_size` they are those of torch.distributed, asked for when the first group is made, and
    the groups are torch's, which all processes make at once. `mpu` is the model parallel unit of a client, which is
    asked first where the original asks it, `mesh_device` a DeviceMesh of data_parallel and sequence_parallel.
    """

    # --- tensor parallelism

    @raises(AssertionError)
    def _init_tp_mesh_device(
        self, tensor_model_parallel_size: int = 1, data_parallel_size: int | None = None
    ) -> tuple[Handle, Handle] | None:
        """Makes the tensor and data parallel groups and returns this rank's, data first; None if they are there."""
        if "tensor_parallel" in self._ranks:
            return None
        self._connect_mesh(
            f"_init_tp_mesh_device({tensor_model_parallel_size=}, {data_parallel_size=})",
            lambda world_size: deepspeed.tensor_mesh(world_size, tensor_model_parallel_size, data_parallel_size),
            {axis: axis for axis in ("data_parallel", "tensor_parallel")},
        )
        return self.get_data_parallel_group(), self.get_tensor_model_parallel_group()

    get_tensor_model_parallel_group = group_named(
        "tensor_parallel", "intra_layer_model parallel group", "The ranks that share this rank's tensors."
    )
    get_model_parallel_group = group_named(
        "tensor_parallel", "model parallel group", "The same ranks: there is no other model parallelism here."
    )
    get_data_parallel_group = group_named(
        "data_parallel", "data parallel group", "The ranks that hold the same tensors."
    )

    def set_tensor_model_parallel_world_size(self, world_size: int | None) -> None:
        """Says another tensor parallel size, None to take it back."""
        self._set_size = world_size

    def set_tensor_model_parallel_rank(self, rank: int | None) -> None:
        """Says another tensor parallel rank, None to take it back."""
        self._set_rank = rank

    def get_tensor_model_parallel_world_size(self) -> int:
        """The number of ranks that share tensors."""
        size = size_of(self.get_tensor_model_parallel_group()) if self._set_size is None else self._set_size
        if size < 1:
            text = f"a size of {size} was given; every size is 1 or more"
            raise original(AssertionError, text, "sizes", "sizes-below-one")
        return size

    def get_tensor_model_parallel_rank(self) -> int:
        """This rank's place among those that share its tensors."""
        if self._set_rank is None:
            return place_in(self.get_tensor_model_parallel_group(), self._rank()[0])
        return self._set_rank

    get_model_parallel_world_size = get_tensor_model_parallel_world_size
    get_model_parallel_rank = get_tensor_model_parallel_rank

    def get_tensor_model_parallel_src_rank(self) -> int:
        """The first rank of the tensor parallel group."""
        size = self.get_tensor_model_parallel_world_size()
        return self._rank()[0] // size * size

    get_data_parallel_world_size = size_in(get_data_parallel_group, "The number of ranks that hold the same tensors.")
    get_data_parallel_rank = rank_in(get_data_parallel_group, "This rank's place among them.")

    @raises(AssertionError)
    def _create_model_parallel(self, model_parallel_size_: int) -> tuple[Handle, Handle]:
        """This rank's data and model parallel groups, which nobody keeps."""
        self._connect_mesh(
            f"_create_model_parallel({model_parallel_size_=})",
            lambda world_size: deepspeed.model_mesh(world_size, model_parallel_size_),
            {"data_parallel": "model_data_parallel", "tensor_parallel": "model_parallel"},
        )
        return self._find("model_data_parallel"), self._find("model_parallel")

    # --- experts

    @raises(AssertionError, exclusive=NotImplementedError)
    def _create_expert_and_data_parallel(
        self,
        expert_parallel_size_: int,
        mp_size: int | None = None,
        pp_size: int | None = None,
        mp_mode: str = "tp",
        use_data_before_expert_parallel_: bool = False,
        folding_spec: object = None,
    ) -> None:
        """Makes the expert and expert-data groups of one expert size, unless they are there.

        With a `folding_spec` of AutoEP and AutoTP they are of consecutive ranks, whatever the tensor lanes are.
        """
        if pp_size is None:
            pp_size = of_mpu(self.mpu, *_PIPELINE) or 1
        _, world_size = self._rank()
        data_first = bool(use_data_before_expert_parallel_)
        folded = folding_spec is not None and (mp_size or 1) > 1

        def make() -> deepspeed.ExpertGroups:
            mode = "sp" if folded else mp_mode
            made = deepspeed.expert_and_data_parallel(
                world_size, expert_parallel_size_, mp_size, pp_size, mode, data_first
            )
            if folded:
                _check_spec(folding_spec, (world_size, pp_size, mp_size, expert_parallel_size_))
                self._check_folded(made, folding_spec)
            return made

        self._connect_experts(
            f"_create_expert_and_data_parallel({expert_parallel_size_=}, {mp_size=}, {pp_size=}, {mp_mode=}, "
            f"use_data_before_expert_parallel_={data_first}{f', {folding_spec=}' if folded else ''})",
            expert_parallel_size_,
            make,
        )

    @raises(AssertionError)
    def _create_expert_data_and_model_parallel(
        self, expert_parallel_size_: int, mpu: Any, use_data_before_expert_parallel_: bool = False
    ) -> None:
        """Makes the expert groups of a client whose `mpu` knows the tensor and pipeline parallel sizes."""
        _, world_size = self._rank()
        tensor, pipeline = of_mpu(mpu, *_TENSOR) or 1, of_mpu(mpu, *_PIPELINE) or 1
        data_first = bool(use_data_before_expert_parallel_)
        if f"ep_size_{expert_parallel_size_}" in self._experts:  # of groups that are there the original checks less
            deepspeed.expert_parallel_ranks(world_size, tensor, 1, 1, False)
            deepspeed.expert_parallel_ranks(self._get_data_parallel_world_size(), 1, expert_parallel_size_, 1, False)
        else:
            self._connect_experts(
                f"_create_expert_data_and_model_parallel({expert_parallel_size_=}, of an mpu with {tensor=}, "
                f"{pipeline=}, use_data_before_expert_parallel_={data_first})",
                expert_parallel_size_,
                lambda: deepspeed.expert_parallel_ranks(
                    world_size, tensor, expert_parallel_size_, pipeline, data_first
                ),
            )
        self.expert_tensor_parallel_world_size = tensor

    def _get_expert_parallel_group(self, group_name: str) -> Handle:
        """The ranks that hold the experts of one model together."""
        return self._group(f"{group_name} expert", "expert parallel group")

    def _get_expert_data_parallel_group(self, group_name: str) -> Handle:
        """The ranks that hold the same experts."""
        return self._group(f"{group_name} expert data", "expert data parallel group")

    def new_groups(self, group_name: str) -> list[list[int]]:
        """All groups of an expert size in the order in which the original makes them."""
        self._get_expert_parallel_group(group_name)
        return self._experts[group_name].new_groups()

    def _get_expert_parallel_group_ranks(self, group_name: str) -> list[int]:
        """The list of the ranks of `_get_expert_parallel_group`."""
        self._get_expert_parallel_group(group_name)
        return self._experts[group_name].of_rank(self._rank()[0])[0][:]

    def _get_expert_data_parallel_group_ranks(self, group_name: str) -> list[int]:
        """The list of the ranks of `_get_expert_data_parallel_group`."""
        self._get_expert_data_parallel_group(group_name)
        return self._experts[group_name].of_rank(self._rank()[0])[1][:]

    _get_expert_parallel_world_size = size_in(_get_expert_parallel_group, "The size of this rank's expert group.")
    _get_expert_parallel_rank = rank_in(_get_expert_parallel_group, "This rank's place in its expert group.")
    _get_expert_data_parallel_world_size = size_in(
        _get_expert_data_parallel_group, "The size of its expert-data group."
    )
    _get_expert_data_parallel_rank = rank_in(_get_expert_data_parallel_group, "Its place in its expert-data group.")

    def _get_expert_parallel_src_rank(self, group_name: str) -> int:
        """rank // size * size; refused for a group whose ranks are not adjacent, which lacks that rank."""
        rank, group = self._rank()[0], self._get_expert_parallel_group_ranks(group_name)
        source = rank - rank % len(group)
        if source not in group:
            text = (
                f"the source of rank {rank} would be {source}, which is not in its expert group; broadcast from the "
                f"group's first rank, {group[0]}"
            )
            raise original(AssertionError, text, "not a member", "source-outside")
        return source

    def _get_expert_broadcast_src_rank(self, group_name: str) -> int:
        """The first rank of the expert-data group."""
        return min(self._get_expert_data_parallel_group_ranks(group_name))

    def _get_expert_parallel_group_dict(self) -> dict[str, Handle]:
        """The expert groups by the name of each expert size."""
        return {name: self._get_expert_parallel_group(name) for name in self._experts}

    def _get_expert_data_parallel_group_dict(self) -> dict[str, Handle]:
        """The expert-data groups by the name of each expert size."""
        return {name: self._get_expert_data_parallel_group(name) for name in self._experts}

    def _get_expert_model_parallel_world_size(self) -> int:
        """How many tensor ranks have their own expert groups, in the groups that were made last with an mpu."""
        return self.expert_tensor_parallel_world_size

    def _get_max_expert_size(self) -> int | None:
        """The largest expert size that was made."""
        return max((int(name.removeprefix("ep_size_")) for name in self._experts), default=None)

    def _get_max_expert_size_name(self) -> str:
        """Its name, as `ep_size_4`."""
        return f"ep_size_{self._get_max_expert_size()}"

    def _get_max_expert_parallel_group(self) -> Handle:
        """This rank's expert group of the largest expert size."""
        return self._get_expert_parallel_group(self._get_max_expert_size_name())

    # --- data and sequence parallelism

    @raises(AssertionError)
    def sequence_parallel_mesh(self, sequence_parallel_size: int) -> Mesh:
        """Says the size of Ulysses' sequence parallelism, as the original's `mesh_device` does: its mesh."""
        return self._connect_mesh(
            f"sequence_parallel_mesh({sequence_parallel_size=})",
            lambda world_size: deepspeed.sequence_mesh(world_size, sequence_parallel_size),
            {axis: f"{axis} of sequences" for axis in ("data_parallel", "sequence_parallel")},
        )

    def _clone_world_group(self) -> Handle:
        """All ranks."""
        if self._is_live():
            import torch.distributed

            return torch.distributed.group.WORLD
        return Mesh(f"world={self._rank()[1]}").ranks

    def _get_data_parallel_group(self) -> Handle | None:
        """The ranks that read different data; None where the mpu has sequence parallelism."""
        if (group := self._along("data_parallel")) is not None:
            return group
        if self.mpu is not None:
            return None if hasattr(self.mpu, "initialize_sequence_parallel") else self.mpu.get_data_parallel_group()
        return self._clone_world_group()

    def _get_data_parallel_group_ranks(self) -> list[int] | Any:
        """The list of these ranks."""
        if (group := self._along("data_parallel")) is None:
            return list(range(self._rank()[1])) if self.mpu is None else self.mpu.get_data_parallel_group_ranks()
        if isinstance(group, Group):
            return list(group)
        import torch.distributed

        return torch.distributed.get_process_group_ranks(group)

    def _get_data_parallel_world_size(self) -> int | Any:
        """The number of ranks that read different data."""
        if (group := self._along("data_parallel")) is not None:
            return size_of(group)
        if self.mpu is not None:
            of_sequences = hasattr(self.mpu, "initialize_sequence_parallel")
            return None if of_sequences else self.mpu.get_data_parallel_world_size()
        return self._rank()[1]

    def _get_data_parallel_rank(self) -> int:
        """This rank's place among those that read different data."""
        rank, _ = self._rank()
        group = self._get_data_parallel_group()
        return rank if group is None else place_in(group, rank)

    def _get_model_parallel_world_size(self) -> int | Any:
        """The mpu's model parallel size, 1 without one."""
        if self.mpu is None or hasattr(self.mpu, "initialize_sequence_parallel"):
            return 1
        return self.mpu.get_model_parallel_world_size()

    def _get_sequence_parallel_group(self) -> Handle:
        """The ranks that share this rank's sequence; KeyError where none do."""
        if hasattr(self.mpu, "get_sequence_parallel_group"):
            return self.mpu.get_sequence_parallel_group()
        if (group := self._along("sequence_parallel")) is None:
            raise original(KeyError, "No sequence parallel group found", "not initialised")
        return group

    def _get_sequence_parallel_world_size(self) -> int | Any:
        """The number of ranks that share a sequence."""
        group = self._along("sequence_parallel")
        if group is None and hasattr(self.mpu, "get_sequence_parallel_world_size"):
            return self.mpu.get_sequence_parallel_world_size()
        return size_of(group)

    def _get_sequence_parallel_rank(self) -> int | Any:
        """This rank's place among them."""
        if hasattr(self.mpu, "get_sequence_parallel_rank"):
            return self.mpu.get_sequence_parallel_rank()
        return place_in(self._along("sequence_parallel"), self._rank()[0])

    def _get_sequence_data_parallel_group(self) -> Handle:
        """The ranks among which ZeRO shards."""
        if hasattr(self.mpu, "get_sequence_data_parallel_group"):
            return self.mpu.get_sequence_data_parallel_group()
        return self._get_data_parallel_group()

    def _get_sequence_data_parallel_world_size(self) -> int | Any:
        """The number of ranks among which ZeRO shards."""
        if hasattr(self.mpu, "get_sequence_data_parallel_world_size"):
            return self.mpu.get_sequence_data_parallel_world_size()
        return self._get_data_parallel_world_size()

    def _get_sequence_data_parallel_rank(self) -> int | Any:
        """This rank's place among them."""
        if hasattr(self.mpu, "get_sequence_data_parallel_rank"):
            return self.mpu.get_sequence_data_parallel_rank()
        return self._get_data_parallel_rank()

    def _get_broadcast_src_rank(self) -> int:
        """The first rank of the sequence-data parallel group."""
        group = self._get_sequence_data_parallel_group()
        if isinstance(group, Group):
            return group[0]
        import torch.distributed

        return int(torch.distributed.get_global_rank(group, 0))

    # --- ZeRO++ and all-to-all

    @raises(AssertionError)
    def _create_zero_param_parallel_group(self, group_size: int) -> None:
        """Makes the groups of hpZ's second partition, of at most the world's size."""
        if self._get_zero_param_intra_parallel_group() is not None:
            raise original(AssertionError, "ZeRO parameter intra parallel group is already initialized", "exists")
        self._connect_mesh(
            f"_create_zero_param_parallel_group({group_size=})",
            lambda world_size: deepspeed.zero_mesh(world_size, group_size),
            {"zero_param_intra": "zero_param_intra"},
        )

    def _get_zero_param_intra_parallel_group(self) -> Handle | None:
        """The ranks that hold all parameters together; None before they are made."""
        return self._find("zero_param_intra")

    def _zero_param_parallel_is_initialized(self) -> bool | None:
        """False before any group is made, then None: the original never says True."""
        return None if {"zero_param_intra", "tensor_parallel"} & self._ranks.keys() else False

    def _get_zero_param_intra_parallel_group_ranks(self) -> list[int]:
        """The list of the ranks that hold all parameters together; all ranks before they are made."""
        return self._zero_ranks()[:]

    def _get_zero_param_intra_parallel_group_world_size(self) -> int:
        """The number of these ranks."""
        return len(self._zero_ranks())

    def _get_zero_param_intra_parallel_rank_in_mygroup(self) -> int:
        """This rank's place among them."""
        return self._zero_ranks().index(self._rank()[0])

    @raises(AssertionError)
    def _get_local_all_to_all_group(self, *, device_per_node: int | None = None) -> dict[str, Handle]:
        """All groups of quantized gradients by name: `local_<node>` and, with several nodes, `global_<device>`.

        In torch.distributed those without this rank are `GroupMember.NON_GROUP_MEMBER`, as the original's.
        """
        if device_per_node is None:
            device_per_node = _devices() if self._is_live() else 0
        if not device_per_node:
            raise UsageError("give device_per_node=, the number of devices of a node, which the original counts")
        if self._all_to_all is not None and self._all_to_all[0] == device_per_node:
            return self._all_to_all[1]
        rank, world_size = self._rank()
        groups: dict[str, Handle] = self._connect(
            f"_get_local_all_to_all_group() of {device_per_node} devices a node",
            lambda: _all_to_all(deepspeed.all_to_all_mesh(world_size, device_per_node)),
            lambda groups: {name: group for name, group in groups.items() if rank in group},
        )
        if self._is_live():
            import torch.distributed

            outside = torch.distributed.GroupMember.NON_GROUP_MEMBER
            groups = {name: self._find(name) if rank in group else outside for name, group in groups.items()}
        self._all_to_all = device_per_node, groups
        return groups


def _devices() -> int:
    """How many devices this host has, 0 without any."""
    import torch

    return torch.accelerator.device_count() if torch.accelerator.is_available() else 0


def _all_to_all(mesh: Mesh) -> dict[str, Group]:
    """The groups of each node and, with several nodes, of each device's ranks by name."""
    axes = ("local", "global") if mesh.size_of("global") > 1 else ("local",)
    return {f"{axis}_{i}": group for axis in axes for i, group in enumerate(mesh.partition(axis))}


def _check_spec(spec: Any, sizes: tuple[int | None, ...]) -> None:
    """Raises UsageError for a folding of other sizes than those of the call."""
    said = (spec.world_size, spec.pp_size, spec.tp_size, spec.ep_size)
    if said != sizes:
        raise UsageError(
            f"the folding_spec has world_size, pp_size, tp_size and ep_size {said}, where the call has {sizes}; "
            "build the spec with build_folding_spec of the sizes of the call"
        )


def initialize(ep_size: int = 1, mpu: Any = None) -> NoReturn:
    """Only raises: the original gave it up."""
    raise original(
        DeprecatedException,
        "Please do not use the groups.initialize() API as it is deprecated. "
        "Instead, pass the desired ep_size to deepspeed.moe.layer.MoE(..,ep_size,..)",
    )


@raises(AssertionError)
def _get_expert_parallel_ranks(
    world_size: int,
    tensor_parallel_size_: int,
    expert_parallel_size_: int,
    pipeline_parallel_size_: int = 1,
    use_data_before_expert_parallel_: bool = False,
) -> tuple[list[list[int]], list[list[int]]]:
    """All expert groups and all expert-data groups of a world."""
    data_first = bool(use_data_before_expert_parallel_)
    made = deepspeed.expert_parallel_ranks(
        world_size, tensor_parallel_size_, expert_parallel_size_, pipeline_parallel_size_, data_first
    )
    return made.expert_parallel(), made.expert_data_parallel()
