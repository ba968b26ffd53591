"""What passes over graphs have in common."""

from ...._core.submodules import submodule


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)
