"""Operations that programs write by hand: in-place writes, differences, products, elements one by one."""

from __future__ import annotations

import ast
import re
import sys
from collections import deque
from typing import Any

import numpy as np

from ... import Tensor, float32, is_grad_enabled, nn
from ..._observe.frames import here, is_user_file
from .classes import source_of
from .errors import Errors
from .losses import producer
from .modules import address
from .session import Session
from .training import Training

_WRITES = ["__iadd__", "__isub__", "__imul__", "__itruediv__", "add_", "sub_", "mul_", "div_", "zero_", "fill_", "copy_", "clamp_", "clamp_min_", "clamp_max_", "relu_", "exp_", "sqrt_", "pow_", "sigmoid_", "tanh_", "neg_", "masked_fill_", "normal_", "uniform_", "square_", "abs_", "sin_", "log_", "__setitem__"]  # fmt: skip
_MANY = 1000  # elements read or written one by one
_DATA = re.compile(r"data|train|test|image|feature|sample|weight|^x$|^xs$|input|buffer|running|batch")  # names of data
_LOOKS = ("argmax", "topk", "item", "max")


class Tensors:
    """Watches a few methods of Tensor where programs call them directly."""

    def __init__(self, session: Session, errors: Errors, training: Training, modules: Any) -> None:
        self.session, self.errors, self.modules = session, errors, modules
        self.writes: deque[Any] = deque(maxlen=128)
        self.elements: dict[Any, int] = {}
        self.sums: dict[Any, int] = {}
        self.package = sys.modules[__name__.partition(".")[0]]
        wrap = session.patches.wrap
        for name in _WRITES:
            wrap(Tensor, name, lambda original, name=name: self._write(original, name))
        for name in ("zeros_", "ones_", "constant_"):
            wrap(nn.init, name, self._filled)
        for name in ("view", "numpy", "__array__"):
            wrap(Tensor, name, self._guarded)
        wrap(Tensor, "__getitem__", self._item_read)
        wrap(Tensor, "__iter__", self._iterated)
        for name, look in (("__sub__", self._difference), ("__add__", self._sum), ("__mul__", self._product)):
            wrap(Tensor, name, lambda original, look=look: self._operator(original, look))
        for name in _LOOKS:
            wrap(Tensor, name, self._looked)
            if name != "item":
                wrap(self.package, name, self._looked)
        errors.others.append(self._overwritten)
        training.after_step.append(lambda optim: self.writes.append((here(), None, True)))

    # -- writes -------------------------------------------------------------------------------------------------

    def _filled(self, original: Any) -> Any:
        def fill(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            place = here()
            if place is not None:
                self.session.fills[address(tensor)] = place
            return original(tensor, *args, **kwargs)

        return fill

    def _write(self, original: Any, name: str) -> Any:
        session = self.session
        constant = name in ("zero_", "fill_")
        single = name == "__setitem__"

        def write(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            frame = sys._getframe(1)
            if session.pausing or not is_user_file(frame.f_code.co_filename):
                return original(tensor, *args, **kwargs)
            place = (frame.f_code.co_filename, frame.f_lineno)
            self.writes.append((place, tuple(tensor.shape), tensor.requires_grad))
            if constant:
                session.fills[address(tensor)] = place
            if single and tensor.ndim and _is_element(args[0], tensor.ndim):
                self._count(frame)
            if tensor._is_view():
                self._through_view(tensor, frame, place)
            try:
                out = original(tensor, *args, **kwargs)
            except Exception as error:
                self.errors.failed(error)
                raise
            if name == "__iadd__" and tensor.ndim < 2 and tensor.numel() == 1 and tensor.dtype is float32:
                self._running_sum(tensor, args[0], place)
            return out

        return write

    def _overwritten(self, text: str, error: BaseException, place: Any) -> bool:
        """A value that backward needs was written: the writer is the last write of such a shape."""
        if "modified by an inplace operation" not in text:
            return False
        match = re.search(r"\[\w*\.?\w*tensor \[([\d, ]*)\]", text)
        shape = tuple(int(n) for n in match[1].split(",") if n.strip()) if match else None
        writes = [w for w in self.writes if w[2] or w[1] == shape]
        fitting = [w for w in writes if w[1] == shape] or [w for w in writes if w[1] is None] or writes
        where = fitting[-1][0] if fitting else place
        evidence = [f"backward at line {place[1]}"] if place else []
        self.session.find(
            "inplace-on-needed-value",
            where or place,
            "This changes in place a value that backward needs.",
            0.95,
            *evidence,
            str(error)[:160],
        )
        return True

    def _through_view(self, tensor: Any, frame: Any, place: Any) -> None:
        """A write to a name that is a slice of a parameter, a buffer or a dataset."""
        base = tensor._base
        name = _written_name(place)
        if base is None or name is None:
            return
        if not _bound_to_slice(place, name):
            return
        if isinstance(base, nn.Parameter):
            what = "a parameter"
        elif frame.f_code.co_name in ("__getitem__", "__getitems__"):
            what = "the dataset"
        else:
            what = self._named(base, frame, tensor.numel())
        if what:
            self.session.find(
                "write-through-view", place, f"`{name}` is a slice of {what}: writing to it changes that, too.", 0.8
            )

    def _named(self, base: Any, frame: Any, written: int) -> str:
        for root in self.modules.roots.values():
            if any(b is base for b in root.buffers()):
                return "a buffer"
        for scope in (frame.f_locals, frame.f_globals):
            for key, value in list(scope.items()):
                if not isinstance(value, Tensor):
                    own = getattr(value, "tensors", None)  # a TensorDataset
                    if isinstance(own, tuple) and any(t is base for t in own):
                        return "the dataset"
                    continue
                whole = value is base or (value._base is base and value.numel() > written)
                if whole and _DATA.search(key.lower()):
                    return f"`{key}`"
        return ""

    def _running_sum(self, total: Any, term: Any, place: Any) -> None:
        count = self.sums[place] = self.sums.get(place, 0) + 1
        if count % 64 or total.requires_grad:
            return
        if isinstance(term, Tensor) and term.numel() != 1:
            return
        value, added = abs(float(total.detach())), abs(float(term.detach() if isinstance(term, Tensor) else term))
        if value >= 2**24 or (added and value / added > 2**20):
            self.session.find(
                "float32-long-sum",
                place,
                "This float32 sum is so large that small terms are lost.",
                0.6,
                f"{value:.4g} after {count} terms",
            )

    # -- elements -----------------------------------------------------------------------------------------------

    def _count(self, frame: Any, times: int = 1) -> None:
        if frame.f_code.co_name in ("__getitem__", "__getitems__"):
            return  # a dataset's own
        key = (frame.f_code, frame.f_lasti)
        count = self.elements[key] = self.elements.get(key, 0) + times
        if count >= _MANY and count - times < _MANY:
            rate = count / max(1, self.session.steps)
            if rate >= 200:
                place = (frame.f_code.co_filename, frame.f_lineno)
                self.session.find(
                    "python-element-loop",
                    place,
                    "Elements are taken one by one.",
                    0.85,
                    f"{count} times from this line",
                )

    def _item_read(self, original: Any) -> Any:
        session = self.session

        def getitem(tensor: Any, index: Any) -> Any:
            out = original(tensor, index)
            if not session.pausing and out.ndim == 0:
                frame = sys._getframe(1)
                if is_user_file(frame.f_code.co_filename):
                    self._count(frame)
            return out

        return getitem

    def _iterated(self, original: Any) -> Any:
        def iterate(tensor: Any) -> Any:
            frame = sys._getframe(1)
            if tensor.ndim == 1 and not self.session.pausing and is_user_file(frame.f_code.co_filename):
                self._count(frame, len(tensor))
            return original(tensor)

        return iterate

    # -- differences and products -------------------------------------------------------------------------------

    def _operator(self, original: Any, look: Any) -> Any:
        """An operator whose results are looked at: `look` gives what to do about one that a line of the user's program made, or None."""
        session = self.session

        def operator(a: Any, b: Any) -> Any:
            out = original(a, b)
            told = None if session.pausing or out is NotImplemented else look(a, b, out)
            if told is not None:
                frame = sys._getframe(1)
                if is_user_file(frame.f_code.co_filename):
                    told((frame.f_code.co_filename, frame.f_lineno))
            return out

        return operator

    def _difference(self, a: Any, b: Any, out: Any) -> Any:
        if not isinstance(b, Tensor) or a.ndim == b.ndim or out.numel() <= max(a.numel(), b.numel()):
            return None
        if a.requires_grad == b.requires_grad or not _all_pairs(a, b):
            return None
        said = f"{tuple(a.shape)} minus {tuple(b.shape)} gives a table of all pairs, {tuple(out.shape)}."
        return lambda place: self.session.find("accidental-broadcast", place, said, 0.9)

    def _sum(self, a: Any, b: Any, out: Any) -> Any:
        if a.ndim < 2 and a.numel() == 1 and a.dtype is float32:
            return lambda place: self._running_sum(out, b, place)
        return None

    def _product(self, a: Any, b: Any, out: Any) -> Any:
        if not (isinstance(b, Tensor) and a.ndim == b.ndim == 2 and a.shape[1] == b.shape[1] > 1):
            return None
        if a.shape[1] not in (a.shape[0], b.shape[0]):
            return None
        if a.shape == b.shape and _is_transposed(a) != _is_transposed(b):
            said = "A matrix is multiplied element by element with a transposed one"
        elif is_grad_enabled() and a.requires_grad != b.requires_grad and (a if a.requires_grad else b).is_leaf:
            said = "A square matrix of weights is multiplied element by element"
        else:
            return None
        said = f"{said}: {tuple(a.shape)} and {tuple(b.shape)}."
        return lambda place: self.session.find("star-for-matmul", place, said, 0.45)

    def _looked(self, original: Any) -> Any:
        session = self.session

        def look(*args: Any, **kwargs: Any) -> Any:
            if not session.pausing and not session.modules and is_user_file(sys._getframe(1).f_code.co_filename):
                self.modules.measured()
            return original(*args, **kwargs)

        return look

    def _guarded(self, original: Any) -> Any:
        def guarded(tensor: Any, *args: Any, **kwargs: Any) -> Any:
            try:
                return original(tensor, *args, **kwargs)
            except Exception as error:
                if not self.session.pausing:
                    self.errors.failed(error)
                raise

        return guarded


def _is_transposed(matrix: Any) -> bool:
    return bool(matrix._is_view()) and matrix.stride(0) == 1 and matrix.stride(1) > 1


def _is_element(index: Any, dims: int) -> bool:
    if isinstance(index, tuple):
        return len(index) == dims and all(isinstance(i, (int, np.integer)) for i in index)
    return dims == 1 and isinstance(index, (int, np.integer))


def _all_pairs(a: Any, b: Any) -> bool:
    larger, smaller = (a, b) if a.ndim > b.ndim else (b, a)
    n = smaller.shape[-1] if smaller.ndim else 1
    tracked = a if a.requires_grad else b
    made = producer(tracked)
    return smaller.ndim == 1 and n > 1 and larger.ndim == 2 and larger.shape == (n, 1) and bool(made)


def _statement(place: Any) -> Any:
    source = source_of(place[0])
    if source is None:
        return None, None
    for node in ast.walk(source.tree):
        if (
            isinstance(node, ast.stmt)
            and node.lineno == place[1]
            and not isinstance(node, (ast.For, ast.While, ast.If, ast.With, ast.FunctionDef))
        ):
            return source, node
    return source, None


def _written_name(place: Any) -> str | None:
    """The plain name that a statement writes to: `row *= 2`, `row[...] = 0`, `row.zero_()`."""
    _, node = _statement(place)
    target: Any = None
    if isinstance(node, ast.AugAssign):
        target = node.target
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        target = node.targets[0].value
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Attribute):
        target = node.value.func.value
    if isinstance(target, ast.Subscript) and isinstance(node, ast.AugAssign):
        target = target.value
    return target.id if isinstance(target, ast.Name) else None


def _bound_to_slice(place: Any, name: str) -> bool:
    """Whether the name was bound to a slice or view of something, without clone."""
    source, node = _statement(place)
    if source is None or node is None:
        return False
    scope = source.function(node)
    for loop in source.loops(node):  # for row in data
        if isinstance(loop, ast.For) and isinstance(loop.target, ast.Name) and loop.target.id == name:
            return not isinstance(loop.iter, ast.Call)
    for line, value, _ in source.assigned.get((scope, name), ()):
        if line < place[1] and isinstance(value, (ast.Subscript, ast.Call, ast.Attribute)):
            text = ast.unparse(value)
            if isinstance(value, ast.Subscript) or re.search(
                r"\.(view|narrow|select|t|squeeze|flatten|reshape|diagonal|unbind|chunk|split)\(", text
            ):
                if not re.search(r"clone\(|\.copy\(|contiguous\(|detach\(\)\.clone", text):
                    return True
    return False
