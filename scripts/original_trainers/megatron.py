# SPDX-License-Identifier: Apache-2.0
"""Megatron-core's examples/run_simple_mcore_train_loop.py, with stages, and its distributed checkpoint saved and loaded."""

import functools
import runpy
from pathlib import Path

from .framework import Framework, Layout

FRAMEWORK = Framework(
    package="megatron",
    install="rankmesh.megatron",
    stubs=("triton",),  # kernels for GPUs
    environment={"TORCHDYNAMO_DISABLE": "1"},  # else it compiles its functions for the host
    layouts={
        "tp2 pp2": Layout(4, {"tp": 2, "pp": 2}, also_install=False),
        "dp2 tp2 pp2": Layout(8, {"tp": 2, "pp": 2}, also_install=False),
    },
)
MICROBATCHES = 2


def train(settings, steps, note):
    import megatron  # before triton, which is then a stub
    import torch
    import triton

    triton.__version__ = "3.0.0"
    root = Path(next(iter(megatron.__path__))).parent
    example = runpy.run_path(str(root / "examples/run_simple_mcore_train_loop.py"))
    model = _model(example, settings["tp"], settings["pp"])
    optimizer = example["Adam"](model.parameters())
    batches = example["get_train_data_iterator"]()
    length = example["_SEQUENCE_LENGTH"]
    for _ in range(steps):
        model.zero_grad_buffer()
        losses = example["get_forward_backward_func"]()(
            forward_step_func=example["forward_step_func"],
            data_iterator=batches,
            model=model,
            num_microbatches=MICROBATCHES,
            seq_length=length,
            micro_batch_size=8,
            decoder_seq_length=length,
            forward_only=False,
        )
        example["finalize_model_grads"]([model])
        for parameter in model.parameters():
            parameter.grad = parameter.main_grad
        norm = torch.nn.utils.get_total_norm([each.grad for each in model.parameters()])
        optimizer.step()
        note(grad_norm=norm, **{f"loss {number}": each["lm loss"] for number, each in enumerate(losses)})
    _save_and_load(example, model)


def _model(example, tp, pp):
    """The example's model, of this rank's stage."""
    import torch
    from megatron.core import parallel_state

    torch.manual_seed(0)
    example["initialize_distributed"](tp, pp)
    example["model_parallel_cuda_manual_seed"](123)
    names = example["model_provider"].__globals__
    names["device"] = torch.device("cuda")
    names["TransformerConfig"] = functools.partial(
        names["TransformerConfig"], tensor_model_parallel_size=tp, pipeline_model_parallel_size=pp
    )
    names["GPTModel"] = functools.partial(
        names["GPTModel"],
        pre_process=parallel_state.is_pipeline_first_stage(),
        post_process=parallel_state.is_pipeline_last_stage(),
    )
    model = example["model_provider"]()
    settings = example["DistributedDataParallelConfig"](overlap_grad_reduce=False, use_distributed_optimizer=False)
    return example["DistributedDataParallel"](config=model.config, ddp_config=settings, module=model)


def _save_and_load(example, model):
    """What was saved is there again in a model whose weights were lost."""
    import torch
    import torch.distributed as dist

    folder = Path("checkpoint")
    folder.mkdir(exist_ok=True)
    saved = [each.detach().clone() for each in model.parameters()]
    example["save_distributed_checkpoint"](str(folder), model)
    dist.barrier()
    with torch.no_grad():
        for each in model.parameters():
            each.zero_()
    example["load_distributed_checkpoint"](str(folder), model)
    if not all(torch.equal(old, new) for old, new in zip(saved, model.parameters(), strict=True)):
        raise RuntimeError("the checkpoint that was loaded is not what was saved")
