"""A small GPT trained with pipeline, data, context and tensor parallelism, in any mesh; all groups come from one plan:

    torchrun --nproc-per-node 8 train.py "pp=2 dp=2 cp=1 tp=2" --steps 20

Layers are split along pp (1F1B), the batch along dp, sequences along cp (ring attention), heads and hidden units along
tp, the optimizer's state over dp and cp (ZeRO-1). Each step prints its loss, and that of the training by one process.
"""

import argparse
import math
from collections import deque
from functools import partial

import rankmesh.torch
import torch
import torch.distributed as dist
import torch.nn.functional as F
from rankmesh import Mesh, Pick
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters

LAYERS, HIDDEN, HEADS, SEQUENCE, VOCAB = 4, 32, 4, 32, 64
BATCH, MICROBATCHES = 32, 4
ADAM = {"lr": 1e-2, "weight_decay": 0.1}


# --- the model and its training by one process, which know nothing of parallelism
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(HIDDEN), nn.LayerNorm(HIDDEN)
        self.qkv, self.out = nn.Linear(HIDDEN, 3 * HIDDEN), nn.Linear(HIDDEN, HIDDEN)
        self.up, self.down = nn.Linear(HIDDEN, 4 * HIDDEN), nn.Linear(4 * HIDDEN, HIDDEN)
        self.attention = partial(F.scaled_dot_product_attention, is_causal=True)

    def forward(self, x):
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (-1, 3, HIDDEN // HEADS)).transpose(1, 2).unbind(3)
        x = x + self.out(self.attention(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):  # with tied embeddings; after `parallelize`, what one rank has of it
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.table, self.positions = nn.Embedding(VOCAB, HIDDEN), nn.Embedding(SEQUENCE, HIDDEN)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(HIDDEN)
        nn.init.normal_(self.table.weight, std=0.02)
        self.first, self.last, self.here = True, True, torch.arange(SEQUENCE)
        self.double()

    def forward(self, x, targets):
        """From tokens to their part of the batch's mean loss; stages of a pipeline pass on what is between layers."""
        if self.first:
            x = self.table(x) + self.positions(self.here)
        for block in self.blocks:
            x = block(x)
        if not self.last:
            return x
        logits = F.linear(self.norm(x), self.table.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum") / (BATCH * SEQUENCE)


def batch_of(step):
    """The inputs and targets of a step; each token is 1 to 3 more than the one before it."""
    tokens = torch.randint(1, 4, (BATCH, SEQUENCE + 1), generator=torch.Generator().manual_seed(step)).cumsum(1) % VOCAB
    return tokens[:, :-1], tokens[:, 1:]


def train_alone(steps):
    gpt, losses = GPT(), []
    adam = torch.optim.AdamW(gpt.parameters(), **ADAM)
    for step in range(steps):
        loss = gpt(*batch_of(step))
        adam.zero_grad()
        loss.backward()
        adam.step()
        losses.append(loss.item())
    return losses


# --- tensor parallelism
def shard(tensor, me, axis, dim):
    """This rank's part of a tensor that is split along an axis of the mesh."""
    return tensor.detach().chunk(me.mesh.size_of(axis), dim)[me.at(axis)].clone()


class Copy(torch.autograd.Function):  # a tensor that all ranks of a group have, and each has a part of its gradient
    @staticmethod
    def forward(ctx, x, group):
        ctx.group = group
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        grad = grad.clone(memory_format=torch.contiguous_format)
        dist.all_reduce(grad, group=ctx.group)
        return grad, None


class Sum(torch.autograd.Function):  # the sum of the tensors of all ranks of a group
    @staticmethod
    def forward(ctx, x, group):
        x = x.clone()
        dist.all_reduce(x, group=group)
        return x

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class ColumnParallel(nn.Module):  # a linear layer with its outputs split along tp
    def __init__(self, full, me):
        super().__init__()
        self.weight, self.bias = (nn.Parameter(shard(p, me, "tp", 0)) for p in (full.weight, full.bias))
        self.group = me.group("tp")

    def forward(self, x):
        return F.linear(Copy.apply(x, self.group), self.weight, self.bias)


class RowParallel(nn.Module):  # a linear layer with its inputs split along tp
    def __init__(self, full, me):
        super().__init__()
        self.weight, self.bias = nn.Parameter(shard(full.weight, me, "tp", 1)), full.bias
        self.group = me.group("tp")

    def forward(self, x):
        return Sum.apply(F.linear(x, self.weight), self.group) + self.bias


# --- context parallelism
def ring_shift(me, *tensors):
    """Sends tensors to the next rank in the ring along cp, and returns those of the one before."""
    if me.mesh.size_of("cp") == 1:
        return tensors
    packed = torch.stack(tensors)
    received = torch.empty_like(packed)
    sending = dist.isend(packed, me.neighbor("cp", +1, "wrap"), me.group("cp"))
    dist.recv(received, me.neighbor("cp", -1, "wrap"), me.group("cp"))
    sending.wait()
    return received.unbind()


def masked_scores(q, k, me, step):
    """The scores of this rank's queries with the keys of the rank that is `step` before it in the ring."""
    length, ranks, at = q.shape[-2], me.mesh.size_of("cp"), me.at("cp")
    rows, columns = (torch.arange(length) + length * i for i in (at, (at - step) % ranks))
    return (q @ k.mT / math.sqrt(q.shape[-1])).masked_fill(rows[:, None] < columns, -math.inf)


class RingAttention(torch.autograd.Function):  # a rank has a run of positions; keys and values go round
    @staticmethod
    def forward(ctx, q, k, v, me):
        out, total, highest, ring = 0.0, 0.0, torch.tensor(-math.inf), (k, v)
        for step in range(me.mesh.size_of("cp")):  # online softmax; the first block has a score in every row
            scores = masked_scores(q, ring[0], me, step)
            before, highest = highest, torch.maximum(highest, scores.amax(-1, keepdim=True))
            weights, rescale = (scores - highest).exp(), (before - highest).exp()
            out, total = out * rescale + weights @ ring[1], total * rescale + weights.sum(-1, keepdim=True)
            ring = ring_shift(me, *ring)
        ctx.me = me
        ctx.save_for_backward(q, k, v, out / total, highest + total.log())
        return out / total

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, log_total = ctx.saved_tensors
        dq, ring = 0.0, (k, v, torch.zeros_like(k), torch.zeros_like(v))
        for step in range(ctx.me.mesh.size_of("cp")):  # gradients travel with their keys and values
            k, v, dk, dv = ring
            weights = (masked_scores(q, k, ctx.me, step) - log_total).exp()
            dscores = weights * (grad @ v.mT - (grad * out).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
            dq = dq + dscores @ k
            ring = ring_shift(ctx.me, k, v, dk + dscores.mT @ q, dv + weights.mT @ grad)
        return dq, ring[2], ring[3], None


# --- pipeline parallelism
def forward_and_backward(gpt, me, inputs, targets):
    """Takes all microbatches through this stage by the schedule 1F1B; returns this rank's part of the loss."""
    before, after, group = me.neighbor("pp", -1), me.neighbor("pp", +1), me.group("pp")
    batches = zip(inputs.chunk(MICROBATCHES), targets.chunk(MICROBATCHES), strict=True)
    running, sent, losses = deque(), [], []

    def send(tensor, to):
        if to is not None:
            sent.append((dist.isend(tensor, to, group), tensor))  # which must live until it is sent

    def receive(shape, source):
        tensor = torch.empty(shape, dtype=torch.float64)
        dist.recv(tensor, source, group)
        return tensor

    ahead = min(MICROBATCHES, me.mesh.size_of("pp") - 1 - me.at("pp"))  # one microbatch for each stage after this
    for what in "F" * ahead + "FB" * (MICROBATCHES - ahead) + "B" * ahead:
        if what == "F":
            x, y = next(batches)
            x = x if gpt.first else receive((*x.shape, HIDDEN), before).requires_grad_()
            out = gpt(x, y)
            running.append((x, out))
            send(out.detach(), after)
        else:
            x, out = running.popleft()
            out.backward(None if gpt.last else receive(out.shape, after))
            send(x.grad, before)
            losses.append(out.detach())
    for work, _ in sent:
        work.wait()
    return torch.stack(losses).sum() if gpt.last else torch.zeros((), dtype=torch.float64)


# --- sharded data parallelism
class ShardedAdam:  # AdamW where each rank of a group has the state of its part of the parameters, and updates that
    def __init__(self, parameters, group):
        self.parameters, self.group, self.ranks = list(parameters), group, dist.get_world_size(group)
        flat = self.flat(p.detach() for p in self.parameters)
        vector_to_parameters(flat, self.parameters)  # which become views of it
        self.parts = flat.chunk(self.ranks)
        self.mine = nn.Parameter(self.parts[dist.get_rank(group)].clone())
        self.adam = torch.optim.AdamW([self.mine], **ADAM)

    def flat(self, tensors):
        vector = parameters_to_vector(tensors)
        return F.pad(vector, (0, -len(vector) % self.ranks))

    def step(self):
        self.mine.grad = torch.empty_like(self.mine)
        grads = self.flat(p.grad for p in self.parameters).chunk(self.ranks)
        dist.reduce_scatter(self.mine.grad, list(grads), group=self.group)
        self.adam.step()
        dist.all_gather(list(self.parts), self.mine.detach(), group=self.group)


# --- all of it together
def parallelize(gpt, me):
    """Leaves of a GPT what this rank has of it."""
    gpt.first, gpt.last, gpt.here = me.is_first("pp"), me.is_last("pp"), shard(gpt.here, me, "cp", 0)
    gpt.blocks = nn.ModuleList(gpt.blocks[layer] for layer in shard(torch.arange(LAYERS), me, "pp", 0))
    gpt.positions = gpt.positions if gpt.first else None
    gpt.table = gpt.table if gpt.first or gpt.last else None
    gpt.norm = gpt.norm if gpt.last else None
    for block in gpt.blocks:
        block.qkv, block.up = ColumnParallel(block.qkv, me), ColumnParallel(block.up, me)
        block.out, block.down = RowParallel(block.out, me), RowParallel(block.down, me)
        block.attention = lambda q, k, v: RingAttention.apply(q, k, v, me)
    return gpt


def train(mesh, steps):
    """The losses of all ranks of a mesh together."""
    with rankmesh.torch.init(mesh, over=[("dp", "cp"), ("pp", "dp", "cp")], picks=[Pick("pp", [0, -1], "table")]) as me:
        gpt, losses = parallelize(GPT(), me), []
        adam = ShardedAdam(gpt.parameters(), me.group("dp", "cp"))
        for step in range(steps):
            inputs, targets = (shard(shard(tokens, me, "dp", 0), me, "cp", 1) for tokens in batch_of(step))
            gpt.zero_grad()
            loss = forward_and_backward(gpt, me, inputs, targets)
            if (ends := me.find("table")) is not None:  # the first and the last stage have the same table
                dist.all_reduce(gpt.table.weight.grad, group=ends)
            adam.step()
            dist.all_reduce(loss, group=me.group("pp", "dp", "cp"))
            losses.append(loss.item())
        return losses


def mesh_of(settings, framework="rankmesh"):
    """The mesh that settings of a framework say, in its order; dp is replicas and shards, absent axes have size 1."""
    mesh = Mesh(rankmesh.convert(settings, from_=framework, to="rankmesh", world=dist.get_world_size()).mesh_to)
    if replicas := [axis for axis in mesh.axes if axis.startswith("dp_")]:
        mesh = mesh.flatten(*replicas, into="dp")
    for axis, size in {"pp": LAYERS, "dp": BATCH // MICROBATCHES, "cp": SEQUENCE, "tp": HEADS}.items():
        mesh = mesh if axis in mesh.axes else mesh.concatenate(Mesh({axis: 1}))
        if size % mesh.size_of(axis):
            raise SystemExit(f"{axis}={mesh.size_of(axis)} of mesh {mesh.text} must divide {size}")
    return mesh


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mesh", nargs="+", help='as "pp=2 dp=* tp=2"; several are trained in one after the other')
    parser.add_argument("--from", dest="framework", default="rankmesh", help="whose settings the meshes are")
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    dist.init_process_group("cpu:rankmesh")
    alone = train_alone(args.steps)
    for mesh in [mesh_of(settings, args.framework) for settings in args.mesh]:
        together = train(mesh, args.steps)
        if dist.get_rank() == 0:
            for step, losses in enumerate(zip(together, alone, strict=True)):
                print("step {:2}  loss {:.12f}  of one process {:.12f}".format(step, *losses))
            print(f"{mesh.text}: at most {max(abs(a - b) for a, b in zip(together, alone, strict=True)):.1e} apart")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
