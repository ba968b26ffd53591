"""Arithmetic with metrics: an operator between metrics gives a metric that computes both and combines the figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._ops.registry import functions, ops
from .._tensor import Tensor
from .metric import Metric


def _neg(x: Tensor) -> Tensor:
    return -ops.abs(x)


class _Item:
    """Takes one element of a figure; an object, so that compositions can be pickled."""

    __name__ = "getitem"

    def __init__(self, index: Any):
        self.index = index

    def __call__(self, x: Tensor) -> Tensor:
        return x[self.index]


class CompositionalMetric(Metric):
    """What an operator on metrics gives; the parts may be metrics, tensors or numbers.

    >>> from flambeau.metrics import MeanMetric, SumMetric
    >>> both = SumMetric() / 2 + MeanMetric()
    >>> both.update(4.0)
    >>> both.compute()
    tensor(6.)
    """

    full_state_update = True
    _delegates = True

    def __init__(self, operator: Callable[..., Any], metric_a: Any, metric_b: Any) -> None:
        super().__init__()
        self.op = operator
        self.metric_a = ops.tensor(metric_a) if isinstance(metric_a, (int, float)) else metric_a
        self.metric_b = ops.tensor(metric_b) if isinstance(metric_b, (int, float)) else metric_b

    def _parts(self) -> list[Metric]:
        return [part for part in (self.metric_a, self.metric_b) if isinstance(part, Metric)]

    def _combined(self, a: Any, b: Any) -> Any:
        return self.op(a) if self.metric_b is None else self.op(a, b)

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Updates the metrics; each takes those keywords that it knows."""
        for part in self._parts():
            part.update(*args, **part._filter_kwargs(**kwargs))

    def compute(self) -> Any:
        """The operator's result on the figures."""
        return self._combined(*(p.compute() if isinstance(p, Metric) else p for p in (self.metric_a, self.metric_b)))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The operator's result on the figures of this batch."""
        a, b = (
            p(*args, **p._filter_kwargs(**kwargs)) if isinstance(p, Metric) else p
            for p in (self.metric_a, self.metric_b)
        )
        self._forward_cache = self._combined(a, b)
        return self._forward_cache

    def reset(self) -> None:
        """Resets the metrics."""
        super().reset()
        for part in self._parts():
            part.reset()

    def persistent(self, mode: bool = False) -> None:
        """Says whether the metrics' states go into `state_dict`."""
        for part in self._parts():
            part.persistent(mode)

    def _filter_kwargs(self, **kwargs: Any) -> dict[str, Any]:
        return kwargs

    def __repr__(self) -> str:
        parts = f"{self.metric_a!r},\n    {self.metric_b!r}"
        name = getattr(self.op, "__name__", type(self.op).__name__)
        return f"{type(self).__name__}(\n  {name}(\n    {parts}\n  )\n)"


def _binary(operator: Callable[..., Any]) -> tuple[Callable[..., Any], Callable[..., Any]]:
    return (
        lambda self, other: CompositionalMetric(operator, self, other),
        lambda self, other: CompositionalMetric(operator, other, self),
    )


def _attach() -> None:
    """Gives metrics their operators; the functions are the public ones, which pickle finds."""
    both_ways = {
        "add": "add", "sub": "sub", "mul": "mul", "truediv": "true_divide", "floordiv": "floor_divide", "mod": "fmod",
        "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor",
    }  # fmt: skip
    for name, operation in both_ways.items():
        forward, reflected = _binary(functions[operation])
        setattr(Metric, f"__{name}__", forward)
        setattr(Metric, f"__r{name}__", reflected)
    for name in ("eq", "ne", "lt", "le", "gt", "ge"):
        setattr(Metric, f"__{name}__", _binary(functions[name])[0])
    # As in the interface that this follows, the signs are those of the absolute value.
    absolute, inverted = functions["abs"], functions["bitwise_not"]
    for name, operator in {"abs": absolute, "pos": absolute, "neg": _neg, "invert": inverted, "inv": inverted}.items():
        setattr(Metric, f"__{name}__", lambda self, operator=operator: CompositionalMetric(operator, self, None))
    Metric.__getitem__ = lambda self, index: CompositionalMetric(_Item(index), self, None)


_attach()
