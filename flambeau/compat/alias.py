"""The names `torch`, `functorch`, `torchvision` and `torchmetrics` for flambeau and its parts.

A finder on `sys.meta_path` answers imports of these names with the very modules of flambeau, and requests for the
packages' metadata. Child processes find the names through small packages in `paths`, which only call `install_as_torch`.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import operator
import os
import sys
from collections.abc import Iterable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

_ROOT = __name__.partition(".")[0]
# What each name stands for, and the version of the package whose interface it has.
PACKAGES = {
    "torch": (_ROOT, "2.13.0+flambeau"),
    "functorch": (f"{_ROOT}.compat.functorch", "2.13.0+flambeau"),
    "torchvision": (f"{_ROOT}.vision", "0.28.0+flambeau"),
    "torchmetrics": (f"{_ROOT}.metrics", "1.8.0+flambeau"),
}


class TorchVersion(str):
    """A version that compares by its numbers, with strings and tuples.

    >>> TorchVersion("2.13.0+flambeau") >= "2.4", TorchVersion("2.13.0") > (2, 2), TorchVersion("2.13.0") == "2.13.0"
    (True, True, True)
    """

    def _numbers(self, other: Any) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        pair = []
        for version in (str(self), other):
            if isinstance(version, str):
                version = version.partition("+")[0].split(".")
            elif not isinstance(version, (tuple, list)):
                return None
            numbers = []
            for part in version:
                digits = "".join(c for c in str(part) if c.isdigit())
                if not digits:
                    break
                numbers.append(int(digits))
            pair.append(numbers)
        length = max(map(len, pair))
        first, second = (tuple(numbers + [0] * (length - len(numbers))) for numbers in pair)
        return first, second

    def __eq__(self, other: object) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        pair = self._numbers(other)
        return pair is not None and pair[0] == pair[1] and not (isinstance(other, str) and "+" in other)

    def _compare(self, other: Any, relation: Any) -> Any:
        pair = self._numbers(other)
        return NotImplemented if pair is None else relation(*pair)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, operator.lt)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, operator.le)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, operator.gt)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, operator.ge)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class _SameModule:
    """A loader that gives a module which is there already."""

    def __init__(self, module: ModuleType):
        self.module, self.spec = module, module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self.module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # the import system has put the alias's there

    def get_code(self, name: str) -> Any:
        """What `python -m` runs of a module, under its alias as well."""
        spec: Any = self.spec
        return spec.loader.get_code(spec.name)


class _Distribution(importlib.metadata.Distribution):
    """What `importlib.metadata` says of an alias."""

    def __init__(self, name: str, version: str):
        self._text = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"

    def read_text(self, filename: str) -> str | None:
        return self._text if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: Any) -> Path:
        return Path(__file__).parent / path


class Finder:
    """Answers imports of the aliased names; stands first on `sys.meta_path`."""

    def __init__(self, names: Iterable[str]):
        self.packages = {name: PACKAGES[name] for name in names}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        top, dot, rest = name.partition(".")
        if top not in self.packages:
            return None
        real = self.packages[top][0] + dot + rest
        try:
            module = importlib.import_module(real)
        except ModuleNotFoundError as error:
            if error.name is None or not (real == error.name or real.startswith(error.name + ".")):
                raise  # something else is missing
            return None
        self.share_loaded()
        # The import system would load a module a second time if it were there already.
        sys.modules.pop(name, None)
        spec = ModuleSpec(name, _SameModule(module), origin=getattr(module, "__file__", None))  # type: ignore[arg-type]
        if hasattr(module, "__path__"):
            spec.submodule_search_locations = list(module.__path__)
        return spec

    def share_loaded(self) -> None:
        """Gives all loaded modules their aliases: the first import of one sets an attribute of its package, which would
        replace a function of the module's name (`torch.autograd.gradcheck`). Those without an underscore also say so."""
        for alias, (real, _) in self.packages.items():
            for name in [name for name in list(sys.modules) if name == real or name.startswith(real + ".")]:
                shared = alias + name[len(real) :]
                sys.modules.setdefault(shared, sys.modules[name])
                if "._" not in shared and isinstance(sys.modules[name], ModuleType):
                    sys.modules[name].__name__ = shared  # some programs compare it

    def find_distributions(self, context: Any = None) -> Iterator[importlib.metadata.Distribution]:
        wanted = getattr(context, "name", None)
        for name, (_, version) in self.packages.items():
            if wanted is None or wanted.lower() == name:
                yield _Distribution(name, version)


def _installed(name: str) -> bool:
    """Whether a real package of this name can be imported."""
    if any(isinstance(finder, Finder) and name in finder.packages for finder in sys.meta_path):
        return False
    spec = importlib.util.find_spec(name)
    return spec is not None and not str(spec.origin).startswith(str(Path(__file__).parent))


def install_as_torch(children: bool = True) -> None:
    """Makes `import torch` give flambeau; likewise functorch, and torchvision and torchmetrics unless they are installed.

    With `children`, Python processes started from this one do the same (through their path).

    >>> import flambeau
    >>> flambeau.install_as_torch()  # doctest: +SKIP
    >>> import torch; torch.__version__  # doctest: +SKIP
    '2.13.0+flambeau'
    """
    package = sys.modules[_ROOT]
    there = sys.modules.get("torch")
    if there is package:
        return
    if there is not None and not str(getattr(there, "__file__", "")).startswith(str(Path(__file__).parent)):
        raise RuntimeError(
            "the real torch is already imported in this process; call flambeau.install_as_torch() before the first "
            "`import torch`, or start the program with `flambeau run`"
        )
    names = ["torch", "functorch", *[name for name in ("torchvision", "torchmetrics") if not _installed(name)]]
    finder = Finder(names)
    sys.meta_path.insert(0, finder)
    importlib.import_module(f"{_ROOT}._core.state").our_packages.update(names)
    sys.modules["torch"] = package
    tensors = package.Tensor
    for kind in (tensors, *tensors.__subclasses__()):  # others choose their functions by where a tensor's class is from
        if kind.__module__.partition(".")[0] == _ROOT:
            kind.__module__ = "torch" + kind.__module__[len(_ROOT) :]
    finder.share_loaded()
    version = TorchVersion(PACKAGES["torch"][1])
    package.__version__ = version  # type: ignore[attr-defined]
    importlib.import_module(f"{_ROOT}.version").__version__ = version  # type: ignore[attr-defined]
    if children:
        _tell_children(names)


def _tell_children(names: Iterable[str]) -> None:
    """Puts packages that install the alias before everything else on the path of child processes."""
    here = Path(__file__).parent
    wanted = [str(here / "paths" / name) for name in names] + [str(here.parent.parent)]
    before = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
    os.environ["PYTHONPATH"] = os.pathsep.join([p for p in wanted if p not in before] + before)
    sys.path[1:1] = [p for p in wanted if p not in sys.path]  # multiprocessing's spawn hands this path on instead
