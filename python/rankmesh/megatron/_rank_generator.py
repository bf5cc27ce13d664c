"""Megatron-core's RankGenerator, and which ranks of a pipeline hold embeddings: a class and functions of programs."""

from __future__ import annotations

from collections.abc import Sequence

from rankmesh._core import Group, Mesh
from rankmesh._frameworks import topology as _topology
from rankmesh._originals import raises, refuse_if


@raises(AssertionError)
def generate_masked_orthogonal_rank_groups(
    world_size: int, parallel_size: Sequence[int], mask: Sequence[bool]
) -> list[list[int]]:
    """All groups along the axes of these sizes, innermost first, whose mask is true."""
    # The axis of size 1 stands for a mask without any.
    mesh = Mesh([("one", 1), *((f"axis{i}", size) for i, size in reversed(list(enumerate(parallel_size))))])
    text = f"the sizes {list(parallel_size)} make {mesh.size} ranks, not the world_size of {world_size}"
    refuse_if(mesh.size != world_size, AssertionError, text, "sizes")
    chosen = (f"axis{i}" for i, masked in enumerate(mask) if masked)
    return [list(group) for group in mesh.partition("one", *chosen)]


class RankGenerator:
    """Which ranks stand together along the axes that `order` lists innermost first.

    >>> RankGenerator(tp=2, ep=1, dp=2, pp=1, cp=1, order="tp-dp").get_ranks("dp")
    [[0, 2], [1, 3]]
    """

    @raises(ValueError, sizes=AssertionError, missing=RuntimeError, unknown=KeyError)
    def __init__(
        self, tp: int, ep: int, dp: int, pp: int, cp: int, order: str, rank_offset: int = 0, gtp_remat: int = 1
    ) -> None:
        text = (
            "Both EP and CP > 1 in not allow in one rank generator. CP is only included in default "
            "RankGenerator, and EP only in expert RankGenerator."
        )
        refuse_if(ep != 1 and cp != 1, AssertionError, text, "exclusive")
        self.name_to_size = {"tp": tp, "pp": pp, "dp": dp, "ep": ep, "cp": cp, "gtp_remat": gtp_remat}
        self.tp, self.pp, self.dp, self.ep, self.cp, self.gtp_remat = self.name_to_size.values()
        self.rank_offset = rank_offset
        self.order, axes = _topology.in_order(order, list(self.name_to_size.values()), rank_offset)
        self.ordered_size = [self.name_to_size[name] for name in self.order.split("-")]
        self._mesh = Mesh(axes).shifted(rank_offset)
        self.world_size = self._mesh.size

    def get_mask(self, order: str, token: str) -> list[bool]:
        """For each axis of `order` whether `token`, one or several with `-` between them, lists it."""
        ordered = order.split("-")
        tokens = _tokens(token, ordered, order)
        return [name in tokens for name in ordered]

    def get_ranks(self, token: str) -> list[list[int]]:
        """All groups along the axes of `token`, whose order does not matter, by their first ranks."""
        return [list(group) for group in self._mesh.partition(*_tokens(token, self._mesh.axes, self.order))]

    def group(self, token: str, rank: int) -> Group | None:
        """The group of one rank in closed form, None outside; an addition to the original."""
        axes = _tokens(token, self._mesh.axes, self.order)
        return self._mesh.group(rank, *axes) if rank in self._mesh else None

    def get_gtp_ranks(self, gtp_remat_size: int) -> list[list[int]]:
        """The groups that share the pieces of a weight."""
        text = f"gtp_remat axis size ({self.gtp_remat}) != requested gtp_remat_size ({gtp_remat_size})"
        refuse_if(self.gtp_remat != gtp_remat_size, AssertionError, text, "sizes")
        return self.get_ranks("gtp_remat")


def _tokens(token: str, known: Sequence[str], order: str) -> list[str]:
    """The axes of a token, each once."""
    tokens = list(dict.fromkeys(token.split("-")))
    for name in tokens:
        refuse_if(name not in known, ValueError, f"'{name}' is not in the order {order}", "unknown")
    return tokens


def default_embedding_ranks(pp_ranks: Sequence[int]) -> list[int]:
    """Which of a pipeline's ranks hold word embeddings: the first and the last."""
    first = default_position_embedding_ranks(pp_ranks)
    return first if len(pp_ranks) == 1 else [*first, pp_ranks[-1]]


def default_position_embedding_ranks(pp_ranks: Sequence[int]) -> list[int]:
    """Which of a pipeline's ranks hold position embeddings: the first."""
    refuse_if(len(pp_ranks) == 0, IndexError, "a pipeline without ranks has no first one", "out of range")
    return [pp_ranks[0]]


def _inject_gtp_remat_axis(order_str: str, after: str = "tp") -> str:
    """`order_str` with `gtp_remat` after the axis `after`, else after tp, else first."""
    return _topology.inject_gtp_remat_axis(order_str, after)
