"""`rankmesh.plan` gives what the command prints as JSON."""

from __future__ import annotations

import json
import os
import subprocess
from typing import Any

import pytest
import rankmesh

COMMAND = os.environ.get("RANKMESH_COMMAND", "")
ON = "node:4(400GB/s,5us) gpu:8(450GB/s,2us)"


@pytest.mark.skipif(not COMMAND, reason="the command is not built")
@pytest.mark.parametrize(
    ("words", "more"),
    [
        ([], {}),
        (
            ["--fix", "tp=2", "--max", "pp=4", "--as", "megatron"],
            {"fix": {"tp": 2}, "max": {"pp": 4}, "as_": "megatron"},
        ),
        (["--explain", "tp=8 mbs=4 zero=0"], {"explain": "tp=8 mbs=4 zero=0"}),
        (
            ["--serve", "--fix", "tp=2", "--max", "pp=2", "--as", "vllm"],
            {"serve": True, "fix": {"tp": 2}, "max": {"pp": 2}, "as_": "vllm"},
        ),
    ],
)
def test_a_plan_is_what_the_command_prints(words: list[str], more: dict[str, Any]) -> None:
    out = subprocess.run(
        [COMMAND, "plan", "llama3.1-8B", "--on", ON, "--device", "H100-SXM-80GB", "--batch", "64", "--json", *words],
        capture_output=True,
        text=True,
        timeout=60,
    )
    printed = json.loads(out.stdout)
    made = rankmesh.plan("llama3.1-8B", on=ON, device="H100-SXM-80GB", batch=64, **more)
    assumed = made.pop("assumed")  # each proposes what its caller can write
    assert len(assumed) == len(printed.pop("assumed"))
    assert not any("--" in each for each in assumed)
    assert made == printed


def test_what_is_wrong_is_a_usage_error() -> None:
    with pytest.raises(rankmesh.UsageError, match="unknown model"):
        rankmesh.plan("llama9", on=ON, device="H100-SXM-80GB")
    with pytest.raises(rankmesh.UsageError, match=r"^batch is -1"):
        rankmesh.plan("llama3.1-8B", on=ON, device="H100-SXM-80GB", batch=-1)
    with pytest.raises(rankmesh.UsageError, match=r"^measured calibrates training steps, which serve=True"):
        rankmesh.plan("llama3.1-8B", on=ON, device="H100-SXM-80GB", serve=True, measured="steps")
    with pytest.raises(rankmesh.UsageTypeError, match="fix is 'tp=8'"):
        rankmesh.plan("llama3.1-8B", on=ON, device="H100-SXM-80GB", fix="tp=8")  # type: ignore[arg-type]


@pytest.mark.parametrize("kind", ["llama", "gemma2", "gpt2", "qwen3_next", "jamba", "deepseek_v3", "nemotron_h"])
def test_a_model_of_transformers_is_the_one_of_the_table(kind: str, tmp_path: Any) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.CONFIG_MAPPING[kind]()
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    layers = rankmesh.plan_model(config)
    layers.save(tmp_path / "model.json")
    asked = {"on": "gpu:1(450GB/s)", "device": "MI325X", "serve": True, "seq": 64, "batch": 1, "explain": "tp=1"}
    built = rankmesh.plan(str(tmp_path / "model.json"), **asked)
    read = rankmesh.plan(str(tmp_path / "config.json"), **asked)
    assert built["parameters"] == pytest.approx(read["parameters"], rel=0.01)
    for part in ("cache", "weights"):
        assert built["explained"]["memory"][part] == pytest.approx(read["explained"]["memory"][part], rel=0.01, abs=1e6)


def test_layers_with_another_cache_than_the_model_are_refused() -> None:
    transformers = pytest.importorskip("transformers")
    with pytest.raises(
        rankmesh.UsageError, match=r"^plan_model finds 18432 numbers .* cache of git, but .* keeps 9216"
    ):
        rankmesh.plan_model(transformers.GitConfig())  # the layers of its images are more than those of its text


def test_attention_with_fewer_parameters_than_its_heads_take_is_refused() -> None:
    transformers = pytest.importorskip("transformers")
    if "deepseek_v4" not in transformers.CONFIG_MAPPING:
        pytest.skip("this version of transformers has no deepseek_v4")
    with pytest.raises(
        rankmesh.UsageError, match=r"^layer 0, a \w+, has fewer parameters than attention of 64 heads: "
    ):
        rankmesh.plan_model({"model_type": "deepseek_v4"})
