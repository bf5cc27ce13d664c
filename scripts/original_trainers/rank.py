# SPDX-License-Identifier: Apache-2.0
"""One rank of a trainer: trains, and writes each step and then what it has counted into a file of the run's folder."""

import faulthandler
import importlib
import json
import os
import time
import traceback
from pathlib import Path

import torch
import torch.distributed as dist

import rankmesh

from .watch import Watch


def main(trainer, layout, steps, limit):
    module = importlib.import_module(trainer)
    rank = int(os.environ["RANK"])
    stacks = open(f"stacks.{rank}", "w")
    faulthandler.dump_traceback_later(float(limit), file=stacks)
    torch.set_num_threads(1)
    watch = Watch(rankmesh)
    with open(f"steps.{rank}", "w", buffering=1) as file:

        def note(**values):
            watch.stop()  # it would take half of the time of the steps
            print(json.dumps({"step": {name: float(value) for name, value in values.items()}}), file=file)

        watch.start()
        try:
            module.train(module.FRAMEWORK.layouts[layout].settings, int(steps), note)
        except BaseException as error:
            first = error
            while first.__cause__ is not None:
                first = first.__cause__
            text = "".join(traceback.format_exception(first, chain=False))
            print(json.dumps({"error": text, "time": time.time()}), file=file)
            traceback.print_exc()
            os._exit(1)  # without a wait for threads and peers: the other ranks are ended then
        finally:
            watch.stop()
        counts = {"calls": watch.calls, "made": watch.made, "groups": watch.groups, "seconds": watch.seconds}
        print(json.dumps(counts), file=file)
    faulthandler.cancel_dump_traceback_later()
    if dist.is_initialized():
        dist.destroy_process_group()
