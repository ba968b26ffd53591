"""Options of a command line that can also be given by variables: `--nnodes` by PET_NNODES."""

from __future__ import annotations

import os
from argparse import Action, ArgumentParser, Namespace
from typing import Any

__all__ = ["check_env", "env"]


def _variable(dest: str) -> str | None:
    return os.environ.get(f"PET_{dest.upper()}")


class env(Action):
    """An option whose default is the value of a variable, if that is set.

    >>> import os
    >>> from argparse import ArgumentParser
    >>> from flambeau.distributed.argparse_util import env
    >>> parser = ArgumentParser()
    >>> _ = parser.add_argument("--foo", action=env, default="bar")
    >>> parser.parse_args([]).foo, parser.parse_args(["--foo", "baz"]).foo
    ('bar', 'baz')
    """

    def __init__(self, dest: str, default: Any = None, required: bool = False, **kwargs: Any) -> None:
        value = _variable(dest)
        default = default if value is None else value  # argparse gives texts their type
        super().__init__(dest=dest, default=default, required=required and not default, **kwargs)

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        setattr(namespace, self.dest, values)


class check_env(Action):
    """A switch that is on if it is named, or if a variable is 1."""

    def __init__(self, dest: str, default: bool = False, **kwargs: Any) -> None:
        value = _variable(dest)
        default = default if value is None else bool(int(value))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(
        self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: str | None = None
    ) -> None:
        setattr(namespace, self.dest, self.const)
