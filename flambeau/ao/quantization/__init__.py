"""Quantization of models: observers, fake quantizers, and the ways from a float model to a quantized one."""

from . import (
    fake_quantize,
    fuser_methods,
    granularity,
    observer,
    qconfig,
    qconfig_mapping,
    quantization_mappings,
    stubs,
)
from . import fuse_modules as _fuse_modules
from . import quantize as _quantize
from . import quantize_jit as _quantize_jit
from .fake_quantize import *  # noqa: F403
from .fuse_modules import fuse_modules, fuse_modules_qat
from .fuser_methods import *  # noqa: F403
from .granularity import *  # noqa: F403
from .observer import *  # noqa: F403
from .qconfig import *  # noqa: F403
from .qconfig_mapping import *  # noqa: F403
from .quantization_mappings import *  # noqa: F403
from .quantize import *  # noqa: F403
from .quantize_jit import *  # noqa: F403
from .stubs import DeQuantStub, QuantStub, QuantWrapper

__all__ = [
    "DeQuantStub", "QuantStub", "QuantWrapper", "fake_quantize", "fuse_modules", "fuse_modules_qat", "observer", "qconfig",
    "stubs", *fake_quantize.__all__, *fuser_methods.__all__, *granularity.__all__, *observer.__all__, *qconfig.__all__,
    *qconfig_mapping.__all__, *quantization_mappings.__all__, *_quantize.__all__, *_quantize_jit.__all__,
]  # fmt: skip
_PRIVATE = (_fuse_modules,)
