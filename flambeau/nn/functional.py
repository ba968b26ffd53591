"""Stateless functions of neural networks."""

from .._core.submodules import submodule as _submodule
from .._tensor.methods import install
from ._scaling import ScalingType, SwizzleType, scaled_grouped_mm, scaled_mm  # noqa: F401 (programs take them from here)

install(globals(), "nn.functional")
_find = __getattr__  # noqa: F821 (installed)


def __getattr__(name: str) -> object:
    """Operations, and the insides that programs take from here."""
    try:
        return _find(name)
    except AttributeError:
        parts = _submodule("flambeau.nn", "_functional_parts")
        if name not in parts.__all__:
            raise
    globals()[name] = found = getattr(parts, name)
    return found


# The numbers that `torch.grid_sampler` has for the modes of `grid_sample`.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
