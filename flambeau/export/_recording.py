"""Runs a module on examples and records the operators that it runs, for export: what a trace does, and besides that the lines of
the program, literals as constants of the graph, numbers that elements decide, what is asked about numbers and what is stated of them."""

from __future__ import annotations

import linecache
import operator
import os
import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any

import numpy as np

from .._autograd.modes import is_grad_enabled
from .._core.dtypes import float32, int64
from .._core.state import local
from .._core.symbolic import SymBool
from .._errors.frames import PACKAGE, is_ours, users_frame, warn_user
from .._names import checks
from .._ops.registry import ops
from .._tensor import Tensor
from ..fx import Interpreter
from ..fx.experimental.proxy_tensor import make_fx
from ..jit import _lowering
from ..jit._tracer import Node, TracedFloat, TracedInt, Tracer, Value, watched
from ..nn.modules.module import Module
from ..random import get_rng_state, set_rng_state
from ..utils._pytree import tree_flatten, tree_map
from ._found import Found, found_sizes, shaped_as, with_sizes
from ._known import give_up
from ._literals import tensor_of, with_numbers
from .dynamic_shapes import argument_names

_LAYERS = os.path.join(PACKAGE, "nn", "modules", "")
_LITERALS = frozenset(("tensor", "as_tensor", "scalar_tensor", "from_numpy", "asarray"))
_READS = {
    "__bool__": "bool", "item": "number", "tolist": "list", "numpy": "array", "__int__": "integer", "__float__": "float", "__index__": "index",
    "__complex__": "complex",
}  # fmt: skip
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


Asked = tuple[str, Value, Any, bool, str]  # a comparison, its sides, the answer in this run, the program's line


class Question(SymBool):
    """A comparison of numbers. That a program goes by its answer is written down, and so is that it states it (`torch._check`)."""

    def __init__(self, recorder: Recorder, op: str, left: Any, right: Any, answer: bool, line: str):
        super().__init__(answer)
        self.recorder, self.asked = recorder, (op, left, right, answer, line)

    def __bool__(self) -> bool:
        if _of_the_program(sys._getframe(1)):
            self.recorder.questions.append(self.asked)
        return self._value()

    def assume(self) -> bool:
        self.recorder.assume(self.asked)
        return self._value()

    def as_tensor(self) -> Tensor:
        """The answer as a tensor, which follows the numbers."""
        op, left, right, *_ = self.asked
        as_tensor = self.recorder.as_tensor
        return getattr(ops, op)(as_tensor(left), as_tensor(right) if isinstance(right, Value) else right)


def _of_the_program(frame: Any) -> bool:
    """Whether a frame asks for the program: its own code does, and checks that it makes."""
    return not is_ours(frame) or frame.f_code.co_filename == checks.__file__


def _recording() -> Recorder | None:
    mode = local.function_modes[-1] if local.function_modes else None
    return mode if isinstance(mode, Recorder) else None


class _Asked:
    """A traced number; what a program asks about it is written down."""

    value: Value

    def _plain(self) -> Any:
        raise NotImplementedError

    def __hash__(self) -> int:
        return hash(self._plain())

    def __bool__(self) -> bool:
        return bool(self._asked("ne", 0, self._plain() != 0, sys._getframe(1)))

    def _asked(self, op: str, other: Any, answer: bool, frame: Any) -> Any:
        recorder = _recording()
        if recorder is None or not _of_the_program(frame):
            return answer
        asked = op, self.value, recorder.value_of(other), answer, _line(frame if not is_ours(frame) else users_frame())
        return Question(recorder, *asked)

    def _told(self) -> Any:
        """The number, for a program that wants to know it."""
        frame = sys._getframe(2)
        recorder = _recording()
        if recorder is not None and recorder.found and _of_the_program(frame):
            recorder.questions.append(("is", self.value, 0, True, _line(frame)))
        return self._plain()


class SizeInt(_Asked, TracedInt):
    """A size in a recording, or a whole number that was read from a tensor."""

    def _plain(self) -> int:
        return int.__int__(self)

    def __int__(self) -> int:
        return int(self._told())

    def __index__(self) -> int:
        return int(self._told())

    def __float__(self) -> float:
        return float(self._told())


