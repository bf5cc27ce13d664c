"""Our groups behind torch's dispatcher, where modes such as CommDebugMode and FakeTensorMode see a call.

torch's kernels of c10d's operators ask a group for its Backend, which before PyTorch 2.14 is a class of C++ alone. So
kernels of ours take their place: they carry out the calls of our groups, and give those of other groups to the Backend.
Kernels of Python are slower: those of `c10d` come with the first call that something watches.

They call nothing of torch's that keeps the GIL: a thread of Gloo that waits for the GIL may hold a lock of Gloo's.
"""

from __future__ import annotations

import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch._C import _distributed_c10d as of_torch
from torch._C._distributed_c10d import Work

from rankmesh.torch.backend._base import Base, method

OPERATORS: dict[str, tuple[str, Any]] = {
    "allreduce_": ("allreduce", of_torch.AllreduceOptions),
    "allreduce_coalesced_": ("allreduce_coalesced", of_torch.AllreduceCoalescedOptions),
    "reduce_": ("reduce", of_torch.ReduceOptions),
    "broadcast_": ("broadcast", of_torch.BroadcastOptions),
    "allgather_": ("allgather", of_torch.AllgatherOptions),
    "allgather_coalesced_": ("allgather_coalesced", of_torch.AllgatherOptions),
    "_allgather_base_": ("all_gather_single", of_torch.AllgatherOptions),
    "allgather_into_tensor_coalesced_": ("all_gather_single_coalesced", of_torch.AllgatherOptions),
    "gather_": ("gather", of_torch.GatherOptions),
    "scatter_": ("scatter", of_torch.ScatterOptions),
    "reduce_scatter_": ("reduce_scatter", of_torch.ReduceScatterOptions),
    "_reduce_scatter_base_": ("reduce_scatter_single", of_torch.ReduceScatterOptions),
    "reduce_scatter_tensor_coalesced_": ("reduce_scatter_single_coalesced", of_torch.ReduceScatterOptions),
    "alltoall_base_": ("all_to_all_single", of_torch.AllToAllOptions),
    "alltoall_": ("alltoall", of_torch.AllToAllOptions),
    "barrier": ("barrier", of_torch.BarrierOptions),
    "send": ("send", None),
    "recv_": ("recv", None),
    "recv_any_source_": ("recv_anysource", None),
}
"""Operators of `c10d`: the methods of a group that they call, and the options of these."""

_FIELDS = {"async_op": "asyncOp", "timeout": "timeout", "reduce_op": "reduceOp", "root_rank": "rootRank"}
_PLAIN = {torch.Tensor, torch.nn.Parameter}

_libraries: dict[str, torch.library.Library] = {}  # kernels end with their library
_groups: weakref.WeakKeyDictionary[dist.ProcessGroup, weakref.ref[Base]] = weakref.WeakKeyDictionary()  # of twins
_last = threading.local()


def is_watched(tensors: Iterable[torch.Tensor]) -> bool:
    """Returns True if a call must pass torch's dispatcher: a mode, the profiler or a class of tensors waits there."""
    return (
        torch._C._len_torch_dispatch_stack() > 0
        or torch._C._autograd._profiler_enabled()
        or of_torch._allow_inflight_collective_as_graph_input()
        or any(type(each) not in _PLAIN or each.is_meta for each in tensors)
    )


