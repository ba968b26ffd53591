"""Functions of the top namespace that few programs call, and switches for devices that are not here."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from typing import Any

import numpy as np

from .._autograd.modes import no_grad
from .._core import dtypes as d
from .._core.devices import device as _device
from .._core.state import ANOMALY, BATCHED, local, modes
from .._core.steps import chosen_by_elements
from .._core.symbolic import SymBool
from .._ops.registry import functions, ops
from .._tensor import Tensor, wrap
from ..utils._pytree import tree_flatten, tree_unflatten

_max = max


class FatalError(Exception):
    """An error after which a program cannot go on."""


def _has_compatible_shallow_copy_type(input: Tensor, from_: Tensor) -> bool:
    """Whether one tensor's contents can become another's: both are of one layout and live on one kind of device."""
    kinds = [(t.layout, t.device.type) for t in (input, from_)]
    return kinds[0] == kinds[1]


def _disable_dynamo(fn: Any = None, recursive: bool = True) -> Any:
    """`torch.compiler.disable` under its old name."""
    from ..compiler import disable

    return disable(fn, recursive)


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Any = ()) -> Any:
    """true_fn(*operands) or false_fn(*operands), as `pred` says.

    >>> import flambeau as torch
    >>> from flambeau._names.rare import cond
    >>> cond(torch.tensor(True), lambda x: x + 1, lambda x: x - 1, (torch.zeros(1),))
    tensor([1.])
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"Expected pred to be bool or single-element tensor, but got {pred}.")
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError("Expect both branches to be callable.")
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of possibly nested dict/list/tuple, but got {operands}.")
    if isinstance(pred, SymBool) and hasattr(pred, "as_tensor"):  # of sizes in a program that is being exported
        pred = pred.as_tensor()
    if isinstance(pred, Tensor) and (_is_exported(pred) or pred._k & BATCHED):  # samples may go different ways
        return _either(pred, *[_unwritten(f, operands) for f in (true_fn, false_fn)])
    if isinstance(pred, Tensor):
        return chosen_by_elements(_one_of, (true_fn, false_fn), (pred, *operands))
    return (true_fn if pred else false_fn)(*operands)


def _one_of(true_fn: Callable[..., Any], false_fn: Callable[..., Any], pred: Tensor, *operands: Any) -> Any:
    return (true_fn if bool(pred) else false_fn)(*operands)


def _is_exported(pred: Tensor) -> bool:
    """Whether a program is being exported in which a condition will have other elements."""
    mode = local.function_modes[-1] if local.function_modes else None
    return getattr(mode, "exports", False) and mode.is_known(pred)


def _unwritten(branch: Callable[..., Any], operands: Any) -> Any:
    """What a branch gives, which must not write into its operands: both branches run."""
    tensors = [t for t in tree_flatten(operands)[0] if isinstance(t, Tensor)]
    versions = [t._version for t in tensors]
    made = branch(*operands)
    if versions != [t._version for t in tensors]:
        raise RuntimeError("torch.cond: a branch writes into its operands; it must return new tensors")
    return made


