"""Stateless functions of neural networks."""

from .._tensor.methods import install
from ._scaling import ScalingType, SwizzleType, scaled_grouped_mm, scaled_mm  # noqa: F401 (programs take them from here)

install(globals(), "nn.functional")

# The numbers that `torch.grid_sampler` has for the modes of `grid_sample`.
GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}
