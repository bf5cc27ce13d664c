# SPDX-License-Identifier: Apache-2.0
"""Python runs this at its start, in processes that tests start as well: scripts/originals has put this folder on PYTHONPATH."""

import os

if "RANKMESH_ORIGINALS" in os.environ:
    import substitution

    substitution.arrange(os.environ["RANKMESH_ORIGINALS"])
