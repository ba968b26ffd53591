"""Runs in a process of its own: compiles what a package holds. Arguments: a folder with model.pt2, and the name of a CPU or nothing."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path
from typing import Any

import numpy as np

from .._core.symbolic import SymInt
from .._kernel.building import cpus, jit, llvm
from .._tensor import Tensor, wrap
from ..utils._pytree import tree_flatten, tree_unflatten
from .exported_program import ExportedProgram

_CALLS = 3  # of the program: recorded, lowered, run
# Values of sizes that change: kernels are made for so many rows at a time, and all such numbers occur among these.
_SIZES = (*range(1, 18), 19, 21, 23, 25, 27, 33, 47, 64, 100, 128, 200, 256)


def main() -> None:
    """Writes manifest and object code beside the model."""
    folder, name = Path(sys.argv[1]), sys.argv[2]
    if name:
        cpu = cpus.named(name)
        words, gathered = cpu.words, jit.gather(cpu.target(llvm.host().llvm))
    else:
        words, gathered = cpus.words(), jit.gather()
    from . import _archive, _package  # they may make kernels, which are to be gathered

    path = str(folder / "model.pt2")
    program = _archive.load(path)
    model = _package.AOTICompiledModel(program, {})
    for args, kwargs in itertools.chain([program.example_inputs], _others(program)):
        for _ in range(_CALLS):
            _looked_at(model(*args, **kwargs))
    records = _package.manifest(gathered, words, _package.graph_record(path))
    for file, data in zip(("manifest.json", "objects"), records):
        (folder / file).write_bytes(data)


def _looked_at(out: Any) -> None:
    """What programs do with results first: print them, and ask whether they are those that were expected."""
    for t in tree_flatten(out)[0]:
        if isinstance(t, Tensor):
            repr(t)
            t.equal(t.clone())
            t.allclose(t)


def _others(program: ExportedProgram) -> Any:
    """Example arguments of other sizes, all of them alike, where sizes may change."""
    leaves, form = tree_flatten(program.example_inputs)
    given = {s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"}
    nodes = [n for n in program.graph.nodes if n.op == "placeholder" and n.name in given]
    shapes = [getattr(n.meta.get("val"), "shape", ()) for n in nodes]
    symbols = sorted({s for shape in shapes for n in shape if isinstance(n, SymInt) for s in n.node.symbols})
    limits = {str(k): r for k, r in program.range_constraints.items()}

    def size(n: Any, values: dict[str, int]) -> int:
        return int(n.node.value(values)) if isinstance(n, SymInt) else int(n)

    for n in _SIZES if symbols else ():
        values = {s: max(limits[s].lower, n if limits[s].upper is None else min(n, limits[s].upper)) for s in symbols}
        made = [
            wrap(np.resize(t._array, [size(n, values) for n in shape]), t.dtype) if isinstance(t, Tensor) else t
            for t, shape in zip(leaves, shapes)
        ]
        yield tree_unflatten(made, form)
