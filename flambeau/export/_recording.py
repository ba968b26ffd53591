"""Runs a module on examples and records the operators that it runs, for export: what a trace does, and besides that the lines of
the program, literals as constants of the graph, and questions about elements as errors."""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .._core.state import local
from .._errors.frames import PACKAGE, is_ours, users_frame
from .._ops.records.shape_rules import DataDependent
from .._ops.registry import ops
from .._tensor import Tensor
from ..fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode
from ..jit import _lowering
from ..jit._operators import find
from ..jit._tracer import Node, TracedInt, Tracer, Value, watched
from ..nn.modules.module import Module
from ..random import get_rng_state, set_rng_state
from ..utils._pytree import tree_flatten, tree_map

_LAYERS = os.path.join(PACKAGE, "nn", "modules", "")
_LITERALS = frozenset(("tensor", "as_tensor", "scalar_tensor", "from_numpy", "asarray"))
_READS = {
    "__bool__": "bool", "item": "number", "tolist": "list", "numpy": "array", "__int__": "integer", "__float__": "float", "__index__": "index",
    "__complex__": "complex",
}  # fmt: skip


class SizeInt(TracedInt):
    """A size in a recording; what a program asks about it is written down."""

    def __hash__(self) -> int:
        return hash(int(self))

    def __bool__(self) -> bool:
        return self._asked("ne", 0, int(self) != 0)

    def _asked(self, op: str, other: Any, answer: bool) -> bool:
        frame = sys._getframe(2)
        mode = local.function_modes[-1] if local.function_modes else None
        if isinstance(mode, Recorder) and not is_ours(frame):
            mode.questions.append((op, self.value, mode.value_of(other), answer, _line(frame)))
        return answer


def _question(op: str) -> Any:
    name = f"__{op}__"
    plain = getattr(int, name)

    def method(self: SizeInt, other: Any) -> Any:
        answer = plain(int(self), other)
        if answer is NotImplemented:
            answer = getattr(float, name)(float(self), other) if isinstance(other, float) else answer
        return answer if answer is NotImplemented or not isinstance(other, int) else self._asked(op, other, answer)

    method.__name__ = name
    return method


for _op in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SizeInt, f"__{_op}__", _question(_op))


class Recorder(Tracer):
    """A recording for export."""

    exports = True

    def __init__(self, root: Module):
        super().__init__(root)
        self.questions: list[tuple[str, Value, Any, bool, str]] = []
        self.part = 0  # of the program, where it is cut into several (pipelining)
        self.literals: dict[str, Tensor] = {}  # constants by their names in the graph
        self._names = dict(_tensors_of(root))
        found = {id(v.example): v for v in self.attributes}
        named = (*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False))
        self.state = {name: (t, found[id(t)]) for name, t in named}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, named = getattr(func, "__name__", ""), kwargs or {}
        if name in _READS and args and isinstance(args[0], Tensor) and self.is_known(args[0]):
            self._refuse(f"extract specialized {_READS[name]} from" if name != "__bool__" else "guard on")
        out = _lowering.run(self, func, args, named)
        if name in _LITERALS and isinstance(out, Tensor) and not self.is_known(out) and not isinstance(args[0], Tensor):
            constant = Value("Tensor", out.detach().clone())  # the program may write into its own
            constant.name = f"CONSTANTS.{self._lift(constant.example)}"
            self._alive.append(constant)
            made = Value("Tensor", out)
            self._add(Node("lift_fresh_copy", [constant], [made]))
            self._bind(out, made)
        return out

    def record(self, op: str, args: list[Any], named: dict[str, Any], out: Any) -> None:
        """Adds an operator with its result, whose shape must not depend on elements."""
        if _depends_on_elements(op, args, named, out):
            self._refuse(f"know the shape of the result of aten::{op}, a")
        super().record(op, args, named, out)

    def _refuse(self, what: str) -> None:
        raise GuardOnDataDependentSymNode(
            f"Could not {what} data-dependent expression: the elements of a tensor decide what the program does, and a graph holds "
            f"one way only. Use torch.cond, torch.where or torch._check.\n\nThe following call raised this error:\n{_line(users_frame())}"
        )

    def value_of(self, t: Any) -> Any:
        """The value of a tensor or traced number; a constant if it was never met."""
        found = super().value_of(t)
        if isinstance(t, Tensor) and found.name.startswith("CONSTANTS.c"):
            self.constants.pop()
            found.name = f"CONSTANTS.{self._lift(t.detach() if t.requires_grad else t, self._names.get(id(t)))}"
        return found

    def _lift(self, t: Tensor, name: str | None = None) -> str:
        """Keeps a constant and gives its name in the graph."""
        if name is None:
            name = f"lifted_tensor_{sum(known.startswith('lifted_tensor_') for known in self.literals)}"
        self.literals[name] = t
        return name

    def number(self, op: str, args: list[Any], result: Any) -> Any:
        """A number computed from traced ones."""
        made = super().number(op, args, result)
        if not isinstance(made, TracedInt):
            return made
        size = SizeInt(made)
        size.value = made.value
        return size

    def _add(self, node: Node) -> None:
        super()._add(node)
        node.line, node.part = _stack(), self.part

    @staticmethod
    def warn(what: str) -> None:
        """Nothing to tell: sizes that were fixed are found by running with others."""


