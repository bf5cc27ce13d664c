"""Finds missing and repeated sums in train.py by the types of spmd_types, in one process, before training:

    python train_types.py "pp=2 dp=2 cp=2 tp=2"

Along each axis a tensor is R (equal on all ranks, its gradient a part of a sum), I (equal, with equal gradients), V
(different), or P (a part of a sum). The rules of torch's own operations are those of spmd_types. Declared here are the
types of parameters and inputs, and the rules of the program's own autograd functions and of its sums.
"""

import argparse
import contextlib
from types import SimpleNamespace

import rankmesh.torch
import spmd_types as spmd
import torch.distributed as dist
import torch.nn.functional as F
import train
from rankmesh import Mesh
from spmd_types import I, P, R, V, rules
from spmd_types.checker import typecheck
from torch.testing._internal.distributed.fake_pg import FakeStore

INPUT, ACTIVATION = {"pp": R, "dp": R, "cp": R, "tp": I}, {"pp": V, "dp": V, "cp": V, "tp": I}


def type_of(program, module, name):
    """The type of a parameter."""
    split = isinstance(module, program.ColumnParallel) or (isinstance(module, program.RowParallel) and name == "weight")
    return {"pp": V, "dp": R, "cp": R, "tp": V if split else I}


def typed_collectives(me):
    """What torch.distributed has, with types along each axis of a group: spmd_types knows groups of one axis only."""
    sets = [("pp",), ("dp",), ("cp",), ("tp",), ("dp", "cp"), ("pp", "dp", "cp")]
    if me.mesh.size_of("pp") == 2 and me.find("table"):
        sets.append(("table",))
    axes_of = {
        me.group(*axes): [spmd.MeshAxis.of(me.group(axis)) for axis in axes if len(me.ranks(axis)) > 1] for axes in sets
    }

    def becomes(output, tensor, group, src, dst):
        if spmd.has_local_type(tensor):  # else inside of Copy or Sum, whose rules say it
            types = {**spmd.get_local_type(tensor), **dict.fromkeys(axes_of[group], dst)}
            spmd.assert_type(tensor, dict.fromkeys(axes_of[group], src))
            spmd.assert_type(output, types) if output is not tensor else spmd.mutate_type(tensor, src=spmd.get_local_type(tensor), dst=types)

    def all_reduce(tensor, group):
        becomes(tensor, tensor, group, P, R)

    def reduce_scatter_tensor(output, tensor, group):
        becomes(output, tensor, group, P, V)

    def all_gather_into_tensor(output, tensor, group):
        becomes(output, tensor, group, V, R)

    def isend(tensor, to, group):
        return SimpleNamespace(wait=lambda: None)

    def recv(tensor, source, group):
        spmd.assert_type(tensor, ACTIVATION).zero_()

    return SimpleNamespace(**{**vars(dist), **locals()})


def check(program, mesh, rank):
    """Takes a rank of a mesh through one step of a program such as train.py; raises SpmdTypeError where types differ."""
    program.Copy.spmd_typecheck = staticmethod(lambda *, x, group: rules.convert(x, group, src=I, dst=R))
    program.Sum.spmd_typecheck = staticmethod(lambda *, x, group: rules.all_reduce(x, group, src=V, dst=I))
    program.RingAttention.spmd_typecheck = staticmethod(lambda *, q, k, v: rules.einsum("...,...,...->...", q, k, v))
    parallelize, batch_of, shard = program.parallelize, program.batch_of, program.shard
    forward_and_backward = program.forward_and_backward

    def typed_parallelize(gpt, me):
        program.dist, gpt = typed_collectives(me), parallelize(gpt, me)
        program.shard = typed_shard
        stack.enter_context(spmd.set_current_mesh(me.device_mesh()))
        for module in gpt.modules():
            for name, parameter in module.named_parameters(recurse=False):
                spmd.assert_type(parameter, type_of(program, module, name) | ({"pp": R} if module is gpt.table else {}))
                parameter.register_post_accumulate_grad_hook(typed_gradient)
        spmd.assert_type(gpt.here, ACTIVATION | {"dp": R})
        return gpt

    def typed_gradient(parameter):
        types = spmd.get_local_type(parameter)
        spmd.assert_type(parameter.grad, {axis: kind.backward_type() for axis, kind in types.items()})

    def typed_shard(tensor, me, axis, dim):
        return spmd.mutate_type(shard(tensor, me, axis, dim), axis, src=R, dst=V)

    def cross_entropy(*args, reduction="mean"):
        loss = F.cross_entropy(*args, reduction=reduction)
        for axis in ("pp", "dp", "cp") if reduction == "sum" else ():  # the whole loss is the sum of all ranks' parts
            loss = spmd.reinterpret(loss, axis, src=V, dst=P)
        return loss

    def pad(vector, by):  # which adds zeros, so that a part of a sum stays one
        with spmd.no_typecheck():
            padded = F.pad(vector, by)
        return spmd.assert_type(padded, spmd.get_local_type(vector))

    def typed_forward_and_backward(gpt, *args):
        loss = forward_and_backward(gpt, *args)
        return loss if gpt.last else spmd.mutate_type(loss, src=R, dst={"pp": P, "dp": P, "cp": P, "tp": I})  # zero

    class ShardedAdam(program.ShardedAdam):
        @spmd.no_typecheck()
        def __init__(self, parameters, group):
            super().__init__(parameters, group)
            spmd.assert_type(self.mine, V)
            spmd.assert_type(self.whole, {"pp": V, "dp": R, "cp": R, "tp": V})

    program.forward_and_backward = typed_forward_and_backward
    program.GPT, program.parallelize = spmd.no_typecheck(program.GPT), spmd.no_typecheck(typed_parallelize)
    program.batch_of = spmd.no_typecheck(lambda step: spmd.assert_type(batch_of(step), INPUT))
    program.F, program.ShardedAdam = SimpleNamespace(**{**vars(F), "cross_entropy": cross_entropy, "pad": pad}), ShardedAdam
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=mesh.size)
    try:
        with contextlib.ExitStack() as stack, typecheck():
            program.train(mesh, 1)
    finally:
        dist.destroy_process_group()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mesh", help='as "pp=2 dp=2 cp=2 tp=2"')
    mesh = Mesh(parser.parse_args().mesh)
    check(train, mesh, 0)
    print(f"{mesh.text}: all types fit")


if __name__ == "__main__":
    main()
