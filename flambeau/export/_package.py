"""Packages (`.fbo`): an exported program with its weights and the machine code that it needs. They are `.pt2` archives with two records
more, a manifest and the object code, so that `torch.export.load` reads them as well.

Loading one runs its machine code: checksums tell damage from wholeness, not friends from enemies. Only `load_package` does it, never
`torch.load` or `torch.export.load`.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from .._autograd.modes import no_grad
from .._kernel.building import archives, cpus, elf, jit
from .._kernel.building.target import Target
from .._serialization import files
from .._serialization.archive import ArchiveError, Reader
from .._tensor import Tensor
from .._version import __version__
from ..compiler._region import Region
from . import _archive
from .exported_program import ExportedProgram

_FORMAT = 2
_MANIFEST, _OBJECTS, _GRAPH = "flambeau/manifest.json", "flambeau/objects", "models/model.json"
_LARGEST = 1 << 30  # bytes of object code
_PROGRAMS = 64  # sets of sizes for which programs are kept


class PackageError(RuntimeError):
    """A package that is damaged, or that this machine cannot run."""


# -- writing -----------------------------------------------------------------------------------------------------------------


def write_package(ep: ExportedProgram, f: Any, cpu: str | None = None) -> None:
    """Compiles a program for this machine's CPU or a named one, and writes it to a path or file object.

    A process of its own does it: it runs the program on its example arguments, and all kernels that it needs on the way are kept.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(f"expected an ExportedProgram, as torch.export.export gives it, got {type(ep).__name__}")
    if ep.example_inputs is None:
        raise ValueError("a package is made by running the program: export it again, with example arguments")
    if not elf.machine():
        raise NotImplementedError("packages are made on Linux, on x86-64 and AArch64 machines")
    if cpu is not None:
        cpus.named(cpu)
    with tempfile.TemporaryDirectory() as folder:
        _archive.save(ep, os.path.join(folder, "model.pt2"))
        more = _built(folder, cpu)
    _archive.save(ep, f, more=more)


def _built(folder: str, cpu: str | None) -> dict[str, bytes]:
    """The records that another process makes of the program in a folder."""
    command = [sys.executable, "-c", f"from {__package__}._package_build import main; main()", folder, cpu or ""]
    paths = [str(Path(__file__).parents[2]), *[p for p in sys.path if p]]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths))}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["it says nothing"]
        reason = lines[-1] if done.returncode > 0 else f"its process ended by signal {-done.returncode}: {lines[-1]}"
        raise PackageError(f"the program could not be compiled for {cpu or 'this CPU'}: {reason}")
    return {name: Path(folder, Path(name).name).read_bytes() for name in (_MANIFEST, _OBJECTS)}


def manifest(gathered: jit.Gathered, words: frozenset[str], graph: bytes) -> tuple[bytes, bytes]:
    """The contents of a package's two records."""
    target, objects = gathered.target, gathered.objects()
    code = b"".join(objects.values())
    about = {
        "format": _FORMAT, "flambeau": __version__, "python": _python(), "machine": platform.machine().lower(),
        "llvm": target.llvm, "cpu": target.cpu, "features": target.features, "words": sorted(words),
        "sources": archives.contents(), "index": gathered.index,
        "objects": [(digest, len(data)) for digest, data in objects.items()],
        "checksums": {_GRAPH: _checksum(graph), _OBJECTS: _checksum(code)},
    }  # fmt: skip
    return json.dumps(about).encode(), code


def graph_record(path: str) -> bytes:
    """The text of the graph in a file."""
    with files.opened(path) as file:
        return Reader(files.FileSource(file)).read(_GRAPH)


def _python() -> list[int]:
    return [*sys.version_info[:2], object.__basicsize__]


def _checksum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# -- reading -----------------------------------------------------------------------------------------------------------------


def load_package(f: Any) -> AOTICompiledModel:
    """Reads a package from a path or file object. Its machine code is executed: load only what you trust."""
    with files.opened(f) as file:
        start = file.tell()
        try:
            archive = Reader(files.FileSource(file))
            about = _manifest_of(archive)
            shelf = _shelf(archive, about)
        except (ArchiveError, EOFError) as error:
            raise PackageError(f"the package is damaged: {error}") from None
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise PackageError(f"the package's manifest is not in order: {type(error).__name__}: {error}") from None
        jit.bring(shelf)
        file.seek(start)
        program = _archive.load(file)
    return AOTICompiledModel(program, about)


