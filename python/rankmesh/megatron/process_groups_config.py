"""Megatron-core's ProcessGroupCollection: the process groups of one rank, by short names.

By hand: a dataclass that programs make of groups of their own, set fields of and inherit.
"""

# ruff: noqa: RUF009 -- what _asks gives is a field

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, Sequence, ValuesView
from dataclasses import Field, dataclass, field, fields
from typing import Any

from rankmesh._core import Group
from rankmesh._originals import original
from rankmesh._world import world_of
from rankmesh.megatron import parallel_state
from rankmesh.megatron.parallel_state import Handle


def _asks(getter: str = "", **options: bool) -> Any:
    """A field that is not set by the constructor, and what parallel_state is asked for it."""
    return field(init=False, metadata={"getter": getter, "options": options})


def _size(group: Handle) -> int:
    return group.size() if hasattr(group, "size") else len(group)


def _of_parallel_state(known: Field[Any], state: parallel_state.ParallelState) -> Handle:
    """The group of a field; that which only create_all_gather_groups makes is None."""
    getter, options = known.metadata["getter"], known.metadata["options"]
    if not getter or (known.name == "dp_cp_ag" and not state.has_separate_all_gather_group()):
        return None
    checked = {} if getter == "get_data_parallel_group" else {"check_initialized": False}
    return getattr(state, getter)(**checked, **options)


class ProcessGroupHelperMeta(type):
    """Keeps virtual_pipeline_model_parallel_size of a class from being assigned."""

    def __setattr__(cls, name: str, value: Any) -> None:
        if name == "virtual_pipeline_model_parallel_size":
            raise AttributeError(
                f"Cannot set '{name}' directly. Use set_virtual_pipeline_model_parallel_size() method instead."
            )
        super().__setattr__(name, value)


