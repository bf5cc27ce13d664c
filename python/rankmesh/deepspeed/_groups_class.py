"""DeepSpeed's utils/groups.py: which ranks share tensors, experts, sequences and ZeRO's partitions.

The functions ask `current`, the Groups of this process, whose groups are torch's where torch.distributed is
initialised. A Groups of its own answers for any rank, without a process:

>>> of_rank = Groups(rank=5, world_size=8)
>>> of_rank._create_expert_and_data_parallel(4)
>>> of_rank._get_expert_parallel_group_ranks("ep_size_4")
[4, 5, 6, 7]
"""

# The rows of src/frameworks/deepspeed_groups say which groups there are. Here is the client's mpu, an object.
from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias

from rankmesh import Group, Mesh
from rankmesh._deepspeed_groups import Answers
from rankmesh._errors import UsageError
from rankmesh._frameworks import rows as _rows
from rankmesh._originals import original, raises
from rankmesh._rows import Current
from rankmesh._world import of_torch, world_of

if TYPE_CHECKING:
    from rankmesh.torch._named import Named, NamedGroups

__all__ = ["DeprecatedException", "_get_expert_parallel_ranks", "initialize"]

Handle: TypeAlias = Any
"""A group of this rank: torch's, or a rankmesh.Group without a process."""

_TENSOR = ("get_tensor_model_parallel_world_size", "get_slice_parallel_world_size", "get_model_parallel_world_size")
_PIPELINE = ("get_pipeline_model_parallel_world_size", "get_pipe_parallel_world_size")
"""What a client's mpu is asked for its sizes: the first that it has."""


def of_mpu(mpu: Any, *names: str) -> int | None:
    """Calls the first of these methods that a client's mpu has and returns its result; None if it has none."""
    return next((int(getattr(mpu, name)()) for name in names if hasattr(mpu, name)), None)


def size_of(group: Handle) -> int:
    """Returns the number of ranks of a group; 1 without a group."""
    if group is None:
        return 1
    return len(group) if isinstance(group, Group) else int(group.size())


def place_in(group: Handle, rank: int) -> int:
    """Returns this rank's group rank; 0 without a group."""
    if group is None:
        return 0
    return group.index(rank) if isinstance(group, Group) else int(group.rank())


class _Live(dict[str, "NamedGroups"]):
    """Torch's group of each kind; the kinds are made one after the other."""

    def __getitem__(self, kind: str) -> Any:
        return super().__getitem__(kind)[kind]

    def destroy(self) -> None:
        for live in set(self.values()):
            live.destroy()


class Made(Current):
    """The groups of one rank that the accessors of the rows make one after the other."""

    def __init__(self, *, rank: int | None = None, world_size: int | None = None) -> None:
        super().__init__("deepspeed_groups")
        self._given = rank, world_size
        self.destroy()

    def _rank(self) -> tuple[int, int]:
        return world_of("deepspeed.groups", *self._given)

    def _known(self) -> None:
        """Makes the state that of a rank of the world."""
        state, world = self._state, self._rank()
        if state.is_initialized() and not state.groups.kinds() and (state.rank, state.groups.world_size) != world:
            state.destroy()  # a question entered it in another world
        if not state.is_initialized():
            state.enter(*world)
        if self._live is None and self._given == (None, None) and of_torch() is not None:
            self._live = _Live()

    def _kinds(self) -> list[str]:
        """The kinds of the groups that are there."""
        return self._state.groups.kinds() if self._state.is_initialized() else []

    def _make(self, accessor: str, check: Callable[[], None] | None = None, **options: Any) -> None:
        """Makes the groups of an accessor; of expert groups that are there only its refusals are left."""
        self._known()
        before, there = self._state, f"ep_size_{options.get('expert_parallel_size_')}_expert" in self._kinds()
        self._state = before.copy()

        def make() -> list[str]:
            kinds: list[str] = self._raising(lambda: self._state.set(accessor, options))
            if check:
                check()
            return kinds

        try:
            if self._live is None or there:
                make()
            else:
                said = ", ".join(f"{name}={value!r}" for name, value in options.items())
                self._live = self._torch_groups(f"deepspeed: {accessor}({said})", make)
        except BaseException:
            self._state = before
            raise

    def _of_torch(self, said: str, wanted: list[Named]) -> _Live:
        live = super()._of_torch(said, wanted)
        return _Live(self._live | dict.fromkeys((each.name for each in wanted), live))

    def _ask(self, accessor: str, **options: Any) -> Any:
        if self.accessors[accessor]["adds"]:
            return self._make(accessor, **options)
        with contextlib.suppress(UsageError):  # of no world: the original's error follows
            self._known()
        return self.ask(accessor, **options)

    def _find(self, kind: str) -> Handle | None:
        """This rank's group of a kind; None where there are none."""
        return self.group(kind) if kind in self._kinds() else None


