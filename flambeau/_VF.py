"""Functions of the compiled core that PyTorch's own modules call past the overrides; here they are the top namespace's."""

from typing import Any


def __getattr__(name: str) -> Any:
    import flambeau

    return getattr(flambeau, name)
