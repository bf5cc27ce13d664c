"""Four ranks of which one is slow, and what finds it: python slow_rank.py; rankmesh explain --slow records"""

import os
import time

import numpy as np
import rankmesh


def train(world: rankmesh.World) -> None:
    me = world.join("dp=2 tp=2")
    gradient = np.ones(4, np.float32)
    for _ in range(20):
        time.sleep(0.1 if world.rank == 3 else 0.01)  # what a rank computes; rank 3 takes longer
        me.on("tp").all_reduce(gradient)
        me.on("dp").all_reduce(gradient)
    world.write_record(f"records/rank-{world.rank}.json")  # also by a signal, while the job runs


if __name__ == "__main__":
    os.makedirs("records", exist_ok=True)
    rankmesh.run(4, train)
