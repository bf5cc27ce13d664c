# SPDX-License-Identifier: Apache-2.0
"""OLMo-core's Trainer on a tiny model and random tokens, set up as its src/examples/llm/train.py does."""

import os
from types import SimpleNamespace

from .framework import Framework, Layout

FRAMEWORK = Framework(
    package="olmo_core",
    install="rankmesh.olmo",
    paths=("src", "."),
    stubs=("cached_path", "bettermap", "pandas", "requests", "safetensors"),
    needs={
        "dataclass_extensions": "dataclass-extensions",
        "rich": "rich",
        "yaml": "PyYAML",
        "numpy": "numpy",
    },
    torch=False,
    imports=(
        "olmo_core.train.train_module",
        "olmo_core.train.callbacks",
        "olmo_core.data",
        "torch.distributed.pipelining",
    ),
    layouts={
        "ddp4": Layout(4, {"dp": "ddp"}),
        "fsdp4": Layout(4, {"dp": "fsdp"}),
        "fsdp2 tp2": Layout(4, {"dp": "fsdp", "tp": 2}),
        "hsdp2x2 tp2": Layout(8, {"dp": "hsdp", "replicas": 2, "tp": 2}),
        "fsdp2 cp2": Layout(4, {"dp": "fsdp", "cp": 2}),
        "pp2 fsdp2": Layout(4, {"dp": "fsdp", "pp": 2}),
        "pp2 hsdp2x2": Layout(8, {"dp": "hsdp", "replicas": 2, "pp": 2}),
        "hsdp2x2 ep2": Layout(4, {"dp": "hsdp", "replicas": 2, "ep": 2}),
    },
)
LENGTH, BATCH = 32, 8  # tokens of an instance, instances of a step


def _kernels():
    """What olmo_core.kernels.moe has in Triton, for the host."""
    import torch

    def gather(x, indices, bin_ids, weights, bins, top_k):
        return x[indices // top_k] * (1 if weights is None else weights[indices, None])

    def scatter(x, indices, bin_ids, weights, bins, top_k):
        out = torch.empty_like(x)
        out[indices] = x * (1 if weights is None else weights[indices, None])
        return out.view(-1, top_k, x.shape[1]).sum(dim=1)

    def scatter_wgrad(x, grad, indices, bin_ids, bins, top_k):
        out = x.new_empty(len(indices))
        out[indices] = (x * grad[indices // top_k]).sum(dim=1)
        return out

    return SimpleNamespace(gather=gather, scatter=scatter, scatter_wgrad=scatter_wgrad)


def _model(settings):
    """The settings of the smallest model of OLMo-core, with experts where the layout has them."""
    from olmo_core.nn.moe import MoEConfig, MoERouterConfig, MoEType
    from olmo_core.nn.transformer import TransformerBlockType, TransformerConfig, TransformerType
    from olmo_core.ops import moe

    moe.kernels = _kernels()
    experts = {}
    if "ep" in settings:
        router = MoERouterConfig(top_k=2)
        experts = {
            "name": TransformerType.moe,
            "block_name": TransformerBlockType.moe_reordered_norm,
            "feed_forward_moe": MoEConfig(
                name=MoEType.dropless, num_experts=4, hidden_size=64, router=router, lb_loss_weight=0.01
            ),
        }
    return TransformerConfig.olmo2_14M(vocab_size=256, n_layers=4, **experts)


def _tokens(vocabulary):
    """A file of random tokens, the same from each rank."""
    import numpy

    tokens = numpy.random.default_rng(0).integers(vocabulary, size=LENGTH * BATCH * 16, dtype=numpy.uint16)
    name = f"tokens{os.environ['RANK']}"
    tokens.tofile(name)
    os.replace(name, "tokens.npy")
    return os.path.abspath("tokens.npy")


def _train_module(settings, dp_ranks):
    """The settings of the layout in OLMo-core's classes."""
    from olmo_core.distributed.parallel import DataParallelType
    from olmo_core.optim import AdamWConfig, CosWithWarmup
    from olmo_core.train import train_module as of

    transformer = of.transformer.config
    given = {"dp_config": of.TransformerDataParallelConfig(
        name=DataParallelType(settings["dp"]), num_replicas=settings.get("replicas"))}  # fmt: skip
    if "tp" in settings:
        given["tp_config"] = of.TransformerTensorParallelConfig(degree=settings["tp"])
    if "cp" in settings:
        given["cp_config"] = transformer.TransformerContextParallelConfig.ulysses(degree=settings["cp"])
    if "pp" in settings:
        given["pp_config"] = of.TransformerPipelineParallelConfig(degree=settings["pp"])
    if "ep" in settings:
        given["ep_config"] = of.TransformerExpertParallelConfig(degree=settings["ep"])
    return of.TransformerTrainModuleConfig(
        rank_microbatch_size=LENGTH * BATCH // dp_ranks // settings.get("pp", 1),
        max_sequence_length=LENGTH,
        optim=AdamWConfig(lr=1e-3),
        max_grad_norm=1.0,
        scheduler=CosWithWarmup(warmup_steps=2),
        **given,
    )


def train(settings, steps, note):
    from olmo_core.data import NumpyDataLoaderConfig, NumpyFSLDatasetConfig, TokenizerConfig
    from olmo_core.train import Duration, TrainerConfig, prepare_training_environment, teardown_training_environment
    from olmo_core.train.callbacks import Callback

    class Notes(Callback):
        def log_metrics(self, step, metrics):
            if "optim/total grad norm" in metrics:  # not of its trial before the first step
                note(**{name: value for name, value in metrics.items() if name.startswith("train/") or "norm" in name})

    prepare_training_environment(seed=0, backend="cpu:gloo")
    tokenizer = TokenizerConfig(vocab_size=256, eos_token_id=0, pad_token_id=1)
    ranks = int(os.environ["WORLD_SIZE"])
    dp_ranks = ranks // settings.get("tp", 1) // settings.get("cp", 1) // settings.get("pp", 1)
    module = _train_module(settings, dp_ranks).build(_model(settings).build(init_device="meta"))
    work = os.path.abspath("work")
    data = NumpyFSLDatasetConfig(paths=[_tokens(256)], sequence_length=LENGTH, tokenizer=tokenizer, work_dir=work)
    loader = NumpyDataLoaderConfig(global_batch_size=LENGTH * BATCH, seed=0, num_workers=0, work_dir=work)
    trainer = (
        TrainerConfig(
            save_folder=os.path.abspath("checkpoints"),
            max_duration=Duration.steps(steps),
            metrics_collect_interval=1,
            # Its threads for checkpoints and metrics make runs this short hang now and then, with its own modules too.
            async_bookkeeping=False,
            no_checkpoints=True,
        )
        .with_callback("notes", Notes())
        .build(module, loader.build(data.build(), dp_process_group=module.dp_process_group))
    )
    trainer.fit()
    teardown_training_environment()
