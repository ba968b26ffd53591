"""Whether an exported program gives what the model gave: differences of results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .._autograd.modes import no_grad
from .._core.dtypes import dtype as _dtype
from .._core.dtypes import float32
from .._ops.registry import ops
from .._tensor import Tensor
from ..utils._pytree import tree_leaves

__all__ = ["VerificationInfo", "verify_onnx_program"]

_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1000000.0)


@dataclass
class VerificationInfo:
    """How far one result is from what was expected: the largest differences, and how many are how large."""

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[Tensor, Tensor]
    rel_diff_hist: tuple[Tensor, Tensor]
    expected_dtype: _dtype
    actual_dtype: _dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> VerificationInfo:
        """Compares two tensors.

        >>> import flambeau as torch
        >>> from flambeau.onnx.verification import VerificationInfo
        >>> VerificationInfo.from_tensors("y", torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.5])).max_abs_diff
        0.5
        """
        expected, actual = ops.as_tensor(expected), ops.as_tensor(actual)
        apart = ops.abs(expected.to(float32) - actual.to(float32)).flatten()
        relative = apart / (ops.abs(expected.to(float32)).flatten() + 1e-7)
        edges = ops.tensor(_EDGES)
        hists = [ops.histogram(t, edges) for t in (apart, relative)]
        largest = [float(t.max()) if t.numel() else 0.0 for t in (apart, relative)]
        return cls(
            name, *largest, (hists[0].hist, hists[0].bin_edges), (hists[1].hist, hists[1].bin_edges), expected.dtype, actual.dtype
        )  # fmt: skip


def verify_onnx_program(
    onnx_program: Any, args: Any = None, kwargs: dict[str, Any] | None = None, compare_intermediates: bool = False
) -> list[VerificationInfo]:
    """Runs an exported program beside the model it came from: on the arguments of the export, or on those given.

    >>> import flambeau as torch
    >>> from flambeau.onnx.verification import verify_onnx_program
    >>> program = torch.onnx.export(torch.nn.Linear(3, 2), (torch.ones(1, 3),), dynamo=True)
    >>> [info.max_abs_diff < 1e-5 for info in verify_onnx_program(program)]
    [True]
    """
    if compare_intermediates:
        raise NotImplementedError("verify_onnx_program: values between inputs and results are not compared here")
    if args is None and kwargs is None:
        given, named, wanted = onnx_program.inputs, {}, onnx_program.results
    else:
        given, named = tuple(args or ()), dict(kwargs or {})
        with no_grad():
            made = onnx_program.model(*given, **named)
        wanted = [t for t in tree_leaves(made) if isinstance(t, Tensor)]
    names = [o.name for o in onnx_program.model_proto.graph.output]
    results = onnx_program(*given, **named)
    return [VerificationInfo.from_tensors(n, b, a) for n, a, b in zip(names, results, wanted)]
