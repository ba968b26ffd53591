"""What the program prints: passed on as it is, and searched for `name: value` and `name=value`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_PAIR = re.compile(
    rf"([A-Za-z][\w/.@-]*(?:[ ][A-Za-z][\w/.@-]*){{0,2}})['\"]?[ ]*[:=][ ]*({_NUMBER}|nan|inf|-inf)(?:/(\d+))?(?:m?s)?(?![\w:]|\.\d)",
    re.ASCII,
)  # fmt: skip


class Tee:
    """Stands for a stream: everything goes to the stream; texts go to a function as well."""

    def __init__(self, stream: Any, heard: Callable[[str], None]) -> None:
        self._stream, self._heard = stream, heard

    def write(self, text: str) -> Any:
        done = self._stream.write(text)
        if text.__class__ is str:
            self._heard(text)
        return done

    def writelines(self, texts: Any) -> None:
        for text in texts:
            self.write(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def __iter__(self) -> Any:
        return iter(self._stream)

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> Any:
        return self._stream.__exit__(*error)


def metrics(line: str) -> list[tuple[str, float]]:
    """The numbers that a line gives names to; of counts such as 93/100, the share.

    >>> metrics("epoch 3 | train loss: 0.25, lr=1e-3, Accuracy: 90/100 (90%) at 12:30:01")
    [('train loss', 0.25), ('lr', 0.001), ('accuracy', 0.9)]
    """
    found = []
    for name, value, whole in _PAIR.findall(line):
        share = float(value) / float(whole) if whole and float(whole) else float(value)
        found.append((" ".join(name.split()).lower(), share))
    return found
