"""DeepSpeed's own pipeline engine, with its own modules and with ours."""

from __future__ import annotations

import pytest
from trained import group_calls, runs_of

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("deepspeed", reason="DeepSpeed is not installed")


def test_losses_are_equal_with_fewer_groups() -> None:
    runs = runs_of("deepspeed", "pipe2 data2")
    assert [*runs] == ["", "rankmesh.deepspeed"]
    assert group_calls(runs["rankmesh.deepspeed"]) < group_calls(runs[""])