@dataclass(init=False, repr=False)
class ProcessGroupCollection:
    """The process groups of one rank; a field that was not set reads as None.

    >>> ProcessGroupCollection(tp=Group("{0..7}"), pp=Group("{0, 8}"))
    ProcessGroupCollection(tp(8), pp(2))
    """

    tp: Handle = _asks("get_tensor_model_parallel_group")
    pp: Handle = _asks("get_pipeline_model_parallel_group")
    mp: Handle = _asks("get_model_parallel_group")
    embd: Handle = _asks("get_embedding_group")
    pos_embd: Handle = _asks("get_position_embedding_group")
    cp: Handle = _asks("get_context_parallel_group")
    tp_cp: Handle = _asks("get_tensor_and_context_parallel_group")
    hcp: list[Handle] | None = _asks("get_hierarchical_context_parallel_groups")
    ep: Handle = _asks("get_expert_model_parallel_group")
    expt_tp: Handle = _asks("get_expert_tensor_parallel_group")
    tp_ep: Handle = _asks("get_expert_tensor_and_model_parallel_group")
    tp_ep_pp: Handle = _asks("get_expert_tensor_model_pipeline_parallel_group")
    tp_ep_pp_with_egtp_remat: Handle = _asks("get_expert_tensor_model_pipeline_parallel_group", with_egtp_remat=True)
    tp_dp_cp: Handle = _asks("get_tensor_and_data_parallel_group", with_context_parallel=True)
    dp: Handle = _asks("get_data_parallel_group", with_gtp_remat=False)
    dp_cp: Handle = _asks("get_data_parallel_group", with_context_parallel=True, with_gtp_remat=False)
    dp_cp_gtp_remat: Handle = _asks("get_data_parallel_group", with_context_parallel=True)
    dp_cp_ag: Handle = _asks("get_data_parallel_group", with_context_parallel=True, independent_all_gather=True)
    gtp_remat: Handle = _asks("get_gtp_weight_remat_group")
    expt_gtp_remat: Handle = _asks("get_expert_gtp_weight_remat_group")
    expt_dp: Handle = _asks("get_expert_data_parallel_group", with_gtp_remat=False)
    expt_dp_gtp_remat: Handle = _asks("get_expert_data_parallel_group")
    expt_dp_ag: Handle = _asks()
    intra_dp_cp: Handle = _asks(
        "get_data_parallel_group", with_context_parallel=True, with_gtp_remat=False, partial_data_parallel=True
    )
    intra_expt_dp: Handle = _asks(
        "get_expert_data_parallel_group", with_gtp_remat=False, partial_expert_data_parallel=True
    )
    inter_dist_opt: Handle = _asks("get_inter_distributed_optimizer_instance_group")
    intra_dist_opt: Handle = _asks("get_intra_distributed_optimizer_instance_group")

    def __init__(self, **kwargs: Handle) -> None:
        names = {known.name for known in fields(self)}
        for key, group in kwargs.items():
            if key not in names:
                raise original(ValueError, f"Unknown attribute: {key}", "unknown")
            setattr(self, key, group)

    def __getattr__(self, name: str) -> Any:
        if name in type(self).__dataclass_fields__:
            return None
        raise AttributeError(f"'ProcessGroupCollection' object has no attribute '{name}'")

    def __repr__(self) -> str:
        sizes = []
        for known in fields(self):
            group = vars(self).get(known.name)
            if group is not None:
                size = [_size(level) for level in group] if isinstance(group, list) else _size(group)
                sizes.append(f"{known.name}({size})")
        return f"ProcessGroupCollection({', '.join(sizes) or 'empty'})"

    @classmethod
    def use_mpu_process_groups(
        cls,
        required_pgs: Sequence[str] | None = None,
        *,
        state: parallel_state.ParallelState = parallel_state.current,
    ) -> ProcessGroupCollection:
        """The groups of parallel_state, or of another state, of these names; all unless said."""
        known = cls.__dataclass_fields__
        required = list(known if required_pgs is None else required_pgs)
        if invalid := [name for name in required if name not in known]:
            raise original(ValueError, f"Invalid process groups requested: {invalid}", "unknown")
        return cls(**{name: _of_parallel_state(known[name], state) for name in required})

    @staticmethod
    def is_gtp_remat_active(process_group_dict: dict[str, Handle]) -> bool:
        """True if the pieces of a weight are on more than one rank."""
        groups = (process_group_dict.get(name) for name in ("gtp_remat_group", "expt_gtp_remat_group"))
        return any(group is not None and _size(group) > 1 for group in groups)

    @staticmethod
    def setup_process_groups_for_optimizer(
        pg_collection: ProcessGroupCollection | None,
        model_chunks: Sequence[Any],
        use_gloo_process_groups: bool = True,
    ) -> dict[str, Handle]:
        """The groups that an optimizer of these chunks needs, of the collection or else of parallel_state."""
        ddp_config = getattr(model_chunks[0], "ddp_config", None)
        several = ddp_config is not None and ddp_config.num_distributed_optimizer_instances > 1
        if pg_collection is None:
            given = _of_mpu(several)
        else:
            needed = ("intra_dp_cp", "intra_expt_dp", "inter_dist_opt", "intra_dist_opt")
            given = dict(vars(pg_collection))
            _required(given, "dp", "dp process group is required but not provided in pg_collection")
            given["dp_cp"] = _dp_cp(given, lambda: _model_config(model_chunks[0]))
            _required(given, "expt_dp")
            _of_instances(given, needed, several, "intra_dp_cp, intra_expt_dp, inter_dist_opt, and intra_dist_opt")
            if ddp_config is not None and ddp_config.use_distributed_optimizer:
                _required(given, "intra_dist_opt")
            else:
                given["intra_dist_opt"] = None
            _required(given, "mp")
            _required(given, "tp_ep_pp")
            given.setdefault("tp_ep_pp_with_egtp_remat", given["tp_ep_pp"])
            if use_gloo_process_groups:
                text = (
                    "Gloo process groups are not supported when pg_collection is provided. "
                    "Please set use_gloo_process_groups to False."
                )
                raise original(ValueError, text, "exclusive")
        found = {
            **_named(given, *_OF_DATA, "mp", "inter_dist_opt", "intra_dist_opt"),
            "expt_tp_pp_group": given["tp_ep_pp"],
            "expt_tp_pp_with_egtp_remat_group": given["tp_ep_pp_with_egtp_remat"],
            "intra_dp_cp_group_gloo": None,
            "intra_expt_dp_group_gloo": None,
        }
        if pg_collection is None and use_gloo_process_groups and not ProcessGroupCollection.is_gtp_remat_active(found):
            found["intra_dp_cp_group_gloo"] = parallel_state.get_data_parallel_group_gloo(True, True)
            found["intra_expt_dp_group_gloo"] = parallel_state.get_expert_data_parallel_group_gloo(True)
        return found

    @staticmethod
    def setup_process_groups_for_ddp(
        pg_collection: ProcessGroupCollection | None, config: Any, ddp_config: Any
    ) -> dict[str, Handle]:
        """The groups that data parallelism needs, of the collection or else of parallel_state."""
        several = ddp_config.num_distributed_optimizer_instances > 1
        names = (*_OF_DATA, "inter_dist_opt", "tp", "pp", "ep")
        if pg_collection is None:
            given = _of_mpu(several)
            if not ddp_config.use_distributed_optimizer:
                given["intra_dist_opt"] = None
            return _named(given, *names, "intra_dist_opt")
        given = dict(vars(pg_collection))
        _required(given, "dp", "dp process group is required but not provided in pg_collection")
        given["dp_cp"] = _dp_cp(given, lambda: config)
        if given.setdefault("expt_dp") is None:
            import logging

            logging.getLogger(__name__).warning(
                "No expert data parallel group provided in pg_collection, creating a new one with just the current rank"
            )
            given["expt_dp"] = _alone()
        needed = ("intra_dp_cp", "intra_expt_dp", "inter_dist_opt")
        _of_instances(given, needed, several, "intra_dp_cp, intra_expt_dp, and inter_dist_opt")
        for name in ("tp", "pp", "ep"):
            _required(given, name, "tp, pp and ep process groups are required but not provided in pg_collection")
        return _named(given, *names)


