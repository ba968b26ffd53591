"""`biject_to` and `transform_to`: a transform from unconstrained numbers to the values that a constraint allows."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Number
from typing import Any

from . import constraints, transforms

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]


class ConstraintRegistry:
    """Transforms by the type of a constraint.

    >>> import flambeau as torch
    >>> torch.distributions.transform_to(torch.distributions.constraints.simplex)
    SoftmaxTransform()
    """

    def __init__(self) -> None:
        self._registry: dict[type, Callable[[Any], Any]] = {}
        super().__init__()

    def register(self, constraint: Any, factory: Callable[[Any], Any] | None = None) -> Any:
        """Says what makes the transform for a constraint (an instance or its type); also a decorator."""
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        kind = type(constraint) if isinstance(constraint, constraints.Constraint) else constraint
        if not isinstance(kind, type) or not issubclass(kind, constraints.Constraint):
            raise TypeError(f"register: expected a Constraint subclass or instance, got {constraint!r}")
        self._registry[kind] = factory
        return factory

    def __call__(self, constraint: Any) -> Any:
        """The transform for a constraint."""
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(f"Cannot transform {type(constraint).__name__} constraints")
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _in_both(*kinds: Any) -> Any:
    """Registers a factory `(registry, constraint)` with both registries."""

    def decorate(factory: Any) -> Any:
        for kind in kinds:
            for registry in (biject_to, transform_to):
                registry.register(kind, lambda constraint, registry=registry: factory(registry, constraint))
        return factory

    return decorate


@_in_both(constraints.real)
def _to_real(registry: Any, constraint: Any) -> Any:
    return transforms.identity_transform


@_in_both(constraints.independent)
def _to_independent(registry: Any, constraint: Any) -> Any:
    return transforms.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)


@_in_both(constraints.greater_than, constraints.greater_than_eq)
def _to_greater_than(registry: Any, constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_in_both(constraints.less_than)
def _to_less_than(registry: Any, constraint: Any) -> Any:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_in_both(constraints.interval, constraints.half_open_interval)
def _to_interval(registry: Any, constraint: Any) -> Any:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, Number) and low == 0 and isinstance(high, Number) and high == 1:
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@_in_both(constraints.corr_cholesky)
def _to_corr_cholesky(registry: Any, constraint: Any) -> Any:
    return transforms.CorrCholeskyTransform()


@_in_both(constraints.cat)
def _to_cat(registry: Any, constraint: Any) -> Any:
    return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)


@_in_both(constraints.stack)
def _to_stack(registry: Any, constraint: Any) -> Any:
    return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_semidefinite, constraints.positive_definite):
    transform_to.register(_kind, lambda constraint: transforms.PositiveDefiniteTransform())
