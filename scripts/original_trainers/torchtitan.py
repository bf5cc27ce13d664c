# SPDX-License-Identifier: Apache-2.0
"""torchtitan's Trainer on its debug models and random tokens: the device is the host, and attention is torch's own."""

import importlib
import os
from dataclasses import dataclass
from types import SimpleNamespace

from .framework import Framework, Layout


def _layout(ranks, model, **degrees):
    """On a backend that PyTorch 2.13 can run: its fully_shard refuses the parameters of spmd_types, the default."""
    return Layout(ranks, {"model": model, "parallelism": {"spmd_backend": "partial_dtensor"} | degrees})


FRAMEWORK = Framework(
    package="torchtitan",
    install="rankmesh.torchtitan",
    stubs=(
        *("tyro", "grain", "datasets", "tokenizers", "torch_checkpointing", "safetensors", "torch.utils.tensorboard"),
        "torchtitan.distributed.minimal_async_ep.kernels",  # which are Triton's
    ),
    needs={"spmd_types": "spmd_types", "torchdata": "torchdata", "numpy": "numpy"},
    torch=False,
    imports=(
        "original_trainers.torchtitan_on_host",
        "torchtitan.trainer",
        "torchtitan.models.llama3.config_registry",
        "torchtitan.models.deepseek_v3.config_registry",
    ),
    layouts={
        "llama fsdp2 tp2": _layout(4, "llama3", tensor_parallel_degree=2),
        "llama fsdp4 tp2": _layout(8, "llama3", tensor_parallel_degree=2),
        "llama hsdp2x2 tp2": _layout(8, "llama3", data_parallel_replicate_degree=2, tensor_parallel_degree=2),
        "llama fsdp2 tp2 full_dtensor": _layout(4, "llama3", tensor_parallel_degree=2, spmd_backend="full_dtensor"),
        "moe fsdp4 ep2": _layout(4, "deepseek_v3", expert_parallel_degree=2),
        "moe fsdp2 tp2 ep4": _layout(4, "deepseek_v3", tensor_parallel_degree=2, expert_parallel_degree=4),
    },
)
LENGTH, BATCH = 64, 2  # tokens of a text, texts of a step on a rank


def _loader():
    """A data loader of torchtitan that draws tokens, others for each data parallel rank."""
    import torch
    from torchtitan.trainer import BaseDataLoader

    class Tokens(BaseDataLoader):
        @dataclass(kw_only=True, slots=True)
        class Config(BaseDataLoader.Config):
            shape: tuple = (BATCH, LENGTH)

        def __init__(self, config, *, dp_rank, **others):
            self.shape, self.draws = config.shape, torch.Generator().manual_seed(dp_rank)

        def __iter__(self):
            while True:
                tokens = torch.randint(2048, (BATCH, LENGTH + 1), generator=self.draws)
                positions = torch.arange(LENGTH).expand(BATCH, -1)
                given = {"input": tokens[:, :-1].reshape(self.shape), "positions": positions.reshape(self.shape)}
                yield given, tokens[:, 1:].reshape(self.shape)

        def state_dict(self):
            return {}

        def load_state_dict(self, state):
            pass

    return Tokens


def train(settings, steps, note):
    from torchtitan.components.metrics import MetricsProcessor

    def log(self, step, global_avg_loss, global_max_loss, grad_norm, extra_metrics=None):
        note(loss=global_avg_loss, max_loss=global_max_loss, grad_norm=grad_norm)

    MetricsProcessor.log = log
    registry = importlib.import_module(f"torchtitan.models.{settings['model']}.config_registry")
    config = getattr(registry, f"{settings['model']}_debugmodel")()
    for name, value in settings["parallelism"].items():
        setattr(config.parallelism, name, value)
    training, loader = config.training, _loader().Config()
    if hasattr(training, "seq_len"):  # 0.3.0
        training.seq_len, training.local_batch_size = LENGTH, BATCH
    else:
        training.max_context_length, training.num_tokens_per_microbatch_per_dp_rank = LENGTH, LENGTH * BATCH
        loader.shape = (BATCH * LENGTH,)
    training.steps, training.disable_cuda_graphs, training.mixed_precision_param = steps, True, "float32"
    config.debug.seed, config.debug.deterministic = 0, True
    config.dump_folder = os.path.abspath("outputs")
    config.validator.enable = config.checkpoint.enable = config.debug.enable_structured_logging = False
    config.dataloader = loader
    config.tokenizer = SimpleNamespace(build=lambda **options: None)
    config.metrics.log_freq = 1
    trainer = config.build()
    trainer.train()
    trainer.close()
