"""OLMo-core's own trainer, with its own modules, with ours, and with rankmesh.torch.install() alone."""

from __future__ import annotations

import pytest
from trained import group_calls, runs_of

pytest.importorskip("torch", reason="PyTorch is not installed")
pytest.importorskip("olmo_core", reason="OLMo-core is not installed")


def test_losses_are_equal_with_fewer_groups() -> None:
    runs = runs_of("olmo", "fsdp2 tp2")
    assert [*runs] == ["", "rankmesh.olmo", "rankmesh.torch"]
    own = runs.pop("")
    assert all(group_calls(run) < group_calls(own) for run in runs.values())
