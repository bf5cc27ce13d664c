# SPDX-License-Identifier: Apache-2.0
"""Counts what this thread calls of rankmesh, and the groups of torch that it makes, until its first step is done."""

import inspect
import sys
import time
from collections import Counter
from pathlib import Path

from torch.distributed import ProcessGroup
from torch.distributed import distributed_c10d as c10d


class Watch:
    """`calls`: of functions of rankmesh, by others. `made`: calls of torch's new_group and split_group. `groups`: those
    that have given a group. `seconds`: in these, with what rankmesh does around them."""

    def __init__(self, package):
        self._ours = str(Path(package.__file__).parent)
        self._make = {inspect.unwrap(each).__code__ for each in (c10d.new_group, c10d.split_group)}
        self._within, self._since, self._makes = None, 0.0, False
        self.calls, self.made, self.groups, self.seconds = Counter(), 0, 0, 0.0

    def start(self):
        sys.setprofile(self._see)

    def stop(self):
        sys.setprofile(None)

    def _see(self, frame, event, arg):
        if event == "call":
            code = frame.f_code
            makes = code in self._make
            self.made += makes
            self._makes |= makes
            if self._within is None and (makes or self._is_ours(code)):
                self._within, self._since, self._makes = frame, time.perf_counter(), makes
                if not makes:
                    self.calls[f"{Path(code.co_filename).stem}.{code.co_name}"] += 1
        elif event == "return":
            self.groups += frame.f_code in self._make and isinstance(arg, ProcessGroup)
            if frame is self._within:
                self._within = None
                self.seconds += self._makes * (time.perf_counter() - self._since)

    def _is_ours(self, code):
        """Whether it is a function of rankmesh; imports, which ask it for modules, are none."""
        file = code.co_filename
        return (
            file.startswith(self._ours)
            and code.co_name not in ("<module>", "__getattr__")
            and not file.endswith("_install.py")
        )