def _either(pred: Tensor, true: Any, false: Any) -> Any:
    """The results of both branches, chosen by the condition: an exported graph has no branches, nor has a batch; they compute both."""
    (yes, spec), (no, other) = tree_flatten(true), tree_flatten(false)
    described = [[(tuple(t.shape), t.dtype) if isinstance(t, Tensor) else t for t in leaves] for leaves in (yes, no)]
    if spec != other or described[0] != described[1]:
        raise RuntimeError(
            f"torch.cond: expected both branches to return the same shapes and dtypes, but got {described[0]} and {described[1]}"
        )
    where = functions["where"]
    return tree_unflatten([where(pred, a, b) if isinstance(a, Tensor) else a for a, b in zip(yes, no)], spec)


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes of a tensor as a tensor."""
    return ops.tensor(list(input.shape), dtype=d.int64)


def _convert_indices_from_coo_to_csr(input: Tensor, size: int, *, out_int32: bool = False) -> Tensor:
    """Where each of `size` rows begins among sorted row numbers.

    >>> import flambeau as torch
    >>> _convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 4)
    tensor([0, 2, 2, 3, 3])
    """
    edges = ops.arange(size + 1, dtype=input.dtype, device=input.device)
    return ops.searchsorted(input, edges, out_int32=out_int32)


def _convert_indices_from_csr_to_coo(
    crow_indices: Tensor, col_indices: Tensor, *, out_int32: bool = False, transpose: bool = False
) -> Tensor:
    """Row and column numbers of elements that are given by the beginnings of rows."""
    kind = d.int32 if out_int32 else d.int64
    counts = crow_indices[1:] - crow_indices[:-1]
    rows = ops.repeat_interleave(ops.arange(len(counts), device=counts.device), counts).to(kind)
    pair = (col_indices.to(kind), rows) if transpose else (rows, col_indices.to(kind))
    return ops.stack(pair)


# -- switches ----------------------------------------------------------------------------------------------------------


def is_anomaly_enabled() -> bool:
    """Whether errors in backward name the forward line (`autograd.detect_anomaly`)."""
    return local.anomaly is not None


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode also looks for NaN."""
    return True if local.anomaly is None else bool(local.anomaly)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switches anomaly mode."""
    if bool(enabled) != (local.anomaly is not None):
        (modes.enter if enabled else modes.leave)(ANOMALY)
    local.anomaly = bool(check_nan) if enabled else None


_autocast: dict[str, Any] = {"ipu": [False, d.float16], "xla": [False, d.bfloat16]}


def _autocast_switches(kind: str) -> tuple[Any, Any, Any, Any]:
    """Switches of autocast for a device that is not here: kept, without effect."""
    state = _autocast[kind]

    def is_enabled() -> bool:
        return bool(state[0])

    def set_enabled(enabled: bool) -> None:
        state[0] = bool(enabled)

    def get_dtype() -> Any:
        return state[1]

    def set_dtype(dtype: Any) -> None:
        state[1] = dtype

    return is_enabled, set_enabled, get_dtype, set_dtype


is_autocast_ipu_enabled, set_autocast_ipu_enabled, get_autocast_ipu_dtype, set_autocast_ipu_dtype = _autocast_switches(
    "ipu"
)
is_autocast_xla_enabled, set_autocast_xla_enabled, get_autocast_xla_dtype, set_autocast_xla_dtype = _autocast_switches(
    "xla"
)


def is_vulkan_available() -> bool:
    """Whether tensors can be on Vulkan: no."""
    return False


def _amp_foreach_non_finite_check_and_unscale_(self: Any, found_inf: Tensor, inv_scale: Tensor) -> None:
    """Multiplies tensors by a number in place; `found_inf` becomes 1 if some element is infinite or NaN."""
    for t in self:
        if not ops.isfinite(t).all():
            found_inf.fill_(1.0)
        t.mul_(inv_scale)


def _amp_update_scale_(
    self: Tensor, growth_tracker: Tensor, found_inf: Tensor, scale_growth_factor: float, scale_backoff_factor: float,
    growth_interval: int,
) -> Tensor:  # fmt: skip
    """The next scale: smaller after infinite gradients, larger after `growth_interval` steps without them."""
    if found_inf.item():
        self.mul_(scale_backoff_factor)
        growth_tracker.fill_(0)
        return self
    steps = int(growth_tracker.item()) + 1
    if steps == growth_interval:
        grown = self * scale_growth_factor
        if ops.isfinite(grown).all():
            self.copy_(grown)
        steps = 0
    growth_tracker.fill_(steps)
    return self


def _debug_has_internal_overlap(self: Tensor) -> int:
    """Whether elements of a tensor share memory: 0 no, 1 yes, 2 that would take long to find out."""
    array = self._array
    if self.is_contiguous():
        return 0
    if any(s == 0 and n > 1 for s, n in zip(array.strides, array.shape)):
        return 1
    extent = array.itemsize
    for s, n in sorted((s, n) for s, n in zip(array.strides, array.shape) if n > 1):
        if s != extent:
            return 2
        extent *= n
    return 0


def _fft_c2c(input: Tensor, dim: Any, normalization: int, forward: bool) -> Tensor:
    """The complex Fourier transform; `normalization` 0, 1, 2 divides by nothing, the root of the count, the count."""
    from .. import fft  # loaded at its first use

    norms = ("backward", "ortho", "forward") if forward else ("forward", "ortho", "backward")
    return (fft.fftn if forward else fft.ifftn)(input, dim=tuple(dim), norm=norms[normalization])


def is_distributed(input: Tensor) -> bool:
    """Whether a tensor is divided among processes: never."""
    return False


def init_num_threads() -> None:
    """Prepares threads; they are started when they are needed."""


def get_device_module(device: Any = None) -> Any:
    """The module of a device, `torch.cpu` or `torch.cuda`; without one, of the accelerator if there is one."""
    if device is None:
        accelerator = importlib.import_module("flambeau.accelerator")
        device = accelerator.current_accelerator() or "cpu"
    kind = _device(device).type
    try:
        return importlib.import_module("flambeau." + kind)
    except ModuleNotFoundError:
        raise RuntimeError(
            f"Device '{kind}' does not have a corresponding module registered as 'torch.{kind}'."
        ) from None


def sym_constrain_range(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless a size lies between the bounds."""
    if (min is not None and size < min) or (max is not None and size > max):
        raise RuntimeError(f"Invalid value range for {size} between [{min}, {max}].")


