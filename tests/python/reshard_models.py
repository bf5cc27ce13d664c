"""Layouts of real models on trainers and on rollout ranks, for plans of any size."""

from __future__ import annotations

from typing import Any

from rankmesh import Mesh, Sharding
from rankmesh.torch import Fused

Layouts = tuple[dict[str, Any], dict[str, Any]]


def _stages(world: int, stages: int, axes: str) -> list[Mesh]:
    """The mesh of each pipeline stage. A stage has consecutive ranks; `axes` are the innermost."""
    each = world // stages
    return [Mesh(f"dp=* {axes}", each).shifted(stage * each) for stage in range(stages)]


def llama_405b(world: int) -> Layouts:
    """Dense: Megatron's tp=8 pp=16 with fused QKV by query group, to tp=16 with keys and values on pairs of ranks."""
    layers, hidden, ffn, words, groups, head = 126, 16384, 53248, 128256, 8, 128
    half, pp = world // 2, min(16, world // 16)
    stages = _stages(half, pp, "tp=8")
    rollout = Mesh("dp=* kv=8 rep=2", half).shifted(half)
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for layer in range(layers):
        mesh, name = stages[layer * pp // layers], f"layers.{layer}."
        shapes = {"q": (groups, hidden // groups, hidden), "k": (groups, head, hidden), "v": (groups, head, hidden)}
        before[name + "linear_qkv"] = Fused({name + p: Sharding(mesh, shape, "0=tp") for p, shape in shapes.items()}, 1)
        after[name + "qkv_proj"] = Fused(
            {name + p: Sharding(rollout, shape, "0=kv 1=rep" if p == "q" else "0=kv") for p, shape in shapes.items()}, 1
        )
        pair = [name + "gate", name + "up"]
        before[name + "linear_fc1"] = Fused({part: Sharding(mesh, (ffn, hidden), "0=tp") for part in pair})
        after[name + "gate_up_proj"] = Fused({part: Sharding(rollout, (ffn, hidden), "0=kv,rep") for part in pair})
        for part, columns in (("o", hidden), ("down", ffn)):
            before[name + part] = Sharding(mesh, (hidden, columns), "1=tp")
            after[name + part] = Sharding(rollout, (hidden, columns), "1=kv,rep")
        for part in ("norm1", "norm2"):
            before[name + part], after[name + part] = Sharding(mesh, (hidden,)), Sharding(rollout, (hidden,))
    for part, mesh in (("embed", stages[0]), ("head", stages[-1])):
        before[part] = Sharding(mesh, (words, hidden), "0=tp:megatron")
        after[part] = Sharding(rollout, (words, hidden), "0=kv,rep")
    return before, after


def _experts(
    world: int,
    layers: int,
    sizes: tuple[int, int, int],
    dense: dict[str, Any],
    pp: int,
    ep: int,
    meshes: tuple[str, str],
) -> Layouts:
    half, (experts, hidden, ffn) = world // 2, sizes
    stages, expert_stages = _stages(half, pp, meshes[0]), _stages(half, pp, f"ep={ep}")
    rollout = Mesh(f"dp=* {meshes[1]}", half).shifted(half)
    ep_rollout = Mesh(f"dp=* ep={min(half, experts)}", half).shifted(half)
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}
    for layer in range(layers):
        stage, name = layer * pp // layers, f"layers.{layer}."
        for part, (shape, split, into) in dense.items():
            before[name + part] = Sharding(stages[stage], shape, split)
            after[name + part] = Sharding(rollout, shape, into)
        for part, shape in (("w1", (ffn, hidden)), ("w2", (hidden, ffn)), ("w3", (ffn, hidden))):
            before[name + part] = Sharding(expert_stages[stage], (experts, *shape), "0=ep")
            after[name + part] = Sharding(ep_rollout, (experts, *shape), "0=ep")
    return before, after


def deepseek_v3(world: int) -> Layouts:
    """Trainers with tp=1, pp up to 16 and ep up to 32, to tp=8 and ep over all rollout ranks, up to 256."""
    dense = {
        "q_b": ((128 * 192, 1536), "replicated", "0=tp"),
        "kv_a": ((576, 7168), "replicated", "replicated"),
        "kv_b": ((128 * 256, 512), "replicated", "0=tp"),
        "o": ((7168, 128 * 128), "replicated", "1=tp"),
        "norm": ((7168,), "replicated", "replicated"),
        "router": ((256, 7168), "replicated", "replicated"),
    }
    pp = min(16, world // 32)
    return _experts(world, 61, (256, 7168, 2048), dense, pp, min(32, world // 2 // pp), ("tp=1", "tp=8"))


def qwen3_235b(world: int) -> Layouts:
    """Trainers with tp=4, pp up to 8 and ep up to 16, to tp=8 with keys and values on pairs, and ep up to 128."""
    dense = {
        "q": ((64 * 128, 4096), "0=tp", "0=kv,rep"),
        "k": ((4 * 128, 4096), "0=tp", "0=kv"),
        "v": ((4 * 128, 4096), "0=tp", "0=kv"),
        "o": ((4096, 64 * 128), "1=tp", "1=kv,rep"),
        "norm": ((4096,), "replicated", "replicated"),
        "router": ((128, 4096), "replicated", "replicated"),
    }
    pp = min(8, world // 32)
    return _experts(world, 94, (128, 4096, 1536), dense, pp, 16 if world >= 512 else 8, ("tp=4", "kv=4 rep=2"))


MODELS = {"Llama 405B": llama_405b, "DeepSeek-V3": deepseek_v3, "Qwen3-235B": qwen3_235b}
