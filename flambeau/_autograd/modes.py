"""Whether operations are recorded: `no_grad`, `enable_grad`, `set_grad_enabled`, `inference_mode`."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any

from .._core.state import local, modes
from .._tensor import INFERENCE


class _Switch:
    """A context manager that is also a decorator, of functions, generators and classes' methods."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError

    def _again(self) -> Any:
        return type(self)()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated: it switches only inside of __init__; decorate the methods instead",
                FutureWarning,
                stacklevel=2,
            )
            function.__init__ = self(function.__init__)  # type: ignore[method-assign]
            return function
        if inspect.isgeneratorfunction(function):
            return self._wrap_generator(function)

        @functools.wraps(function)
        def switched(*args: Any, **named: Any) -> Any:
            with self._again():
                return function(*args, **named)

        return switched

    def _wrap_generator(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The mode holds while the generator runs, not while its consumer does."""

        @functools.wraps(function)
        def switched(*args: Any, **named: Any) -> Generator[Any, Any, Any]:
            with self._again():
                generator = function(*args, **named)
                step: Callable[[], Any] = functools.partial(next, generator)
            while True:
                try:
                    with self._again():
                        value = step()
                except StopIteration as end:
                    return end.value
                try:
                    sent = yield value
                    step = functools.partial(generator.send, sent)
                except GeneratorExit:
                    with self._again():
                        generator.close()
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)

        return switched


class no_grad(_Switch):
    """Operations inside are not recorded.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> with torch.no_grad():
    ...     y = x * 2
    >>> y.requires_grad
    False
    """

    __slots__ = ("_outer",)
    _value = False

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        self = object.__new__(cls)
        return self if function is None else self(function)

    def __enter__(self) -> None:
        self._outer = local.grad
        local.grad = self._value

    def __exit__(self, *error: Any) -> None:
        local.grad = self._outer


class enable_grad(no_grad):
    """Operations inside are recorded, also within `no_grad`.

    >>> import flambeau as torch
    >>> x = torch.tensor([1.0], requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     y = x * 2
    >>> y.requires_grad
    True
    """

    __slots__ = ()
    _value = True


class set_grad_enabled(_Switch):
    """Switches recording on or off: at once, and back at the end when used as a block.

    >>> import flambeau as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool):
        self._outer = local.grad
        self.mode = bool(mode)
        local.grad = self.mode

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        local.grad = self._outer  # a decorator switches only inside the function
        return super().__call__(function)

    def __repr__(self) -> str:
        return f"torch.autograd.grad_mode.set_grad_enabled(mode={self.mode})"

    def _again(self) -> Any:
        return set_grad_enabled(self.mode)

    def __enter__(self) -> None:
        local.grad = self.mode

    def __exit__(self, *error: Any) -> None:
        local.grad = self._outer


def is_grad_enabled() -> bool:
    """Whether operations are being recorded in this thread."""
    return local.grad


class inference_mode(_Switch):
    """Like `no_grad`, and tensors made inside can never take part in recorded operations.

    >>> import flambeau as torch
    >>> with torch.inference_mode():
    ...     y = torch.tensor([1.0]) * 2
    >>> y.is_inference()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        self = object.__new__(cls)
        if callable(mode):
            self.mode = True
            return self(mode)
        return self

    def __init__(self, mode: bool = True):
        self.mode = bool(mode)

    def _again(self) -> Any:
        return inference_mode(self.mode)

    def __enter__(self) -> None:
        self._outer = (local.grad, local.inference)
        if self.mode:
            local.grad, local.inference = False, True
        else:
            local.inference = False
            if self._outer[1]:
                local.grad = True
        self._changes = local.inference is not self._outer[1]
        if self._changes:
            self._mark = modes.mark(INFERENCE if local.inference else None)

    def __exit__(self, *error: Any) -> None:
        local.grad, local.inference = self._outer
        if self._changes:
            modes.mark(self._mark)


def is_inference_mode_enabled() -> bool:
    """Whether `inference_mode` is on in this thread."""
    return local.inference
