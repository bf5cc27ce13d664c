"""NumPy where it is installed. A test that uses `np` is marked with `needs_numpy`."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

np: Any = None
with contextlib.suppress(ModuleNotFoundError):
    import numpy as np
needs_numpy = pytest.mark.skipif(np is None, reason="NumPy is not installed")
