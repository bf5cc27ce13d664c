"""`rankmesh.place` gives what the command prints."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
import rankmesh
from rankmesh import Mesh, Placement, place

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
NODES = "node:4(25GB/s,5us) gpu:4(450GB/s,2us)"


@pytest.mark.skipif(not COMMAND, reason="the command is not built")
@pytest.mark.parametrize("mesh", ["tp=4 dp=4", "dp=4 tp=4", "pp=2 tp=8", "a=3 tp=2", "tp=2 dp=2 @[3,1,2,0]"])
@pytest.mark.parametrize("weights", [{}, {"tp": 1.5}])
def test_an_order_is_what_the_command_finds(mesh: str, weights: dict[str, float]) -> None:
    words = [f"{axis}={weight}" for axis, weight in weights.items()]
    options = ["--weights", ",".join(words)] if words else []
    command = [COMMAND, "place", mesh, "--on", NODES, *options, "--bytes", "1000000", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60)
    printed = json.loads(out.stdout)
    found = place(mesh, on=NODES, weights=weights, bytes=1000000)
    assert f"('{printed['order']}')" in repr(found.order)
    assert (found.before, found.after, found.search) == (printed["before"], printed["after"], printed["search"])
    axes = [
        {"axis": a.axis, "operation": a.operation, "weight": a.weight, "before": a.before, "after": a.after}
        for a in found.axes
    ]
    assert axes == printed["axes"]
    assert len(set(found.devices)) == found.order.size


def test_an_order_is_a_mesh_or_a_placement_to_go_on_with() -> None:
    found = place(Mesh(tp=4, dp=4), on=NODES)
    assert found.order == Mesh("tp=4:1 dp=4:4")
    assert found.after < found.before
    assert place(found.order, on=NODES).after == found.after
    given = Placement(Mesh(tp=2, dp=2), [0, 1, 2, 3])
    assert isinstance(place(given, on=NODES).order, Mesh | Placement)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"on": "node:4 gpu:4"}, rankmesh.UsageError, "bandwidth"),
        ({"on": 4}, TypeError, "the cluster is 4, which is int; it must be a str"),
        ({"on": NODES, "weights": {"pp": 1}}, KeyError, "pp"),
        ({"on": NODES, "weights": {"tp": "much"}}, TypeError, "the weight of 'tp' is 'much'"),
        ({"on": NODES, "weights": {"tp": -1.0}}, rankmesh.UsageError, "-1"),
        ({"on": NODES, "weights": 3}, TypeError, "weights are 3"),
        ({"on": NODES, "bytes": "many"}, TypeError, "bytes is 'many'"),
        ({"on": "node:1(1GB/s) gpu:4(1GB/s)"}, rankmesh.UsageError, "reaches rank 15"),
    ],
)
def test_what_cannot_be_placed_is_said(arguments: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        place("tp=4 dp=4", **arguments)
