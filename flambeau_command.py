"""The command `flambeau`, outside of the package, so that its help comes before the package has been imported."""

from __future__ import annotations

import sys
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

_HELP = ("-h", "--help")
_OWN_OPTIONS = ("doctor", "launch")  # commands whose options the package knows


def main() -> int:
    """Runs the command line; returns the exit status."""
    given = sys.argv[1:] or ["--help"]
    if given[0] in _HELP or (given[1:2] and given[1] in _HELP and given[0] not in _OWN_OPTIONS):
        _file("_command/arguments").parser("").parse_args(given)  # ends the program
    from flambeau._command.main import main as run  # imports the package

    return run(given)


def _file(name: str) -> Any:
    """A file of the package, imported by itself."""
    package = find_spec("flambeau")
    assert package is not None and package.origin is not None
    spec = spec_from_file_location("flambeau_arguments", Path(package.origin).parent / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
