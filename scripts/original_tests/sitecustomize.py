# SPDX-License-Identifier: Apache-2.0
"""Python runs this at its start, in processes that tests start as well: scripts/originals has put this folder on PYTHONPATH."""

import json
import os
from pathlib import Path

if "RANKMESH_ORIGINALS" in os.environ:
    import substitution

    replaced = json.loads(os.environ["RANKMESH_ORIGINALS"])
    if "RANKMESH_ORIGINALS_RESULTS" in os.environ:  # of tests
        import calls
        import stacks

        folder = Path(os.environ["RANKMESH_ORIGINALS_RESULTS"])
        stacks.write_when_asked(folder)
        if replaced["install"]:
            calls.count(replaced["install"].split(".")[0], folder)
    substitution.arrange(replaced)