def _manifest_of(archive: Reader) -> dict[str, Any]:
    """What a package says of itself, if this machine can run it."""
    if _MANIFEST not in archive:
        raise PackageError(
            "the file is no package: `flambeau compile` and torch._inductor.aoti_compile_and_package write them"
        )
    if archive.size(_MANIFEST) > _LARGEST or archive.size(_OBJECTS) > _LARGEST:
        raise PackageError("the package says that it is larger than any can be")
    about: dict[str, Any] = json.loads(archive.read(_MANIFEST))
    if about["format"] != _FORMAT:
        raise PackageError(f"the package is of format {about['format']}, and format {_FORMAT} is known here: {_AGAIN}")
    if about["machine"] != platform.machine().lower() or not elf.machine():
        raise PackageError(f"the package is for {about['machine']}, and this is {platform.machine()}: {_AGAIN}")
    if about["python"] != _python():
        shown = ".".join(map(str, about["python"][:2]))
        raise PackageError(f"the package is for Python {shown}, and this is {platform.python_version()}: {_AGAIN}")
    missing = sorted(set(about["words"]) - cpus.words())
    if missing:
        raise PackageError(
            f"the package is for the CPU {about['cpu']}, and this one cannot do {' '.join(missing)}: make one for a CPU that "
            "both are (flambeau compile --cpu …)"
        )
    return about


_AGAIN = "make it again here (flambeau compile)"


def _shelf(archive: Reader, about: dict[str, Any]) -> jit.Shelf:
    code = archive.read(_OBJECTS)
    for name, data in ((_GRAPH, archive.read(_GRAPH)), (_OBJECTS, code)):
        if about["checksums"][name] != _checksum(data):
            raise PackageError(f"the package is damaged: the checksum of {name} is false")
    objects, at = {}, 0
    for digest, size in about["objects"]:
        if type(size) is not int or not 0 <= size <= len(code) - at:
            raise PackageError("the package is damaged: its object code is not where the manifest says")
        objects[str(digest)], at = code[at : at + size], at + size
    texts = [about[name] for name in ("llvm", "cpu", "features", "sources")]
    if any(type(t) is not str for t in [*texts, *about["index"].values()]):
        raise TypeError("a text is none")
    return jit.Shelf(Target(*texts[:3]), objects, about["index"], texts[3])


class AOTICompiledModel:
    """A program of a package: called like the module that was exported. Gradients are not computed."""

    def __init__(self, program: ExportedProgram, about: dict[str, Any]):
        self._about, self._module = about, program.module()
        self._region = Region(self._module, lambda: _PROGRAMS)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            return self._region(*args, **kwargs)

    def get_metadata(self) -> dict[str, str]:
        """What the package says of itself."""
        shown = {name: str(self._about[name]) for name in ("flambeau", "machine", "cpu", "llvm")}
        return {"AOTI_DEVICE_KEY": "cpu", **shown}

    def get_constant_fqns(self) -> list[str]:
        """The names of parameters and buffers."""
        return [name for name, _ in self._constants()]

    def load_constants(
        self, constants_map: dict[str, Tensor], *, check_full_update: bool, user_managed: bool = False,
        allow_h2d_copy: bool = False,
    ) -> None:  # fmt: skip
        """Gives parameters and buffers other values; with `user_managed` the tensors themselves stand in their place."""
        known = dict(self._constants())
        wrong = sorted(constants_map.keys() - known.keys())
        if wrong:
            raise RuntimeError(f"the program has no constants {', '.join(wrong)}; there are {', '.join(known)}")
        if check_full_update and known.keys() - constants_map.keys():
            left = ", ".join(sorted(known.keys() - constants_map.keys()))
            raise RuntimeError(f"check_full_update=True, and there is nothing for {left}")
        for name, value in constants_map.items():
            own = known[name]
            if own.shape != value.shape or own.dtype is not value.dtype:
                raise RuntimeError(
                    f"{name} is {own.dtype} of size {list(own.shape)}, got {value.dtype} of size {list(value.shape)}"
                )
        with no_grad():
            for name, value in constants_map.items():
                if user_managed:
                    known[name].data = value.detach()
                else:
                    known[name].copy_(value)

    def _constants(self) -> Any:
        yield from self._module.named_parameters()
        yield from self._module.named_buffers()