class DeprecatedException(Exception):
    """What the original raises for a call that is no longer there."""


class _Client(Made):
    """What a client sets, and what it is asked."""

    mpu: Any
    mesh_device: Any
    expert_tensor_parallel_world_size: int
    """How many tensor ranks have their own expert groups, in the groups that were made last with an mpu."""

    def destroy(self) -> None:
        """Forgets every group, as in a process that starts; torch's are ended."""
        super().destroy()
        self.mpu = self.mesh_device = None
        self.expert_tensor_parallel_world_size = 1
        self._all_to_all: tuple[int, dict[str, Handle]] | None = None

    def _check_folded(self, options: dict[str, Any], spec: Any) -> None:
        """Raises RuntimeError where this rank's groups are not those that the options of a folding make."""
        rank, world = self._rank()
        state = _rows.State(_rows.Groups("deepspeed_groups", {}, world), rank)
        for kind in state.set("_create_expert_and_data_parallel", options):
            if (ranks := self._state.groups.of(kind, rank)) != state.groups.of(kind, rank):
                what = "expert-data" if kind.endswith("_data") else "expert"
                text = f"Cached {what}-parallel group {tuple(ranks or ())} does not match folding spec {spec}."
                raise original(RuntimeError, text, "exists")

    def _of_sizes(self, end: str) -> dict[str, Handle]:
        """This rank's groups of every expert size, by the name of the size."""
        return {kind.removesuffix(end): self._find(kind) for kind in self._kinds() if kind.endswith(end)}

    def _along(self, axis: str) -> Handle | None:
        """This rank's group along an axis of `mesh_device`, None without one."""
        if self.mesh_device is not None:
            return self.mesh_device.get_group(mesh_dim=axis)
        return self._find("sequence_data_parallel" if axis == "data_parallel" else axis)

    def _sequence_group(self) -> Handle:
        if (group := self._along("sequence_parallel")) is None:
            raise original(KeyError, "No sequence parallel group found", "not initialised")
        return group


