# SPDX-License-Identifier: Apache-2.0
"""Stands in for what picotron's trainer takes from others: a model's settings and weights, a tokenizer and texts, all random."""

import sys
from types import ModuleType, SimpleNamespace

import numpy
import torch

SETTINGS = {
    "hidden_size": 64,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "vocab_size": 256,
}
TEXTS = 64


class Tokenizer:
    """Makes 64 random tokens of each text."""

    def batch_encode_plus(self, texts, **options):
        tokens = numpy.random.default_rng(0).integers(SETTINGS["vocab_size"], size=(len(texts), 64))
        return {"input_ids": list(tokens)}


class Texts:
    """What `datasets` would load: texts, of which only the number matters."""

    column_names = ("text",)

    def map(self, tokenize, **options):
        return [{"input_ids": row} for row in tokenize([""] * TEXTS)["input_ids"]]


class Weights:
    """What `safetensors` would open: weights of the right shapes, which the trainer draws anew."""

    def __init__(self, path, **options):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def keys(self):
        return []

    def get_tensor(self, name):
        hidden, inner = SETTINGS["hidden_size"], SETTINGS["intermediate_size"]
        of_keys = hidden // SETTINGS["num_attention_heads"] * SETTINGS["num_key_value_heads"]
        shapes = {
            "embed_tokens": (SETTINGS["vocab_size"], hidden),
            "k_proj": (of_keys, hidden),
            "v_proj": (of_keys, hidden),
            "q_proj": (hidden, hidden),
            "o_proj": (hidden, hidden),
            "up_proj": (inner, hidden),
            "gate_proj": (inner, hidden),
            "down_proj": (hidden, inner),
        }
        return torch.zeros(next((shape for part, shape in shapes.items() if part in name), (hidden,)))


def stand_in():
    """From now on, in this process."""

    def given(value):
        return SimpleNamespace(from_pretrained=lambda name: value)

    names = {
        "transformers": {"AutoConfig": given(SimpleNamespace(**SETTINGS)), "AutoTokenizer": given(Tokenizer())},
        "datasets": {"Features": dict, "Sequence": dict, "Value": dict, "load_dataset": lambda *a, **options: Texts()},
        "safetensors": {"safe_open": Weights},
        "huggingface_hub": {},
    }
    for name, values in names.items():
        module = ModuleType(name)
        module.__dict__.update(values)
        sys.modules[name] = module
