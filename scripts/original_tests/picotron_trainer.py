# SPDX-License-Identifier: Apache-2.0
"""Trains by picotron's own train.py, once with its own process group manager and once with ours, and compares the losses."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PARTS = Path(__file__).resolve().parent
LAYOUTS = (  # all of 8 ranks, and the schedule of the pipeline
    {"dp": 2, "pp": 2, "cp": 1, "tp": 2, "engine": "1f1b"},
    {"dp": 2, "pp": 2, "cp": 2, "tp": 1, "engine": "afab"},
    {"dp": 1, "pp": 2, "cp": 2, "tp": 2, "engine": "1f1b"},
    {"dp": 2, "pp": 1, "cp": 2, "tp": 2, "engine": "1f1b"},
)
STEPS = 5
LIMIT = 600.0  # seconds for one run


def compare(checkout, package_path):
    """(test, outcome, reason) for each layout; prints its losses side by side."""
    for layout in LAYOUTS:
        name = " ".join(f"{axis}{layout[axis]}" for axis in ("dp", "pp", "cp", "tp")) + f" {layout['engine']}"
        runs = []
        for install in (None, "rankmesh.picotron"):
            try:
                runs.append(train(checkout, package_path, layout, install))
            except RuntimeError as error:
                print(f"{name}: failed with {'our' if install else 'its own'} manager: {error}", flush=True)
                yield name, "failed", str(error)
                break
        else:
            own, ours = runs
            print(f"{name}:  step  its own manager       ours", flush=True)
            for step, (a, b) in enumerate(zip(own["losses"], ours["losses"]), 1):
                print(f"{'':{len(name)}}   {step:4}  {a!r:20}  {b!r:20}{'' if a == b else '  differs'}", flush=True)
            print(f"{'':{len(name)}}   groups made by a rank: {own['groups']}, and ours {ours['groups']}", flush=True)
            equal = own["losses"] == ours["losses"] and len(own["losses"]) == STEPS
            yield name, "passed" if equal else "failed", "" if equal else "the losses differ"


def train(checkout, package_path, layout, install):
    """The losses of the steps, equal on all ranks of the last stage, and how many groups a rank has made."""
    ranks = layout["dp"] * layout["pp"] * layout["cp"] * layout["tp"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "config.json").write_text(json.dumps(config(layout)))
        downloaded = folder / "hf_model" / "tiny"
        downloaded.mkdir(parents=True)
        (downloaded / "config.json").write_text("{}")  # the trainer takes it for a model that it has downloaded
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(
                [*map(str, (PARTS, checkout, *package_path)), *filter(None, [os.environ.get("PYTHONPATH")])]
            ),
            "PYTHONDONTWRITEBYTECODE": "1",
            "RANKMESH_ORIGINALS": json.dumps({"package": "picotron", "install": install, "stubs": ["flash_attn", "wandb"], "bare": [], "torch": True}),
            "OMP_NUM_THREADS": "1",
        }
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks)]
        with open(folder / "output", "w") as output:
            process = subprocess.Popen(
                [sys.executable, *launcher, "-m", "picotron_rank", str(checkout / "train.py")],
                cwd=folder, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            )
            try:
                process.wait(LIMIT)
            except subprocess.TimeoutExpired:
                raise RuntimeError(f"not over in {LIMIT:g} s") from None
            finally:
                if process.poll() is None:
                    process.terminate()  # torchrun ends its ranks
                    process.wait()
        said = [json.loads(each.read_text()) for each in sorted(folder.glob("losses.*"))]
        if process.returncode or len(said) != ranks:
            lines = (folder / "output").read_text(errors="replace").splitlines()
            wrong = [line for line in lines if "Error: " in line]
            raise RuntimeError((wrong or lines or ["it said nothing"])[0])
        last = [each for each in said if each["last"]]
        if any(each["losses"] != last[0]["losses"] for each in last):
            raise RuntimeError("the ranks of the last stage have different losses")
        return last[0]


def config(layout):
    """What picotron reads: a tiny model, without flash attention."""
    return {
        "distributed": {"use_cpu": True, "pp_engine": layout["engine"], "backend": "gloo"}
        | {f"{axis}_size": layout[axis] for axis in ("dp", "pp", "cp", "tp")},
        "model": {"name": "tiny", "use_fused_adam": False},
        "training": {
            "seed": 42,
            "learning_rate": 1e-3,
            "total_train_steps": STEPS,
            "seq_length": 64,
            "micro_batch_size": 2,
            "gradient_accumulation_steps": 2,
            "max_tokens": None,
        },
        "dataset": {"name": "random", "num_workers": 0, "num_proc": 1},
        "checkpoint": {"save_dir": "checkpoint", "save_frequency": 1000, "load_path": ""},
        "logging": {"use_wandb": False, "run_name": "tiny"},
        "environment": {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "FLASH_ATTEN": "0", "HF_TOKEN": "none"},
    }
