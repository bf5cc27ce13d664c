# SPDX-License-Identifier: Apache-2.0
"""What DeepSpeed's engine trains: small models, each with the groups of its kind. A function returns that of one step."""

import deepspeed
import torch
from deepspeed.module_inject.layers import LinearAllreduce, LinearLayer, set_autotp_mode
from deepspeed.moe.layer import MoE
from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
from deepspeed.pipe import LayerSpec, PipelineModule
from deepspeed.runtime.pipe.topology import PipelineParallelGrid, PipeModelDataParallelTopology
from deepspeed.runtime.sequence_parallel import parallel_state_sp
from deepspeed.sequence.layer import DistributedAttention
from deepspeed.utils import groups
from torch import nn

WIDTH, BATCH, SEQUENCE, HEADS = 32, 4, 8, 4


class Block(nn.Module):
    """A feed-forward layer; its two halves can be replaced by parallel ones."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(x)))


def initialize(settings, model, parameters=None, **options):
    """The engine of a model."""
    config = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": settings.get("accumulated", 1),
        "zero_optimization": {"stage": 1} | settings.get("zero", {}),
        "zero_allow_untested_optimizer": True,
        "steps_per_print": 1000,
    } | options.pop("config", {})
    optimizer = torch.optim.Adam(parameters or model.parameters(), lr=1e-2)
    return deepspeed.initialize(model=model, optimizer=optimizer, config=config, **options)[0]


def random_batches(number):
    """Inputs and targets, equal on ranks that ask for the same number."""
    random = torch.Generator().manual_seed(1 + number)
    while True:
        yield tuple(torch.randn(BATCH, SEQUENCE, WIDTH, generator=random) for _ in range(2))


def stepper(engine, shared=1, part=slice(None)):
    """A step of this engine on this part of each sequence; `shared`: how many neighbours have one batch."""
    batches = random_batches(torch.distributed.get_rank() // shared)

    def step():
        inputs, targets = (each[:, part] for each in next(batches))
        loss = nn.functional.mse_loss(engine(inputs), targets)
        engine.backward(loss)
        engine.step()
        return loss.detach(), engine.get_global_grad_norm()

    return step


def dense(settings):
    return stepper(initialize(settings, nn.Sequential(Block(), Block())))


def pipe(settings):
    topology = PipeModelDataParallelTopology(settings["pipe"], settings["model"], settings["data"])
    layers = [LayerSpec(Block) for _ in range(4)]
    model = PipelineModule(layers, topology=topology, loss_fn=nn.functional.mse_loss)
    engine = initialize(settings | {"accumulated": 2}, model)
    batches = random_batches(engine.mpu.get_data_parallel_rank())

    def step():
        return engine.train_batch(batches), engine.get_global_grad_norm()

    return step


def experts(settings):
    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.moe = MoE(WIDTH, Block(), num_experts=4, ep_size=settings["ep"], k=1, use_rts=False)

        def forward(self, x):
            return self.moe(x)[0]

    model = nn.Sequential(Block(), Experts(), Block())
    parameters = {"params": list(model.parameters()), "name": "parameters"}
    parameters = split_params_into_different_moe_groups_for_optimizer(parameters)
    return stepper(initialize(settings, model, parameters))


def autotp(settings):
    specs = [
        {"patterns": [r".*up\\.weight$"], "partition_type": "column"},
        {"patterns": [r".*down\\.weight$"], "partition_type": "row"},
    ]
    how = {"autotp_size": settings["tp"], "partition_config": {"use_default_specs": False, "layer_specs": specs}}
    engine = initialize(settings, nn.Sequential(Block(), Block()), config={"tensor_parallel": how})
    return stepper(engine, settings["tp"])


def mpu(settings):
    """A client's tensor parallelism, whose groups are an mpu's: DeepSpeed's grid, or ours of a plan."""
    if groups.__name__.startswith("rankmesh"):
        import rankmesh.deepspeed
        import rankmesh.torch

        member = rankmesh.torch.init({"dp": "*", "tp": settings["tp"]})
        unit = rankmesh.deepspeed.mpu(member)
    else:
        ranks = torch.distributed.get_world_size()
        topology = PipeModelDataParallelTopology(1, settings["tp"], ranks // settings["tp"])
        unit = PipelineParallelGrid(topology=topology)
    model = nn.Sequential(Block(), Block())
    set_autotp_mode(training=True)  # else its layers have no gradients
    for block in model:
        group = unit.get_model_parallel_group()
        block.up, block.down = LinearLayer(block.up, group), LinearAllreduce(block.down, group)
    return stepper(initialize(settings, model, mpu=unit), settings["tp"])


class Attention(nn.Module):
    """Self-attention, in which each rank of a sequence has some heads."""

    def __init__(self, group):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.attention = DistributedAttention(self.attend, group, scatter_idx=2, gather_idx=1)

    @staticmethod
    def attend(query, key, value):
        heads = (each.transpose(1, 2) for each in (query, key, value))
        return nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2)

    def forward(self, x):
        heads = self.qkv(x).view(*x.shape[:2], HEADS, 3, -1).unbind(3)
        return x + self.out(self.attention(*(each.contiguous() for each in heads), 0).flatten(2))


def ulysses(settings):
    """Sequences that ranks share, whose groups are a mesh's, or with `mpu` those of ALST."""
    sp = settings["sp"]
    if settings.get("mpu"):
        parallel_state_sp.initialize_sequence_parallel(sp)
        group, options = parallel_state_sp.get_sequence_parallel_group(), {"mpu": parallel_state_sp}
    else:
        sizes = (torch.distributed.get_world_size() // sp, sp)
        groups.mesh_device = deepspeed.comm.initialize_mesh_device(sizes, ("data_parallel", "sequence_parallel"))
        group, options = groups._get_sequence_parallel_group(), {"mesh_param": sizes}
    engine = initialize(settings, nn.Sequential(Attention(group), Block()), **options)
    mine = torch.distributed.get_rank(group) * SEQUENCE // sp
    return stepper(engine, sp, slice(mine, mine + SEQUENCE // sp))
