"""Ahead-of-time packages, and names of PyTorch's compiler that programs touch; of its switches, `max_autotune` has an effect."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any

from ..compiler import compile as compiled
from ..compiler import cudagraph_mark_step_begin
from . import config

if TYPE_CHECKING:
    from ..export._package import AOTICompiledModel
    from ..export.exported_program import ExportedProgram

__all__ = [
    "aot_compile", "aoti_compile_and_package", "aoti_load_package", "compile", "config", "cudagraph_mark_step_begin",
    "list_mode_options", "list_options",
]  # fmt: skip


def aoti_compile_and_package(
    exported_program: ExportedProgram, _deprecated_unused_args: Any = None, _deprecated_unused_kwargs: Any = None, *,
    package_path: Any = None, inductor_configs: dict[str, Any] | None = None,
) -> Any:  # fmt: skip
    """Compiles an exported program, and writes it with its weights and its machine code to one file; returns where.

    The path ends in .pt2 or .fbo; without one, a file in a folder of its own is made. `inductor_configs={"cpu": name}` names the CPU that
    the machine code is for ("x86-64-v3", "neoverse-n1", …) instead of this one. The file runs with flambeau on the same version of
    Python, without the model's source and without LLVM. Where sizes change, programs for other sizes are made when they come.

    >>> import flambeau as torch
    >>> ep = torch.export.export(torch.nn.Linear(2, 3), (torch.ones(1, 2),))
    >>> path = torch._inductor.aoti_compile_and_package(ep)
    >>> torch._inductor.aoti_load_package(path)(torch.ones(1, 2)).shape
    torch.Size([1, 3])
    """
    from ..export import ExportedProgram  # export is loaded by those who use it
    from ..export._package import write_package

    if not isinstance(exported_program, ExportedProgram):
        raise ValueError(f"Only ExportedProgram is supported, got {type(exported_program).__name__}")
    options = dict(inductor_configs or {})
    cpu = options.pop("cpu", None)
    unknown = [name for name in options if not hasattr(config, name.partition(".")[0])]
    if unknown:
        raise AttributeError(f"there are no options {', '.join(unknown)}: see torch._inductor.list_options()")
    if package_path is None:
        package_path = os.path.join(tempfile.mkdtemp(prefix="flambeau_"), "model.fbo")
    elif isinstance(package_path, (str, os.PathLike)) and not os.fspath(package_path).endswith((".pt2", ".fbo")):
        raise AssertionError(
            f"Expect package path to be a file ending in .pt2 or .fbo, is None, or is a buffer. Instead got {package_path}"
        )
    write_package(exported_program, package_path, cpu)
    return package_path


def aoti_load_package(path: Any, run_single_threaded: bool = False, device_index: int = -1) -> AOTICompiledModel:
    """Reads a file that `aoti_compile_and_package` or `flambeau compile` wrote; called like the module that was exported.

    Machine code in the file is executed when the model is called: checksums find damage, not malice, so load only files whose source you
    trust. A damaged file, or one for another CPU or another version of Python, raises `RuntimeError`.
    """
    from ..export._package import load_package  # export is loaded by those who use it

    if device_index != -1:
        raise NotImplementedError("packages run on the CPU: device_index must be -1")
    return load_package(path)


def aot_compile(
    gm: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, options: dict[str, Any] | None = None
) -> str:
    """Compiles a graph module for example arguments, and writes a package; returns its path, which `aoti_load_package` takes.

    The option `aot_inductor.output_path` says where it is written, "cpu" for which CPU."""
    from ..export import export  # which is loaded by those who use it

    more = dict(options or {})
    path = more.pop("aot_inductor.output_path", None)
    made = aoti_compile_and_package(export(gm, args, kwargs), package_path=path, inductor_configs=more)
    return str(made)


def compile(gm: Any, example_inputs: Any, options: dict[str, Any] | None = None) -> Any:
    """A graph module as a function that runs as a program."""
    return compiled(gm, options=options)


def list_options() -> list[str]:
    """The names of the switches."""
    return sorted(name for name in vars(config) if not name.startswith("_"))


def list_mode_options(mode: str | None = None, dynamic: bool | None = None) -> dict[str, Any]:
    """The switches that a mode of `torch.compile` sets: the others make the same programs."""
    return {"max_autotune": True} if mode is not None and mode.startswith("max-autotune") else {}
