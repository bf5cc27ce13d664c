# SPDX-License-Identifier: Apache-2.0
"""accelerate's examples/torch_native_parallelism/nd_parallel.py, on a small Llama of random weights and random tokens."""

import os
import runpy
import sys
from argparse import Namespace
from pathlib import Path

from . import transformers as models
from .framework import Framework, Layout

AXES = ("dp_replicate", "dp_shard", "cp", "tp")


def _layout(ranks, **sizes):
    return " ".join(f"{axis}{size}" for axis, size in sizes.items()), Layout(ranks, sizes, also_install=False)


FRAMEWORK = Framework(
    package="accelerate",
    install="rankmesh.torch",  # it makes all its groups by DeviceMeshes
    paths=("src", "."),
    stubs=("datasets",),
    needs={"transformers": "transformers", "psutil": "psutil"} | models.FRAMEWORK.needs,
    environment=models.FRAMEWORK.environment,
    torch=False,
    imports=models.FRAMEWORK.imports,
    # No "dp_shard2 tp2": the example gives from_pretrained the size of tp alone, which transformers then refuses.
    # No cp: torch 2.13 has it for the attention of GPUs only.
    layouts=dict(
        [
            _layout(4, tp=4),
            _layout(4, dp_replicate=2, dp_shard=2),
            _layout(8, dp_replicate=2, dp_shard=4),
        ]
    ),
)
LENGTH = 16


def train(settings, steps, note):
    import accelerate
    import torch
    import transformers

    _be_devices()
    folder = f"model{os.environ['RANK']}"
    models.save(folder)
    examples = Path(accelerate.__file__).parents[2] / "examples/torch_native_parallelism"
    sys.path.insert(0, str(examples))
    example = runpy.run_path(str(examples / "nd_parallel.py"))
    forward, names = example["forward"], example["train"].__globals__
    norms = []

    def forward_and_note(model, batch, optimizer, accelerator):
        if not norms:
            optimizer.optimizer.register_step_pre_hook(lambda *_: norms.append(norm(model)))
        loss = forward(model, batch, optimizer, accelerator)
        note(loss=loss.detach(), grad_norm=norms[-1])
        return loss

    def norm(model):
        return torch.nn.utils.get_total_norm([models.whole(each.grad) for each in model.parameters()])

    def texts(*_):
        random = torch.Generator().manual_seed(1)
        rows = torch.randint(models.SIZES["vocab_size"], (8 * steps, LENGTH + 1), generator=random).tolist()
        return [{"input_ids": row[:-1], "shift_labels": row[1:]} for row in rows]

    names.update(forward=forward_and_note, setup_tokenizer=lambda name: None, get_dataset=texts)
    transformers.PreTrainedModel.save_pretrained = lambda *_: None  # at its end, which cannot read shards on the host
    sizes = {f"{axis}_size": settings.get(axis, 1) for axis in AXES}
    example["set_seed"](42)
    options = {"sequence_length": LENGTH, "num_steps": steps, "save_dir": "saved", "checkpoint_frequency": steps + 1}
    example["train"](Namespace(**sizes, **options, model_name=folder))


def _be_devices():
    """It refuses a ParallelismConfig on the host, so that it is told of GPUs, whose device is the host."""
    import torch
    from accelerate.state import DistributedType, PartialState

    def set_device(self):
        self.device = torch.device("cpu")

    PartialState._prepare_backend = lambda *arguments: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = set_device
