"""Only arrays whose memory is their elements are moved: other tensors of torch, and masked arrays, are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from rankmesh import Communicator, UsageError, World, run

np = pytest.importorskip("numpy", reason="NumPy is not installed")


def on_one(program: Callable[[Communicator], Any]) -> Any:
    def rank(world: World) -> Any:
        return program(world.join("dp=*").on("dp"))

    return run(1, rank)[0]


def test_a_masked_array_is_refused() -> None:
    masked = np.ma.masked_array([1.0, 2.0], mask=[False, True])  # type: ignore[no-untyped-call]
    text = "the buffer of all_reduce is a masked array, whose masked elements would be moved as well; pass x.filled"
    with pytest.raises(UsageError, match=text):
        on_one(lambda on: on.all_reduce(masked))
    on_one(lambda on: on.all_reduce(masked.data))


torch = pytest.importorskip("torch")


def wrapper() -> Any:
    class Wrapper(torch.Tensor):  # type: ignore[misc, name-defined]
        @classmethod
        def __torch_dispatch__(cls, *args: Any, **options: Any) -> Any:
            raise NotImplementedError

    return torch.Tensor._make_wrapper_subclass(Wrapper, (4,), dtype=torch.float32)


def fake() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(4)


def distributed() -> Any:
    import torch.distributed as dist
    from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

    dist.init_process_group("fake", rank=0, world_size=2, store=dist.HashStore())
    try:
        return distribute_tensor(torch.ones(4), init_device_mesh("cpu", (2,)), [Shard(0)])
    finally:
        dist.destroy_process_group()


def nested() -> Any:
    return torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "wrapper": (
        wrapper,
        "is a Wrapper, a subclass of Tensor, which may hold its elements elsewhere; pass a torch.Tensor",
    ),
    "fake": (fake, "is a FakeTensor, a subclass of Tensor, .*; pass a torch.Tensor"),
    "subclass": (
        lambda: torch.ones(4).as_subclass(type("Mine", (torch.Tensor,), {})),
        r"is a Mine, .*; pass x.as_subclass\(torch.Tensor\)",
    ),
    "distributed": (distributed, r"is a DTensor, of which this process holds only a part; pass x.to_local\(\)"),
    "gradient": (lambda: torch.ones(2, requires_grad=True), r"requires a gradient, .*; pass x.detach\(\)"),
    "parameter": (lambda: torch.nn.Parameter(torch.ones(2)), r"requires a gradient, .*; pass x.detach\(\)"),
    "conjugate": (
        lambda: torch.ones(2, dtype=torch.complex64).conj(),
        r"is a conjugate view, .*; pass x.resolve_conj\(\)",
    ),
    "negative": (lambda: torch._neg_view(torch.ones(2)), r"is a negative view, .*; pass x.resolve_neg\(\)"),
    "sparse": (lambda: torch.ones(2).to_sparse(), r"has the layout torch.sparse_coo; pass x.to_dense\(\)"),
    "mkldnn": (lambda: torch.ones(2).to_mkldnn(), r"has the layout torch._mkldnn; pass x.to_dense\(\)"),
    "meta": (lambda: torch.ones(2, device="meta"), "is on the device meta, .*; pass a tensor on the CPU"),
    "nested": (nested, r"is a nested tensor; pass x.values\(\)"),
    "quantized": (
        lambda: torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.qint8),
        "is quantized; pass x.int_repr",
    ),
    "zeros": (lambda: torch._efficientzerotensor(3), "has no memory of its own .*ZeroTensor"),
    "functional": (lambda: torch._to_functional_tensor(torch.ones(3)), "has no memory of its own .*Functionalize"),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", CASES)
def test_a_tensor_that_is_not_plain_memory_is_refused(case: str) -> None:
    """With what to pass instead, wherever it is given, and before it is touched."""
    make, text = CASES[case]
    tensor = make()
    plain = torch.zeros(4)

    def program(on: Communicator) -> None:
        calls: list[tuple[str, Callable[[], Any]]] = [
            ("the buffer of all_reduce", lambda: on.all_reduce(tensor)),
            ("the input of all_gather", lambda: on.all_gather(tensor, plain)),
            ("the output of all_gather", lambda: on.all_gather(plain, tensor)),
            ("buffer 1 of a list", lambda: on.all_reduce([plain, tensor])),
            ("the buffer of broadcast", lambda: on.start_broadcast(tensor)),
            ("the buffer of send", lambda: on.send(tensor, 0)),
            ("a recv of a batch", lambda: on.batch(recvs=[(tensor, 0)])),
        ]
        for what, call in calls:
            with pytest.raises(UsageError, match=f"^{what} {text}"):
                call()

    on_one(program)


def test_the_tensors_of_torch_func_are_refused() -> None:
    """Those that it gives to the functions that it maps or differentiates."""
    refused = 0

    def note(x: Any) -> Any:
        nonlocal refused
        with pytest.raises(UsageError, match=r"has no memory of its own .*FuncTorch.*; pass a tensor from outside"):
            on_one(lambda on: on.all_reduce(x))
        refused += 1
        return x.sum()

    torch.func.vmap(note)(torch.ones(2, 2))
    torch.func.grad(note)(torch.ones(2))
    torch.func.jvp(note, (torch.ones(2),), (torch.ones(2),))
    assert refused == 3


def test_without_gradients_a_parameter_is_plain_memory() -> None:
    parameter = torch.nn.Parameter(torch.ones(3))

    def program(on: Communicator) -> None:
        with torch.no_grad():
            assert on.all_reduce(parameter) is parameter
            on.broadcast([parameter, torch.ones(2, requires_grad=True)])
        with torch.inference_mode():
            inferred = torch.ones(2)
            on.all_reduce(inferred)
        on.all_reduce(inferred)
        on.all_reduce(parameter.detach())
        on.all_reduce(torch.ones(2, dtype=torch.complex64).conj().resolve_conj())

    on_one(program)


@pytest.mark.parametrize("leaf", [True, False])
def test_autograd_refuses_values_that_a_call_has_changed(leaf: bool) -> None:
    """As it does where an operation of torch has changed them."""

    def program(on: Communicator) -> None:
        for change in (on.all_reduce, lambda x: on.all_reduce([x]), lambda x: on.start_all_reduce(x).wait()):
            x = torch.ones(2, requires_grad=leaf)
            scale = torch.ones(2, requires_grad=True)
            y = (x * scale).sum()
            with torch.no_grad():
                change(x)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
        x = torch.full((1,), 2.0, requires_grad=True)
        square = x**2
        result = square**2
        with torch.no_grad():
            on.broadcast(square)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.backward()
        read = x**2
        fourth = read**2
        with torch.no_grad():
            on.all_gather(read, torch.zeros(1))
        fourth.backward()
        assert x.grad is not None
        assert x.grad.item() == 32.0

    on_one(program)
