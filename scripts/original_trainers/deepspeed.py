# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's engine on its CPU accelerator: ZeRO, its pipeline, experts, AutoTP, Ulysses, and a client's mpu."""

import sys

from .framework import Framework, Layout

_MESH = {"also_install": True}  # it makes a DeviceMesh
_NONE = {"also_install": False}

FRAMEWORK = Framework(
    package="deepspeed",
    install="rankmesh.deepspeed",
    needs={
        "einops": "einops",
        "hjson": "hjson",
        "msgpack": "msgpack",
        "psutil": "psutil",
        "cpuinfo": "py-cpuinfo",
        "pydantic": "pydantic",
        "tqdm": "tqdm",
    },
    environment={"DS_ACCELERATOR": "cpu", "DS_IGNORE_CUDA_DETECTION": "1"},
    torch=False,  # its accelerator is the host
    imports=("original_trainers.deepspeed_models", "deepspeed.runtime.zero.muon.muon_optimizer", "torch._dynamo"),
    layouts={
        "zero1": Layout(4, {"zero": {"stage": 1}}, **_NONE),
        "zero2": Layout(4, {"zero": {"stage": 2}}, **_NONE),
        "zero3": Layout(4, {"zero": {"stage": 3}}, **_NONE),
        "zero3 hpz2": Layout(4, {"zero": {"stage": 3, "zero_hpz_partition_size": 2}}, **_NONE),
        "pipe2 data2": Layout(4, {"kind": "pipe", "pipe": 2, "model": 1, "data": 2}, **_NONE),
        "pipe2 data2 model2": Layout(8, {"kind": "pipe", "pipe": 2, "model": 2, "data": 2}, **_NONE),
        "ep2 zero2": Layout(4, {"kind": "experts", "ep": 2, "zero": {"stage": 2}}, **_NONE),
        "ep4 zero1": Layout(8, {"kind": "experts", "ep": 4}, **_NONE),
        "autotp2 zero1": Layout(4, {"kind": "autotp", "tp": 2}, **_MESH),
        "autotp2 zero2": Layout(8, {"kind": "autotp", "tp": 2, "zero": {"stage": 2}}, **_MESH),
        "mpu tp2 zero1": Layout(4, {"kind": "mpu", "tp": 2}, **_NONE),
        "mpu tp2 zero2": Layout(8, {"kind": "mpu", "tp": 2, "zero": {"stage": 2}}, **_NONE),
        "ulysses sp2 zero3": Layout(4, {"kind": "ulysses", "sp": 2, "zero": {"stage": 3}}, **_MESH),
        "ulysses sp2 mpu zero1": Layout(4, {"kind": "ulysses", "sp": 2, "mpu": True}, **_NONE),
    },
)


def train(settings, steps, note):
    import deepspeed
    import torch

    sys.modules["deepspeed.comm.torch"].build_shm_op = lambda: None  # it is compiled; Gloo does its work as well
    deepspeed.init_distributed(verbose=False)
    torch.manual_seed(0)
    from . import deepspeed_models

    step = getattr(deepspeed_models, settings.get("kind", "dense"))(settings)
    for _ in range(steps):
        loss, norm = step()
        note(loss=loss, grad_norm=norm)
