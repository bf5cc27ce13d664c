"""Names that are text, as the originals have them."""

from __future__ import annotations

from enum import Enum


class StrEnum(str, Enum):
    """An enumeration whose members are their texts, as in Python's own library from 3.11 on."""

    def __str__(self) -> str:
        return str(self.value)