class ReadFloat(_Asked, TracedFloat):
    """A floating-point number that was read from a tensor, or computed from sizes after one was."""

    def _plain(self) -> float:
        return float.__float__(self)

    def __int__(self) -> int:
        return int(self._told())

    def __float__(self) -> float:
        return float(self._told())

    def __round__(self, *digits: Any) -> Any:
        return round(self._told(), *digits)

    __trunc__ = __floor__ = __ceil__ = __int__


def _question(op: str) -> Any:
    compare = getattr(operator, op)

    def method(self: Any, other: Any) -> Any:
        if not isinstance(other, (int, float)):
            return NotImplemented
        answer = compare(self._plain(), other._plain() if isinstance(other, _Asked) else other)
        return self._asked(op, other, answer, sys._getframe(1))

    method.__name__ = f"__{op}__"
    return method


for _op in COMPARISONS:
    setattr(_Asked, f"__{_op}__", _question(_op))


class Recorder(Tracer):
    """A recording for export."""

    exports = True

    def __init__(
        self, root: Module, instead: Mapping[int, int | float] = MappingProxyType({}), preserved: tuple[str, ...] = (),
        filled: bool = False,
    ):  # fmt: skip
        super().__init__(root)
        self._history = is_grad_enabled()
        self.preserved: dict[str, list[tuple[Any, Any, list[str]]]] = {path: [] for path in preserved}
        self.questions: list[Asked] = []
        self.facts: list[Asked] = []  # stated by the program
        self.found: list[Found] = []
        self.instead = instead  # other values for what is found, by number
        self.filled = filled or bool(instead)  # elements of the run are made up: they need not fit each other
        self.refused = False  # whether they did not
        self.part = 0  # of the program, where it is cut into several (pipelining)
        self.literals: dict[str, Tensor] = {}  # constants by their names in the graph
        self._names = dict(_tensors_of(root))
        found = {id(v.example): v for v in self.attributes}
        named = (*root.named_parameters(remove_duplicate=False), *root.named_buffers(remove_duplicate=False))
        self.state = {name: (t, found[id(t)]) for name, t in named}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, named = getattr(func, "__name__", ""), kwargs or {}
        if name in _READS and args and isinstance(args[0], Tensor) and self.is_known(args[0]):
            if name in ("item", "tolist") and not (args[0].dtype.is_complex or args[0].dtype.name == "bool"):
                return self._read(args[0], name == "tolist")
            self._refuse(f"extract specialized {_READS[name]} from" if name != "__bool__" else "guard on")
        if name == "new_tensor" and not isinstance(args[1], Tensor):
            like, func, name, args = args[0], ops.tensor, "tensor", args[1:]
            named = {"dtype": like.dtype, "device": like.device, **{k: v for k, v in named.items() if v is not None}}
        args, named = with_numbers(lambda t: self._read(t, False), self.is_known, func, args, named)
        if name in ("tensor", "as_tensor") and (made := self._of_parts(args, named)) is not None:
            return made
        out = _lowering.run(self, func, args, named)
        if name in _LITERALS and isinstance(out, Tensor) and not self.is_known(out) and not isinstance(args[0], Tensor):
            constant = Value("Tensor", out.detach().clone())  # the program may write into its own
            constant.name = f"CONSTANTS.{self._lift(constant.example)}"
            self._alive.append(constant)
            made = Value("Tensor", out)
            self._add(Node("lift_fresh_copy", [constant], [made]))
            self._bind(out, made)
        return out

    def _of_parts(self, args: Any, named: dict[str, Any]) -> Tensor | None:
        """A tensor that is made of tensors and numbers of the program; None for other literals."""

        def as_tensor(x: Any) -> Tensor:
            return self.as_tensor(x.value) if isinstance(x, (TracedInt, TracedFloat)) else ops.tensor(x)

        with self.again():
            made = tensor_of(args[0], self.is_known, as_tensor)
            return made if made is None or named.get("dtype") is None else made.to(named["dtype"])

    def record(self, op: str, args: list[Any], named: dict[str, Any], out: Any) -> Any:
        """Adds an operator with its result; sizes of it that elements decide are found."""
        groups = found_sizes(op, args, named, out)
        for i, places in enumerate(groups, len(self.found)):
            if i in self.instead:
                out = with_sizes(out, places, int(self.instead[i]))
        without = self._history and not is_grad_enabled()  # the graph runs with gradients
        if without and args and out is args[0] and isinstance(out, Tensor) and out.requires_grad:
            with self._paused():
                args = [out.detach(), *args[1:]]
            super().record("detach", [out], {}, args[0])
            super().record(op, args, named, args[0])
            return out
        super().record(op, args, named, out)
        if without and any(isinstance(t, Tensor) and t.requires_grad for t in tree_flatten((args, named))[0]):
            for part in out if isinstance(out, (tuple, list)) else [out]:
                if isinstance(part, Tensor) and part.dtype.is_floating_point and not any(part is a for a in args):
                    super().record("detach", [part], {}, part)
        for (number, dim), *_ in groups:
            t = tree_flatten(out)[0][number]
            self.found.append(Found(self.value_of(t), t._array.shape[dim], dim))
        return out

    def call_module(self, module: Module, args: Any, kwargs: Any) -> Any:
        """Calls a module; of those whose calls are to keep their structure, arguments and results are noted."""
        calls = self.preserved.get(self._paths.get(id(module), ""))
        if calls is None:
            return super().call_module(module, args, kwargs)
        given = tree_map(self.value_of, (tuple(args), dict(kwargs)))
        calls.append((given, None, argument_names(module, args, kwargs)))
        number = len(calls) - 1
        out = super().call_module(module, args, kwargs)
        calls[number] = given, tree_map(self.value_of, out), calls[number][2]
        return out

    def follow(self, function: Any, args: Any, named: dict[str, Any]) -> Any:
        """Calls a transform: the operators that it runs are recorded."""
        leaves, structure = tree_flatten((args, named))
        places, results = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)], list[Any]()

        def run(*tensors: Tensor) -> list[Any]:
            given = list(leaves)
            for i, t in zip(places, tensors):
                given[i] = t
            placed, options = structure.unflatten(given)
            out, spec = tree_flatten(function(*placed, **options))
            results.append(spec)
            return out

        tensors = [leaves[i] for i in places]
        with self._paused():
            graph = make_fx(run)(*tensors)
        return results[0].unflatten(Interpreter(graph).run(*tensors))

    def _read(self, t: Tensor, listed: bool) -> Any:
        """The element of a tensor as a number that is found, or all of them in lists."""
        if listed and t.dim():
            with self.again():
                parts = ops.unbind(t)
            return [self._read(part, True) for part in parts]
        number = t.item()
        made = self.number("item", [t], type(number)(self.instead.get(len(self.found), number)))
        self.found.append(Found(made.value, made._plain()))
        return made

    def assume(self, asked: Asked) -> None:
        """Notes that the program states something: that is checked when it runs."""
        op, left, right, answer, _ = asked
        value = Value("bool", answer)
        self._add(Node(op, [left, right], [value]))
        self._add(Node("_assert_scalar", [value, ""], []))
        self.facts.append(asked)

    def as_tensor(self, number: Value) -> Tensor:
        """A number as a tensor without dimensions."""
        kind = float32 if isinstance(number.example, float) else int64
        with self._paused():
            made = ops.scalar_tensor(number.example, dtype=kind)
        return self.record("scalar_tensor", [number], {"dtype": kind}, made)

    def compute(self, function: Any, args: Any, named: dict[str, Any]) -> Any:
        """Calls a function of tensors; made-up elements that do not fit are no error."""
        try:
            return function(*args, **named)
        except Exception:
            if not self.filled:
                raise
            self.refused = True
            with self._paused():
                return shaped_as(function, args, named)

    def _refuse(self, what: str) -> None:
        give_up(f"{what} data-dependent expression", _line(users_frame()))

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
        if not isinstance(made, TracedInt) and not self.found and op != "item":
            return made
        asked = SizeInt(made) if isinstance(made, TracedInt) else ReadFloat(made)
        asked.value = made.value
        return asked

    def _add(self, node: Node) -> None:
        super()._add(node)
        node.line, node.part = _stack(), self.part

    @staticmethod
    def warn(what: str) -> None:
        """Nothing to tell: sizes that were fixed are found by running with others."""


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
    known = [t for t in (*root.parameters(), *root.buffers()) if isinstance(t._array, np.ndarray)]
    kept = [(t, t._array.copy()) for t in known if not t.is_meta]
    histories = [(t._k, t._edge, t._storage.version if t._storage is not None else None) for t, _ in kept]
    found = [t for m in root.modules() for t in vars(m).values() if isinstance(t, Tensor)]
    plain = [(t, t._array.copy()) for t in found if not t.is_meta]
    attributes = [(table, dict(table)) for m in root.modules() for table in (vars(m), m._parameters, m._buffers)]
    state = get_rng_state()
    try:
        yield
    finally:
        for table, before in attributes:
            if len(table) != len(before) or any(table.get(name) is not value for name, value in before.items()):
                table.clear()
                table.update(before)
        for t, array in (*kept, *plain):
            if t._array.flags.writeable and not np.array_equal(t._array, array, equal_nan=array.dtype.kind == "f"):
                np.copyto(t._array, array)
        for (t, _), (k, edge, version) in zip(kept, histories):
            t._k, t._edge = k, edge
            if version is not None and t._storage is not None:
                t._storage.version = version
        set_rng_state(state)


