"""Megatron-core's names in Python, in what the recorded cases do not cover."""

from __future__ import annotations

import inspect
import itertools
import subprocess
import sys
import threading
import types
from typing import Any

import pytest
import rankmesh
import signatures
from rankmesh import Group
from rankmesh._rows import Current
from rankmesh.megatron import HyperCommGrid, parallel_state
from rankmesh.megatron.parallel_state import ParallelState, RankGenerator, for_rank
from with_numpy import needs_numpy, np

SIZES = [
    (8, {}),
    (16, {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 4}),
    (24, {"tensor_model_parallel_size": 2, "context_parallel_size": 3, "order": "tp-cp-ep-pp-dp"}),
    (
        32,
        {
            "tensor_model_parallel_size": 2,
            "pipeline_model_parallel_size": 2,
            "expert_model_parallel_size": 4,
            "expert_tensor_parallel_size": 1,
            "num_distributed_optimizer_instances": 2,
        },
    ),
]


@pytest.fixture(autouse=True)
def _module_is_as_it_was_imported() -> Any:
    yield
    parallel_state.destroy_model_parallel()


def group_getters(owner: Any) -> list[str]:
    return [
        name
        for name in dir(owner)
        if name.startswith("get_") and ("_group" in name) and not name.endswith(("_groups", "_gloo"))
    ]


def test_signatures_are_the_originals() -> None:
    assert signatures.differences("megatron") == []