def sym_constrain_range_for_size(size: Any, *, min: int | None = None, max: int | None = None) -> None:
    """RuntimeError unless a size lies between the bounds and is one."""
    sym_constrain_range(size, min=_max(0, min or 0), max=max)


def sym_fresh_size(expr: Any) -> Any:
    """A size as a new symbol; sizes are numbers here."""
    return expr


# -- sparse products ---------------------------------------------------------------------------------------------------


def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """sparse @ dense."""
    return ops.mm(input, mat2)


dsmm = spmm


def hspmm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """sparse @ dense with a result of sparse rows."""
    if not mat1.is_sparse:
        raise RuntimeError(f"hspmm: Argument #1: matrix expected to be sparse, got {mat1.layout}")
    rows = ops.unique(mat1.coalesce().indices()[0])
    return ops.sparse_coo_tensor(rows[None], ops.mm(mat1, mat2)[rows], (mat1.shape[0], mat2.shape[1]))


hsmm = hspmm


def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) with input and result sparse."""
    if not input.is_sparse:
        raise RuntimeError(f"sspaddmm: expected a sparse input, got {input.layout}")
    dense = beta * input.to_dense() + alpha * ops.mm(mat1, mat2)
    return dense.to_sparse()


def saddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """The older name of `sspaddmm`."""
    return sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha)


def _part(method: str) -> Callable[[Tensor], Tensor]:
    def copy(input: Tensor) -> Tensor:
        return getattr(input, method)().clone()

    copy.__name__ = copy.__qualname__ = f"{method}_copy"
    copy.__doc__ = f"A copy of `{method}()` of a sparse tensor."
    return copy


indices_copy, values_copy = _part("indices"), _part("values")
crow_indices_copy, col_indices_copy = _part("crow_indices"), _part("col_indices")
ccol_indices_copy, row_indices_copy = _part("ccol_indices"), _part("row_indices")


# -- odds and ends -----------------------------------------------------------------------------------------------------


def kl_div(input: Tensor, target: Tensor, reduction: int = 0, *, log_target: bool = False) -> Tensor:
    """The Kullback-Leibler divergence with the reduction as a number: 0 none, 1 mean, 2 sum."""
    if log_target:
        out = ops.exp(target) * (target - input)
    else:
        out = ops.xlogy(target, target) - target * input
    return out if reduction == 0 else out.mean() if reduction == 1 else out.sum()


def native_norm(input: Tensor, p: Any = 2, dim: Any = (), keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The p-norm, of sparse tensors too."""
    values = input.coalesce().values() if input.is_sparse else input
    return ops.norm(values, 2 if p is None else p, list(dim) or None, keepdim, dtype=dtype)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The p-norm over all dimensions but one, which keeps its place; over all with dim=-1."""
    if dim == -1:
        return ops.norm(v, pow)
    others = [i for i in range(v.ndim) if i != dim % v.ndim]
    return ops.norm(v, pow, others, keepdim=True) if others else ops.abs(v)


def from_file(
    filename: str | os.PathLike[str],
    shared: bool | None = None,
    size: int = 0,
    *,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    pin_memory: bool = False,
) -> Tensor:
    """A tensor over the bytes of a file; with `shared`, writing to it writes the file, which is made if need be."""
    if (device is not None and str(device) != "cpu") or pin_memory or str(layout) not in ("None", "torch.strided"):
        raise NotImplementedError(
            "from_file: a file is mapped into main memory: move the tensor with .to(device) afterwards"
        )
    kind = d.get_default_dtype() if dtype is None else dtype
    path, wanted = os.fspath(filename), size * kind.itemsize
    if shared and (not os.path.exists(path) or os.path.getsize(path) < wanted):
        with open(path, "ab") as file:
            file.truncate(wanted)
    if size and os.path.getsize(path) < wanted:
        raise RuntimeError(
            f"from_file: {path} has {os.path.getsize(path)} bytes, {wanted} are needed for {size} elements"
        )
    array = (
        np.memmap(path, dtype=kind.numpy, mode="r+" if shared else "c", shape=(size,))
        if size
        else np.empty(0, kind.numpy)
    )
    return wrap(np.asarray(array), kind)


def slice_inverse(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The tensor of src's shape over the memory that `input` is a slice of."""
    strides = list(src.stride())
    first = start or 0
    return ops.as_strided(input, tuple(src.shape), strides, input.storage_offset() - first * strides[dim])