def _of_client(name: str, otherwise: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Makes a method that asks the client's mpu, if it has a method of this name."""

    def ask(self: Groups) -> Any:
        return getattr(self.mpu, name)() if hasattr(self.mpu, name) else otherwise(self)

    ask.__doc__ = getattr(Answers, f"_{name}").__doc__
    return ask


class Groups(_Client, Answers):
    """What groups.py keeps for one rank, under its names.

    Without `rank` and `world_size` they are those of torch.distributed, asked for when the first group is made, and
    the groups are torch's, which all processes make at once. `mpu` is the model parallel unit of a client, which is
    asked first where the original asks it, `mesh_device` a DeviceMesh of data_parallel and sequence_parallel.
    """

    initialize_sequence_parallel = None  # type: ignore[assignment]  # of parallel_state_sp

    def _init_tp_mesh_device(  # type: ignore[override]
        self, tensor_model_parallel_size: int = 1, data_parallel_size: int | None = None
    ) -> tuple[Handle, Handle] | None:
        """Makes the tensor and data parallel groups and returns this rank's, data first; None if they are there."""
        if "tensor_parallel" in self._kinds():
            return None
        super()._init_tp_mesh_device(tensor_model_parallel_size, data_parallel_size)
        return self.get_data_parallel_group(), self.get_tensor_model_parallel_group()

    def _create_model_parallel(  # type: ignore[override]
        self, model_parallel_size_: int
    ) -> tuple[Handle, Handle]:
        """This rank's data and model parallel groups, which nobody keeps."""
        super()._create_model_parallel(model_parallel_size_)
        return self._find("model_data_parallel"), self._find("model_parallel")

    def _create_expert_and_data_parallel(
        self,
        expert_parallel_size_: int,
        mp_size: int | None = None,
        pp_size: int | None = None,
        mp_mode: str = "tp",
        use_data_before_expert_parallel_: bool = False,
        folding_spec: Any = None,
    ) -> None:
        """Makes the expert and expert-data groups of one expert size, unless they are there.

        With a `folding_spec` of AutoEP and AutoTP they are of consecutive ranks, whatever the tensor lanes are.
        """
        stages = (of_mpu(self.mpu, *_PIPELINE) or 1) if pp_size is None else pp_size
        folded = folding_spec is not None and (mp_size or 1) > 1
        options = {
            "expert_parallel_size_": expert_parallel_size_,
            "mp_size": mp_size,
            "pp_size": stages,
            "mp_mode": "sp" if folded else mp_mode,
            "use_data_before_expert_parallel_": bool(use_data_before_expert_parallel_),
        }

        def check() -> None:
            spec, sizes = folding_spec, (self._rank()[1], stages, mp_size, expert_parallel_size_)
            if (said := (spec.world_size, spec.pp_size, spec.tp_size, spec.ep_size)) != sizes:
                raise UsageError(
                    f"the folding_spec has world_size, pp_size, tp_size and ep_size {said}, where the call has {sizes}"
                    "; build the spec with build_folding_spec of the sizes of the call"
                )
            self._check_folded(options, spec)

        self._make("_create_expert_and_data_parallel", check if folded else None, **options)

    def _create_expert_data_and_model_parallel(  # type: ignore[override]
        self, expert_parallel_size_: int, mpu: Any, use_data_before_expert_parallel_: bool = False
    ) -> None:
        """Makes the expert groups of a client whose `mpu` knows the tensor and pipeline parallel sizes."""
        there = f"ep_size_{expert_parallel_size_}_expert" in self._kinds()
        super()._create_expert_data_and_model_parallel(
            expert_parallel_size_,
            of_mpu(mpu, *_TENSOR) or 1,
            of_mpu(mpu, *_PIPELINE) or 1,
            bool(use_data_before_expert_parallel_),
            self._get_data_parallel_world_size() if there else None,
        )
        self.expert_tensor_parallel_world_size = super()._get_expert_model_parallel_world_size()

    def _get_expert_model_parallel_world_size(self) -> int:
        return self.expert_tensor_parallel_world_size

    def _get_expert_parallel_group_dict(self) -> dict[str, Handle]:
        """The expert groups by the name of each expert size."""
        return self._of_sizes("_expert")

    def _get_expert_data_parallel_group_dict(self) -> dict[str, Handle]:
        """The expert-data groups by the name of each expert size."""
        return self._of_sizes("_expert_data")

    # --- data and sequence parallelism: mesh_device and the client's mpu come first, in the original's order

    def sequence_parallel_mesh(self, sequence_parallel_size: int) -> Mesh:  # type: ignore[override]
        """Says the size of Ulysses' sequence parallelism, as the original's `mesh_device` does: its mesh."""
        super().sequence_parallel_mesh(sequence_parallel_size)
        data = self._rank()[1] // sequence_parallel_size
        return Mesh(f"data_parallel={data} sequence_parallel={sequence_parallel_size}")

    def _get_data_parallel_group(self) -> Handle | None:
        """The ranks that read different data; None where the mpu has sequence parallelism."""
        if (group := self._along("data_parallel")) is not None:
            return group
        if self.mpu is None:
            return self._ask("_clone_world_group")
        return None if hasattr(self.mpu, "initialize_sequence_parallel") else self.mpu.get_data_parallel_group()

    def _get_data_parallel_group_ranks(self) -> list[int] | Any:
        if self._along("data_parallel") is None and self.mpu is not None:
            return self.mpu.get_data_parallel_group_ranks()
        group = self._get_data_parallel_group()
        return list(group) if isinstance(group, Group) else _torch().get_process_group_ranks(group)

    def _get_data_parallel_world_size(self) -> int | Any:
        if (group := self._along("data_parallel")) is not None:
            return size_of(group)
        if self.mpu is None:
            return self._rank()[1]
        return None if hasattr(self.mpu, "initialize_sequence_parallel") else self.mpu.get_data_parallel_world_size()

    def _get_data_parallel_rank(self) -> int:
        rank, _ = self._rank()
        group = self._get_data_parallel_group()
        return rank if group is None else place_in(group, rank)

    def _get_model_parallel_world_size(self) -> int | Any:
        """The mpu's model parallel size, 1 without one."""
        of_sequences = self.mpu is None or hasattr(self.mpu, "initialize_sequence_parallel")
        return 1 if of_sequences else self.mpu.get_model_parallel_world_size()

    def _get_sequence_parallel_world_size(self) -> int | Any:
        group = self._along("sequence_parallel")
        if group is None and hasattr(self.mpu, "get_sequence_parallel_world_size"):
            return self.mpu.get_sequence_parallel_world_size()
        return size_of(group)

    _get_sequence_parallel_group = _of_client("get_sequence_parallel_group", _Client._sequence_group)
    _get_sequence_parallel_rank = _of_client(
        "get_sequence_parallel_rank", lambda self: place_in(self._along("sequence_parallel"), self._rank()[0])
    )
    _get_sequence_data_parallel_group = _of_client("get_sequence_data_parallel_group", _get_data_parallel_group)
    _get_sequence_data_parallel_world_size = _of_client(
        "get_sequence_data_parallel_world_size", _get_data_parallel_world_size
    )
    _get_sequence_data_parallel_rank = _of_client("get_sequence_data_parallel_rank", _get_data_parallel_rank)

    def _get_broadcast_src_rank(self) -> int:
        group = self._get_sequence_data_parallel_group()
        return group[0] if isinstance(group, Group) else int(_torch().get_global_rank(group, 0))

    def _get_local_all_to_all_group(  # type: ignore[override]
        self, *, device_per_node: int | None = None
    ) -> dict[str, Handle]:
        """All groups of quantized gradients by name: `local_<node>` and, with several nodes, `global_<device>`.

        In torch.distributed those without this rank are `GroupMember.NON_GROUP_MEMBER`, as the original's.
        """
        self._known()
        live = self._live is not None
        if device_per_node is None and live:
            import torch

            device_per_node = torch.accelerator.device_count() if torch.accelerator.is_available() else 0
        if not device_per_node:
            raise UsageError("give device_per_node=, the number of devices of a node, which the original counts")
        if self._all_to_all is None or self._all_to_all[0] != device_per_node:
            super()._get_local_all_to_all_group(device_per_node)
            groups = self._state.groups
            outside = _torch().GroupMember.NON_GROUP_MEMBER if live else None
            named = {
                f"{kind}_{i}": (self._find(kind) if self._rank()[0] in ranks else outside) if live else Group(ranks)
                for kind in ("local", "global")
                if kind in groups.kinds()
                for i, ranks in enumerate(groups.partition(kind))
            }
            self._all_to_all = device_per_node, named
        return self._all_to_all[1]


def _torch() -> Any:
    import torch.distributed

    return torch.distributed


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
    sizes = {
        "expert_parallel_size_": expert_parallel_size_,
        "tensor_parallel_size_": tensor_parallel_size_,
        "pipeline_parallel_size_": pipeline_parallel_size_,
        "use_data_before_expert_parallel_": bool(use_data_before_expert_parallel_),
    }
    state = _rows.State(_rows.Groups("deepspeed_groups", {}, world_size), 0)
    expert, data = state.set("_create_expert_data_and_model_parallel", sizes)
    return state.groups.partition(expert), state.groups.partition(data)
