"""Parts of `torch.fx` that other libraries touch. Shapes are always known here."""

from ..._core.submodules import submodule


def __getattr__(name: str) -> object:
    """Loads parts at their first use."""
    return submodule(__name__, name)
