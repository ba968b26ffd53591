"""Layers that train with a weight rounded as it will be when quantized."""

from __future__ import annotations

from typing import Any, ClassVar

from ...._core.quantizers import per_channel_affine_float_qparams
from ...._ops.registry import ops
from ...._tensor import Tensor
from ....nn import functional
from ....nn.modules import conv as _conv
from ....nn.modules import linear as _linear
from ....nn.modules import sparse as _sparse

__all__ = ["Conv1d", "Conv2d", "Conv3d", "Embedding", "EmbeddingBag", "Linear"]


def _observe(layer: Any, qconfig: Any) -> None:
    """Gives a layer its qconfig and the fake quantizer of its weight."""
    if not qconfig:
        raise AssertionError("qconfig must be provided for QAT module")
    layer.qconfig = qconfig
    layer.weight_fake_quant = qconfig.weight()


class _Trained:
    """What such layers share: the fake quantizer of the weight, and the ways from and to a plain layer."""

    _FLOAT_MODULE: ClassVar[type]
    _SETTINGS: ClassVar[tuple[str, ...]]

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float layer with a qconfig; the parameters are shared."""
        if not getattr(mod, "qconfig", None):
            raise AssertionError("the layer has no qconfig; set one and call propagate_qconfig_ first")
        given = {name: getattr(mod, name) for name in cls._SETTINGS}
        made = cls(**given, bias=mod.bias is not None, qconfig=mod.qconfig)  # type: ignore[call-arg]
        made.weight, made.bias = mod.weight, mod.bias  # type: ignore[attr-defined]
        return made

    def to_float(self: Any) -> Any:
        """The plain layer with the same parameters."""
        settings = {name: getattr(self, name) for name in self._SETTINGS}
        made = self._FLOAT_MODULE(**settings, bias=self.bias is not None, device="meta")  # no weights are drawn
        made.weight, made.bias = self.weight, self.bias
        return made


class Linear(_Trained, _linear.Linear):
    """A linear layer whose weight is rounded in `forward`."""

    _FLOAT_MODULE, _SETTINGS = _linear.Linear, ("in_features", "out_features")

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        _observe(self, qconfig)

    def forward(self, input: Tensor) -> Tensor:
        return ops.linear(input, self.weight_fake_quant(self.weight), self.bias)


def _convolution(base: type) -> type:
    class Trained(_Trained, base):
        _FLOAT_MODULE = base
        _SETTINGS = (
            "in_channels", "out_channels", "kernel_size", "stride", "padding", "dilation", "groups", "padding_mode",
        )  # fmt: skip

        def __init__(
            self,
            in_channels: int,
            out_channels: int,
            kernel_size: Any,
            stride: Any = 1,
            padding: Any = 0,
            dilation: Any = 1,
            groups: int = 1,
            bias: bool = True,
            padding_mode: str = "zeros",
            qconfig: Any = None,
            device: Any = None,
            dtype: Any = None,
        ) -> None:
            super().__init__(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                padding,
                dilation,
                groups,
                bias,
                padding_mode,
                device,
                dtype,
            )
            _observe(self, qconfig)

        def forward(self, input: Tensor) -> Any:
            return self._conv_forward(input, self.weight_fake_quant(self.weight), self.bias)

    Trained.__name__ = Trained.__qualname__ = base.__name__
    Trained.__doc__ = f"A {base.__name__} whose weight is rounded in `forward`."
    return Trained


Conv1d = _convolution(_conv.Conv1d)
Conv2d = _convolution(_conv.Conv2d)
Conv3d = _convolution(_conv.Conv3d)


class _Table:
    """A table whose rows are rounded in `forward`."""

    _FLOAT_MODULE: ClassVar[Any]

    def _observe(self, qconfig: Any) -> None:
        _observe(self, qconfig)
        if qconfig.weight().qscheme is not per_channel_affine_float_qparams:
            raise AssertionError(
                "Embedding weights requires a qscheme of torch.per_channel_affine_float_qparams Got "
                + str(qconfig.weight().qscheme)
            )

    @classmethod
    def from_float(cls, mod: Any, use_precomputed_fake_quant: bool = False) -> Any:
        """From a float table with a qconfig; the weight is shared."""
        if not getattr(mod, "qconfig", None):
            raise AssertionError("the layer has no qconfig; set one and call propagate_qconfig_ first")
        made = cls(mod.num_embeddings, mod.embedding_dim, qconfig=mod.qconfig, **cls._settings(mod))
        made.weight = mod.weight  # type: ignore[attr-defined]
        return made

    @staticmethod
    def _settings(mod: Any) -> dict[str, Any]:
        names = ("padding_idx", "max_norm", "norm_type", "scale_grad_by_freq", "sparse", "mode", "include_last_offset")
        return {name: getattr(mod, name) for name in names if hasattr(mod, name)}

    def to_float(self: Any) -> Any:
        """The plain table with the same weight."""
        made = self._FLOAT_MODULE(self.num_embeddings, self.embedding_dim, **self._settings(self))
        made.weight = self.weight
        return made


class Embedding(_Table, _sparse.Embedding):
    """A table of embeddings whose rows are rounded in `forward`."""

    _FLOAT_MODULE = _sparse.Embedding

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        device: Any = None,
        dtype: Any = None,
        qconfig: Any = None,
    ) -> None:
        _sparse.Embedding.__init__(
            self, num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device=device, dtype=dtype,
        )  # fmt: skip
        self._observe(qconfig)

    def forward(self, input: Tensor) -> Any:
        return functional.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip


class EmbeddingBag(_Table, _sparse.EmbeddingBag):
    """A table of embeddings, reduced by bags, whose rows are rounded in `forward`."""

    _FLOAT_MODULE = _sparse.EmbeddingBag

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        qconfig: Any = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        _sparse.EmbeddingBag.__init__(
            self, num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
            include_last_offset, padding_idx, device=device, dtype=dtype,
        )  # fmt: skip
        self._observe(qconfig)

    def forward(self, input: Tensor, offsets: Any = None, per_sample_weights: Any = None) -> Any:
        return functional.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip
