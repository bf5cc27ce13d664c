#!/usr/bin/env python3
"""What scripts/original_flags.py finds in the sources of an original."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import original_flags  # noqa: E402

SOURCE = """
parser.add_argument("--tp-size", "-tp", type=int)
group.add_argument(
    "--sizes", nargs="+")
factory = Factory(Config, exclude=["hidden"])

class Base:
    inherited: int = 1

class Config(Base):
    plain: int = 1
    hidden: int = 2
    aliased: A[int, Arg(help="", aliases=["--other-name"])] = 1
    named: A[int, Arg(cli_name="--its-name")] = 1
    silent: A[int, Arg(no_cli=True)] = 1
    meta: int = field(default=1, metadata={"argparse_meta": {"arg_names": ["--first", "--second"]}})
    _own: int = 1
"""
YAML = """
# a comment: with a colon
size: 1
inner:
  depth: 2   # more: here
  _target_: x
"""


class Sources(unittest.TestCase):
    def flags(self, *sources):
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "args.py").write_text(SOURCE)
            Path(folder, "tree.yaml").write_text(YAML)
            original_flags.SOURCES["sample"] = sources
            return original_flags.flags_of("sample", folder)

    def test_calls_of_add_argument(self):
        assert self.flags("args.py", "-O") == {"h", "help", "tp_size", "tp", "sizes", "O"}

    def test_fields_are_flags_under_the_names_that_the_original_gives_them(self):
        fields = {"plain", "aliased", "other_name", "its_name", "first", "second", "inherited"}
        assert self.flags("args.py:Config") == fields | {"hidden"}
        assert self.flags("args.py", "args.py:Config") - {"h", "help", "tp_size", "tp", "sizes"} == fields
        assert self.flags("args.py:Base=table.") == {"table.inherited"}

    def test_keys_of_yaml(self):
        assert self.flags("tree.yaml=a.") == {"a.size", "a.inner", "a.inner.depth"}


if __name__ == "__main__":
    unittest.main()
