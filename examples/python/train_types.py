"""Finds missing and repeated sums in train.py by the types of spmd_types, in one process, before training:

    python train_types.py "pp=2 dp=2 cp=2 tp=2"

Along an axis a tensor is R (equal on all ranks, gradients to be summed), I (equal, and so are gradients), V (different)
or P (to be summed). spmd_types knows the types of torch's operations. This file declares the types of parameters and
inputs, and the rules of train.py's autograd functions and collectives. Then one step of train.py runs as it is.
"""

import argparse
import contextlib
from types import SimpleNamespace

import spmd_types as spmd
import torch.distributed as dist
import torch.nn.functional as F
import train
from rankmesh import Mesh
from spmd_types import I, P, R, V, rules
from spmd_types.checker import typecheck
from torch.testing._internal.distributed.fake_pg import FakeStore

INPUT = {"pp": R, "dp": R, "cp": R, "tp": I}
ACTIVATION = {"pp": V, "dp": V, "cp": V, "tp": I}
PART_OF_LOSS = {"pp": P, "dp": P, "cp": P, "tp": I}


def type_of(program, gpt, module, name):
    """The type of a parameter of a module."""
    split = isinstance(module, program.ColumnParallel) or (isinstance(module, program.RowParallel) and name == "weight")
    return {"pp": R if module is gpt.table else V, "dp": R, "cp": R, "tp": V if split else I}


def typed_collectives(me):
    """torch.distributed with rules instead of communication; those of spmd_types are for groups of one axis only."""
    sets = [("pp",), ("dp",), ("cp",), ("tp",), ("dp", "cp"), ("pp", "dp", "cp")]
    if me.mesh.size_of("pp") == 2 and me.find("table"):
        sets.append(("table",))  # then these two stages are all of pp
    axes_of = {me.group(*axes): [axis for axis in axes if len(me.ranks(axis)) > 1] for axes in sets}

    def typed(tensor, group, src, dst):
        """The type of a tensor, in which src becomes dst along the axes of a group."""
        axes = [spmd.MeshAxis.of(me.group(axis)) for axis in axes_of[group]]
        spmd.assert_type(tensor, dict.fromkeys(axes, src))
        return {**spmd.get_local_type(tensor), **dict.fromkeys(axes, dst)}

    def all_reduce(tensor, group):
        if spmd.has_local_type(tensor):  # inside of Copy and Sum it has none, but they have rules
            spmd.mutate_type(tensor, src=spmd.get_local_type(tensor), dst=typed(tensor, group, P, R))

    def reduce_scatter(output, tensors, group):
        spmd.assert_type(output, typed(tensors[0], group, P, V))

    def all_gather(outputs, tensor, group):
        spmd.assert_type(outputs, typed(tensor, group, V, R))

    def isend(tensor, to, group):
        return SimpleNamespace(wait=lambda: None)

    def recv(tensor, source, group):
        spmd.assert_type(tensor, ACTIVATION).zero_()

    rules_of = (all_reduce, reduce_scatter, all_gather, isend, recv)
    return SimpleNamespace(**vars(dist) | {rule.__name__: rule for rule in rules_of})


def typed_functions():
    """torch.nn.functional with the rules of two functions that are linear in their own way."""

    def cross_entropy(logits, targets, reduction="mean"):
        loss = F.cross_entropy(logits, targets, reduction=reduction)
        for axis in ("pp", "dp", "cp") if reduction == "sum" else ():  # the loss is the sum over these
            loss = spmd.reinterpret(loss, axis, src=V, dst=P)
        return loss

    def pad(vector, by):
        with spmd.no_typecheck():
            padded = F.pad(vector, by)
        return spmd.assert_type(padded, spmd.get_local_type(vector))  # P too, since it adds zeros

    return SimpleNamespace(**vars(F) | {"cross_entropy": cross_entropy, "pad": pad})


def typed_program(program, contexts):
    """Gives train.py the types and rules above. Its own functions stay as they are, and run inside of these."""
    parallelize, forward_and_backward = program.parallelize, program.forward_and_backward
    batch_of, shard = program.batch_of, program.shard

    @spmd.no_typecheck()
    def typed_parallelize(gpt, me):
        gpt, program.dist, program.shard = parallelize(gpt, me), typed_collectives(me), typed_shard
        contexts.enter_context(spmd.set_current_mesh(me.device_mesh()))
        for module in gpt.modules():
            for name, parameter in module.named_parameters(recurse=False):
                spmd.assert_type(parameter, type_of(program, gpt, module, name))
                parameter.register_post_accumulate_grad_hook(typed_gradient)
        spmd.assert_type(gpt.here, ACTIVATION)
        return gpt

    def typed_gradient(parameter):
        types = spmd.get_local_type(parameter)
        spmd.assert_type(parameter.grad, {axis: kind.backward_type() for axis, kind in types.items()})

    def typed_shard(tensor, me, axis, dim):
        return spmd.mutate_type(shard(tensor, me, axis, dim), axis, src=R, dst=V)

    def typed_forward_and_backward(gpt, *args):
        loss = forward_and_backward(gpt, *args)
        return loss if gpt.last else spmd.mutate_type(loss, src=R, dst=PART_OF_LOSS)  # which is zero

    class ShardedAdam(program.ShardedAdam):
        @spmd.no_typecheck()
        def __init__(self, parameters, group):
            super().__init__(parameters, group)
            spmd.assert_type(self.mine, V)
            spmd.assert_type(self.parts, {"pp": V, "dp": R, "cp": R, "tp": V})

    program.Copy.spmd_typecheck = staticmethod(lambda *, x, group: rules.convert(x, group, src=I, dst=R))
    program.Sum.spmd_typecheck = staticmethod(lambda *, x, group: rules.all_reduce(x, group, src=V, dst=I))
    program.RingAttention.spmd_typecheck = staticmethod(lambda *, q, k, v: rules.einsum("...,...,...->...", q, k, v))
    program.GPT = spmd.no_typecheck(program.GPT)
    program.batch_of = spmd.no_typecheck(lambda step: spmd.assert_type(batch_of(step), INPUT))
    program.parallelize, program.forward_and_backward = typed_parallelize, typed_forward_and_backward
    program.F, program.ShardedAdam = typed_functions(), ShardedAdam


def check(program, mesh, rank):
    """Takes a rank of a mesh through one step of a program such as train.py; raises SpmdTypeError if types differ."""
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=mesh.size)
    try:
        with contextlib.ExitStack() as contexts, typecheck():
            typed_program(program, contexts)
            program.train(program.mesh_of(mesh.text), steps=1)  # with axes of size 1 for those that are absent
    finally:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mesh", help='as "pp=2 dp=2 cp=2 tp=2"')
    parser.add_argument("--rank", type=int, default=-1, help="a rank of the mesh, by default the last")
    args = parser.parse_args()
    mesh = Mesh(args.mesh)
    check(train, mesh, args.rank % mesh.size)
    print(f"{mesh.text}: all types fit")


if __name__ == "__main__":
    main()
