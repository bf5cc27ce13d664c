# SPDX-License-Identifier: Apache-2.0
"""The original frameworks' own code that makes groups, run without processes.

Each module here is one framework. To ask an original, as the rows of ours are written:

    sys.path[:0] = ["scripts", "scripts/original_tests"]
    from original_groups import load

    vllm = load("vllm", "vllm-0.33.0.whl")  # a wheel, a source archive or a folder; without one, PyPI's
    answers = vllm.original({"tensor_model_parallel_size": 2}, rank=3, world=8)
    answers.refused      # the text of the original's exception, None where it takes the settings
    answers.partitions   # kind: all its groups in the order in which the original makes them
    answers.groups       # kind: the group of this rank, None where it is in none
    answers.answers      # accessor: what it answers, a Raised where it raises

`vllm.ours` answers the same questions from rankmesh. `vllm.settings(random)` draws a world and settings for it.
"""

import importlib
from pathlib import Path

from .sources import Source

HERE = Path(__file__).parent
FRAMEWORKS = sorted(file.stem for file in HERE.glob("*.py") if "\nDISTRIBUTION" in file.read_text())


def load(name, place=None):
    """The module of that framework with its original loaded; `place` is a wheel, an archive or a folder."""
    module = importlib.import_module(f"{__name__}.{name}")
    module.start(Source(module.DISTRIBUTION, module.PACKAGE, module.RUNS, place, getattr(module, "NEEDS", ())))
    return module
