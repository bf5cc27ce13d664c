"""`plan_model`: the layers of a model as transformers builds it, for `plan`."""

from __future__ import annotations

import json
import math
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any

from rankmesh._errors import UsageError

_TOP_K = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts", "moe_top_k")


class PlanModel(str):
    """A model as a line of sizes, which `plan` and the command `rankmesh plan` read."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file that `rankmesh plan` and `plan` read."""
        pathlib.Path(path).write_text(json.dumps({"rankmesh": str(self)}) + "\n")


def plan_model(model: Any) -> PlanModel:
    """Builds a model by transformers on the meta device, and returns its layers for `plan`.

    `model`: a folder with a config.json, such a file, its content as a dict, or a configuration of
    transformers. Downloads nothing. Needs `rankmesh[models]`. Raises UsageError for a type that transformers
    does not have, or for layers whose cache or state it cannot tell.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ImportError("plan_model requires torch and transformers; pip install 'rankmesh[models]'") from error
    config = _config_of(model, transformers)
    text = config.get_text_config()
    if text is not config and getattr(config, "tie_word_embeddings", None) is not None:
        text.tie_word_embeddings = config.tie_word_embeddings
    auto = transformers.AutoModelForCausalLM
    with torch.device("meta"):
        try:
            built = auto.from_config(text)
        except Exception:  # some language models are only built with what is around them
            try:
                built = auto.from_config(config)
            except Exception as error:
                raise UsageError(
                    f"transformers builds no causal language model of {type(config).__name__}: {error}"
                ) from error
    return PlanModel(_line_of(built, text))


def _config_of(model: Any, transformers: Any) -> Any:
    if isinstance(model, transformers.PretrainedConfig):
        return model
    if isinstance(model, Mapping):
        values = dict(model)
    else:
        path = pathlib.Path(model)
        path = path / "config.json" if path.is_dir() else path
        try:
            values = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} cannot be read as a config.json: {error}") from error
    kind = values.pop("model_type", None)
    if kind not in transformers.CONFIG_MAPPING:
        raise UsageError(f"transformers {transformers.__version__} does not know the model type {kind!r}")
    return transformers.CONFIG_MAPPING[kind](**values)


def _blocks_of(built: Any) -> Any:
    """The list of layers: the one with most parameters that is in no other list."""
    import torch

    lists = {name: one for name, one in built.named_modules() if isinstance(one, torch.nn.ModuleList)}
    outer = [one for name, one in lists.items() if not any(name.startswith(other + ".") for other in lists)]
    if not outer:
        raise UsageError(f"{type(built).__name__} has no list of layers")
    return max(outer, key=lambda one: sum(p.numel() for p in one.parameters()))


def _line_of(built: Any, config: Any) -> str:
    hidden = _first(config, "hidden_size", "d_model", "n_embd")
    vocabulary = built.get_input_embeddings().weight.shape[0]
    head = built.get_output_embeddings()
    tied = head is None or head.weight is built.get_input_embeddings().weight
    seen: set[int] = set()
    runs: list[tuple[dict[str, int], int]] = []
    blocks = _blocks_of(built)
    inside = 0
    for index, block in enumerate(blocks):
        own = {name: p for name, p in block.named_parameters() if id(p) not in seen}
        seen |= {id(p) for p in own.values()}
        inside += sum(p.numel() for p in own.values())
        sizes = _layer_of(block, own, config, hidden, index)
        if runs and runs[-1][0] == sizes:
            runs[-1] = (sizes, runs[-1][1] + 1)
        else:
            runs.append((sizes, 1))
    _check_cache(built, config.model_type, runs)
    total = sum({id(p): p.numel() for p in built.parameters()}.values())
    beside = total - inside - hidden * vocabulary * (1 if tied else 2) - hidden
    words = [f"name={config.model_type}", f"hidden={hidden}", f"vocab={vocabulary}"]
    words += ["tied"] if tied else []
    words += [f"beside={beside}"] if beside else []
    before = dict.fromkeys(runs[0][0], 0)
    for sizes, count in runs:
        of_heads = {"kv", "head_dim", "value_dim"} if sizes["heads"] != before["heads"] else set()
        words += [f"layers={count}"]
        words += [f"{name}={size}" for name, size in sizes.items() if size != before[name] or name in of_heads]
        before = sizes
    return " ".join(words)


def _check_cache(built: Any, kind: str, runs: list[tuple[dict[str, int], int]]) -> None:
    """Refuses layers whose cache is not the one that the model keeps. Says nothing of a model that meta cannot run."""
    import torch

    try:
        with torch.device("meta"), torch.no_grad():
            output = built(input_ids=torch.zeros(1, 4, dtype=torch.long), use_cache=True)
        layers = output.past_key_values.layers
    except Exception:  # a router, for instance, reads numbers, and the meta device has none
        return
    tensors = [one for one in layers if getattr(one, "keys", None) is not None and one.keys.dim() == 4]
    kept = sum(each.shape[1] * each.shape[3] for one in tensors for each in (one.keys, one.values))
    found = expanded = 0  # most latent attention of transformers caches the keys and values of each head
    for sizes, count in runs:
        of_heads = count * sizes["kv"] * (sizes["head_dim"] + sizes["value_dim"])
        found += count * (sizes["kv_rank"] + sizes["rope"]) if sizes["kv_rank"] else of_heads
        expanded += of_heads + count * sizes["kv"] * sizes["rope"]
    if kept not in (found, expanded):
        raise UsageError(
            f"plan_model finds {found} numbers that a token adds to the cache of {kind}, but the model keeps {kept}: "
            "it has a kind of layer that plan_model does not know; give plan its layers as a line of sizes"
        )


def _first(of: Any, *names: str, otherwise: int | None = None) -> int:
    for name in names:
        if isinstance(value := getattr(of, name, None), int) and not isinstance(value, bool):
            return value
    if otherwise is None:
        raise UsageError(f"{type(of).__name__} has no {names[0]}")
    return otherwise


_SIZES = ("heads", "kv", "head_dim", "value_dim", "gate", "window", "q_rank", "kv_rank", "rope", "state", "weights")


def _layer_of(block: Any, own: dict[str, Any], config: Any, hidden: int, index: int) -> dict[str, int]:
    """The sizes of one layer. What the closed forms do not count is `ffn` and `more`."""
    sizes, mixer = dict.fromkeys(_SIZES, 0), 0
    counted: list[str] = []  # modules that are part of one that was counted
    for name, module in block.named_modules():
        if any(f"{name}.".startswith(each + ".") for each in counted) or re.search(r"cross|encoder_attn", name):
            continue
        direct = dict(module.named_children()) | dict(module.named_parameters(recurse=False))
        if "kv_a_proj_with_mqa" in direct:
            mixer += _add_latent_attention(sizes, module, hidden)
        elif _is_state(direct):
            counted.append(name)
            weights = sum(p.numel() for p in module.parameters())
            sizes["state"] += _state_of(module)
            sizes["weights"] += weights
            wide = ("num_v_heads", "num_heads", "num_attention_heads", "intermediate_size", "hidden_size")
            sizes["heads"] = sizes["heads"] or _first(module, *wide, otherwise=1)
            mixer += weights
        elif _is_attention(direct):
            counted.append(f"{name}.qkv_proj")  # which has a q_proj of its own in zaya
            mixer += _add_attention(sizes, module, direct, getattr(module, "config", config), hidden)
    _add_network(sizes, own, config, hidden, sum(p.numel() for p in own.values()) - mixer - 2 * hidden)
    # Keys that are values have no matrix of their own; what lacks more is another kind of attention.
    if sizes["more"] < -hidden * (2 + sizes["kv"] * sizes["value_dim"]):
        raise UsageError(
            f"layer {index}, a {type(block).__name__}, has fewer parameters than attention of {sizes['heads']} heads: "
            "it has a kind of attention that plan_model does not know; give plan its layers as a line of sizes"
        )
    if not (sizes["heads"] or sizes["experts"] or sizes["ffn"]):
        raise UsageError(f"layer {index}, a {type(block).__name__}, has no attention, state or network that plan knows")
    return sizes


def _add_latent_attention(sizes: dict[str, int], module: Any, hidden: int) -> int:
    """Adds the sizes of attention over a latent vector, and returns the number of its parameters."""
    heads, dim, value = module.num_heads, module.qk_nope_head_dim, module.v_head_dim
    kv_rank, rope, q_rank = module.kv_lora_rank, module.qk_rope_head_dim, getattr(module, "q_lora_rank", None) or 0
    sizes |= {"heads": heads, "kv": heads, "head_dim": dim, "value_dim": value}
    sizes |= {"kv_rank": kv_rank, "rope": rope, "q_rank": q_rank}
    query = heads * (dim + rope)
    queries = (hidden + query) * q_rank if q_rank else hidden * query
    return hidden * heads * value + hidden * (kv_rank + rope) + heads * (dim + value) * kv_rank + queries  # type: ignore[no-any-return]


def _add_attention(sizes: dict[str, int], module: Any, direct: dict[str, Any], settings: Any, hidden: int) -> int:
    """Adds the sizes of attention, and returns the number of its parameters."""
    names = ("num_heads", "num_attention_heads", "n_head")
    heads = _first(module, *names, otherwise=_first(settings, *names[1:]))
    dim = _first(module, "head_dim", "head_size", "d_kv", "d_head", otherwise=hidden // heads)
    kv, value = heads, dim
    if "k_proj" in direct and hasattr(direct["k_proj"], "out_features"):
        kv = direct["k_proj"].out_features // dim
        if "v_proj" in direct:
            value = direct["v_proj"].out_features // kv
    elif "q_proj" in direct and not {"k_proj", "kv_proj", "key"} & set(direct):
        kv = 0
    elif getattr(module, "multi_query", False) and not getattr(module, "new_decoder_architecture", False):
        kv = 1
    else:
        of_model = _first(settings, "num_key_value_heads", otherwise=heads)
        kv = _first(module, "num_key_value_heads", "num_kv_heads", otherwise=of_model)
    out = {key: getattr(one, "out_features", 0) for key, one in direct.items()}
    gate = out.get("q_proj", 0) == 2 * heads * dim or out.get("gate_proj", 0) == heads * dim
    window = getattr(module, "sliding_window", None) or getattr(module, "attention_chunk_size", None)
    sizes |= {"heads": heads, "kv": kv, "head_dim": dim, "value_dim": value, "gate": int(gate)}
    sizes["window"] = window if isinstance(window, int) else 0
    return hidden * (heads * ((1 + gate) * dim + value) + kv * (dim + value))


def _add_network(sizes: dict[str, int], own: dict[str, Any], config: Any, hidden: int, rest: int) -> None:
    """Adds the sizes of the feed-forward network; `rest` are the parameters of the layer beside its attention."""
    stacked = {n: p for n, p in own.items() if "expert" in n and "shared" not in n and p.dim() == 3}
    separate = {n: int(found[1]) for n in own if (found := re.search(r"experts\.(\d+)\.", n))}
    routed = sum(own[n].numel() for n in {*stacked, *separate})
    is_gated = any(re.search(r"gate_(up_)?proj|gate_up|w3\b|w_1|input_linear|Wi\b", name) for name in own)
    sizes |= {"experts": 0, "topk": 0, "expert_ffn": 0, "shared": 0, "ffn": 0, "gated": int(is_gated)}
    matrix = (3 if is_gated else 2) * hidden
    if routed:
        experts = 1 + max(separate.values()) if separate else next(iter(stacked.values())).shape[0]
        sizes |= {"experts": experts, "topk": min(experts, _first(config, *_TOP_K, otherwise=1))}
        sizes["expert_ffn"] = max(1, routed // experts // matrix)
        rest -= experts * sizes["expert_ffn"] * matrix + hidden * experts
    width = "ffn" if not routed else "shared" if any("shared" in name for name in own) else ""
    if width:
        sizes[width] = max(0, rest) // matrix
        rest -= sizes[width] * matrix
    sizes["more"] = rest


def _is_state(direct: dict[str, Any]) -> bool:
    if hasattr(direct.get("conv"), "conv"):  # a layer around a short convolution
        return False
    return bool({"A_log", "conv1d", "rg_lru", "conv"} & set(direct)) or {"qkv_proj", "output_gate"} <= set(direct)


def _is_attention(direct: dict[str, Any]) -> bool:
    queries = "q_proj qkv_proj query_key_value c_attn Wqkv query Wq project_q query_proj q_lin"
    return bool({*queries.split()} & set(direct)) or "kv_proj" in direct or {"q", "k", "v"} <= set(direct)


def _state_of(module: Any) -> int:
    """The numbers that a layer keeps of a sequence, by the sizes of its module."""
    for names in (
        ("num_v_heads", "head_k_dim", "head_v_dim"),
        ("num_heads", "head_dim", "ssm_state_size"),
        ("intermediate_size", "ssm_state_size"),
        ("num_attention_heads", "head_dim", "head_dim"),
        ("num_heads", "head_dim", "head_dim"),
        ("hidden_size", "L_cache"),
        ("lru_width",),
    ):
        if all(isinstance(getattr(module, name, None), int) for name in names):
            return math.prod(getattr(module, name) for name in names)
    for name in ("conv", "conv1d"):
        conv: Any = getattr(module, name, None)
        if hasattr(conv, "kernel_size"):
            return conv.in_channels * (conv.kernel_size[0] - 1)  # type: ignore[no-any-return]
    raise UsageError(f"plan does not know what a {type(module).__name__} keeps of a sequence")
