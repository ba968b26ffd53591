"""Every example in the package's docstrings is executed; public functions have one."""

import doctest
import importlib
from pathlib import Path

import pytest

import flambeau
from flambeau._ops.registry import functions

# It has the functions of others, beside names of dtypes that hide Python's; runs the command; needs CuPy.
SKIPPED = {"flambeau", "flambeau.__main__", "flambeau._backend.cuda"}
ROOT = Path(flambeau.__file__).parent


def _modules():
    """Names of modules, and their files, without importing a package."""
    for file in sorted(ROOT.rglob("*.py")):
        parts = file.relative_to(ROOT.parent).with_suffix("").parts
        if all((ROOT.parent.joinpath(*parts[:i]) / "__init__.py").exists() for i in range(1, len(parts))):
            name = ".".join(parts).removesuffix(".__init__")
            if name not in SKIPPED:
                yield name, file


MODULES = dict(_modules())
SHOWN = [name for name, file in MODULES.items() if ">>>" in file.read_text(encoding="utf-8")]


def check(name):
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


@pytest.mark.parametrize("name", SHOWN)
def test_examples(name):
    check(name)


def test_examples_that_come_from_elsewhere():
    for name in [name for name in MODULES if name not in SHOWN]:
        check(name)


def test_public_functions_say_what_they_do():
    silent = sorted(
        path
        for path, f in functions.items()
        if not path.endswith("_") and not (getattr(f, "__doc__", None) or "").strip()
    )
    records = set(flambeau._ops.registry.records)
    silent = [path for path in silent if path.rpartition(".")[2] not in records]
    assert len(silent) < 0.25 * len(functions), silent
