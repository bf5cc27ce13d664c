"""Megatron-core's RankGenerator, which is in its parallel_state.

By hand: a class that is asked about any token.
"""

from __future__ import annotations

from collections.abc import Sequence

from rankmesh._core import Mesh
from rankmesh._dialects import megatron as _native
from rankmesh._originals import original, raises, raising


@raises(AssertionError)
def generate_masked_orthogonal_rank_groups(
    world_size: int, parallel_size: Sequence[int], mask: Sequence[bool]
) -> list[list[int]]:
    """All groups along the axes of these sizes, innermost first, whose mask is true."""
    # The axis of size 1 stands for a mask without any.
    mesh = Mesh([("one", 1), *((f"axis{i}", size) for i, size in reversed(list(enumerate(parallel_size))))])
    if mesh.size != world_size:
        text = f"the sizes {list(parallel_size)} make {mesh.size} ranks, not the world_size of {world_size}"
        raise original(AssertionError, text, "sizes")
    chosen = (f"axis{i}" for i, masked in enumerate(mask) if masked)
    return [list(group) for group in mesh.partition("one", *chosen)]


@raising(AssertionError, unknown=ValueError)
class RankGenerator(_native.RankGenerator):
    """Which ranks stand together along the axes that `order` lists innermost first.

    >>> RankGenerator(tp=2, ep=1, dp=2, pp=1, cp=1, order="tp-dp").get_ranks("dp")
    [[0, 2], [1, 3]]
    """

    @raises(ValueError, exclusive=AssertionError, missing=RuntimeError, unknown=KeyError)
    def __init__(
        self, tp: int, ep: int, dp: int, pp: int, cp: int, order: str, rank_offset: int = 0, gtp_remat: int = 1
    ) -> None:
        super().__init__(tp, ep, dp, pp, cp, order, rank_offset, gtp_remat)
        self.name_to_size = {"tp": tp, "pp": pp, "dp": dp, "ep": ep, "cp": cp, "gtp_remat": gtp_remat}
        self.tp, self.pp, self.dp, self.ep, self.cp, self.gtp_remat = self.name_to_size.values()
        self.rank_offset = rank_offset

    def get_gtp_ranks(self, gtp_remat_size: int) -> list[list[int]]:
        """The groups that share the pieces of a weight."""
        if self.gtp_remat != gtp_remat_size:
            text = f"gtp_remat axis size ({self.gtp_remat}) != requested gtp_remat_size ({gtp_remat_size})"
            raise original(AssertionError, text, "sizes")
        return self.get_ranks("gtp_remat")


@raises(IndexError)
def default_embedding_ranks(pp_ranks: Sequence[int]) -> list[int]:
    """Which of a pipeline's ranks hold word embeddings: the first and the last."""
    return _native.default_embedding_ranks(pp_ranks)


@raises(IndexError)
def default_position_embedding_ranks(pp_ranks: Sequence[int]) -> list[int]:
    """Which of a pipeline's ranks hold position embeddings: the first."""
    return _native.default_position_embedding_ranks(pp_ranks)


def _inject_gtp_remat_axis(order_str: str, after: str = "tp") -> str:
    """`order_str` with `gtp_remat` after the axis `after`, else after tp, else first."""
    return _native.inject_gtp_remat_axis(order_str, after)