_dependent: dict[tuple[str, bool], bool] = {}


def _depends_on_elements(op: str, args: list[Any], named: dict[str, Any], out: Any) -> bool:
    """Whether the shape of an operator's result depends on elements; a mask as an index makes a difference."""
    leaves = tree_flatten((args, named))[0]
    key = op, any(isinstance(t, Tensor) and t.dtype.name == "bool" for t in leaves)
    if key not in _dependent:
        modes, local.function_modes = local.function_modes, ()
        try:
            _dependent[key] = _shape_depends(find("aten", op), (args, named), out)
        finally:
            local.function_modes = modes
    return _dependent[key]


def _shape_depends(function: Any, given: Any, out: Any) -> bool:
    try:
        args, named = tree_map(lambda t: t.detach().to("meta") if isinstance(t, Tensor) else t, given)
        function(*args, **named)
    except DataDependent:
        return True
    except Exception as error:
        if "no data" not in str(error):  # what meta tensors cannot do
            return False
    else:
        return False

    def cleared(t: Any) -> Any:
        if not isinstance(t, Tensor):
            return t
        return t.detach().clone() if t.is_floating_point() or t.is_complex() else ops.zeros_like(t)

    try:  # it reads elements: are there more results for others?
        args, named = tree_map(cleared, given)
        other = function(*args, **named)
    except Exception:
        return False
    return bool(tree_flatten(other)[0][0].shape != tree_flatten(out)[0][0].shape)


def _tensors_of(root: Module) -> Iterator[tuple[int, str]]:
    """Tensors that are attributes of modules, but neither parameters nor buffers, with their paths."""
    for path, module in root.named_modules():
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                yield id(value), f"{path}.{name}" if path else name


# -- lines of the program ----------------------------------------------------------------------------------------------


def _line(frame: Any) -> str:
    code = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f'  File "{frame.f_code.co_filename}", line {frame.f_lineno}, in {frame.f_code.co_name}\n    {code}'


def _stack() -> str:
    """The program's lines from the module's `forward` to the call, outermost first."""
    frames = []
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_code is not _run.__code__:
        layer = frame.f_code.co_filename.startswith(_LAYERS) and frame.f_code.co_name == "forward"
        if layer or not is_ours(frame):
            frames.append(_line(frame))
        frame = frame.f_back
    return "\n".join(frames[::-1]).removeprefix("  ")


# -- the run -----------------------------------------------------------------------------------------------------------


def _run(root: Module, args: Any, kwargs: Any) -> Any:
    return root(*args, **kwargs)


@contextmanager
def unchanged(root: Module) -> Iterator[None]:
    """Gives parameters, buffers and the random stream back as they were: exporting changes nothing."""
    kept = [(t, t._array.copy()) for t in (*root.parameters(), *root.buffers()) if isinstance(t._array, np.ndarray)]
    versions = [t._storage.version if t._storage is not None else None for t, _ in kept]
    plain = [(t, t._array.copy()) for m in root.modules() for t in vars(m).values() if isinstance(t, Tensor)]
    state = get_rng_state()
    try:
        yield
    finally:
        for t, array in (*kept, *plain):
            if t._array.flags.writeable and not np.array_equal(t._array, array, equal_nan=array.dtype.kind == "f"):
                np.copyto(t._array, array)
        for (t, _), version in zip(kept, versions):
            if version is not None and t._storage is not None:
                t._storage.version = version
        set_rng_state(state)


def _copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    made = value.detach().clone()
    return made.requires_grad_() if value.requires_grad else made


def recorded(root: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Recorder, list[Any], list[Any], Any]:
    """Runs a module: (recording, values of the inputs' leaves, leaves of the result, their structure)."""
    given = tree_map(_copied, (tuple(args), dict(kwargs)))
    with unchanged(root):
        recorder = Recorder(root)
        leaves = tree_flatten(given)[0]
        inputs = [recorder.add_input(leaf, "") if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        with watched(), recorder:
            out = _run(root, *given)
    results, spec = tree_flatten(out)
    return recorder, inputs, [recorder.value_of(r) if isinstance(r, (Tensor, TracedInt)) else r for r in results], spec
