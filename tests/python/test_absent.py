"""A call that requires NumPy says so where it is not installed."""

from __future__ import annotations

import subprocess
import sys

import pytest

ARRAYS = ["Mesh('dp=2')", "Group('{0..3}')", "Mesh('dp=2 tp=2').partition('dp')", "Placement('dp=2 @[1,0]')"]
SPARSE = "run(1, lambda world: world.join('dp=*').on('dp').sparse_all_to_all({}, 'f4'))"


@pytest.mark.parametrize(
    ("asked", "what"), [(f"{each}.numpy()", "an array of ranks") for each in ARRAYS] + [(SPARSE, "sparse_all_to_all")]
)
def test_a_call_that_needs_numpy_says_how_to_get_it(asked: str, what: str) -> None:
    program = f"""
import sys
sys.modules["numpy"] = None  # its import fails as if it were not installed
import rankmesh
try:
    rankmesh.{asked}
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == f"{what} requires NumPy, which is not installed here; pip install numpy\n"
