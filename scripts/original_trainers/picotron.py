# SPDX-License-Identifier: Apache-2.0
"""picotron's own train.py, on random weights and tokens, with its process group manager or ours."""

import json
import os
import runpy
import sys
from pathlib import Path

from .framework import Framework, Layout


def _layout(dp, pp, cp, tp, engine):
    sizes = {"dp": dp, "pp": pp, "cp": cp, "tp": tp}
    name = " ".join(f"{axis}{size}" for axis, size in sizes.items() if size > 1)
    return f"{name} {engine}", Layout(dp * pp * cp * tp, {"sizes": sizes, "engine": engine}, also_install=False)


FRAMEWORK = Framework(
    package="picotron",
    install="rankmesh.picotron",
    stubs=("flash_attn", "wandb"),
    layouts=dict(
        [
            _layout(2, 2, 1, 2, "1f1b"),
            _layout(2, 2, 2, 1, "afab"),
            _layout(1, 2, 2, 2, "1f1b"),
            _layout(2, 1, 2, 2, "1f1b"),
        ]
    ),
)


def train(settings, steps, note):
    import numpy

    from . import picotron_data

    picotron_data.stand_in()
    import picotron.utils

    average = picotron.utils.average_loss_across_dp_cp_ranks

    def average_and_note(loss, device):
        value = average(loss, device)
        note(loss=value)
        return value

    picotron.utils.average_loss_across_dp_cp_ranks = average_and_note
    folder = Path(f"rank{os.environ['RANK']}")
    (folder / "hf_model" / "tiny").mkdir(parents=True)
    (folder / "hf_model" / "tiny" / "config.json").write_text("{}")  # it takes it for a model that it has downloaded
    (folder / "config.json").write_text(json.dumps(_config(settings, steps)))
    os.chdir(folder)
    os.environ["DTYPE"] = "float32"
    numpy.random.seed(0)
    script = Path(picotron.utils.__file__).parents[1] / "train.py"
    sys.argv = [str(script), "--config", "config.json"]
    runpy.run_path(str(script), run_name="__main__")


def _config(settings, steps):
    """What picotron reads: a tiny model, without flash attention."""
    return {
        "distributed": {"use_cpu": True, "pp_engine": settings["engine"], "backend": "gloo"}
        | {f"{axis}_size": size for axis, size in settings["sizes"].items()},
        "model": {"name": "tiny", "use_fused_adam": False},
        "training": {
            "seed": 42,
            "learning_rate": 1e-3,
            "total_train_steps": steps,
            "seq_length": 64,
            "micro_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "max_tokens": None,
        },
        "dataset": {"name": "random", "num_workers": 0, "num_proc": 1},
        "checkpoint": {"save_dir": "checkpoint", "save_frequency": 1000, "load_path": ""},
        "logging": {"use_wandb": False, "run_name": "tiny"},
        "environment": {
            "OMP_NUM_THREADS": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "FLASH_ATTEN": "0",
            "HF_TOKEN": "none",
        },
    }
