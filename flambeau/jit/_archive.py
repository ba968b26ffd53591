"""Archives of TorchScript modules: `save` and `load`. Loading runs nothing that is in the file: the pickle may only name
tensors, plain data and classes of the program, whose methods are interpreted when they are called."""

from __future__ import annotations

import pickle
from typing import Any

from .._serialization import files
from .._serialization.archive import ArchiveError, Writer
from .._serialization.calls import copied
from .._serialization.loading import Reading, _ArchiveStorages
from .._serialization.weights_only import Unpickler
from .._tensor import Tensor
from ..nn.parameter import Parameter
from ..serialization import _archive_name, _writing
from ._pickle import Pickled
from ._program import Program, ScriptClass
from ._script_module import RecursiveScriptModule
from ._values import ScriptObject
from ._zip import ScriptReader

_VERSION = b"10\n"  # of the operators: what they mean today
_LATEST = 20
_WEIGHT = 64  # what a new object counts as much as, in elements
_MOST_SOURCE = 1 << 28  # bytes of all files together


# -- loading -----------------------------------------------------------------------------------------------------


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> Any:
    """A module from an archive that `torch.jit.save` wrote, here or in PyTorch; `f` is a path or a file object.

    No code of the file is executed as Python: its methods are TorchScript, which a small interpreter runs with the
    operations of this package. `map_location` is a device; the values of `_extra_files` are filled in by name, with bytes.

    >>> import flambeau as torch, io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.trace(torch.nn.ReLU(), torch.ones(1)), file)
    >>> _ = file.seek(0)
    >>> torch.jit.load(file)(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    if files.is_path(f):
        import os

        if not os.path.exists(f):
            raise ValueError(f"The provided filename {os.fspath(f)} does not exist")
        if os.path.isdir(f):
            raise ValueError(f"The provided filename {os.fspath(f)} is a directory")
    try:
        with files.opened(f) as file:
            return _load(ScriptReader(file), map_location, _extra_files)
    except (ArchiveError, pickle.UnpicklingError, EOFError, RecursionError) as error:
        raise RuntimeError(f"PytorchStreamReader: the TorchScript archive cannot be read: {error}") from None


def _load(archive: ScriptReader, map_location: Any, extra: Any) -> Any:
    if "constants.pkl" not in archive:
        what = "a checkpoint: use torch.load" if "data.pkl" in archive else "no TorchScript archive"
        raise RuntimeError(f"file not found: constants.pkl. The file is {what}")
    record = next((name for name in (".data/version", "version") if name in archive), None)
    version = b"" if record is None else archive.read(record)[:20].strip()
    if not version.isdigit() or int(version) > _LATEST:
        raise RuntimeError(f"the archive has the unknown version {version!r}")
    how = Reading(map_location, None, True, {})
    program = Program()
    names = [name for name in archive.names() if name.startswith("code/") and name.endswith(".py")]
    if sum(map(archive.size, names)) > _MOST_SOURCE:
        raise RuntimeError("the archive has more source text than is sensible")
    texts = {name: _text(archive, name) for name in names}
    program.read_file = texts.get
    constants = _ScriptUnpickler(archive.read("constants.pkl"), _storages(archive, how, "constants"), program)
    values = constants.load()
    program.constants = tuple(values) if isinstance(values, (tuple, list)) else ()
    made = _ScriptUnpickler(archive.read("data.pkl"), _storages(archive, how, "data"), program).load()
    if not isinstance(made, RecursiveScriptModule):
        raise RuntimeError("the archive holds no TorchScript module")
    program.check()
    for name in extra if extra is not None else ():
        path = f"extra/{name}"
        if path in archive:
            extra[name] = archive.read(path)
    return made


def _text(archive: ScriptReader, name: str) -> str:
    try:
        return archive.read(name).decode()
    except UnicodeDecodeError:
        raise RuntimeError(f"record {name!r:.100} is not text") from None


class _Storages(_ArchiveStorages):
    """The storages of one folder of the archive."""

    def __init__(self, archive: ScriptReader, how: Reading, folder: str):
        super().__init__(None, archive, how, False)  # type: ignore[arg-type]
        self.folder = folder

    def _read(self, name: str, nbytes: int, d: Any) -> Any:
        return super()._read(self.folder + name[len("data") :], nbytes, d)


def _storages(archive: ScriptReader, how: Reading, folder: str) -> Any:
    return _Storages(archive, how, folder).find


class _Kind:
    """A class of the program in a pickle, before an object of it is made."""

    def __init__(self, script: ScriptClass):
        self.script = script


class _ScriptUnpickler(Unpickler):
    """Reads the pickles of an archive."""

    def __init__(self, data: bytes, persistent_load: Any, program: Program):
        super().__init__(data, 0, persistent_load)
        self._program = program

    def _find(self, module: str, name: str) -> Any:
        if module == "__torch__" or module.startswith("__torch__."):
            found = self._program.definition(f"{module}.{name}")
            if not isinstance(found, ScriptClass):
                raise RuntimeError(f"the archive makes an object of {module:.100}.{name:.100}, which is no class")
            return _Kind(found)
        if module == "torch.jit._pickle" and name in _BUILDERS:
            return _BUILDERS[name]
        return super()._find(module, name)

    def _reduce(self) -> None:
        function = self._stack[-2]
        if function.__class__ is _Kind and function.script.base == "Enum":
            value = self._stack.pop()
            self._stack[-1] = function.script.member(value[0] if value.__class__ is tuple else value)
            return
        if function.__class__ is _Builder:
            args = self._stack.pop()
            self._spend(copied(args))
            self._stack[-1] = function.function(*args)
            return
        super()._reduce()

    def _make(self, kind: Any, args: Any, named: dict[str, Any]) -> None:
        if kind.__class__ is not _Kind:
            super()._make(kind, args, named)
            return
        script = kind.script
        self._spend(_WEIGHT)
        if script.base == "NamedTuple":
            self._stack.append(script(*args))
        else:
            self._stack.append(RecursiveScriptModule(script) if script.base == "Module" else ScriptObject(script))

    def _build(self) -> None:
        target = self._stack[-2]
        if target.__class__ is RecursiveScriptModule:
            fill(target, _state(self._stack.pop()))
        elif target.__class__ is ScriptObject:
            target._attributes.update(_state(self._stack.pop()))
        else:
            super()._build()


_ScriptUnpickler.handlers = list(Unpickler.handlers)
_ScriptUnpickler.handlers[pickle.BUILD[0]] = _ScriptUnpickler._build
_ScriptUnpickler.handlers[pickle.REDUCE[0]] = _ScriptUnpickler._reduce


class _Builder:
    """A function that archives use for typed lists."""

    def __init__(self, function: Any):
        self.function = function


def _as_list(values: Any) -> list[Any]:
    if not isinstance(values, (list, tuple)):
        raise RuntimeError("the archive has a list that is none")
    return list(values)


_BUILDERS = {
    **{f"build_{kind}list": _Builder(_as_list) for kind in ("int", "tensor", "double", "bool")},
    "restore_type_tag": _Builder(lambda value, kind: value),
}


def _state(state: Any) -> dict[str, Any]:
    if state.__class__ is not dict or not all(isinstance(k, str) for k in state):
        raise RuntimeError("the archive gives an object a state that is no dictionary")
    return state


def fill(module: RecursiveScriptModule, state: dict[str, Any]) -> None:
    """Gives a new module its parameters, buffers, submodules and attributes."""
    script = module._script
    own = module.__dict__
    for name, value in state.items():
        if name == "training":
            own["training"] = bool(value)
        elif isinstance(value, RecursiveScriptModule):
            own["_modules"][name] = value
        elif name in script.parameters and (value is None or isinstance(value, Tensor)):
            own["_parameters"][name] = None if value is None else _parameter(value)
        elif name in script.buffers and (value is None or isinstance(value, Tensor)):
            own["_buffers"][name] = value
        elif name != "_is_full_backward_hook":
            own["_attributes"][name] = value


def _parameter(value: Tensor) -> Parameter:
    return Parameter(value.detach(), value.requires_grad)


# -- saving ------------------------------------------------------------------------------------------------------


def save(m: Any, f: Any, _extra_files: Any = None) -> None:
    """Writes a module or function that `torch.jit.trace` or `torch.jit.script` gave as an archive for `torch.jit.load`,
    here or in PyTorch. `_extra_files` are further records by name.

    >>> import flambeau as torch, io
    >>> file = io.BytesIO()
    >>> torch.jit.save(torch.jit.script(torch.nn.Tanh()), file)
    >>> _ = file.seek(0); torch.jit.load(file)(torch.zeros(2))
    tensor([0., 0.])
    """
    from ._units import as_module  # it needs `load`

    module = as_module(m)
    data = Pickled(module)
    constants = Pickled(tuple(module._script.program.constants))
    with _writing(f) as write:
        archive = Writer(write, _archive_name(f))
        for name, value in (_extra_files or {}).items():
            archive.record(f"extra/{name}", value.encode() if isinstance(value, str) else bytes(value))
        for folder, part in (("data", data), ("constants", constants)):
            archive.record(f"{folder}.pkl", part.content)
            for key, memory in part.memory():
                archive.record(f"{folder}/{key}", memory)
        for name, text in module._script.program.files().items():
            archive.record(name, text.encode())
        archive.record(".data/version", _VERSION)
        archive.record("byteorder", b"little")
        archive.finish()