@contextmanager
def _assigned(recorder: Recorder) -> Iterator[None]:
    """What a module assigns to buffers is written into them at the end; no other attribute of a program can change."""
    modules = dict(recorder.root.named_modules())
    buffers = [(m._buffers, name, t) for m in modules.values() for name, t in m._buffers.items() if t is not None]
    plain = [(path, m, k, t) for path, m in modules.items() for k, t in vars(m).items() if isinstance(t, Tensor)]
    yield
    for path, m, name, t in plain:
        if vars(m).get(name) is not t:
            warn_user(
                f"The tensor attribute self.{path + '.' if path else ''}{name} was assigned during export. Such attributes must "
                "be registered as buffers using the `register_buffer` API"
            )
    for table, name, t in buffers:
        now = table.get(name)
        if now is not t and isinstance(now, Tensor):
            recorder.record("copy_", [t, now], {}, t)


def _copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    made = value.detach().clone()
    return made.requires_grad_() if value.requires_grad else made


def recorded(
    root: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    instead: Mapping[int, int | float] = MappingProxyType({}),
    preserved: tuple[str, ...] = (),
    numbers: Collection[int] = (),
    filled: bool = False,
) -> tuple[Recorder, list[Any], list[Any], Any]:
    """Runs a module: (recording, values of the inputs' leaves, leaves of the result, their structure). Numbers that elements decide
    may have other values in the run. Whole numbers among the inputs are values if they are named by their places. `filled` says that
    elements of the arguments are made up."""
    given = tree_map(_copied, (tuple(args), dict(kwargs)))
    with unchanged(root):
        recorder = Recorder(root, instead, preserved, filled)
        leaves, structure = tree_flatten(given)
        for i in numbers:
            leaves[i] = SizeInt(leaves[i])
            leaves[i].value = Value("int", int.__int__(leaves[i]))
        given = structure.unflatten(leaves)
        inputs = [
            recorder.add_input(leaf, "")
            if isinstance(leaf, Tensor)
            else leaf.value
            if isinstance(leaf, SizeInt)
            else leaf
            for leaf in leaves
        ]
        with _assigned(recorder), watched(), recorder:
            out = _run(root, *given)
    results, spec = tree_flatten(out)
    return (
        recorder,
        inputs,
        [recorder.value_of(r) if isinstance(r, (Tensor, TracedInt, TracedFloat)) else r for r in results],
        spec,
    )
