"""Saving and loading: checkpoints in PyTorch's formats, which both packages read."""

from __future__ import annotations

import mmap as _mmap
import os
import pickle
import shutil
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from ._core.devices import device
from ._core.dtypes import dtype
from ._serialization import files, inspection, legacy, legacy_tar, loading
from ._serialization.archive import ArchiveError, Reader, Writer
from ._serialization.legacy import SourceChangeWarning
from ._serialization.locations import (
    default_restore_location,
    location_tag,
    register_package,
    validate_cuda_device,
    validate_hpu_device,
)
from ._serialization.names import _get_layout as _get_layout
from ._serialization.names import storage_classes
from ._serialization.options import (
    LoadEndianness,
    add_safe_globals,
    clear_safe_globals,
    get_crc32_options,
    get_default_load_endianness,
    get_default_mmap_options,
    get_safe_globals,
    local,
    safe_globals,
    set_crc32_options,
    set_default_load_endianness,
    set_default_mmap_options,
    settings,
    skip_data,
)
from ._serialization.pickler import Storages, dump
from ._serialization.weights_only import Unsafe
from ._tensor.constructors import typed_classes
from ._tensor.typed_storage import TypedStorage

__all__ = [
    "LoadEndianness", "SourceChangeWarning", "StorageType", "add_safe_globals", "check_module_version_greater_or_equal",
    "clear_safe_globals", "default_restore_location", "get_crc32_options", "get_default_load_endianness",
    "get_default_mmap_options", "get_safe_globals", "get_unsafe_globals_in_checkpoint", "load", "location_tag", "mkdtemp",
    "normalize_storage_type", "register_package", "safe_globals", "save", "set_crc32_options", "set_default_load_endianness",
    "set_default_mmap_options", "skip_data", "storage_to_tensor_type", "validate_cuda_device", "validate_hpu_device",
]  # fmt: skip

MAP_LOCATION: TypeAlias = Callable[[Any, str], Any] | device | str | dict[str, str] | None
DEFAULT_PROTOCOL = 2
MAGIC_NUMBER, PROTOCOL_VERSION = legacy.MAGIC_NUMBER, legacy.PROTOCOL_VERSION
_ZIP_MARK = b"PK\3\4"


# -- saving ------------------------------------------------------------------------------------------------------


def save(
    obj: object, f: Any, pickle_module: Any = pickle, pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True, _disable_byteorder_record: bool = False,
) -> None:  # fmt: skip
    """Saves an object with its tensors to a path or a file object; PyTorch can load it, too.

    Storages are written once however many tensors share them. At a path, the new file takes the place of the old one
    only when it is complete: if saving fails or is interrupted, the old one is still there.

    >>> import flambeau as torch, io
    >>> file = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "step": 3}, file)
    >>> _ = file.seek(0); torch.load(file)
    {'weight': tensor([1., 1.]), 'step': 3}
    """
    if _use_new_zipfile_serialization:
        parts = _pickled(obj, pickle_module, pickle_protocol)
        with _writing(f) as write:
            _save_archive(parts, write, _archive_name(f), _disable_byteorder_record)
    else:
        if local.skip:
            raise RuntimeError(
                "Cannot use skip_data=True with _use_new_zipfile_serialization=False: only archives have room for data"
            )
        with _writing(f) as write:
            legacy.save(obj, write, pickle_module, pickle_protocol)


def _pickled(obj: Any, module: Any, protocol: int) -> tuple[bytes, Storages]:
    storages = Storages()
    return dump(obj, storages, protocol, module), storages


@contextmanager
def _writing(f: Any) -> Iterator[Any]:
    if files.is_path(f):
        with files.replacing(f) as write:
            yield write
    else:
        yield files.writer_of(f)
        if hasattr(f, "flush"):
            f.flush()  # files that send their contents on do so then


def _archive_name(f: Any) -> str:
    """The folder inside of the archive: the file's name, as PyTorch has it."""
    name = os.path.splitext(os.path.basename(os.fsdecode(f)))[0] if files.is_path(f) else ""
    return name if name and name.isascii() and not name.startswith(".") else "archive"


