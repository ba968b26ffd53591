"""`Distribution`: shapes, validation and expansion that all distributions have."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from .._autograd.modes import no_grad
from .._core.sizes import Size
from .._ops.registry import ops
from .._tensor import Tensor
from . import constraints
from .utils import formula, lazy_property

__all__ = ["Distribution"]

_SCALAR = Size()


class Distribution:
    """Base of distributions: a batch of `batch_shape` independent ones over events of `event_shape`.

    A distribution that lists in `_batched` the attributes that begin with the batch shape (tensors or
    distributions), and in `_shared` those that do not depend on it, can be expanded.
    """

    has_rsample: Any = False
    has_enumerate_support: Any = False
    _validate_args: bool = __debug__
    _batched: tuple[str, ...] | None = None
    _shared: tuple[str, ...] = ()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether distributions check their arguments when the caller does not say."""
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args: expected True or False, got {value!r}")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Size = _SCALAR, event_shape: Size = _SCALAR, validate_args: bool | None = None):
        self._batch_shape = batch_shape
        self._event_shape = event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()
        super().__init__()

    def _check_parameters(self) -> None:
        try:
            limits = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`: its parameters are not checked. Set it to {{}}, or "
                "pass validate_args=False, if that is meant.",
                stacklevel=3,
            )
            return
        own = self.__dict__
        for name, constraint in limits.items():
            if isinstance(constraint, constraints._Dependent):
                continue
            value = own.get(name)
            if value is None:
                if isinstance(getattr(type(self), name), lazy_property):
                    continue  # derived from another parameter
                value = getattr(self, name)
            if not constraint.check(value)._is_all_true():
                raise ValueError(
                    f"Expected parameter {name} of {self!r} to satisfy the constraint {constraint!r}, "
                    f"got invalid values:\n{value}"
                )

    # -- shapes ----------------------------------------------------------------------------------------------------

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Any:
        """The same distribution with its batch dimensions expanded, as `Tensor.expand` does."""
        home = next((c for c in type(self).__mro__ if vars(c).get("_batched") is not None), None)
        if home is None:
            raise NotImplementedError(f"{type(self).__name__} cannot be expanded")
        new = self._get_checked_instance(home, _instance)
        shape = Size(batch_shape)
        self._expand_into(new, shape)
        new._batch_shape, new._event_shape = shape, self._event_shape
        new._validate_args = self._validate_args
        return new

    def _expand_into(self, new: Any, shape: Size) -> None:
        own, rank = self.__dict__, len(self._batch_shape)
        for name in self._batched or ():
            value = own.get(name)
            if value is not None:
                rest = value.batch_shape if isinstance(value, Distribution) else value.shape
                new.__dict__[name] = value.expand(shape + rest[rank:])
        for name in self._shared:
            if name in own:
                new.__dict__[name] = own[name]

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Any:
        """An instance to fill in; a subclass with other arguments has to make its own."""
        if _instance is not None:
            return _instance
        if type(self).__init__ is not cls.__init__:  # type: ignore[misc]
            raise NotImplementedError(
                f"{type(self).__name__}, a subclass of {cls.__name__} with its own __init__, needs its own .expand() too"
            )
        return self.__new__(type(self))

    @property
    def batch_shape(self) -> Size:
        """The shape over which parameters are batched."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of a single sample."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = _SCALAR) -> Size:
        """sample_shape + batch_shape + event_shape."""
        if not isinstance(sample_shape, Size):
            sample_shape = Size(sample_shape)
        return sample_shape + self._batch_shape + self._event_shape

    # -- what distributions define ---------------------------------------------------------------------------------

    @property
    def arg_constraints(self) -> dict[str, constraints.Constraint]:
        """The constraint that each argument has to satisfy."""
        raise NotImplementedError

    @property
    def support(self) -> Any:
        """The constraint that samples satisfy."""
        raise NotImplementedError

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError

    stddev = formula(lambda self: self.variance.sqrt())

    def sample(self, sample_shape: Sequence[int] = _SCALAR) -> Tensor:
        """Random values of shape `sample_shape + batch_shape + event_shape`, without a gradient."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = _SCALAR) -> Tensor:
        """Random values that are differentiable by the parameters."""
        raise NotImplementedError

    def sample_n(self, n: int) -> Tensor:
        """n samples. Deprecated: sample((n,))."""
        warnings.warn("sample_n(n) is deprecated: use sample((n,))", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of a value."""
        return self._computed(self._log_prob, value)

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of not exceeding a value."""
        return self._computed(self._cdf, value)

    # What subclasses compute with a value that was looked at.
    _log_prob: Callable[[Tensor], Tensor] | None = None
    _cdf: Callable[[Tensor], Tensor] | None = None

    def _computed(self, function: Callable[[Tensor], Tensor] | None, value: Tensor) -> Tensor:
        if function is None:
            raise NotImplementedError
        if self._validate_args:
            self._validate_sample(value)
        return function(value)

    def icdf(self, value: Tensor) -> Tensor:
        """The inverse of `cdf`."""
        raise NotImplementedError

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, along a new first dimension."""
        raise NotImplementedError

    def entropy(self) -> Tensor:
        raise NotImplementedError

    def perplexity(self) -> Tensor:
        """The exponential of the entropy."""
        return ops.exp(self.entropy())

    # -- checks and text -------------------------------------------------------------------------------------------

    def _validate_sample(self, value: Tensor) -> None:
        """Raises ValueError for a value that cannot be one of this distribution."""
        if not isinstance(value, Tensor):
            raise ValueError(f"log_prob: the value must be a Tensor, got {type(value).__name__}")
        shape = value.shape
        split = len(shape) - len(self._event_shape)
        if shape[max(split, 0) :] != self._event_shape:
            raise ValueError(
                f"log_prob: the right-most size of value must match event_shape {self._event_shape}, got {shape}"
            )
        for i, j in zip(reversed(shape[:split]), reversed(self._batch_shape)):
            if i != 1 and j != 1 and i != j:
                expected = self._batch_shape + self._event_shape
                raise ValueError(
                    f"log_prob: value of {shape} is not broadcastable with batch_shape+event_shape {expected}"
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support`: its values are not checked. Pass validate_args=False if "
                "that is meant.",
                stacklevel=3,
            )
            return
        if not support.check(value)._is_all_true():
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _enumerated(self, values: Tensor, expand: bool) -> Tensor:
        """Numbers as all values of a scalar distribution, for each element of the batch if asked."""
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + self._batch_shape) if expand else values

    def __repr__(self) -> str:
        own = self.__dict__
        names = [name for name in self.arg_constraints if name in own]
        shown = (f"{name}: {own[name] if own[name].numel() == 1 else own[name].size()}" for name in names)
        return f"{type(self).__name__}({', '.join(shown)})"
