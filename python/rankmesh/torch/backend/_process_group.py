"""A process group of torch.distributed on a communicator of rankmesh."""

# mypy: disable-error-code="override,assignment"
# torch declares several signatures for each collective, and no Work | None, which its own callers accept.

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    Backend,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
    Store,
    Work,
)

from rankmesh._engine import Communicator, Pending
from rankmesh._errors import UsageError
from rankmesh.torch.backend._engine import Engine
from rankmesh.torch.backend._memory import After, joined, memory, place_for
from rankmesh.torch.backend._work import UNSET, Started, Turn

REDUCTIONS = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "mean",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.BAND: "bit_and",
    dist.ReduceOp.BOR: "bit_or",
    dist.ReduceOp.BXOR: "bit_xor",
}

Tensors = Sequence[torch.Tensor]
_Call = tuple[str, tuple[Any, ...]]


class ProcessGroup(dist.ProcessGroup):
    """The process group of the backend `rankmesh`: CPU tensors are moved by a communicator.

    Tensors of another device are moved by the backend that `init_process_group` was given for it, as in
    `cpu:rankmesh,cuda:nccl`.
    """

    def __init__(self, options: Any, engine: Engine, on: Communicator, *, owns_engine: bool) -> None:
        """`options` are c10d's DistributedBackendOptions: store, rank, size and timeout of the group."""
        super().__init__(options.group_rank, options.group_size)  # type: ignore[call-arg]
        self.engine, self._owns_engine = engine, owns_engine
        self._on: Communicator | None = on
        self._store: Store | None = options.store
        self._timeout: datetime.timedelta = options.timeout
        self._within: dict[datetime.timedelta, Communicator] = {}
        self._turn = Turn()
        self._dropped: list[Started] = []
        self._others: dict[str, dist.ProcessGroup] = {}
        self._name = self._description = ""

    # --- collectives

    def allreduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """Reduces a tensor in place on every rank."""
        opts = _with_operation(opts, AllreduceOptions)
        return self._in_place(tensors, opts, "all_reduce", None, _reduction(opts))

    def allreduce_coalesced(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """Reduces several tensors in place on every rank."""
        return self.allreduce(tensors, _with_operation(opts, AllreduceCoalescedOptions))

    def reduce(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """Reduces a tensor in place on the root."""
        opts = opts or ReduceOptions()
        return self._in_place(tensors, opts, "reduce", None, _reduction(opts), opts.rootRank)

    def broadcast(self, tensors: Tensors, opts: Any = None) -> Work | None:
        """Copies the root's tensor to every rank."""
        opts = opts or BroadcastOptions()
        return self._in_place(tensors, opts, "broadcast", opts.rootRank)

    def allgather(self, output_tensors: Sequence[Tensors], input_tensors: Tensors, opts: Any = None) -> Work | None:
        """Copies every rank's tensor into a list on every rank."""
        return self.all_gather_lists(output_tensors, input_tensors, opts)

    def allgather_coalesced(
        self, output_lists: Sequence[Tensors], input_list: Tensors, opts: Any = None
    ) -> Work | None:
        """all_gather of several tensors: `output_lists[rank]` gets that rank's list."""
        return self.all_gather_lists(list(zip(*output_lists, strict=True)), input_list, opts)

    def all_gather_lists(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> Work | None:
        """Copies every rank's `inputs[i]` into the list `outputs[i]` on every rank."""
        copies: list[After] = []
        calls = [
            ("all_gather", (memory(given), place_for(into, copies)))
            for given, into in zip(inputs, outputs, strict=True)
        ]
        return self._run(opts or AllgatherOptions(), calls, [each for into in outputs for each in into], copies)

    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        """Concatenates every rank's tensor on every rank."""
        return self.all_gather_single_coalesced([output], [input], opts)

    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        """all_gather_single of several tensors."""
        copies: list[After] = []
        calls = [
            ("all_gather", (memory(given), memory(into, copies))) for into, given in zip(outputs, inputs, strict=True)
        ]
        return self._run(opts or AllgatherOptions(), calls, outputs, copies)

    def gather(self, output_tensors: Sequence[Tensors], input_tensors: Tensors, opts: Any = None) -> Work | None:
        """Copies every rank's tensor into a list on the root."""
        opts, copies = opts or GatherOptions(), list[After]()
        outputs = output_tensors[0] if output_tensors else []
        into = place_for(outputs, copies) if outputs else None
        calls = [("gather", (memory(input_tensors[0]), into, opts.rootRank))]
        return self._run(opts, calls, outputs, copies)

    def scatter(self, output_tensors: Tensors, input_tensors: Sequence[Tensors], opts: Any = None) -> Work | None:
        """Copies each tensor of the root's list to its rank."""
        opts, copies = opts or ScatterOptions(), list[After]()
        given = joined(input_tensors[0]) if input_tensors and input_tensors[0] else None
        calls = [("scatter", (given, memory(output_tensors[0], copies), opts.rootRank))]
        return self._run(opts, calls, output_tensors, copies)

    def reduce_scatter(
        self, output_tensors: Tensors, input_tensors: Sequence[Tensors], opts: Any = None
    ) -> Work | None:
        """Reduces lists of tensors; each rank gets its part."""
        return self.reduce_scatter_single_coalesced(output_tensors, [joined(each) for each in input_tensors], opts)

    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any = None) -> Work | None:
        """Reduces a tensor; each rank gets its part."""
        return self.reduce_scatter_single_coalesced([output], [input], opts)

    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any = None) -> Work | None:
        """reduce_scatter_single of several tensors."""
        opts, copies = opts or ReduceScatterOptions(), list[After]()
        calls = [
            ("reduce_scatter", (memory(given), memory(into, copies), _reduction(opts)))
            for into, given in zip(outputs, inputs, strict=True)
        ]
        return self._run(opts, calls, outputs, copies)

    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Sequence[int] | None = None,
        input_split_sizes: Sequence[int] | None = None,
        opts: Any = None,
    ) -> Work | None:
        """Sends part i of the input to rank i; the split sizes count rows."""
        copies: list[After] = []
        given, into = memory(input), memory(output, copies)
        if not output_split_sizes and not input_split_sizes:
            calls: list[_Call] = [("all_to_all", (given, into))]
        else:
            sizes = (
                _row_counts(input, input_split_sizes, self.size()),
                _row_counts(output, output_split_sizes, self.size()),
            )
            calls = [("all_to_all_v", (given, sizes[0], into, sizes[1]))]
        return self._run(opts or AllToAllOptions(), calls, [output], copies)

    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any = None) -> Work | None:
        """Sends tensor i of the input to rank i."""
        copies: list[After] = []
        given, into = joined(input_tensors), place_for(output_tensors, copies)
        counts = [[each.numel() for each in tensors] for tensors in (input_tensors, output_tensors)]
        calls = [("all_to_all_v", (given, counts[0], into, counts[1]))]
        return self._run(opts or AllToAllOptions(), calls, output_tensors, copies)

    def barrier(self, opts: Any = None) -> Work | None:
        """Returns when every rank has called it."""
        return self._run(opts or BarrierOptions(), [("barrier", ())], [], [])

    # The old names, which torch still calls.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # --- messages

    def send(self, tensors: Tensors, dst: int, tag: int) -> Work:
        """Starts to send a tensor to a rank of the group."""
        return self._message("send", tensors, dst, tag, [])

    def recv(self, tensors: Tensors, src: int, tag: int) -> Work:
        """Starts to receive a tensor from a rank of the group."""
        copies: list[After] = []
        return self._message("recv", tensors, src, tag, copies)

    def recv_anysource(self, tensors: Tensors, tag: int) -> Work:
        """Raises: a receive needs a source."""
        raise UsageError(
            "the backend 'rankmesh' was asked to receive from any rank, which it does not support; pass src="
        )

    # --- the state of the group

    def getBackendName(self) -> str:  # noqa: N802 (torch's name)
        """Returns 'rankmesh'."""
        return "rankmesh"

    @property
    def options(self) -> Backend.Options:
        """The timeout, as torch asks backends for it."""
        return Backend.Options("rankmesh", self._timeout)

    # torch keeps the name and the description in the backends of a group, and this group is its own backend.

    def getGroupName(self) -> str:  # noqa: N802 (torch's name)
        """Returns the name that torch knows the group by."""
        return self._name

    def setGroupName(self, name: str) -> None:  # noqa: N802 (torch's name)
        """Sets the name that torch knows the group by."""
        self._name = name

    def getGroupDesc(self) -> str:  # noqa: N802 (torch's name)
        """Returns the description of the group."""
        return self._description

    def setGroupDesc(self, description: str) -> None:  # noqa: N802 (torch's name)
        """Sets the description of the group."""
        self._description = description

    group_name = property(getGroupName)
    group_desc = property(getGroupDesc)
    _set_group_name, _set_group_desc = setGroupName, setGroupDesc

    @property
    def _device_types(self) -> list[torch.device]:
        return [torch.device("cpu"), *map(torch.device, self._others)]

    def _get_backend(self, device: torch.device) -> Any:
        """Returns what torch asks about the backend of a device: this group for the CPU."""
        if device.type == "cpu":
            return self
        if device.type in self._others:
            return self._others[device.type]._get_backend(device)
        raise RuntimeError(f"No backend type associated with device type {device.type}")  # torch's text

    supports_splitting = supports_coalescing = supports_time_estimate = supports_shrinking = False

    def supports_tensor_alloc(self, device: torch.device) -> bool:
        """Returns False: tensors are allocated by torch."""
        return False

    def get_group_store(self) -> Store:
        """Returns torch's store of this group."""
        self._communicator()
        assert self._store is not None
        return self._store

    def _set_default_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout = timeout
        self._on = self._communicator().within(timeout)

    set_timeout = _set_default_timeout

    def shutdown(self) -> None:
        """Ends the group after its started operations; called by destroy_process_group."""
        self._end()

    def abort(self) -> None:
        """Ends the group now."""
        self._end()

    def _end(self) -> None:
        for other in self._others.values():
            other.shutdown()
        on, self._on = self._on, None
        self._store = None  # which rank 0 may serve until then
        self._within.clear()
        self._dropped.clear()
        if on is not None and self._owns_engine:
            self.engine.close()

    # --- internals

    def _communicator(self) -> Communicator:
        if self._on is None:
            raise UsageError("this process group was destroyed; its calls are over")
        return self._on

    def _in_place(self, tensors: Tensors, opts: Any, name: str, *arguments: object) -> Work | None:
        copies: list[After] = []
        calls = [(name, (memory(each, copies), *arguments)) for each in tensors]
        return self._run(opts, calls, tensors, copies)

    def _run(self, opts: Any, calls: Sequence[_Call], result: Tensors, copies: list[After]) -> Work | None:
        """Runs or starts calls of the communicator, as the options say; None if it has run them."""
        with self._turn:
            on = self._with_timeout(opts.timeout)
            if not opts.asyncOp and not self._turn.shared:
                for name, arguments in calls:
                    getattr(on, name)(*arguments)
                for copy in copies:
                    copy()
                return None
            pending: list[Pending[Any]] = [getattr(on, "start_" + name)(*arguments) for name, arguments in calls]
        return Started(self._turn, pending, list(result), copies)

    def _message(self, name: str, tensors: Tensors, peer: int, tag: int, copies: list[After]) -> Work:
        if len(tensors) != 1:
            raise UsageError(f"{name} was given {len(tensors)} tensors; a message is one")
        buffer = memory(tensors[0], copies)
        with self._turn:
            pending = getattr(self._communicator(), "start_" + name)(buffer, peer, tag)
        return Started(self._turn, [pending], list(tensors), copies, peer if name == "recv" else -1)

    def _with_timeout(self, timeout: datetime.timedelta) -> Communicator:
        on = self._communicator()
        if timeout == UNSET or timeout == self._timeout:
            return on
        if timeout not in self._within:
            self._within[timeout] = on.within(timeout)
        return self._within[timeout]


def _with_operation(opts: Any, kind: type) -> Any:
    """The options of a reduction, of which some callers pass the operation alone."""
    if opts is None:
        return kind()
    if isinstance(opts, dist.ReduceOp | dist.ReduceOp.RedOpType):
        made = kind()
        made.reduceOp = opts
        return made
    return opts


def _reduction(opts: Any) -> str:
    name = REDUCTIONS.get(opts.reduceOp.op if hasattr(opts.reduceOp, "op") else opts.reduceOp)
    if name is None:
        raise UsageError(
            f"the backend 'rankmesh' was asked to reduce by {opts.reduceOp}; it has {', '.join(REDUCTIONS.values())}"
        )
    return name


def _row_counts(tensor: torch.Tensor, splits: Sequence[int] | None, size: int) -> list[int]:
    """The number of elements of each rank's rows of a tensor."""
    rows = tensor.shape[0] if tensor.dim() else 1
    width = tensor.numel() // rows if rows else 0
    if not splits:
        if rows % size:
            raise UsageError(f"all_to_all_single was given {rows} rows for {size} ranks; pass the split sizes")
        splits = [rows // size] * size
    return [rows * width for rows in splits]
