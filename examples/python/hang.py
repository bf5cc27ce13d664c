"""A bug that hangs four ranks, and what finds it: python hang.py; rankmesh explain records"""

import numpy as np
import rankmesh


def train(world: rankmesh.World) -> None:
    me = world.join("dp=2 tp=2", over=[("dp", "tp")], timeout=1)
    gradient = np.ones(4, np.float32)
    for step in range(3):
        me.on("tp").all_reduce(gradient)
        finite = not (world.rank == 2 and step == 1)  # rank 2 alone sees an overflow ...
        if finite:
            me.on("dp").all_reduce(gradient)  # ... and skips this call: the bug
        me.on("dp", "tp").barrier()


if __name__ == "__main__":
    try:
        rankmesh.run(4, train, record="records")
    except rankmesh.Error:  # whichever rank gives up first
        print("the job hung; each rank wrote its last calls to records")