def _save_archive(parts: tuple[bytes, Storages], write: Any, name: str, no_byteorder: bool) -> None:
    content, storages = parts
    archive = Writer(write, name, settings.save.compute_crc32, settings.save.storage_alignment)
    archive.record("data.pkl", content)
    archive.record(".format_version", b"1")
    archive.record(".storage_alignment", str(settings.save.storage_alignment).encode())
    if not no_byteorder:
        archive.record("byteorder", b"little")
    for key, data, _ in storages.buffers():
        if local.skip:
            archive.hole(f"data/{key}", len(data))
        else:
            archive.record(f"data/{key}", data)
    archive.finish()


# -- loading -----------------------------------------------------------------------------------------------------


def load(
    f: Any, map_location: Any = None, pickle_module: Any = None, *, weights_only: bool | None = None,
    mmap: bool | None = None, **pickle_load_args: Any,
) -> Any:  # fmt: skip
    """Loads what `save` (here or in PyTorch) wrote to a path or a file object.

    By default only tensors, plain data and what `add_safe_globals` declared safe are accepted, and nothing in the file
    is ever executed. `weights_only=False` accepts any object: use it only for files that you trust.
    `map_location` says where storages go: a device, a dictionary of devices, or a function (storage, tag) -> storage.
    With `mmap=True` a path is mapped and read when elements are first used; writes to them do not reach the file.

    >>> import flambeau as torch, os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.pt")
    >>> torch.save([torch.arange(3)], path)
    >>> torch.load(path, map_location="cpu", weights_only=True)
    [tensor([0, 1, 2])]
    """
    weights_only = _whether_weights_only(weights_only, pickle_module)
    if weights_only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    how = loading.Reading(map_location, pickle_module, bool(weights_only), pickle_load_args)
    mmap = settings.load.mmap if mmap is None else mmap
    if mmap and not files.is_path(f):
        raise ValueError("f must be a file path in order to use the mmap argument")
    try:
        return _load_mapped(f, how) if mmap else _load(f, how)
    except _IsProgram:
        return _load_program(f, map_location, weights_only)
    except pickle.UnpicklingError as error:
        if not weights_only:
            raise
        raise pickle.UnpicklingError(_advice(error)) from error


def _whether_weights_only(given: bool | None, pickle_module: Any) -> bool:
    """What `load` was told, or what PyTorch's two environment variables say where it was told nothing."""
    forced, freed = (os.getenv(name, "0").lower() in ("1", "y", "yes", "true") for name in _FORCING)
    if forced and freed:
        raise RuntimeError(f"Only one of {' or '.join(_FORCING)} should be set, but both were set.")
    if forced:
        return True
    if given is None and freed:
        warnings.warn(
            f"Environment variable {_FORCING[1]} detected, since the `weights_only` argument was not given to torch.load: "
            "forcing weights_only=False, with which files can run code",
            stacklevel=3,
        )
        return False
    return pickle_module is None if given is None else given


_FORCING = ("TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD")


def _advice(error: pickle.UnpicklingError) -> str:
    """What to do about a file that is not accepted as weights."""
    if not isinstance(error, Unsafe):
        return f"Weights only load failed. {error}."
    name = error.name.removeprefix("builtins.")
    return (
        f"Weights only load failed. {error}. If you trust the file, use `torch.serialization.add_safe_globals([{name}])` or "
        f"the context manager `torch.serialization.safe_globals([{name}])` to allowlist it; "
        "or load it with weights_only=False, which can execute any code that the file contains."
    )


def _load_mapped(path: Any, how: loading.Reading) -> Any:
    source = files.MappedSource(path, settings.load.mmap_flags)
    if source.map[:4] != _ZIP_MARK:
        raise RuntimeError("mmap can only be used with files saved with _use_new_zipfile_serialization=True")
    return loading.load_archive(source, Reader(source), how, True)


