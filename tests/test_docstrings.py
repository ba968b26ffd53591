"""Every example in the package's docstrings is executed; public functions have one."""

import doctest
import importlib
import pkgutil

import pytest

import flambeau
from flambeau._ops.registry import functions

SKIPPED = {"flambeau.__main__", "flambeau._backend.cuda"}  # runs the command; needs CuPy
MODULES = sorted(m.name for m in pkgutil.walk_packages(flambeau.__path__, "flambeau.") if m.name not in SKIPPED)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    finder = doctest.DocTestFinder(exclude_empty=True)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    failed = []
    for test in finder.find(module, module=module):
        if test.examples:
            said = []
            outcome = doctest.DocTestRunner(optionflags=flags, verbose=False).run(test, out=said.append)
            if outcome.failed:
                failed.append("".join(said))
    assert not failed, "\n".join(failed)


def test_public_functions_say_what_they_do():
    silent = sorted(
        path
        for path, f in functions.items()
        if not path.endswith("_") and not (getattr(f, "__doc__", None) or "").strip()
    )
    records = set(flambeau._ops.registry.records)
    silent = [path for path in silent if path.rpartition(".")[2] not in records]
    assert len(silent) < 0.25 * len(functions), silent
