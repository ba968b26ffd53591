"""`Future`: a result that comes later."""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any

__all__ = ["Future", "collect_all", "wait_all"]


class Future:
    """A result that another thread sets; `then` chains work onto it.

    >>> import flambeau as torch
    >>> future = torch.futures.Future()
    >>> doubled = future.then(lambda done: done.wait() * 2)
    >>> future.set_result(3); doubled.wait()
    6
    """

    def __init__(self, *, devices: list[Any] | None = None):
        self._done = threading.Event()
        self._lock = threading.Lock()
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future], Any]] = []

    def __class_getitem__(cls, item: Any) -> type:
        return cls

    def done(self) -> bool:
        """Whether there is a result or an error."""
        return self._done.is_set()

    def wait(self) -> Any:
        """The result, once it is there; raises the error if there is one."""
        self._done.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def value(self) -> Any:
        """The result of a future that is done."""
        if not self.done():
            raise RuntimeError("value() of a future that is not done; call wait()")
        return self.wait()

    def then(self, callback: Callable[[Future], Any]) -> Future:
        """A future of callback(this future), which runs when this one is done."""
        following = Future()

        def run(done: Future) -> None:
            try:
                following.set_result(callback(done))
            except Exception as error:
                failed = RuntimeError(_failed(error))
                failed.__cause__ = error
                following.set_exception(failed)

        self.add_done_callback(run)
        return following

    def add_done_callback(self, callback: Callable[[Future], Any]) -> None:
        """Calls callback(this future) when it is done, or now if it is; its errors are only printed."""
        with self._lock:
            if not self._done.is_set():
                self._callbacks.append(callback)
                return
        self._call(callback)

    def _call(self, callback: Callable[[Future], Any]) -> None:
        try:
            callback(self)
        except Exception as error:
            print(_failed(error), file=sys.stderr)

    def set_result(self, result: Any) -> None:
        """Gives the result, once."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Gives an error instead of a result."""
        if not isinstance(result, BaseException):
            raise AssertionError(f"{result} is of type {type(result)}, not an Exception.")
        self._finish(None, result)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._done.is_set():
                raise RuntimeError("a result is set already: a Future can only be marked completed once")
            self._value, self._error = value, error
            self._done.set()
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("Can not pickle torch.futures.Future: send its value()")


def _failed(error: BaseException) -> str:
    """What is said of a callback that raised, with the lines it came through."""
    lines = "".join(traceback.format_tb(error.__traceback__))
    return f"Got the following error when running the callback: {type(error).__name__}: {error}\n\nAt:\n{lines}"


def collect_all(futures: list[Future]) -> Future:
    """A future of the list, done when all of them are."""
    if any(future is None for future in futures):
        raise RuntimeError("Future can't be None")
    together = Future()
    left = [len(futures)]
    lock = threading.Lock()

    def one_less(_: Future) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            failed = next((f._error for f in futures if f._error is not None), None)
            together.set_exception(failed) if failed is not None else together.set_result(list(futures))

    if not futures:
        together.set_result([])
    for future in futures:
        future.add_done_callback(one_less)
    return together


def wait_all(futures: list[Future]) -> list[Any]:
    """The results of all futures; raises the first error."""
    return [future.wait() for future in collect_all(futures).wait()]
