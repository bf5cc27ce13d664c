"""`rankmesh.convert` gives what the command prints."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
from pathlib import Path

import pytest
import rankmesh

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
SETTINGS = {
    "picotron": {"tp_size": 2, "pp_size": 2, "dp_size": 2},
    "torchtitan": {"tensor_parallel_degree": 2, "data_parallel_shard_degree": 4},
    "rankmesh": "pp=2 dp=2 tp=2",
    "megatron": "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 --world-size 8",
}


@pytest.mark.skipif(not COMMAND, reason="the command is not built")
@pytest.mark.parametrize("to", ["olmo", "torch", "deepspeed", "areal", "picotron", "tensorrt-llm"])
@pytest.mark.parametrize("source", SETTINGS)
def test_a_conversion_is_what_the_command_prints(source: str, to: str) -> None:
    settings = SETTINGS[source]
    text = settings if isinstance(settings, str) else json.dumps(settings)
    words = text.split(" ") if text.startswith("--") else [text]
    out = subprocess.run(
        [COMMAND, "convert", "--from", source, "--to", to, "--json", "--world", "8", "--", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    printed = json.loads(out.stdout)
    made = rankmesh.convert(settings, from_=source, to=to, world=8)
    assert bool(made) == (out.returncode == 0)
    assert made.settings == printed["settings"]
    assert made.text == printed["text"]
    assert (made.source, made.to, made.ranks) == (source, to, printed["ranks"])
    assert (made.mesh_from, made.mesh_to, made.moved) == (printed["mesh_from"], printed["mesh_to"], printed["moved"])
    assert [list(move) for move in made.first_moves] == printed["first_moves"]
    assert made.notes == printed["notes"]
    assert [{"what": loss.what, "why": loss.why} for loss in made.lost] == printed["lost"]


def test_there_and_back_moves_no_rank() -> None:
    there = rankmesh.convert(SETTINGS["picotron"], from_="picotron", to="torchtitan")
    assert there.settings is not None
    assert (
        rankmesh.convert(there.settings, from_="torchtitan", to="picotron", world=8).settings
        == {"distributed": {"tp_size": 2, "cp_size": 1, "pp_size": 2, "dp_size": 2}}
        or rankmesh.convert(there.settings, from_="torchtitan", to="picotron", world=8).text
    )


def test_a_text_is_never_the_name_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.json"
    file.write_text('{"tp_size": 2}')
    with pytest.raises(ValueError):  # noqa: PT011
        rankmesh.convert(str(file), from_="picotron", to="torch")


def test_wrong_settings_are_said_in_the_words_of_the_caller() -> None:
    with pytest.raises(ValueError, match="unknown framework 'picotrn' for from_; one of: rankmesh, torch"):
        rankmesh.convert({}, from_="picotrn", to="torch")
    with pytest.raises(TypeError, match="the settings are 3, which is int; they must be a mapping or a str"):
        rankmesh.convert(3, from_="picotron", to="torch")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the size of the world is 0"):
        rankmesh.convert({}, from_="picotron", to="torch", world=0)
    assert "megatron" in rankmesh.frameworks()


def test_a_program_averages_over_axes_that_deepspeeds_groups_ignore() -> None:
    made = rankmesh.convert("dp=2 cp=2", from_="rankmesh", to="deepspeed")
    assert made.notes[0].startswith("cp=2: PipelineParallelGrid's dp_group is along data only")
    assert pickle.loads(pickle.dumps(made)).notes == made.notes
    assert not rankmesh.convert("dp=2 tp=2", from_="rankmesh", to="deepspeed").notes


def test_experts_of_deepspeeds_configuration_fold_over_tensor_lanes() -> None:
    experts = {"enabled": True, "autoep_size": 4}
    settings = {"tensor_parallel": {"autotp_size": 2}, "expert_parallel": experts}
    made = rankmesh.convert(settings, from_="deepspeed", to="rankmesh", world=8)
    assert made.mesh_from == "dp=4 tp=2; edp=2 ep=4 etp=1"
    megatron = rankmesh.convert(settings, from_="deepspeed", to="megatron", world=8)
    assert not megatron.lost
    assert megatron.moved == 0
    back = rankmesh.convert("dp=4 tp=2; edp=2 ep=4", from_="rankmesh", to="deepspeed")
    assert back.settings == settings
    assert (back.lost, back.moved) == ([], 0)
    for mesh in ("pp=2 dp=2 tp=2; pp=2 edp=2 ep=2", "dp=4 tp=2; edp=2 ep=2 etp=2"):
        lost = rankmesh.convert(mesh, from_="rankmesh", to="deepspeed").lost
        only = "DeepSpeed's configuration has experts only with pp=1 and etp=1; others are set at the MoE layer"
        assert {each.why for each in lost} == {only}
    off = {"tensor_parallel": {"autotp_size": 0}, "expert_parallel": experts | {"enabled": False}}
    assert rankmesh.convert(off, from_="deepspeed", to="rankmesh", world=8).mesh_from == "dp=8 tp=1"
    for wrong, text in (
        ({"autoep_size": 3}, "both must divide the world's size, which is 8"),
        ({"expert_tensor_parallel_size": 2}, "expert_tensor_parallel_size is 2, which DeepSpeed does not support"),
    ):
        with pytest.raises(rankmesh.UsageError, match=text):
            rankmesh.convert({"expert_parallel": experts | wrong}, from_="deepspeed", to="rankmesh", world=8)
