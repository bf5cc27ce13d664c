"""A process group of torch.distributed on a communicator of rankmesh."""

# mypy: disable-error-code="override,assignment"
# torch declares several signatures for each collective, and no Work | None, which its own callers accept.

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from rankmesh._engine import Pending
from rankmesh.torch._compat import AllgatherOptions, eager
from rankmesh.torch._errors import UsageError
from rankmesh.torch.backend._base import Base, Call, method
from rankmesh.torch.backend._forms import (
    After,
    Sparse,
    Tensors,
    apart,
    called,
    joined,
    memory,
    one_each,
    only,
    place_for,
    reduced,
    reduction_of,
    row_counts,
    several,
    tensors_of,
    whole,
)
from rankmesh.torch.backend._kernels import dispatch, is_watched
from rankmesh.torch.backend._work import ANY_SOURCE, LEAST_TIMEOUT, UNSET, Started, seconds_of

_Call = tuple[str, tuple[Any, ...]]


@eager
class ProcessGroup(Base):
    """The process group of `rankmesh`, whose CPU tensors a communicator moves. The backend that torch was given for
    another device moves that device's tensors, and is made at their first call."""

    def call(self, direct: Call, arguments: tuple[Any, ...], options: dict[str, Any]) -> dist.Work | None:
        """Carries out a call where its tensors are; through torch's dispatcher if something watches it there."""
        tensors = tensors_of(arguments)
        if tensors and tensors[0].device.type not in ("cpu", "meta"):
            elsewhere = method(self.inner(tensors[0].device), direct.__name__)
            return elsewhere(*arguments, **options)  # type: ignore[no-any-return]
        if is_watched(tensors):
            return dispatch(self, direct.__name__, arguments, options)
        return direct(self, *arguments, **options)  # type: ignore[no-any-return]

    # --- collectives

    @called(c10d.AllreduceOptions)
    def allreduce(self, tensors: Any, opts: Any) -> dist.Work | None:
        tensor = only(tensors, "allreduce")
        if tensor.is_sparse:
            return self._sparse(tensor, opts)
        return self._all_reduce([tensor], opts)

    @called(c10d.AllreduceCoalescedOptions)
    def allreduce_coalesced(self, tensors: Tensors, opts: Any) -> dist.Work | None:
        return self._all_reduce(several(tensors, "allreduce_coalesced"), opts)

    def _all_reduce(self, tensors: Tensors, opts: Any) -> dist.Work | None:
        copies, by = list[After](), reduction_of(opts)
        if len({each.dtype for each in tensors}) == 1:
            flat = [tensors[0] if len(tensors) == 1 else joined(tensors, copies)]
        else:
            flat = list(tensors)
        calls: list[_Call] = [("all_reduce", (reduced(each, copies), None, by)) for each in flat]
        return self._run(opts, calls, tensors, copies)

    @called(c10d.ReduceOptions)
    def reduce(self, tensors: Any, opts: Any) -> dist.Work | None:
        copies, tensor = list[After](), only(tensors, "reduce")
        calls = [("reduce", (reduced(tensor, copies), None, reduction_of(opts), opts.rootRank))]
        return self._run(opts, calls, [tensor], copies)

    @called(c10d.BroadcastOptions)
    def broadcast(self, tensors: Any, opts: Any) -> dist.Work | None:
        copies, tensor = list[After](), only(tensors, "broadcast")
        return self._run(opts, [("broadcast", (memory(tensor, copies), opts.rootRank))], [tensor], copies)

    @called(AllgatherOptions)
    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any) -> dist.Work | None:
        if isinstance(input_tensors, torch.Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        return self._all_gather_lists(output_tensors, several(input_tensors, "allgather"), opts)

    @called(AllgatherOptions)
    def allgather_coalesced(self, output_lists: Sequence[Tensors], input_list: Tensors, opts: Any) -> dist.Work | None:
        """all_gather of several tensors: `output_lists[rank]` gets that rank's list."""
        if any(len(each) != len(input_list) for each in output_lists):
            raise UsageError(
                f"allgather_coalesced was given {len(input_list)} tensors and output lists of "
                f"{[len(each) for each in output_lists]}; pass lists of {len(input_list)}"
            )
        lists = list(zip(*output_lists, strict=True))
        return self._all_gather_lists(lists, several(input_list, "allgather_coalesced"), opts)

    def _all_gather_lists(self, outputs: Sequence[Tensors], inputs: Tensors, opts: Any) -> dist.Work | None:
        if len(outputs) != len(inputs):
            raise UsageError(f"all_gather was given {len(inputs)} tensors and {len(outputs)} output lists; pass equals")
        copies, calls = list[After](), list[_Call]()
        for given, into in zip(inputs, outputs, strict=True):
            place = place_for(one_each(into, given, self.size(), "all_gather"), copies)
            calls.append(("all_gather", apart(memory(given), place, self.rank())))
        return self._run(opts, calls, [each for into in outputs for each in into], copies)

    @called(AllgatherOptions)
    def all_gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> dist.Work | None:
        return self._all_gather([output], [input], opts)

    @called(AllgatherOptions)
    def all_gather_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> dist.Work | None:
        return self._all_gather(outputs, inputs, opts)

    def _all_gather(self, outputs: Tensors, inputs: Tensors, opts: Any) -> dist.Work | None:
        copies: list[After] = []
        calls = [
            ("all_gather", apart(memory(given), memory(into, copies), self.rank()))
            for into, given in zip(outputs, inputs, strict=True)
        ]
        return self._run(opts, calls, outputs, copies)

    @called(c10d.GatherOptions)
    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any) -> dist.Work | None:
        copies, given = list[After](), only(input_tensors, "gather")
        outputs: Tensors = one_each(output_tensors, given, self.size(), "gather") if output_tensors else []
        into = place_for(outputs, copies) if outputs else None
        return self._run(opts, [("gather", (*apart(memory(given), into), opts.rootRank))], outputs, copies)

    @called(c10d.GatherOptions)
    def gather_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> dist.Work | None:
        """Concatenates every rank's tensor on the root; torch calls it since 2.14."""
        copies: list[After] = []
        into = memory(output, copies) if self.rank() == opts.rootRank else None
        return self._run(opts, [("gather", (*apart(memory(input), into), opts.rootRank))], [output], copies)

    @called(c10d.ScatterOptions)
    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any) -> dist.Work | None:
        copies, into = list[After](), only(output_tensors, "scatter")
        buffers: tuple[torch.Tensor | None, torch.Tensor | None] = None, memory(into, copies)
        if input_tensors:
            given = memory(joined(one_each(input_tensors, into, self.size(), "scatter")))
            buffers = apart(given, buffers[1])
        return self._run(opts, [("scatter", (*buffers, opts.rootRank))], [into], copies)

    @called(c10d.ReduceScatterOptions)
    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any) -> dist.Work | None:
        """Reduces a list of tensors; each rank gets its part. Parts of different sizes are one reduce each."""
        into = only(output_tensors, "reduce_scatter")
        parts = one_each(input_tensors, into, self.size(), "reduce_scatter", own=self.rank())
        if len({each.numel() for each in parts}) == 1:
            return self._reduce_scatter([into], [joined(parts)], opts)
        copies, by, own = list[After](), reduction_of(opts), self.rank()
        place = reduced(into, copies)
        calls = [
            ("reduce", (apart(reduced(part), place)[0], place if rank == own else None, by, rank))
            for rank, part in enumerate(parts)
        ]
        return self._run(opts, calls, [into], copies)

    @called(c10d.ReduceScatterOptions)
    def reduce_scatter_single(self, output: torch.Tensor, input: torch.Tensor, opts: Any) -> dist.Work | None:
        return self._reduce_scatter([output], [input], opts)

    @called(c10d.ReduceScatterOptions)
    def reduce_scatter_single_coalesced(self, outputs: Tensors, inputs: Tensors, opts: Any) -> dist.Work | None:
        return self._reduce_scatter(outputs, inputs, opts)

    def _reduce_scatter(self, outputs: Tensors, inputs: Tensors, opts: Any) -> dist.Work | None:
        copies: list[After] = []
        calls = [
            ("reduce_scatter", (*apart(reduced(given), reduced(into, copies), self.rank()), reduction_of(opts)))
            for into, given in zip(outputs, inputs, strict=True)
        ]
        return self._run(opts, calls, outputs, copies)

    @called(c10d.AllToAllOptions)
    def all_to_all_single(
        self,
        output: torch.Tensor,
        input: torch.Tensor,
        output_split_sizes: Any = None,
        input_split_sizes: Any = None,
        *,
        opts: Any,
    ) -> dist.Work | None:
        """Sends part i of the input to rank i; the split sizes count rows."""
        copies: list[After] = []
        given, into = apart(memory(input), memory(output, copies))
        sent = row_counts(input, input_split_sizes, self.size())
        received = row_counts(output, output_split_sizes, self.size())
        calls: list[_Call] = [("all_to_all", (given, into))]
        if output_split_sizes or input_split_sizes:
            calls = [("all_to_all_v", (given, sent, into, received))]
        return self._run(opts, calls, [output], copies)

    @called(c10d.AllToAllOptions)
    def alltoall(self, output_tensors: Tensors, input_tensors: Tensors, opts: Any) -> dist.Work | None:
        """Sends tensor i of the input to rank i."""
        copies: list[After] = []
        for listed in (output_tensors, input_tensors):
            if len(several(listed, "alltoall")) != self.size():
                raise UsageError(f"alltoall was given a list of {len(listed)} tensors; pass {self.size()}, one a rank")
        given, into = apart(memory(joined(input_tensors)), place_for(output_tensors, copies))
        counts = [[each.numel() for each in tensors] for tensors in (input_tensors, output_tensors)]
        return self._run(opts, [("all_to_all_v", (given, counts[0], into, counts[1]))], output_tensors, copies)

    @called(c10d.BarrierOptions)
    def barrier(self, opts: Any) -> dist.Work | None:
        return self._run(opts, [("barrier", ())], [], [])

    def monitored_barrier(self, timeout: datetime.timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """Like `barrier`, but a timeout names every rank that is missing, on every engine."""
        with self._turn:
            if timeout in (None, UNSET):
                timeout = self._timeout
            seconds = max(seconds_of(timeout), LEAST_TIMEOUT)
            self._with_timeout(datetime.timedelta(seconds=seconds)).monitored_barrier()

    # The names before PyTorch 2.13.
    _allgather_base = all_gather_single
    allgather_into_tensor_coalesced = all_gather_single_coalesced
    _reduce_scatter_base = reduce_scatter_single
    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced
    alltoall_base = all_to_all_single

    # --- messages

    @called()
    def send(self, tensors: Any, dst: int, tag: int = 0) -> dist.Work:
        """Starts to send a tensor to a rank of the group."""
        return self._message("send", only(tensors, "send"), dst, tag, None)

    @called()
    def recv(self, tensors: Any, src: int, tag: int = 0) -> dist.Work:
        """Starts to receive a tensor from a rank of the group."""
        return self._message("recv", only(tensors, "recv"), src, tag, [])

    @called()
    def recv_anysource(self, tensors: Tensors, tag: int) -> dist.Work:
        """Starts to receive a tensor from any other rank; the Work's source_rank() is the sender."""
        return self._message("recv_any", only(tensors, "recv"), ANY_SOURCE, tag, [])

    # --- internals

    def _run(self, opts: Any, calls: Sequence[_Call], result: Tensors, copies: list[After]) -> dist.Work | None:
        """Runs or starts calls of the communicator, as the options say; None if it has run them."""
        with self._turn:
            timeout = self._timeout_of(opts.timeout)
            on = self._with_timeout(timeout)
            if not opts.asyncOp and not self._turn.many():
                for name, arguments in calls:
                    getattr(on, name)(*arguments)
                for copy in copies:
                    copy()
                return None
            pending: list[Pending[Any]] = [getattr(on, "start_" + name)(*arguments) for name, arguments in calls]
        return Started(self._turn, pending, list(result), copies, timeout, (calls[0][0], on))

    def _message(self, name: str, tensor: torch.Tensor, peer: int, tag: int, copies: list[After] | None) -> dist.Work:
        buffer = memory(tensor, copies)
        with self._turn:
            on = self._communicator()
            pending = on._start_by_tag(name, buffer, whole(peer, "rank"), whole(tag, "tag"))  # type: ignore[attr-defined]
        source = self.rank() if copies is None else peer
        return Started(self._turn, [pending], [tensor], copies or (), self._timeout, (name, on), source)

    def _sparse(self, tensor: torch.Tensor, opts: Any) -> dist.Work | None:
        """all_reduce of a sparse tensor. The ranks exchange the numbers of their elements before it returns."""
        if reduction_of(opts) != "sum":
            raise UsageError(f"all_reduce of a sparse tensor was asked for {reduction_of(opts)}; it has sum alone")
        sparse = Sparse(tensor, self.size())
        timeout = self._timeout_of(opts.timeout)
        with self._turn:
            on = self._with_timeout(timeout)
            on.all_gather(sparse.shape, sparse.shapes)
            pending = [on.start_all_gather_v(*arguments) for arguments in sparse.calls()]
        return Started(self._turn, pending, [tensor], [sparse.finish], timeout, ("all_reduce", on))
