"""Open files as they pass through pipes, and checks of the functions that steps are given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["StreamWrapper", "validate_input_col"]


class StreamWrapper:
    """An open file that is closed when nobody holds it any more; everything else is as the file has it."""

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        self.file_obj, self.parent_stream, self.name, self.closed = file_obj, parent_stream, name, False

    def close(self, *args: Any, **kwargs: Any) -> None:
        """Closes the file."""
        if not self.closed:
            self.closed = True
            self.file_obj.close(*args, **kwargs)

    def autoclose(self) -> None:
        """Closes the file, whose reader has come to its end."""
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name == "file_obj":  # while it is unpickled
            raise AttributeError(name)
        return getattr(self.file_obj, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self.file_obj)})

    def __del__(self) -> None:
        if "file_obj" in self.__dict__:
            self.close()

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __enter__(self) -> StreamWrapper:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"StreamWrapper<{self.file_obj!r}>"
            if self.name is None
            else f"StreamWrapper<{self.name},{self.file_obj!r}>"
        )


def validate_input_col(fn: Callable[..., Any], input_col: Any) -> None:
    """ValueError if a function cannot be called with so many columns of a sample."""
    count = len(input_col) if isinstance(input_col, (list, tuple)) else 1
    try:
        signature = inspect.signature(fn)
    except (TypeError, ValueError):  # built-in functions that do not say what they take
        return
    try:
        signature.bind(*[None] * count)
    except TypeError as error:
        name = getattr(fn, "__name__", repr(fn))
        raise ValueError(
            f"the function {name} cannot take {count} column{'s' * (count != 1)} (input_col): {error}"
        ) from None
