"""Words that stand for something else in the arguments of processes."""

from __future__ import annotations

from string import Template
from typing import Any

__all__ = ["macros"]


class macros:
    """Words in arguments that each process gets with its own value.

    >>> macros.substitute(["--rank", "${local_rank}"], "3")
    ['--rank', '3']
    """

    local_rank = "${local_rank}"

    @staticmethod
    def substitute(args: list[Any], local_rank: str) -> list[Any]:
        """The arguments of one process."""
        return [Template(arg).safe_substitute(local_rank=local_rank) if isinstance(arg, str) else arg for arg in args]