# -- statistics for batch normalization on several devices ---------------------------------------------------------------


def _channels(input: Tensor) -> tuple[list[int], list[int]]:
    """Dimensions to reduce over, and the shape that broadcasts a value per channel."""
    return [i for i in range(input.ndim) if i != 1], [1, -1] + [1] * (input.ndim - 2)


def batch_norm_stats(input: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """Mean and 1 / sqrt(variance + eps) of each channel."""
    if not input.numel():
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {list(input.shape)}")
    dims, _ = _channels(input)
    mean, var = ops.mean(input, dims), ops.var(input, dims, correction=0)
    return mean, ops.rsqrt(var + eps)


def batch_norm_elemt(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, mean: Tensor, invstd: Tensor, eps: float
) -> Tensor:
    """(input - mean) * invstd * weight + bias, for each channel."""
    _, shape = _channels(input)
    out = (input - mean.view(shape)) * invstd.view(shape)
    out = out if weight is None else out * weight.view(shape)
    return out if bias is None else out + bias.view(shape)


def batch_norm_update_stats(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Tensor, Tensor]:
    """Mean and variance of each channel; the running ones follow them."""
    if not input.numel():
        raise RuntimeError(f"input tensor must have at least one element, but got input_sizes = {list(input.shape)}")
    dims, _ = _channels(input)
    mean, var = ops.mean(input, dims), ops.var(input, dims, correction=0)
    count = input.numel() // input.shape[1]
    _follow(running_mean, running_var, mean, var * (count / max(count - 1, 1)), momentum)
    return mean, var


def _follow(
    running_mean: Tensor | None, running_var: Tensor | None, mean: Tensor, var: Tensor, momentum: float
) -> None:
    with no_grad():
        for running, new in ((running_mean, mean), (running_var, var)):
            if running is not None:
                running.mul_(1 - momentum).add_(new * momentum)


def batch_norm_gather_stats(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    count: int,
) -> tuple[Tensor, Tensor]:
    """One mean and 1 / sqrt(variance + eps) from those of several parts of equal size."""
    counts = ops.full((mean.shape[0],), float(count), dtype=mean.dtype, device=mean.device)
    return batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum, eps, counts)


def batch_norm_gather_stats_with_counts(
    input: Tensor,
    mean: Tensor,
    invstd: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    momentum: float,
    eps: float,
    counts: Tensor,
) -> tuple[Tensor, Tensor]:
    """One mean and 1 / sqrt(variance + eps) from those of several parts, of `counts` elements each."""
    weights = (counts / counts.sum()).to(mean.dtype)[:, None]
    together = (mean * weights).sum(0)
    var = ((1 / invstd**2 - eps + (mean - together) ** 2) * weights).sum(0)
    total = float(counts.sum())
    _follow(running_mean, running_var, together, var * (total / max(total - 1, 1)), momentum)
    return together, ops.rsqrt(var + eps)
