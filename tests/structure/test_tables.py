"""Facts about operations stand beside their declarations: outside of `_ops` no table names them.

What is still kept by hand is listed here, with what it holds. The list may only become shorter.
"""

import ast
from pathlib import Path

import pytest

import flambeau
from flambeau._ops.registry import functions, methods, records

ROOT = Path(flambeau.__file__).parent
# A table is a literal with so many names, nearly all of which are operations.
ENOUGH, NEARLY_ALL = 10, 0.75
KNOWN = {
    "_core/return_types.py: _FIELDS": "names of several results, for classes that are made before any schema is read",
    "_interception/torch_dispatch.py: _FORMS": "arguments of records as the operators of PyTorch's library take them",
    "jit/_containers.py: _MATH": "Python's own functions on numbers",
    "jit/_operators.py: _PAIRS": "operators that Python's own do as well, for tensors and numbers",
    "masked/maskedtensor/core.py: _BY_MASK": "operations that look at the mask",
    "masked/maskedtensor/core.py: _KEEPS": "operations that leave the mask",
    "masked/maskedtensor/core.py: _MOVES": "operations that move the mask with the values",
    "nn/init.py: _GAINS": "gains of activations, which are names in PyTorch's interface",
}


def _names(node):
    """The operations' names in a literal: elements, keys, or words of texts."""
    if isinstance(node, ast.Dict):
        parts = [k for k in node.keys if k is not None]
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        parts = node.elts
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        words = node.value.split()
        return words if len(words) > 4 else []
    else:
        return []
    return [p.value for p in parts if isinstance(p, ast.Constant) and isinstance(p.value, str)]


def _tables():
    """What every table is called ("file: variable"), with the number of names in it."""
    operations = {name.rpartition(".")[2] for name in (*functions, *methods, *records)}
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if place.startswith(("_ops/", "_kernel/", "vision/", "metrics/", "doctor/")):
            continue  # the doctor knows mistakes of programs: it names the functions that they call
        for statement in ast.parse(path.read_text()).body:
            if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
                continue
            target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
            if getattr(target, "id", "") == "__all__":
                continue  # what a module offers
            listed = [n for node in ast.walk(statement.value) for n in _names(node)]
            known = [n for n in listed if n in operations]
            if len(known) >= ENOUGH and len(known) >= NEARLY_ALL * len(listed):
                found[f"{place}: {getattr(target, 'id', ast.unparse(target))}"] = len(set(known))
    return found


@pytest.mark.slow
def test_no_table_of_operations_outside_their_declarations():
    found = _tables()
    assert sorted(found.keys() - KNOWN) == [], "say it on the declaration (see _ops/records/facts.py)"
    assert sorted(KNOWN.keys() - found) == [], "gone: take it from the list"
