"""An ONNX graph under construction: nodes, constants and names, and the values of a recording in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._core.dtypes import dtype
from .._tensor import Tensor
from ..jit._operators import DTYPES
from ..jit._tracer import Node, Value

# Numbers of element types in ONNX.
_ELEMENTS = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "complex64": 14, "complex128": 15, "bfloat16": 16,
}  # fmt: skip


class Builder:
    """Collects the nodes of a graph. Sizes that depend on inputs are int64 tensors of one element."""

    def __init__(self, onnx: Any, opset: int):
        self.onnx, self.opset = onnx, opset
        self.open = False  # whether sizes of inputs may change
        self.nodes: list[Any] = []
        self.initializers: dict[str, Any] = {}
        self.names: dict[Value, str] = {}
        self._count = 0
        self._constants: dict[Any, str] = {}
        self.values: list[Any] = []  # constants of the recording
        self.domains: set[str] = set()

    # -- names and nodes -------------------------------------------------------------------------------------------

    def fresh(self, hint: str = "") -> str:
        self._count += 1
        return f"{hint or 'onnx::value'}_{self._count}"

    def add(self, kind: str, *inputs: str, outputs: int = 1, domain: str = "", **attributes: Any) -> Any:
        """Adds a node; gives the name of its result, or names."""
        made = [self.fresh(f"/{kind}_output") for _ in range(outputs)]
        attributes = {k: v for k, v in attributes.items() if v is not None}
        self.domains.add(domain)
        self.nodes.append(
            self.onnx.helper.make_node(
                kind, list(inputs), made, name=f"/{kind}_{len(self.nodes)}", domain=domain, **attributes
            )
        )
        return made[0] if outputs == 1 else made

    def constant(self, value: Any, kind: Any = np.int64) -> str:
        """A constant as an initializer."""
        array = np.asarray(value, kind)
        key = (array.tobytes(), array.dtype.str, array.shape) if array.size < 100 else None
        if key is not None and key in self._constants:
            return self._constants[key]
        name = self.fresh("onnx::Constant")
        self.initializers[name] = self.onnx.numpy_helper.from_array(
            np.ascontiguousarray(array).reshape(array.shape), name
        )
        if key is not None:
            self._constants[key] = name
        return name

    def element(self, d: dtype) -> int:
        return _ELEMENTS[d.name]

    # -- values of the recording -----------------------------------------------------------------------------------

    def name(self, value: Value) -> str:
        """Where a value stands in the graph; parameters and constants are put into it now."""
        found = self.names.get(value)
        if found is None:
            label = value.attribute or value.name.replace("CONSTANTS.", "onnx::Constant_")
            found = self.names[value] = label
            if label not in self.initializers:
                self.initializers[label] = self.array(value.example, label)
        return found

    def array(self, t: Tensor, name: str) -> Any:
        """A tensor as ONNX stores it."""
        data = t.detach().cpu().contiguous()
        if data.dtype.name == "bfloat16":
            raw = data._array.view(np.uint16).tobytes()
            return self.onnx.helper.make_tensor(name, 16, list(data.shape), raw, raw=True)
        return self.onnx.numpy_helper.from_array(np.ascontiguousarray(data._array).reshape(data.shape), name)

    def t(self, argument: Any, like: dtype | None = None) -> str:
        """An argument as a tensor, cast to a dtype if one is given."""
        if isinstance(argument, Value):
            name = self.name(argument)
            have = argument.example.dtype.name if isinstance(argument.example, Tensor) else "int64"
            if not isinstance(argument.example, Tensor) and isinstance(argument.example, float):
                have = "float32"
            if like is not None and have != like.name:
                return self.add("Cast", name, to=self.element(like))
            return name
        if argument is None:
            return ""
        return self.constant(argument, like.numpy if like is not None else None)

    def number(self, argument: Any) -> str:
        """A size as an int64 tensor of one element."""
        return self.name(argument) if isinstance(argument, Value) else self.constant([int(argument)])

    def ints(self, values: Any) -> str:
        """A list of sizes as a tensor."""
        values = list(values)
        if not any(isinstance(v, Value) for v in values):
            return self.constant(values)
        parts = [self.number(v) for v in values]
        return parts[0] if len(parts) == 1 else self.add("Concat", *parts, axis=0)

    def cast(self, name: str, d: dtype) -> str:
        return self.add("Cast", name, to=self.element(d))

    # -- operations whose form depends on the version --------------------------------------------------------------

    def unsqueeze(self, x: str, axes: list[int]) -> str:
        if self.opset < 13:
            return self.add("Unsqueeze", x, axes=axes)
        return self.add("Unsqueeze", x, self.constant(axes))

    def squeeze(self, x: str, axes: list[int] | None) -> str:
        if axes is None:
            return self.add("Squeeze", x)
        if self.opset < 13:
            return self.add("Squeeze", x, axes=axes)
        return self.add("Squeeze", x, self.constant(axes))

    def reduce(self, kind: str, x: str, axes: list[int] | None, keep: bool) -> str:
        """A reduction; its axes are an input from version 13 (sum) or 18 (others) on."""
        first = 13 if kind == "ReduceSum" else 18
        if axes is None:
            return self.add(kind, x, keepdims=int(keep))
        if self.opset < first:
            return self.add(kind, x, axes=axes, keepdims=int(keep))
        return self.add(kind, x, self.constant(axes), keepdims=int(keep))

    def split(self, x: str, sizes: list[int], axis: int, even: bool = False) -> list[str]:
        """Parts of a dimension; if they are `even`, as many of a dimension that has another size."""
        if even and self.open and (len(set(sizes)) == 1 or self.opset >= 18):
            count = {"num_outputs": len(sizes)} if self.opset >= 18 else {}
            made = self.add("Split", x, outputs=len(sizes), axis=axis, **count)
        elif self.opset < 13:
            made = self.add("Split", x, outputs=len(sizes), axis=axis, split=sizes)
        else:
            made = self.add("Split", x, self.constant(sizes), outputs=len(sizes), axis=axis)
        return [made] if len(sizes) == 1 else made

    def slice(self, x: str, axis: int, start: Any, end: Any, step: Any = 1) -> str:
        return self.add("Slice", x, self.number(start), self.number(end), self.constant([axis]), self.number(step))

    def size(self, x: str, dim: int) -> str:
        """One size of a tensor, as a tensor of one element."""
        return self.add("Gather", self.add("Shape", x), self.constant([dim]), axis=0)


def rank(value: Value) -> int:
    return len(value.example.shape)


def kind_of(value: Any) -> dtype:
    """The dtype of a value."""
    return value.example.dtype if isinstance(value.example, Tensor) else DTYPES[4]


def result_kind(node: Node) -> dtype:
    return kind_of(node.outs[0])
