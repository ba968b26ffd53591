"""Reductions and normalisations that see only the elements a mask lets through, and tensors that carry a mask."""

from .._tensor.methods import install
from . import _ops as _ops
from .maskedtensor import MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor

install(globals(), "masked")
_NAMES = (MaskedTensor, as_masked_tensor, is_masked_tensor, masked_tensor)
