"""How layers that follow each other become one: functions by the classes of the layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...nn.modules import activation, batchnorm
from ...nn.modules import conv as _conv
from ...nn.modules import linear as _linear
from ...nn.modules.container import Sequential
from ...nn.modules.module import Module
from ...nn.utils.fusion import fuse_conv_bn_eval, fuse_linear_bn_eval
from ..nn import intrinsic

__all__ = [
    "fuse_conv_bn", "fuse_conv_bn_relu", "fuse_convtranspose_bn", "fuse_linear_bn", "get_fuser_method", "get_fuser_method_new",
]  # fmt: skip

_CONVS = (_conv.Conv1d, _conv.Conv2d, _conv.Conv3d)
_NORMS = (batchnorm.BatchNorm1d, batchnorm.BatchNorm2d, batchnorm.BatchNorm3d)
_WITH_NORM = dict(zip(_CONVS, (intrinsic.ConvBn1d, intrinsic.ConvBn2d, intrinsic.ConvBn3d)))
_WITH_BOTH = dict(zip(_CONVS, (intrinsic.ConvBnReLU1d, intrinsic.ConvBnReLU2d, intrinsic.ConvBnReLU3d)))
_WITH_RELU: dict[type, Any] = {
    **dict(zip(_CONVS, (intrinsic.ConvReLU1d, intrinsic.ConvReLU2d, intrinsic.ConvReLU3d))),
    _linear.Linear: intrinsic.LinearReLU,
    batchnorm.BatchNorm2d: intrinsic.BNReLU2d,
    batchnorm.BatchNorm3d: intrinsic.BNReLU3d,
}


def _same_mode(first: Any, norm: Any) -> None:
    if first.training != norm.training:
        raise AssertionError("Conv and BN both must be in the same mode (train or eval).")


def _trainable(layer: Any, norm: Any) -> None:
    if norm.num_features != layer.out_channels:
        raise AssertionError("Output channel of Conv2d must match num_features of BatchNorm2d")
    if not norm.affine:
        raise AssertionError("Only support fusing BatchNorm2d with affine set to True")
    if not norm.track_running_stats:
        raise AssertionError("Only support fusing BatchNorm2d with tracking_running_stats set to True")


def fuse_conv_bn(is_qat: bool, conv: Any, bn: Any) -> Any:
    """A convolution with batch normalisation: both for training, one folded convolution otherwise.

    >>> import flambeau as torch
    >>> conv, norm = torch.nn.Conv2d(1, 2, 1).eval(), torch.nn.BatchNorm2d(2).eval()
    >>> type(torch.ao.quantization.fuse_conv_bn(False, conv, norm)).__name__
    'Conv2d'
    >>> type(torch.ao.quantization.fuse_conv_bn(True, conv.train(), norm.train())).__name__
    'ConvBn2d'
    """
    _same_mode(conv, bn)
    if is_qat:
        _trainable(conv, bn)
        if type(conv) not in _WITH_NORM:
            raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn)}")
        return _WITH_NORM[type(conv)](conv, bn)
    return fuse_conv_bn_eval(conv, bn)


def fuse_conv_bn_relu(is_qat: bool, conv: Any, bn: Any, relu: Any) -> Any:
    """A convolution with batch normalisation and relu."""
    _same_mode(conv, bn)
    if is_qat:
        _trainable(conv, bn)
        if type(conv) not in _WITH_BOTH:
            raise NotImplementedError(f"Cannot fuse train modules: {(conv, bn, relu)}")
        return _WITH_BOTH[type(conv)](conv, bn, relu)
    if type(conv) not in _WITH_RELU:
        raise NotImplementedError(f"Cannot fuse eval modules: {(conv, bn, relu)}")
    return _WITH_RELU[type(conv)](fuse_conv_bn_eval(conv, bn), relu)


def fuse_linear_bn(is_qat: bool, linear: Any, bn: Any) -> Any:
    """A linear layer with batch normalisation."""
    _same_mode(linear, bn)
    if is_qat:
        if bn.num_features != linear.out_features:
            raise AssertionError("Output features of Linear must match num_features of BatchNorm1d")
        return intrinsic.LinearBn1d(linear, bn)
    return fuse_linear_bn_eval(linear, bn)


def fuse_convtranspose_bn(is_qat: bool, convt: Any, bn: Any) -> Any:
    """A transposed convolution with batch normalisation, after training only."""
    _same_mode(convt, bn)
    if is_qat:
        raise Exception("Fusing ConvTranspose+BatchNorm not yet supported in QAT.")
    return fuse_conv_bn_eval(convt, bn, transpose=True)


def _together(kind: Any) -> Callable[..., Any]:
    return lambda is_qat, *layers: kind(*layers)


_METHODS: dict[tuple[type, ...], Callable[..., Any]] = {
    **{(conv, norm): fuse_conv_bn for conv, norm in zip(_CONVS, _NORMS)},
    **{(conv, norm, activation.ReLU): fuse_conv_bn_relu for conv, norm in zip(_CONVS, _NORMS)},
    **{(kind, activation.ReLU): _together(fused) for kind, fused in _WITH_RELU.items()},
    (_linear.Linear, batchnorm.BatchNorm1d): fuse_linear_bn,
    **{
        (convt, norm): fuse_convtranspose_bn
        for convt, norm in zip((_conv.ConvTranspose1d, _conv.ConvTranspose2d, _conv.ConvTranspose3d), _NORMS)
    },
}


def get_fuser_method(op_list: Any, additional_fuser_method_mapping: Any = None) -> Callable[..., Module]:
    """The function (is_qat, *layers) for a tuple of classes.

    >>> import flambeau as torch
    >>> fuse = torch.ao.quantization.get_fuser_method((torch.nn.Linear, torch.nn.ReLU))
    >>> type(fuse(False, torch.nn.Linear(1, 1), torch.nn.ReLU())).__name__
    'LinearReLU'
    """
    method = {**_METHODS, **(additional_fuser_method_mapping or {})}.get(tuple(op_list))
    if method is None:
        raise AssertionError(f"did not find fuser method for: {tuple(op_list)} ")
    return _together(method) if isinstance(method, type) and issubclass(method, Sequential) else method


def get_fuser_method_new(op_pattern: Any, fuser_method_mapping: dict[Any, Any]) -> Any:
    """The function for a pattern of classes in a table."""
    method = fuser_method_mapping.get(op_pattern)
    if method is None:
        raise AssertionError(f"did not find fuser method for: {op_pattern} ")
    return method