_OF_DATA = ("dp", "dp_cp", "intra_dp_cp", "expt_dp", "intra_expt_dp", "gtp_remat", "expt_gtp_remat")


def _named(given: dict[str, Handle], *names: str) -> dict[str, Handle]:
    """Groups by the names of keywords."""
    return {f"{name}_group": given.get(name) for name in names}


def _of_mpu(several: bool) -> dict[str, Handle]:
    """All groups of parallel_state, that of optimizer instances where there are several."""
    given = vars(ProcessGroupCollection.use_mpu_process_groups())
    inter = parallel_state.get_inter_distributed_optimizer_instance_group() if several else None
    return {**given, "inter_dist_opt": inter}


def _of_instances(given: dict[str, Handle], needed: Sequence[str], several: bool, listed: str) -> None:
    """Requires the groups of optimizer instances; those of one instance are the whole ones."""
    if not several:
        given.update(intra_dp_cp=given["dp_cp"], intra_expt_dp=given["expt_dp"], inter_dist_opt=None)
        return
    text = (
        f"{listed} process groups are required when using multiple optimizer instances (>1) "
        "but not provided in pg_collection"
    )
    for name in needed:
        _required(given, name, text)


def _required(given: dict[str, Handle], name: str, text: str = "") -> None:
    if name not in given:
        otherwise = (
            f"{name} process group is required but not provided in pg_collection. "
            "Please explicitly set it to None if you don't need it."
        )
        raise original(ValueError, text or otherwise, "missing")


def _dp_cp(given: dict[str, Handle], config: Any) -> Handle:
    """Without context parallelism the data-parallel group itself."""
    if "dp_cp" not in given and getattr(config(), "context_parallel_size", 1) == 1:
        return given["dp"]
    text = "dp_cp process group is required when context_parallel_size > 1 but not provided in pg_collection"
    _required(given, "dp_cp", text)
    return given["dp_cp"]


def _model_config(model: Any) -> Any:
    """The configuration of a model, which may be wrapped."""
    while not hasattr(model, "config") and hasattr(model, "module"):
        model = model.module
    return model.config


def _alone() -> Group:
    """The group of the rank that asks."""
    state = parallel_state.current
    return Group([world_of("setup_process_groups_for_ddp", state.rank, state.world_size)[0]])


def resolve_gtp_remat_group(pg_collection: ProcessGroupCollection | None, is_expert: bool) -> Handle:
    """The group that shares the pieces of a weight: the collection's if it was set there, else parallel_state's."""
    name = "expt_gtp_remat" if is_expert else "gtp_remat"
    if pg_collection is not None and name in vars(pg_collection):
        return getattr(pg_collection, name)
    return _of_parallel_state(ProcessGroupCollection.__dataclass_fields__[name], parallel_state.current)


@dataclass(repr=False)
class MultiModuleProcessGroupCollection:
    """The collections of the modules that a rank takes part in, of which one may be the language model."""

    module_pgs: dict[str, ProcessGroupCollection]
    language_model_module_name: str | None = None

    def __post_init__(self) -> None:
        if not self.module_pgs:
            raise original(ValueError, "module_pgs dict cannot be empty", "missing")
        name = self.language_model_module_name
        if name is not None and name not in self.module_pgs:
            text = f"language_model_module_name '{name}' not found in module_pgs keys: {list(self.module_pgs)}"
            raise original(ValueError, text, "unknown")

    def get_language_model_collection(self) -> ProcessGroupCollection:
        """The collection of the language model; ValueError if there is none."""
        if self.language_model_module_name is None:
            raise original(ValueError, "No language model specified for this collection", "missing")
        return self.module_pgs[self.language_model_module_name]

    def get_language_model_cp_size(self) -> int:
        """The context parallel size of the language model."""
        return _size(self.get_language_model_collection().cp)

    def has_language_model(self) -> bool:
        """True if this rank has a language model."""
        return self.language_model_module_name is not None

    def get_module_collection(self, module_name: str) -> ProcessGroupCollection:
        """The collection of a module; ValueError for an unknown one."""
        if module_name not in self.module_pgs:
            text = f"Module '{module_name}' not found in collections. Available: {list(self.module_pgs)}"
            raise original(ValueError, text, "unknown")
        return self.module_pgs[module_name]

    def __len__(self) -> int:
        return len(self.module_pgs)

    def __getitem__(self, module_name: str) -> ProcessGroupCollection:
        return self.module_pgs[module_name]

    def __iter__(self) -> Iterator[ProcessGroupCollection]:
        return iter(self.module_pgs.values())

    def keys(self) -> KeysView[str]:
        """The names of the modules."""
        return self.module_pgs.keys()

    def values(self) -> ValuesView[ProcessGroupCollection]:
        """The collections."""
        return self.module_pgs.values()

    def items(self) -> ItemsView[str, ProcessGroupCollection]:
        """The names with their collections."""
        return self.module_pgs.items()

    def __repr__(self) -> str:
        name = self.language_model_module_name
        language = f", language_model_module_name='{name}'" if name else ""
        return f"MultiModuleProcessGroupCollection(modules=[{', '.join(self.module_pgs)}]{language})"
