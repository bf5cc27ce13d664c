# SPDX-License-Identifier: Apache-2.0
"""One rank of picotron's trainer: runs its train.py on random weights and tokens, and writes the losses of its steps."""

import json
import os
import runpy
import sys

import numpy
import picotron_data
import torch

picotron_data.stand_in()
import picotron.process_group_manager as pgm
import picotron.utils
import torch.distributed as dist

torch.set_num_threads(1)
losses, made = [], []
average, new_group = picotron.utils.average_loss_across_dp_cp_ranks, dist.distributed_c10d.new_group


def average_and_note(loss, device):
    losses.append(average(loss, device))
    return losses[-1]


def new_group_and_note(*args, **options):
    made.append(args)
    return new_group(*args, **options)


picotron.utils.average_loss_across_dp_cp_ranks = average_and_note
dist.new_group = dist.distributed_c10d.new_group = new_group_and_note
os.environ["DTYPE"] = "float32"
numpy.random.seed(0)
train = sys.argv[1]
sys.argv = [train, "--config", "config.json"]
runpy.run_path(train, run_name="__main__")
manager = pgm.process_group_manager
with open(f"losses.{manager.global_rank}", "w") as file:
    json.dump({"losses": losses, "last": bool(manager.pp_is_last_stage), "groups": len(made)}, file)
