"""Imports go one way: every part of the package may only know the parts below it. The public API is importable."""

import ast
import importlib
from pathlib import Path

import pytest

import flambeau

ROOT = Path(flambeau.__file__).parent
# From the bottom up; what stands in one row knows only itself and the rows above.
LAYERS = [
    {"_version", "_errors"},
    {"_core"},
    {"_kernel.building", "_tensor"},
    {"_kernel.render"},
    {"_kernel.threads"},
    {"_kernel.loops"},
    {"_kernel.math", "_kernel.native"},
    {"_kernel.products", "_kernel.folds", "_kernel.places", "_kernel.linear", "_kernel.training", "_kernel.random"},
    {"_kernel.images"},
    {"_kernel.sequences"},
    {"_kernel.cuda"},
    {"_backend"},
    {"_autograd"},
    {"_dispatch"},
    {"_ops"},
    {"_tensor.storage_memory"},
    {"_tensor.storage", "_tensor.dlpack"},
    {"_tensor.typed_storage"},
    {"_tensor.memory"},
    {"_tensor.constructors", "_interception.torch_dispatch"},
    {"_interception", "_tensor.properties", "_tensor.protocol", "_tensor.copying", "_tensor.methods"},
    {"_compile"},
]
RANK = {name: rank for rank, row in enumerate(LAYERS) for name in row}
PUBLIC = len(LAYERS)  # everything else: public modules, which may know each other
# They import the package itself: the command line and its demonstration.
FREE = {"__init__", "__main__", "_command", "_demo"}


def _imports():
    """(importing part, imported part, file) for every import at the top of a file."""
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[0] in FREE:
            continue
        package = parts[:-1]
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ImportFrom) and node.level:
                base = package[: len(package) - (node.level - 1)]
                targets = [(*base, *node.module.split("."))] if node.module else [(*base, a.name) for a in node.names]
                for target in targets:
                    yield _part(parts), _part(target), "/".join(parts)


def _part(names):
    """The part of the package that a file belongs to: its room, or itself where the list names it."""
    own = ".".join(names[:2])
    return own if own in RANK else names[0]


@pytest.mark.slow
def test_imports_go_one_way():
    wrong = [
        f"{file} imports {target}"
        for part, target, file in _imports()
        if part != target and RANK.get(target, PUBLIC) >= RANK.get(part, PUBLIC) and part in RANK
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
def test_numpy_is_the_only_library_at_import():
    """Optional and heavy libraries are loaded by those who need them."""
    heavy = {"llvmlite", "cupy", "torch", "scipy", "onnx", "PIL"}
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.parse(path.read_text()).body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module]
            assert not heavy & {name.split(".")[0] for name in names}, path


@pytest.mark.parametrize(
    "name", ["autograd", "backends", "cuda", "nn", "nn.functional", "nn.parameter", "overrides", "random", "storage",
             "utils.dlpack", "version"]
)  # fmt: skip
def test_public_modules(name):
    assert importlib.import_module("flambeau." + name).__doc__


def test_every_registered_function_is_public():
    from flambeau._ops.registry import functions, methods

    for path in functions:
        if "." not in path:
            assert hasattr(flambeau, path), path
    for name in methods:
        assert hasattr(flambeau.Tensor, name), name
