"""`load`: ONNX models as modules. The package onnx is not needed."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from ..._ops.registry import ops
from ..._tensor import Tensor
from ...nn.modules.module import Module
from ...nn.parameter import Parameter
from ..errors import OnnxModelError
from . import control, indexing, layers, pointwise, pooling, quantized, recurrent, reductions, resize, sequences, shapes
from .program import Constant, Loading, Program, as_tensor
from .schema import SCHEMA
from .tensors import Tensors
from .wire import Message, read

__all__ = ["OnnxModule", "load"]

# Their operators are known once they are imported.
_FILES = (control, indexing, layers, pointwise, pooling, quantized, recurrent, reductions, resize, sequences, shapes)
_VERSIONS = range(7, 25)  # later ones give operators attributes that are not known here


def load(f: Any) -> OnnxModule:
    """Reads an ONNX model from a path, a file object or bytes, and gives it as a module that runs, trains and can be saved.

    Weights become parameters under their names in the file; statistics and other constants become buffers. The module computes what
    the file says: where it was exported for evaluation, dropout does nothing and batch norm uses its averages. Nothing of a file is
    executed, and a damaged one raises `OnnxModelError`; but like any program a model may compute for as long as it wants.

    >>> import io
    >>> import flambeau as torch
    >>> file = io.BytesIO()
    >>> torch.onnx.export(torch.nn.Linear(3, 2), torch.ones(1, 3), file, input_names=["x"], output_names=["y"])
    >>> model = torch.onnx.load(file.getvalue())
    >>> model
    OnnxModule(inputs=['x'], outputs=['y'], nodes=1, opset=18)
    >>> sorted(model.state_dict()), model(torch.zeros(1, 3)).shape
    (['bias', 'weight'], torch.Size([1, 2]))
    """
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            data = file.read()
        folder: str | None = os.path.dirname(os.path.abspath(f))
    else:
        data, folder = f.read() if hasattr(f, "read") else f, None
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise TypeError(f"onnx.load: expected a path, a binary file or bytes, got {type(data).__name__}")
    model = read(memoryview(data).cast("B"), "Model", SCHEMA)
    if model.graph is None:
        raise OnnxModelError("the file holds no graph: it is no ONNX model, or a damaged one")
    loading = Loading(model, Tensors(folder))
    version = loading.opsets.get("", 1)
    if version not in _VERSIONS:
        raise OnnxModelError(f"opset {version} is not supported: {_VERSIONS[0]} to {_VERSIONS[-1]} are")
    program = Program.of_graph(loading, model.graph, "the model", None)
    if loading.unknown:
        names = ", ".join(f"{name} ({count})" for name, count in sorted(loading.unknown.items()))
        raise OnnxModelError(f"operators that are not supported (with the number of nodes): {names}")
    return OnnxModule(program, _shapes(model.graph), loading.constants, version)


def _shapes(graph: Message) -> dict[str, list[int | None]]:
    """The sizes that inputs must have, as far as the file states them."""
    found = {}
    for info in graph.input:
        shape = info.type.tensor_type.shape if info.type is not None and info.type.tensor_type is not None else None
        if shape is not None:
            found[info.name] = [d.dim_value for d in shape.dim]
    return found


class OnnxModule(Module):
    """An ONNX model as a module; see `load`. Inputs are given in order or by name; several outputs come as a tuple."""

    def __init__(self, program: Program, shapes: dict[str, list[int | None]], constants: list[Constant], opset: int):
        super().__init__()
        self._program, self._shapes, self.opset = program, shapes, opset
        self.input_names, self.output_names = list(program.inputs), list(program.outputs)
        for constant in constants:
            if not constant.is_size:
                self._keep(constant)

    def _keep(self, constant: Constant) -> None:
        """Makes a constant a parameter or buffer under its name, in modules that its dots stand for."""
        *path, key = constant.name.split(".") if constant.is_initializer else [constant.name.replace(".", "_")]
        owner: Module = self
        if len(path) > 16:
            path, key = [], constant.name.replace(".", "_")
        for part in path:
            inner = owner._modules.get(part)
            if inner is None:
                inner = Module()
                owner.add_module(_free(owner, part), inner)
            owner = inner
        key = _free(owner, key)
        value = ops.tensor(constant.array)
        if constant.trained:
            owner.register_parameter(key, Parameter(value))
        else:
            owner.register_buffer(key, value, persistent=constant.is_initializer)
        constant.owner, constant.key = owner, key
        constant.array = constant.array[:0].reshape(-1) if constant.array.ndim else np.zeros(0)  # the module has it now

    def forward(self, *inputs: Any, **named: Any) -> Any:
        program = self._program
        names = program.inputs
        if len(inputs) > len(names):
            raise TypeError(f"the model takes {len(names)} inputs, {names}, but {len(inputs)} were given")
        given = dict(zip(names, inputs))
        for name, value in named.items():
            if name not in names or name in given:
                raise TypeError(f"the model has no input {name!r} besides those given: {names}")
            given[name] = value
        if len(given) < len(names):
            raise TypeError(f"inputs are missing: {[n for n in names if n not in given]}")
        ordered = [
            ops.as_tensor(np.asarray(v)) if isinstance(v, (np.ndarray, np.generic)) else v
            for v in (given[n] for n in names)
        ]
        for name, value in zip(names, ordered):
            self._check(name, value)
        first = next((v for v in (*ordered, *self.parameters(), *self.buffers()) if isinstance(v, Tensor)), None)
        device = first.device if first is not None else None
        made = tuple(as_tensor(v, device) for v in program.run(ordered, {}, device))
        return made[0] if len(made) == 1 else made

    def _check(self, name: str, value: Any) -> None:
        """A model that was exported for fixed sizes may hold them anywhere: others would give wrong results."""
        wanted = self._shapes.get(name)
        if wanted is None or not isinstance(value, Tensor):
            return
        sizes = list(value.shape)
        fits = len(sizes) == len(wanted) and all(w is None or w < 0 or w == s for w, s in zip(wanted, sizes))
        if not fits:
            shown = [w if w is not None else "any" for w in wanted]
            raise ValueError(
                f"the input {name!r} has the shape {sizes}, and the model was made for {shown}: export it with dynamic_axes "
                "for sizes that change"
            )

    def extra_repr(self) -> str:
        return f"inputs={self.input_names}, outputs={self.output_names}, nodes={len(self._program.nodes)}, opset={self.opset}"

    def __repr__(self) -> str:
        return f"OnnxModule({self.extra_repr()})"


def _free(owner: Module, name: str) -> str:
    """A name that a module has not used."""
    name = name.replace(".", "_") or "_"
    while hasattr(owner, name):
        name += "_"
    return name