def test_the_memory_buffer_is_the_originals_and_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="global memory buffer is not initialized"):
        parallel_state.get_global_memory_buffer()
    parallel_state.initialize_model_parallel(rank=0, world_size=8)
    monkeypatch.setitem(sys.modules, "megatron.core.utils", None)
    with pytest.raises(rankmesh.NotBuilt, match=r"what megatron\.core\.utils has, which could not be imported"):
        parallel_state.get_global_memory_buffer()
    for name in ("megatron", "megatron.core", "megatron.core.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    sys.modules["megatron.core.utils"].GlobalMemoryBuffer = types.SimpleNamespace  # type: ignore[attr-defined]
    buffer = parallel_state.get_global_memory_buffer()
    assert isinstance(buffer, types.SimpleNamespace)
    assert parallel_state.get_global_memory_buffer() is buffer
    parallel_state.destroy_global_memory_buffer()
    assert parallel_state.get_global_memory_buffer() is not buffer
    last = parallel_state.get_global_memory_buffer()
    parallel_state.destroy_model_parallel()
    with pytest.raises(AssertionError, match="global memory buffer is not initialized"):
        parallel_state.get_global_memory_buffer()
    parallel_state.initialize_model_parallel(rank=0, world_size=8)
    assert parallel_state.get_global_memory_buffer() is not last


def test_every_function_of_the_module_asks_the_current_state() -> None:
    methods = [
        name
        for name, method in inspect.getmembers(ParallelState, inspect.isfunction)
        if not name.startswith("_") and method is not getattr(Current, name, None)  # of all frameworks
    ]
    assert len(methods) > 70
    for name in methods:
        assert getattr(parallel_state, name).__self__ is parallel_state.current, name


@pytest.mark.filterwarnings("ignore:get_data_modulo_expert_parallel_group is deprecated")
@pytest.mark.parametrize(("world", "sizes"), SIZES, ids=str)
def test_groups_ranks_and_sizes_agree_on_every_rank(world: int, sizes: dict[str, Any]) -> None:
    """A rank is in its own group, which all of its members have, and is counted in it."""
    states = [for_rank(rank, world, **sizes) for rank in range(world)]
    for getter in group_getters(ParallelState):
        for state in states:
            try:
                group = getattr(state, getter)()
            except AssertionError:
                continue
            assert type(group) is Group
            assert state.rank in group
            assert list(group) == sorted(group)
            assert all(getattr(states[rank], getter)() == group for rank in group)
            for suffix, expected in (("rank", group.index(state.rank)), ("world_size", len(group))):
                number = getattr(state, getter.replace("_group", f"_{suffix}"), None)
                assert number is None or number() == expected
    for desc in states[0].groups.kinds():
        for group in states[0].groups.partition(desc):
            for rank in group:
                assert list(states[rank].groups.of(desc, rank) or ()) == sorted(group)


def test_the_module_speaks_for_one_rank_and_for_rank_for_any() -> None:
    parallel_state.initialize_model_parallel(2, 4, rank=5, world_size=16)
    assert list(parallel_state.get_tensor_model_parallel_group()) == [4, 5]
    assert parallel_state.get_tensor_model_parallel_group() == parallel_state._TENSOR_MODEL_PARALLEL_GROUP
    other = for_rank(67, 65536, tensor_model_parallel_size=8)
    assert other.get_tensor_model_parallel_rank() == 3
    assert parallel_state.get_tensor_model_parallel_world_size() == 2
    parallel_state.destroy_model_parallel()
    assert parallel_state._TENSOR_MODEL_PARALLEL_GROUP is None
    assert not parallel_state.model_parallel_is_initialized()
    parallel_state.initialize_model_parallel(rank=0, world_size=4)
    assert list(parallel_state.get_data_parallel_group()) == [0, 1, 2, 3]


def test_module_variables_are_what_their_getters_give() -> None:
    names = [
        "_TENSOR_MODEL_PARALLEL_GROUP",
        "_GTP_WEIGHT_REMAT_GROUP",
        "_PIPELINE_MODEL_PARALLEL_GROUP",
        "_MODEL_PARALLEL_GROUP",
        "_EMBEDDING_GROUP",
        "_POSITION_EMBEDDING_GROUP",
        "_DATA_PARALLEL_GROUP",
        "_DATA_PARALLEL_GROUP_GLOO",
        "_DATA_PARALLEL_GROUP_WITH_CP",
        "_DATA_PARALLEL_GROUP_WITH_CP_GLOO",
        "_CONTEXT_PARALLEL_GROUP",
        "_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS",
        "_TENSOR_AND_DATA_PARALLEL_GROUP",
        "_TENSOR_AND_DATA_PARALLEL_GROUP_WITH_CP",
        "_TENSOR_AND_CONTEXT_PARALLEL_GROUP",
        "_EXPERT_GTP_WEIGHT_REMAT_GROUP",
        "_EXPERT_MODEL_PARALLEL_GROUP",
        "_EXPERT_TENSOR_PARALLEL_GROUP",
        "_EXPERT_TENSOR_AND_MODEL_PARALLEL_GROUP",
        "_EXPERT_TENSOR_MODEL_PIPELINE_PARALLEL_GROUP",
        "_EXPERT_DATA_PARALLEL_GROUP",
        "_EXPERT_DATA_PARALLEL_GROUP_GLOO",
        "_INTRA_DISTRIBUTED_OPTIMIZER_INSTANCE_GROUP",
    ]
    assert [getattr(parallel_state, name) for name in names] == [None] * len(names)
    parallel_state.initialize_model_parallel(2, 2, context_parallel_size=2, rank=0, world_size=16)
    groups = parallel_state.current.groups
    for name in names:
        if name == "_HIERARCHICAL_CONTEXT_PARALLEL_GROUPS":
            assert getattr(parallel_state, name) is None
        else:
            assert getattr(parallel_state, name) == groups.of(name.removeprefix("_"), 0), name
    with pytest.raises(AttributeError, match="_FOO_GROUP"):
        parallel_state._FOO_GROUP  # noqa: B018


def test_threads_have_states_of_their_own() -> None:
    found: dict[int, list[int]] = {}

    def ask(rank: int) -> None:
        state = for_rank(rank, 8, pipeline_model_parallel_size=4)
        found[rank] = [state.get_pipeline_model_parallel_rank(), *state.get_pipeline_model_parallel_group()]

    threads = [threading.Thread(target=ask, args=(rank,)) for rank in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {rank: [rank // 2, *range(rank % 2, 8, 2)] for rank in range(8)}


def test_a_group_that_is_not_there_is_none_where_that_is_asked_for() -> None:
    middle = for_rank(2, 8, pipeline_model_parallel_size=4)
    assert middle.get_embedding_group(check_initialized=False) is None
    assert middle.get_hierarchical_context_parallel_groups(check_initialized=False) is None
    for getter in group_getters(ParallelState):
        if "check_initialized" in inspect.signature(getattr(ParallelState, getter)).parameters:
            assert getattr(ParallelState(0, 8), getter)(check_initialized=False) is None
            with pytest.raises(AssertionError, match=r"not initialized|not been initialized"):
                getattr(ParallelState(0, 8), getter)()


@needs_numpy
def test_what_was_set_wins_and_stays_until_it_is_destroyed() -> None:
    state = ParallelState()
    state.set_tensor_model_parallel_rank(3)
    state.set_expert_model_parallel_world_size(np.int64(7))
    state.initialize_model_parallel(2, rank=4, world_size=8)
    assert state.get_tensor_model_parallel_rank() == 3
    assert state.get_expert_model_parallel_world_size() == 7
    state.set_tensor_model_parallel_rank(None)
    assert state.get_tensor_model_parallel_rank() == 0
    with pytest.warns(DeprecationWarning, match="vp_stage"):
        state.set_virtual_pipeline_model_parallel_rank(1)
    assert state.get_virtual_pipeline_model_parallel_rank() == 1
    state.destroy_model_parallel()
    assert state.get_virtual_pipeline_model_parallel_rank() is None
    assert state.get_gtp_weight_remat_world_size() == 0
    assert (state.rank, state.world_size) == (4, 8)


def test_embeddings_are_where_the_callables_put_them() -> None:
    def middle(ranks: list[int]) -> list[int]:
        return [ranks[1], ranks[-1]]

    for rank in range(8):
        state = for_rank(rank, 8, pipeline_model_parallel_size=4, get_embedding_ranks=middle)
        pipeline = list(state.get_pipeline_model_parallel_group())
        assert state.is_rank_in_embedding_group() == (rank in (pipeline[1], pipeline[3]))
        if state.is_rank_in_embedding_group():
            assert list(state.get_embedding_group()) == [pipeline[1], pipeline[3]]
    for rank in (0, 2):  # as the original, by the places in the list
        state = for_rank(rank, 3, pipeline_model_parallel_size=3, get_embedding_ranks=lambda ranks: ranks[::-2])
        assert state.is_rank_in_embedding_group()
        assert not state.is_rank_in_embedding_group(ignore_virtual=False)
    whole = for_rank(0, 16, pipeline_model_parallel_size=16, get_embedding_ranks=lambda ranks: ranks + ranks)
    assert whole.get_embedding_group() == whole.get_pipeline_model_parallel_group()
    with pytest.raises(ValueError, match="an embedding is on 17 stages; name 16 at most"):
        for_rank(0, 32, pipeline_model_parallel_size=32, get_embedding_ranks=lambda ranks: ranks[:17])
    with pytest.raises(ValueError, match=r"rank 77, which is not in the pipeline \{0, 2, 4, 6\}"):
        for_rank(0, 8, pipeline_model_parallel_size=4, get_position_embedding_ranks=lambda ranks: [77])


def test_groups_for_gathering_are_those_of_data_parallelism() -> None:
    tokens = ("tp", "cp", "ep", "dp", "pp")
    sizes: list[dict[str, Any]] = [
        {"tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2},
        {"context_parallel_size": 2, "expert_model_parallel_size": 2, "expert_tensor_parallel_size": 1},
        {"tensor_model_parallel_size": 2, "expert_model_parallel_size": 4, "expert_tensor_parallel_size": 2},
        {"gtp_remat_size": 2, "expert_gtp_remat_size": 2, "expert_model_parallel_size": 2},
    ]
    for order, given, rank in itertools.product(itertools.permutations(tokens), sizes, (1, 6, 11)):
        state = for_rank(rank, 16, order="-".join(order), **given)
        dense, expert = state.create_all_gather_groups(for_expert_parallelism=True)
        with_gtp = {"with_gtp_remat": False}
        assert dense == state.get_data_parallel_group(with_context_parallel=True, **with_gtp)
        has_experts = "expert_model_parallel_size" in given
        assert expert == (state.get_expert_data_parallel_group(**with_gtp) if has_experts else None)
    state = for_rank(5, 8, tensor_model_parallel_size=2, rank_offset=4, local_world_size=4)
    assert state.create_all_gather_groups() == (state.get_data_parallel_group(with_context_parallel=True), None)


def test_a_second_group_to_gather_in_is_made_where_it_is_asked_for() -> None:
    state = for_rank(3, 16, tensor_model_parallel_size=2, context_parallel_size=2, create_all_gather_group=True)
    of_all = state.get_data_parallel_group(with_context_parallel=True)
    assert state.get_data_parallel_group(with_context_parallel=True, independent_all_gather=True) == of_all
    assert state.get_data_parallel_group(independent_all_gather=True) == state.get_data_parallel_group()
    assert state.has_separate_all_gather_group()
    plain = for_rank(3, 16)
    assert not plain.has_separate_all_gather_group()
    with pytest.raises(AssertionError, match="data parallel group with context parallel AG is not initialized"):
        plain.get_data_parallel_group(with_context_parallel=True, independent_all_gather=True)


def test_names_of_earlier_versions_are_deprecated() -> None:
    state = for_rank(3, 16, expert_model_parallel_size=2)
    with pytest.warns(DeprecationWarning, match="use is_initialized instead") as told:
        assert not state.is_unitialized()
    assert told[0].filename == __file__
    with pytest.warns(DeprecationWarning, match="use get_expert_data_parallel_group instead"):
        assert state.get_data_modulo_expert_parallel_group() == state.get_expert_data_parallel_group()


def wrong_calls() -> list[tuple[Any, type[Exception], str]]:
    def init(**sizes: Any) -> Any:
        return lambda: for_rank(0, 8, **sizes)

    made = for_rank(0, 8, pipeline_model_parallel_size=2, virtual_pipeline_model_parallel_size=2)
    return [
        (init(tensor_model_parallel_size=3), RuntimeError, "world_size (8) is not divisible by 3"),
        (
            init(virtual_pipeline_model_parallel_size=2),
            RuntimeError,
            "pipeline-model-parallel size should be greater than 1 with interleaved schedule",
        ),
        (init(order="tp-dp-xx"), KeyError, "xx"),
        (init(num_distributed_optimizer_instances=3), AssertionError, "should be divisible by partial DistOpt"),
        (init(tensor_model_parallel_size=-2), AssertionError, "every size is 1 or more"),
        (init(tensor_model_parallel_size="2"), TypeError, "tensor_model_parallel_size is '2', which is str"),
        (init(tensor_model_parallel_size=2**80), ValueError, "tensor_model_parallel_size is a number of more"),
        (init(sharp_enabled_group="dp"), AssertionError, "only valid when use_sharp is True"),
        (init(use_sharp=True, sharp_enabled_group="tp"), AssertionError, "Invalid sharp_enabled_group"),
        (init(pipeline_model_parallel_comm_backend="mpi"), AssertionError, '"mpi" backend for PP communication'),
        (lambda: for_rank(8, 8), ValueError, "rank 8 of a world of 8; ranks are 0..7"),
        (lambda: ParallelState(3), ValueError, "ParallelState was given rank alone; give world_size as well"),
        (ParallelState().initialize_model_parallel, AssertionError, "give rank= and world_size="),
        (
            lambda: made.initialize_model_parallel(rank=1, world_size=8),
            AssertionError,
            "data parallel group is already initialized",
        ),
        (
            lambda: made.is_pipeline_first_stage(ignore_virtual=False),
            AssertionError,
            "vp_stage must be passed if virtual pipeline is enabled",
        ),
        (
            lambda: made.get_data_parallel_group(partial_data_parallel=True),
            AssertionError,
            "Partial DP for Optimizer needs to include CP",
        ),
        (lambda: made.get_hybrid_data_context_parallel_groups(group_size=3), KeyError, "hybrid group of size 3"),
        (
            lambda: ParallelState(0, 8).initialize_model_parallel(1, 1, None, None, False, 1, None, False, 1, 2),
            TypeError,
            "argument 10 is another one in Megatron-core 0.16.1",
        ),
        (
            lambda: made.get_data_parallel_group(True, True),
            TypeError,
            "get_data_parallel_group has 2 arguments by position, and argument 2 is another one",
        ),
        (lambda: made.get_expert_data_parallel_rank(True), TypeError, "give it and what follows by name"),
        (made.get_hybrid_data_context_parallel_groups, KeyError, "group_size"),
        (
            lambda: ParallelState(0, 8).get_data_parallel_group(True, partial_data_parallel=True),
            AssertionError,
            "intra partial data parallel group with CP (with GTP_remat) is not initialized",
        ),
        (lambda: ParallelState(0, 8).groups, AssertionError, "is not initialized"),
        (lambda: ParallelState().create_all_gather_groups(), RuntimeError, "requires parallel state to be initialized"),
        (lambda: RankGenerator(1, 2, 1, 1, 2, "tp"), AssertionError, "Both EP and CP"),
        (lambda: RankGenerator(1, 1, 2, 1, 1, "tp"), RuntimeError, "The size of (dp) is (2)"),
        (lambda: RankGenerator(1, 1, 1, 1, 1, "tp-xx"), KeyError, "xx"),
        (lambda: RankGenerator(1, 1, 1, 1, 1, "tp--dp"), KeyError, "the order (tp--dp) names ''; the axes are tp"),
        # The original looks for the letters "tp", finds them in gtp_remat, and fails at the first group.
        (lambda: RankGenerator(2, 1, 1, 1, 1, "gtp_remat-dp-pp"), AssertionError, "The size of (tp) is (2)"),
        (lambda: RankGenerator(1, 1, -2, 1, 1, "tp-dp"), AssertionError, "a size of -2 was given for dp"),
        (lambda: RankGenerator(1, 1, 1, 1, 1, "tp", -1), ValueError, "a rank offset of -1 was given"),
        (lambda: RankGenerator(1, 1, 2, 1, 1, "dp-tp-dp"), ValueError, "the order (dp-tp-dp) lists dp twice"),
        (lambda: RankGenerator(2, 1, 1, 1, 1, "tp").get_ranks("xx"), ValueError, "'xx' is not in"),
        (lambda: RankGenerator(2, 1, 1, 1, 1, "tp").get_gtp_ranks(2), AssertionError, "gtp_remat axis size (1)"),
        (lambda: parallel_state.default_embedding_ranks([]), IndexError, "without ranks"),
        (
            lambda: parallel_state.generate_masked_orthogonal_rank_groups(8, [2, 2], [True, False]),
            AssertionError,
            "make 4 ranks, not the world_size of 8",
        ),
        (lambda: HyperCommGrid([2, 2], ["tp"], world_size=8), ValueError, "len(shape) [2, 2] != len(dim_names)"),
        (lambda: HyperCommGrid([4, 4], ["tp", "dp"], world_size=8), RuntimeError, "is over sized with world size 8"),
        (lambda: grid().get_pg("tp"), KeyError, "Process group for tp hasn't been created"),
        (lambda: grid().get_rank_enum("tp", view="nope"), KeyError, "View 'nope' is not registered"),
        (lambda: grid().get_rank_enum("ep"), ValueError, "'ep' is not in view 'base'"),
        (lambda: grid(rank=None).create_pg("tp"), ValueError, "does not know which rank asks"),
        (lambda: grid().get_rank_enum(["tp", "tp"]), ValueError, "the dimensions ['tp', 'tp'] repeat"),
        (lambda: HyperCommGrid([2, 0], ["tp", "dp"], world_size=8), RuntimeError, "[2, 0] has a size of 0"),
        (lambda: HyperCommGrid([2, 2], ["tp", "tp"], world_size=8), ValueError, "duplicate dim_names: ['tp', 'tp']"),
        (lambda: HyperCommGrid([2], ["tp"], -1, world_size=8), ValueError, "rank_offset must be non-negative, got -1"),
        (
            lambda: grid().register_view("expert", [2, 4], ["ep", "dp"], ["dp"]),
            ValueError,
            "Shared dim 'dp' has different membership across views: base enumeration [[0, 4], [1, 5], [2, 6], [3, 7]] "
            "!= view 'expert' enumeration [[0, 2, 4, 6], [1, 3, 5, 7]]",
        ),
        (lambda: grid().register_view("base", [8], ["a"]), ValueError, "is already registered"),
        (lambda: grid().register_view("v", [-1, 8], ["a", "b"]), ValueError, "shape must be positive ints"),
        (lambda: grid().register_view("v", [4, 2], ["a", "b"], ["cp"]), ValueError, "is not in the view's dim_names"),
    ]


def grid(rank: int | None = 0) -> HyperCommGrid:
    return HyperCommGrid([2, 2, 2], ["tp", "cp", "dp"], rank=rank, world_size=8)


@pytest.mark.parametrize(("call", "kind", "text"), wrong_calls())
def test_what_the_original_refuses_is_refused_by_its_own_exception(call: Any, kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert text in str(caught.value)
    assert isinstance(caught.value, rankmesh.Error)


def test_the_first_token_of_an_order_is_fastest_and_tokens_of_a_group_have_none() -> None:
    sizes = {"tp": 2, "dp": 3, "pp": 2, "cp": 1, "gtp_remat": 1}
    for order in ("tp-cp-ep-dp-pp", "pp-dp-tp", "dp-tp-gtp_remat-pp-cp", "PP-TP-DP"):
        made = RankGenerator(tp=2, ep=1, dp=3, pp=2, cp=1, order=order, rank_offset=4)
        for token in ("tp", "dp", "pp", "cp", "tp-pp", "dp-cp", "dp-tp-pp"):
            # Ranks that are the same in every axis outside the token form a group.
            expected: dict[tuple[int, ...], list[int]] = {}
            for rank in range(12):
                rest, outside = rank, []
                for name, size in zip(made.order.split("-"), made.ordered_size, strict=True):
                    assert size == sizes.get(name, 1)
                    outside += [] if name in token.split("-") else [rest % size]
                    rest //= size
                expected.setdefault(tuple(reversed(outside)), []).append(rank + 4)
            assert made.get_ranks(token) == [expected[outside] for outside in sorted(expected)]
        assert made.get_ranks("tp-pp") == made.get_ranks("pp-tp")
        assert made.get_ranks("tp-tp") == made.get_ranks("tp")
    assert RankGenerator(1, 1, 2, 1, 1, "tp-dp-tp").world_size == 2, "a size of 1 may stand twice"


def test_groups_of_a_mask_are_those_of_the_axes() -> None:
    sizes = {"tp": 2, "dp": 3, "pp": 4}
    made = RankGenerator(tp=2, ep=1, dp=3, pp=4, cp=1, order="tp-dp-pp")
    for mask in itertools.product((False, True), repeat=3):
        groups = parallel_state.generate_masked_orthogonal_rank_groups(24, list(sizes.values()), list(mask))
        token = "-".join(axis for axis, masked in zip(sizes, mask, strict=True) if masked)
        assert groups == (made.get_ranks(token) if token else [[rank] for rank in range(24)])
        if token:
            assert [list(made.group(token, rank) or ()) for rank in range(24)] == [
                next(group for group in groups if rank in group) for rank in range(24)
            ]


@needs_numpy
def test_a_grid_keeps_its_groups_by_the_reversed_names() -> None:
    for rank in range(10):
        made = HyperCommGrid([2, 2, 2], ["tp", "cp", "dp"], rank_offset=1, rank=rank, world_size=10)
        own = [group for group in made.get_rank_enum(["dp", "tp"]) if rank in group]
        group = made.create_pg(["tp", "dp"], group_desc="MINE")
        assert made.is_current_rank_in_grid() == bool(own)
        assert (None if group is None else [list(group)]) == (own or None)
        assert list(made._pgs) == ["dp-tp"]
        assert made.get_pg(["dp", "tp"]) is group
        shape = [np.int64(4), np.int64(2)]
        made.register_view("expert", shape, ["ep", "dp"], ["dp"])
        assert made._views["expert"].shape == shape
        assert made._views["expert"].shape is not shape
        assert made._views["expert"].shared_dims == ["dp"]
        made.create_pg("dp", view="expert")
        made.create_pg("ep", view="expert")
        assert list(made._pgs) == ["dp-tp", "dp", ("expert", ("ep",))]
        with pytest.raises(KeyError, match="for view 'expert' has already been created"):
            made.create_pg("ep", view="expert")
        made.destroy()
        assert made._pgs == {}
        assert made.create_pg(["tp", "dp"]) == group
        assert made._order_dims_for(made.dim_names, ["tp", "dp"]) == (["dp", "tp"], "dp-tp")


def test_a_grid_takes_the_world_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert HyperCommGrid([2, 2], ["tp", "dp"]).size == 4
    with pytest.raises(RuntimeError, match="over sized"):
        HyperCommGrid([2, 4], ["tp", "dp"])


def test_importing_it_brings_neither_numpy_nor_torch_nor_dataclasses() -> None:
    program = "import sys, rankmesh.megatron; print([m for m in ('numpy', 'torch', 'dataclasses') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout == "[]\n"
