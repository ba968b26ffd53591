"""How far a scale reaches, and the other choices of affine quantization, for observers of a program's own."""

from __future__ import annotations

import enum
from abc import ABCMeta, abstractmethod
from dataclasses import dataclass
from typing import Any

from ..._core.dtypes import dtype
from ..._tensor import Tensor
from ...nn.modules.module import Module
from .observer import ObserverBase

__all__ = [
    "AffineQuantizedObserverBase", "Granularity", "MappingType", "ObserverOrFakeQuantize", "PerAxis", "PerBlock", "PerGroup",
    "PerRow", "PerTensor", "PerToken", "QuantType", "TorchAODType", "ZeroPointDomain", "get_block_size",
]  # fmt: skip


class QuantType(enum.IntEnum):
    """When values are quantized."""

    DYNAMIC = 0
    STATIC = 1
    QAT = 2
    WEIGHT_ONLY = 3


class MappingType(enum.Enum):
    """How floats are laid on integers: around zero, or from the least to the greatest."""

    SYMMETRIC = enum.auto()
    SYMMETRIC_NO_CLIPPING_ERR = enum.auto()
    ASYMMETRIC = enum.auto()


class ZeroPointDomain(enum.Enum):
    """Whether zero points are integers, floats or absent."""

    INT = enum.auto()
    FLOAT = enum.auto()
    NONE = enum.auto()


class TorchAODType(enum.Enum):
    """Integers of fewer than eight bits."""

    INT1 = enum.auto()
    INT2 = enum.auto()
    INT3 = enum.auto()
    INT4 = enum.auto()
    INT5 = enum.auto()
    INT6 = enum.auto()
    INT7 = enum.auto()


@dataclass(frozen=True)
class Granularity:
    """How far a scale reaches."""


@dataclass(frozen=True)
class PerTensor(Granularity):
    """One scale for all."""


@dataclass(frozen=True)
class PerAxis(Granularity):
    """A scale for each place along a dimension."""

    axis: int


@dataclass(frozen=True)
class PerBlock(Granularity):
    """A scale for each block of that shape."""

    block_size: tuple[int, ...]


@dataclass(frozen=True)
class PerGroup(Granularity):
    """A scale for so many neighbours along the last dimension."""

    group_size: int


class PerRow(Granularity):
    """A scale for each row."""


class PerToken(Granularity):
    """A scale for each token: all but the last dimension."""


def get_block_size(input_shape: tuple[int, ...], granularity: Granularity) -> tuple[int, ...]:
    """The shape of what shares a scale.

    >>> from flambeau.ao.quantization import PerAxis, PerGroup, get_block_size
    >>> get_block_size((4, 6), PerAxis(0)), get_block_size((4, 6), PerGroup(3))
    ((1, 6), (1, 3))
    """
    if isinstance(granularity, PerTensor):
        return tuple(input_shape)
    if isinstance(granularity, PerAxis):
        size = list(input_shape)
        size[granularity.axis] = 1
        return tuple(size)
    if isinstance(granularity, (PerRow, PerToken)):
        return (*(1 for _ in input_shape[:-1]), input_shape[-1])
    if isinstance(granularity, PerGroup):
        if len(input_shape) != 2:
            raise AssertionError(
                f"Expecting input shape dim to be 2 for per group quantization, gotinput shape: {input_shape}"
            )
        return (1, granularity.group_size)
    raise ValueError(f"Unsupported Granularity: {granularity}")


class AffineQuantizedObserverBase(ObserverBase, metaclass=ABCMeta):
    """Base of observers that choose scales by granularity; a program's own says how in `forward` and `calculate_qparams`."""

    def __init__(
        self,
        mapping_type: MappingType,
        target_dtype: dtype,
        granularity: Granularity,
        quant_min: int | None = None,
        quant_max: int | None = None,
        eps: float | None = None,
        scale_dtype: dtype | None = None,
        zero_point_dtype: dtype | None = None,
        preserve_zero: bool = True,
        zero_point_domain: ZeroPointDomain | None = ZeroPointDomain.INT,
        **kwargs: Any,
    ) -> None:
        Module.__init__(self)
        if granularity is None:
            raise AssertionError("granularity must not be None")
        self.mapping_type, self.target_dtype, self.granularity = mapping_type, target_dtype, granularity
        self.quant_min, self.quant_max, self.eps = quant_min, quant_max, eps
        self.scale_dtype, self.zero_point_dtype = scale_dtype, zero_point_dtype
        self.preserve_zero, self.zero_point_domain = preserve_zero, zero_point_domain
        self.block_size: tuple[int, ...] | None = None
        self.original_dtype: dtype | None = None

    @abstractmethod
    def forward(self, input: Tensor) -> Tensor:
        """Looks at a tensor, and gives it back."""

    @abstractmethod
    def calculate_qparams(self) -> tuple[Tensor, Tensor]:
        """The scale and the zero point."""


class ObserverOrFakeQuantize:
    """Names what a qconfig makes: an observer or a fake quantizer; for annotations."""
