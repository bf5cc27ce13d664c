"""The table of families beside the living transformers.

    python families.py facts    # writes families.csv: type, parameters, numbers of a token in the KV cache
    python families.py changed  # writes the numbers of changed.jsonl
    python families.py keys     # prints the defaults in src/plan/data/families.csv that transformers has otherwise

Needs torch and transformers 5.24. Models are built on the meta device; HF_HUB_OFFLINE=1 forbids any download.
"""

import json
import pathlib
import signal
import sys
import warnings

import torch
import transformers
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES as TYPES

warnings.filterwarnings("ignore")
transformers.logging.set_verbosity_error()
HERE = pathlib.Path(__file__).parent
TABLE = HERE.parents[1] / "src/plan/data/families.csv"
SIZES = (
    "hidden_size num_attention_heads num_hidden_layers intermediate_size n_embd d_model vocab_size num_key_value_heads"
)


def built(config):
    with torch.device("meta"):
        try:
            return AutoModelForCausalLM.from_config(config.get_text_config())
        except Exception:
            return AutoModelForCausalLM.from_config(config)


def layers_of(model):
    """The layers of the cache that have keys; None if the model cannot be run on the meta device."""
    try:
        with torch.device("meta"), torch.no_grad():
            layers = model(input_ids=torch.zeros(1, 64, dtype=torch.long), use_cache=True).past_key_values.layers
    except Exception:
        return None
    return [one for one in layers if getattr(one, "keys", None) is not None and one.keys.dim() == 4]


def numbers(layers):
    return sum(t.shape[1] * t.shape[3] for one in layers for t in (one.keys, one.values))


def facts():
    lines = ["type,parameters,cache"]
    for name in sorted(TYPES):
        signal.alarm(120)
        try:
            model = built(CONFIG_MAPPING[name]())
            layers = layers_of(model)
            total = sum({id(p): p.numel() for p in model.parameters()}.values())
            lines.append(f"{name},{total},{'' if layers is None else numbers(layers)}")
        except Exception as error:
            print(f"{name} cannot be built: {error}"[:100])
    signal.alarm(0)
    (HERE / "families.csv").write_text("\n".join(lines) + "\n")


def changed():
    lines = []
    for line in (HERE / "changed.jsonl").read_text().splitlines():
        facts = json.loads(line)
        values = dict(facts["config"])
        model = built(CONFIG_MAPPING[values.pop("model_type")](**values))
        facts["parameters"] = sum({id(p): p.numel() for p in model.parameters()}.values())
        for block in model.modules():  # experts read numbers, and the meta device has none
            if hasattr(block, "experts"):
                block.forward = lambda hidden, *_, **__: hidden
        if layers := layers_of(model):
            facts |= {
                "cache": numbers(layers),
                "windowed": sum(bool(getattr(one, "sliding_window", 0)) for one in layers),
            }
        lines.append(json.dumps(facts))
    (HERE / "changed.jsonl").write_text("\n".join(lines) + "\n")


def derived(cls, default):
    """The keys that follow from others, which have no default of their own."""
    found = set()
    for key in SIZES.split():
        if not isinstance(default.get(key), int):
            continue
        for times in (2, 4):
            try:
                other = cls(**{key: default[key] * times}).to_dict()
            except Exception:
                continue
            found |= {k for k in other if k != key and other[k] != default.get(k)}
            break
    return found


def keys():
    for line in TABLE.read_text().splitlines()[1:]:
        name, _, words = line.split(",")
        if name not in CONFIG_MAPPING:
            continue
        cls = CONFIG_MAPPING[name]
        default = cls().to_dict()
        free = derived(cls, default)
        for word in words.split():
            key, value = word.split("=")
            now = default.get(key)
            if key not in default or isinstance(now, (list, dict)) or (value == "" and (now is None or key in free)):
                continue
            text = "" if now is None else str(now).lower() if isinstance(now, bool) else str(now)
            if text != value:
                print(f"{name}: {key} is {value or 'absent'}, {text or 'absent'} in transformers")


def slow(*_):
    raise TimeoutError("slow")


signal.signal(signal.SIGALRM, slow)
{"facts": facts, "changed": changed, "keys": keys}[sys.argv[1]]()
