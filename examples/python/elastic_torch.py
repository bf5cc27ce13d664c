"""Trains with DDP; when a rank is lost, the others go on without it, and take a new process in.

export RANKMESH_STORE=$PWD/store RANKMESH_JOB=$RANDOM MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 WORLD_SIZE=4
for r in 0 1 2 3; do RANK=$r python3 elastic_torch.py & done; RANK=2 python3 elastic_torch.py again & wait
"""

import os
import signal
import sys

import rankmesh.torch
import torch
import torch.distributed as dist
from rankmesh import PeerLost
from rankmesh.torch import Member
from torch.nn.parallel import DistributedDataParallel

STEPS, DIES_IN, GROWS_BEFORE = 8, 2, 5


class Training:
    """A model, its optimizer, and the next step."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.step = 0

    def synchronize(self) -> None:
        """Every rank takes the state of the first that has come furthest: some may have ended a step, some not."""
        steps: list[int] = [0] * dist.get_world_size()
        dist.all_gather_object(steps, self.step)
        state = [self.model.state_dict(), self.optimizer.state_dict()]
        dist.broadcast_object_list(state, src=steps.index(max(steps)))
        self.model.load_state_dict(state[0])
        self.optimizer.load_state_dict(state[1])
        self.step = max(steps)


def batch_of(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.randn(12, 8, generator=torch.Generator().manual_seed(step))
    return inputs, inputs.sum(dim=1, keepdim=True).sin()


def train(training: Training, me: Member, size: int, dies: bool) -> None:
    """Trains to the end, or to the step before which a smaller world waits for the lost rank."""
    training.synchronize()
    ddp = DistributedDataParallel(training.model, process_group=me.group("dp"))
    while training.step < STEPS and (me.size == size or training.step < GROWS_BEFORE):
        if dies and training.step == DIES_IN:
            os.kill(os.getpid(), signal.SIGKILL)
        inputs, targets = (rows.chunk(me.size)[me.at("dp")] for rows in batch_of(training.step))
        training.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(ddp(inputs), targets)
        loss.backward()
        dist.all_reduce(loss.detach(), op=dist.ReduceOp.AVG, group=me.group("dp"))
        training.optimizer.step()
        if me.rank == 0:
            print(f"step {training.step} on {me.size} ranks: loss {loss.item():.6f}", flush=True)
        training.step += 1


def main() -> None:
    again, size, training = "again" in sys.argv, int(os.environ["WORLD_SIZE"]), Training()
    me = rankmesh.torch.rejoin("dp=*") if again else rankmesh.torch.init("dp=*")
    while training.step < STEPS:
        try:
            train(training, me, size, dies=not again and os.environ["RANK"] == "2")
            if me.size < size:
                me = me.grow(size - me.size, timeout=600)
        except PeerLost as lost:
            print(lost, flush=True)
            me = me.survivors(grace=10)
    me.destroy()


if __name__ == "__main__":
    main()
