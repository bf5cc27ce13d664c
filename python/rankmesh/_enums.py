"""Enumerations of strings, as in the originals."""

from __future__ import annotations

from enum import Enum


class StrEnum(str, Enum):
    """An enumeration whose members are strings, like enum.StrEnum of Python 3.11."""

    def __str__(self) -> str:
        return str(self.value)
