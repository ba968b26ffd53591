"""What names in pickles mean: checkpoints speak of PyTorch's classes and functions, which here are flambeau's."""

from __future__ import annotations

import functools
import importlib
import sys
import types
from typing import Any

from .._core.dtypes import ALL, BY_NAME, dtype
from .._core.layouts import LAYOUTS, layout
from .._ops.records.rules import SCALAR_NAMES
from .._ops.registry import functions

PACKAGE = __name__.partition(".")[0]
_LAYOUTS = {repr(x): x for x in LAYOUTS}


def _get_layout(name: str) -> layout:
    """A layout by its text, as checkpoints name it."""
    found = _LAYOUTS.get(name)
    if found is None:
        raise RuntimeError(f"a checkpoint names the unknown layout {name!r:.100}")
    return found


def _homes(there: str, here: str, *found: str) -> dict[str, str]:
    return {f"torch.{there}.{name}": f"{PACKAGE}{here}.{name}" for name in found}


# Functions that make objects again, by their full names in checkpoints, and where they are here.
FUNCTIONS = {
    **_homes("_utils", "._tensor.copying", "_rebuild_tensor", "_rebuild_tensor_v2", "_rebuild_tensor_v3", "_rebuild_sparse_tensor",
             "_rebuild_meta_tensor_no_storage", "_rebuild_qtensor"),
    **_homes("_utils", ".nn.parameter", "_rebuild_parameter", "_rebuild_parameter_with_state"),
    **_homes("_utils", "._serialization.rebuild", "_rebuild_device_tensor_from_cpu_tensor",
             "_rebuild_device_tensor_from_numpy", "_rebuild_nested_tensor"),
    **_homes("_tensor", "._tensor.copying", "_rebuild_from_type_v2"),
    **_homes("serialization", "._serialization.names", "_get_layout"),
}  # fmt: skip
# Everything whose place here is not the same as there.
_HOMES = {**FUNCTIONS, **_homes("storage", "", "UntypedStorage", "TypedStorage"), **_homes("_C", "", "Generator")}
_NAMES = {here: tuple(there.rpartition(".")[::2]) for there, here in _HOMES.items()}
_MOVED = {"torch._C._nn.": "torch.nn.functional.", "torch._C._VariableFunctions.": "torch.", "torch._VF.": "torch."}


@functools.cache
def storage_classes() -> dict[str, type]:
    """FloatStorage and the like, by their full names in checkpoints."""
    package = sys.modules[PACKAGE]
    named = {f"{word}Storage": getattr(package, f"{word}Storage", None) for word in SCALAR_NAMES.values()}
    return {f"{root}.{name}": found for root in ("torch", "torch.cuda") for name, found in named.items() if found}


def dtypes() -> dict[str, dtype]:
    return {f"torch.{d.name}": d for d in ALL}


def to_torch(module: str, name: str, obj: Any) -> tuple[str, str]:
    """The module and name that a checkpoint shall say for an object of flambeau."""
    special = _NAMES.get(f"{module}.{name}")
    if special is not None:
        return special  # type: ignore[return-value]
    if not is_ours(module):
        return module, name
    path = public_path(obj)
    if path is not None:
        return path.rpartition(".")[::2]
    return "torch" + module[len(PACKAGE) :], name


def public_path(obj: Any) -> str | None:
    """The full name by which users know an operation; None for everything else."""
    return None if isinstance(obj, type) else _operations(functions.size()).get(id(obj))


@functools.lru_cache(maxsize=1)
def _operations(size: int) -> dict[int, str]:
    return {id(function): f"torch.{path}" for path, function in reversed(functions.loaded())}


def is_ours(module: str) -> bool:
    return module == PACKAGE or module.startswith(PACKAGE + ".")


def canonical(module: str, name: str) -> str:
    """A full name under the root that checkpoints use, whichever of the two packages wrote it."""
    full = f"{module}.{name}"
    if not is_ours(module):
        return full
    special = _NAMES.get(full)
    return f"torch{full[len(PACKAGE) :]}" if special is None else ".".join(special)


def from_torch(module: str, name: str) -> Any:
    """The object of flambeau for a name of PyTorch; AttributeError if there is none.

    A class that lives in another file here is looked for in the packages above.
    """
    full = canonical(module, name)
    for there, here in _MOVED.items():
        if full.startswith(there):
            full = here + full[len(there) :]
    if full == "torch._C._VariableFunctionsClass":
        return sys.modules[PACKAGE]
    home = _HOMES.get(full)
    if home is not None:
        path, _, name = home.rpartition(".")
        return getattr(importlib.import_module(path), name)
    found = storage_classes().get(full)
    if found is not None:
        return found
    if full.startswith("torch.") and full[6:] in BY_NAME:
        return BY_NAME[full[6:]]
    parts = [PACKAGE, *full.split(".")[1 : -name.count(".") - 1]]
    while parts:
        holder = _module(".".join(parts))
        found = holder and functools.reduce(lambda x, part: getattr(x, part, None), name.split("."), holder)
        if found is not None:
            return found
        parts.pop()
    raise AttributeError(f"the file names {full}, which {PACKAGE} does not have")


def _module(path: str) -> types.ModuleType | None:
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        return None