def dispatch(group: Base, name: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Work | None:
    """Carries out a call of a group through torch's dispatcher."""
    _last.work = None
    work: Work | None = method(_twin(group), name)(*arguments, **options)
    return _last.work or work  # our own Work; C++ can only wait for it


def _twin(group: Base) -> dist.ProcessGroup:
    """Returns a group of torch's own class in the place of ours, whose methods C++ would call instead of operators."""
    if group.twin is None:
        if "c10d" not in _libraries:
            kernels = {name: _of_c10d(getattr(torch.ops.c10d, name).default) for name in OPERATORS}
            _put("c10d", kernels, ["CPU", "SparseCPU"])
        group.twin = dist.ProcessGroup(group.rank(), group.size())  # type: ignore[call-arg]
        custom, cpu = dist.ProcessGroup.BackendType.CUSTOM, torch.device("cpu")
        group.twin._register_backend(cpu, custom, refusing_backend(group.rank(), group.size()))
        group.twin._set_group_name(group.group_name)
        _groups[group.twin] = weakref.ref(group)
    return group.twin


def refusing_backend(rank: int, size: int) -> Any:
    fake: Any = of_torch.FakeProcessGroup
    options = fake.Options()
    options.error_on_collective = True
    return fake._create_internal(rank, size, options)


def _group(given: Any) -> Any:
    """Returns the group that an operator was given, or its name; ours for its twin."""
    resolve: Any = of_torch._resolve_process_group if isinstance(given, str) else dist.ProcessGroup.unbox
    group = resolve(given)
    return _groups[group]() if group in _groups else group


class _Holder(dist.ProcessGroup):
    """Returns a Work of Python to C++, which keeps the Work only if the method of a group returns it."""

    def __init__(self, work: Work) -> None:
        super().__init__(0, 1)  # type: ignore[call-arg]
        self._work = work

    def barrier(self, opts: Any = None) -> Work:  # type: ignore[override]
        return self._work


class _All(Work):
    """Several Works of a Backend."""

    def __init__(self, works: Sequence[Work]) -> None:
        super().__init__()
        self._works = works

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        for each in self._works:
            each.wait(timeout)
        return True


def _held(work: Work | None) -> Any:
    """Returns a Work that C++ can keep. None is the Work of a call that has ended."""
    if work is None:
        return of_torch.FakeWork()
    return work if type(work) is Work else dist.ProcessGroup.barrier(_Holder(work))


def _of_backend(group: dist.ProcessGroup, name: str, arguments: list[Any]) -> Work:
    """Carries out a call of another group by its Backend, as torch's kernels do."""
    backend: Any = group._get_backend(torch.device("cpu"))
    if not name.endswith("single_coalesced"):
        work: Work = method(backend, name)(*arguments)
        return work
    single, (outputs, inputs, options) = method(backend, name.removesuffix("_coalesced")), arguments
    return _All([single(*each, options) for each in zip(outputs, inputs, strict=True)])


def _put(library: str, kernels: dict[str, Callable[..., Any]], keys: Sequence[str]) -> None:
    made = _libraries[library] = torch.library.Library(library, "IMPL")  # type: ignore[no-untyped-call]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says once that kernels are replaced
        for name in kernels:
            for key in keys:
                if torch._C._dispatch_has_computed_kernel_for_dispatch_key(f"{library}::{name}", key):
                    made.impl(name, kernels[name], key)  # type: ignore[no-untyped-call]


def _of_c10d(operator: Any) -> Callable[..., Any]:
    name, kind = OPERATORS[operator._schema.name.partition("::")[2]]
    named = [each.name for each in operator._schema.arguments]
    defaults = {each.name: each.default_value for each in operator._schema.arguments if each.has_default_value()}
    at, has_tensors = named.index("process_group"), len(operator._schema.returns) > 1
    own = {"src", "dst", "tag", "output_split_sizes", "input_split_sizes"}

    def kernel(*given: Any) -> Any:
        group = _group(given[at])
        values = defaults | dict(zip(named, given, strict=False))
        arguments = list(given[:at]) if name != "barrier" else []
        arguments += [value for each, value in values.items() if each in own]
        if kind is not None:
            arguments.append(_options(kind, values))
        if isinstance(group, Base):
            work = _last.work = group.run(getattr(type(group), name).__wrapped__, tuple(arguments))
        else:
            work = _of_backend(group, name, arguments)
        held = _held(work).boxed()
        return (given[0], held) if has_tensors else held

    return kernel


def _options(kind: Any, values: dict[str, Any]) -> Any:
    """Returns c10d's options with the values of an operator's arguments."""
    options = kind()
    for each, field in _FIELDS.items():
        if each in values:
            value = values[each]
            if each == "timeout":
                value = timedelta(milliseconds=value)
            elif each == "reduce_op":
                value = dist.ReduceOp(dist.ReduceOp.RedOpType(value.op()))
            setattr(options, field, value)
    return options


# --- functional collectives whose kernels of torch ask for a Backend


def install() -> None:
    """Puts the kernels of functional collectives in place, once."""
    if "_c10d_functional" not in _libraries:
        kernels: dict[str, Any] = {each.__name__[1:]: each for each in (_all_gather_into_tensor_out, _batch_p2p_ops)}
        _put("_c10d_functional", kernels, ("CPU", "CUDA", "XPU", "PrivateUse1"))


def _all_gather_into_tensor_out(
    input: torch.Tensor, group_size: int, group_name: Any, *, out: torch.Tensor
) -> torch.Tensor:
    work = method(_group(group_name), "all_gather_single")(out, input, of_torch.AllgatherOptions())
    of_torch._register_work(out, _held(work))
    return out


def _batch_p2p_ops(
    names: list[str], peers: list[int], tags: list[int], tensors: Sequence[torch.Tensor], group_name: Any
) -> list[torch.Tensor]:
    group = _group(group_name)
    batch = [
        dist.P2POp(getattr(dist, name), tensor, group=group, tag=tag, group_peer=peer)
        for name, tensor, tag, peer in zip(names, tensors, tags, peers, strict=True)
    ]
    works = dist.batch_isend_irecv(batch)
    results = [each.new_empty(0) if name == "isend" else each for name, each in zip(names, tensors, strict=True)]
    for i, result in enumerate(results):
        of_torch._register_work(result, _held(works[min(i, len(works) - 1)]))  # one Work may be of all
    return results