def _load(f: Any, how: loading.Reading) -> Any:
    with files.opened(f) as file:
        start = file.tell()
        mark = file.read(4)
        if not isinstance(mark, bytes):
            raise TypeError(f"load needs a file of bytes, but reading it gave {type(mark).__name__}")
        source = files.FileSource(file)
        if mark == _ZIP_MARK:
            archive = _opened_archive(file, source, start)
            made = loading.load_archive(source, archive, how, False)
            file.seek(archive.end)
            return made
        if legacy_tar.is_tar(source, start):
            return legacy_tar.load(file, start, how)
        if files.is_path(f) and source.size:
            with _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ) as data:
                return legacy.load(data, start, how)[0]
        made, end = legacy.load(source.read(start, source.size - start), 0, how)
        file.seek(start + end)
        return made


class _IsProgram(Exception):
    """An archive of TorchScript, found where a checkpoint was expected."""


def _opened_archive(file: Any, source: Any, start: int) -> Reader:
    """The archive that begins at `start`; the file is where it was if it is one of TorchScript."""
    try:
        archive = Reader(source, start)
        program = "constants.pkl" in archive
    except ArchiveError:  # programs may be compressed, checkpoints never are
        program = _holds_program(file)
        if not program:
            raise
    if program:
        file.seek(start)
        raise _IsProgram
    return archive


def _holds_program(file: Any) -> bool:
    try:
        return any(name.endswith("/constants.pkl") for name in zipfile.ZipFile(file).namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return False


def _load_program(f: Any, map_location: Any, weights_only: bool) -> Any:
    """What PyTorch does with TorchScript here: it loads it with a warning, but not as weights."""
    if weights_only:
        raise RuntimeError(
            "Cannot use ``weights_only=True`` with TorchScript archives passed to ``torch.load``: load it with torch.jit.load, "
            "which executes nothing that is in the file"
        )
    from .jit import load as load_program  # the interpreter is loaded by those who need it

    warnings.warn(
        "'torch.load' received a zip file that looks like a TorchScript archive dispatching to 'torch.jit.load' "
        "(call 'torch.jit.load' directly to silence this warning)",
        stacklevel=3,
    )
    return load_program(f, map_location)


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The classes and functions in a file that `load(weights_only=True)` would refuse; nothing is loaded.

    >>> import flambeau as torch, io
    >>> file = io.BytesIO(); torch.save(range(3), file); _ = file.seek(0)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
    ['builtins.range']
    """
    with files.opened(f) as file:
        start = file.tell()
        source = files.FileSource(file)
        if source.size >= start + 4 and source.read(start, 4) == _ZIP_MARK:
            found = inspection.names_in_archive(Reader(source, start))
        else:
            found = inspection.names_in_legacy(source.read(start, source.size - start))
        return inspection.unsafe_names(found)


# -- small things that PyTorch has here --------------------------------------------------------------------------


@contextmanager
def mkdtemp() -> Iterator[str]:
    """A folder that is removed at the end of the `with` block."""
    path = tempfile.mkdtemp()
    try:
        yield path
    finally:
        shutil.rmtree(path)


class StorageType:
    """A class of storages by its name."""

    def __init__(self, name: str):
        self._dtype = storage_classes()[f"torch.{name}"].dtype  # type: ignore[attr-defined]

    @property
    def dtype(self) -> dtype:
        return self._dtype


def normalize_storage_type(storage_type: Any) -> Any:
    """The class of the CPU's storages that corresponds to a class of storages."""
    return storage_classes()[f"torch.{storage_type.__name__}"]


def storage_to_tensor_type(storage: TypedStorage) -> type:
    """The class of tensors whose elements are those of a typed storage."""
    return typed_classes()[storage._pickle_storage_type().replace("Storage", "Tensor")]


def check_module_version_greater_or_equal(module: Any, req_version_tuple: Any, error_if_malformed: bool = True) -> bool:
    """Whether a module is at least of a version; what cannot be compared raises, or counts as old enough with a warning.

    >>> import flambeau as torch, numpy
    >>> torch.serialization.check_module_version_greater_or_equal(numpy, (1, 20))
    True
    """
    try:
        parts = module.__version__.split(".")
        return tuple(type(want)(part) for want, part in zip(req_version_tuple, parts)) >= tuple(req_version_tuple)
    except Exception as error:
        text = f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared with tuple {req_version_tuple}"
        if error_if_malformed:
            raise RuntimeError(text) from error
        warnings.warn(f"{text}, but continuing assuming that requirement is met")
        return True
