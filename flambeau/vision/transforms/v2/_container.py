"""Transforms made of others, and of functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .... import nn
from ...._ops.registry import ops
from ._transform import Transform

_Transforms = Sequence[Callable[..., Any]]


def _after(transforms: Any, inputs: tuple[Any, ...]) -> Any:
    """The inputs through one transform after the other."""
    several = len(inputs) > 1
    out: Any = inputs
    for t in transforms:
        out = t(*inputs)
        inputs = out if several else (out,)
    return out if several or transforms else inputs[0]


def _check(transforms: Any) -> None:
    if not isinstance(transforms, (Sequence, nn.ModuleList)):
        raise TypeError("Argument transforms should be a sequence of callables")


class Compose(Transform):
    """One transform after the other.

    >>> from flambeau.vision.transforms import v2
    >>> Compose([v2.CenterCrop(2), v2.Identity()])
    Compose(
          CenterCrop(size=(2, 2))
          Identity()
    )
    """

    def __init__(self, transforms: _Transforms) -> None:
        super().__init__()
        _check(transforms)
        if not transforms:
            raise ValueError("Pass at least one transform")
        self.transforms = transforms

    def forward(self, *inputs: Any) -> Any:
        return _after(self.transforms, inputs)

    def extra_repr(self) -> str:
        return "\n".join(f"    {t}" for t in self.transforms)


class RandomApply(Transform):
    """All of some transforms, or none, with probability p."""

    def __init__(self, transforms: _Transforms, p: float = 0.5) -> None:
        super().__init__()
        _check(transforms)
        if not 0.0 <= p <= 1.0:
            raise ValueError("`p` should be a floating point value in the interval [0.0, 1.0].")
        self.transforms = transforms
        self.p = p

    def forward(self, *inputs: Any) -> Any:
        if ops.rand(1) >= self.p:
            return inputs if len(inputs) > 1 else inputs[0]
        return _after(self.transforms, inputs)

    def extra_repr(self) -> str:
        return "\n".join(f"    {t}" for t in self.transforms)


class RandomChoice(Transform):
    """One of some transforms, by weights if they are given."""

    def __init__(self, transforms: _Transforms, p: Sequence[float] | None = None) -> None:
        _check(transforms)
        if p is None:
            p = [1] * len(transforms)
        elif len(p) != len(transforms):
            raise ValueError(f"Length of p doesn't match the number of transforms: {len(p)} != {len(transforms)}")
        super().__init__()
        self.transforms = transforms
        self.p = [weight / sum(p) for weight in p]

    def forward(self, *inputs: Any) -> Any:
        return self.transforms[int(ops.multinomial(ops.tensor(self.p), 1))](*inputs)


class RandomOrder(Transform):
    """All of some transforms, in an order of chance."""

    def __init__(self, transforms: _Transforms) -> None:
        _check(transforms)
        super().__init__()
        self.transforms = transforms

    def forward(self, *inputs: Any) -> Any:
        return _after([self.transforms[i] for i in ops.randperm(len(self.transforms)).tolist()], inputs)


class Lambda(Transform):
    """A function as a transform, for inputs of some types."""

    def __init__(self, lambd: Callable[..., Any], *types: type) -> None:
        super().__init__()
        self.lambd = lambd
        self.types = types or (object,)

    def transforms_kind(self, inpt: Any) -> bool:
        return isinstance(inpt, self.types)

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return self.lambd(inpt)

    def extra_repr(self) -> str:
        name = getattr(self.lambd, "__name__", "")
        return ", ".join([name] * bool(name) + [f"types={[t.__name__ for t in self.types]}"])


class Identity(Transform):
    """Nothing."""

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        return inpt
