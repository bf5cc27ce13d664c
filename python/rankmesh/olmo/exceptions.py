"""What OLMo-core raises."""

from __future__ import annotations


class OLMoError(Exception):
    """The base of OLMo-core's own exceptions."""


class OLMoConfigurationError(OLMoError):
    """Configurations that do not go together or do not fit the world."""
