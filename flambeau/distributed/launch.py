"""The older launcher: `torchrun` whose processes also get `--local-rank`, unless `--use-env` is given."""

from __future__ import annotations

import warnings
from argparse import Namespace
from collections.abc import Sequence

from .run import get_args_parser
from .run import run as _run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args: Sequence[str] | None) -> Namespace:
    """The options of a command line."""
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", default=False, action="store_true", help="leave --local-rank out")
    return parser.parse_args(args)


def launch(args: Namespace) -> None:
    """Runs what the options ask for."""
    _run(args)


def main(args: Sequence[str] | None = None) -> None:
    """The command line."""
    warnings.warn(
        "The module torch.distributed.launch is deprecated and will be removed in future. Use torchrun.",
        FutureWarning,
        2,
    )
    launch(parse_args(args))


if __name__ == "__main__":
    main()
