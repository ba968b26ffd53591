"""Backends of `torch.compile` that compilers of forward and backward graphs make."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..._functorch.aot_autograd import aot_module_simplified

__all__ = ["AotAutograd", "aot_autograd"]


class AotAutograd:
    """A backend that gives the graphs of both passes to compilers."""

    def __init__(self, **kwargs: Any):
        self.kwargs = kwargs

    def __call__(self, gm: Any, example_inputs: Sequence[Any], **kwargs: Any) -> Callable[..., Any]:
        return aot_module_simplified(gm, example_inputs, **self.kwargs)


def aot_autograd(**kwargs: Any) -> AotAutograd:
    """A backend of compilers: `fw_compiler` and perhaps `bw_compiler`, `inference_compiler`, `decompositions`, `partition_fn`.

    >>> import flambeau as torch
    >>> from flambeau._dynamo.backends.common import aot_autograd
    >>> backend = aot_autograd(fw_compiler=lambda graph, examples: graph.forward)
    >>> torch.compile(lambda x: x + 1, backend=backend)(torch.zeros(2))
    tensor([1., 1.])
    """
    if "fw_compiler" not in kwargs:
        raise TypeError("aot_autograd: fw_compiler is needed, a function of a graph module and example inputs")
    return AotAutograd(**kwargs)
