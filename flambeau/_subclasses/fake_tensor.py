"""Fake tensors: shape, dtype, strides and device of a tensor without its memory, for any device, whether it is there or not.

A fake tensor is a meta tensor that says it is elsewhere. `FakeTensorMode` runs records by their shape rules alone and gives
fake results their device; what a program makes while the mode is on is fake as well.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .._backend.meta import empty_meta
from .._backend.placement import as_device
from .._core.devices import CPU, device, get_default_device
from .._core.devices import _local as current
from .._core.dtypes import default
from .._core.layouts import strided
from .._core.state import GRAD, META, local, modes
from .._dispatch import tensors_in
from .._interception.torch_dispatch import operator_of
from .._ops.records.shape_rules import DataDependent
from .._tensor import Tensor, storage_of, wrap
from ..utils._python_dispatch import TorchDispatchMode
from ..utils._pytree import tree_leaves, tree_map

__all__ = [
    "CrossRefFakeMode", "DataDependentOutputException", "DynamicOutputShapeException", "FakeTensor",
    "FakeTensorConverter", "FakeTensorDeviceMismatchError", "FakeTensorMode", "MetadataMismatchError", "UnsupportedFakeTensorException", "UnsupportedOperatorException",
    "is_fake", "unset_fake_temporarily",
]  # fmt: skip
_NOT_FAKE = "Please convert all Tensors to FakeTensors first or instantiate FakeTensorMode with 'allow_non_fake_inputs'. Found in {}"
_OF_NUMBERS = frozenset(
    ("tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy")
)  # made of numbers that are known
_OF_ONE = frozenset(("zeros", "ones", "full"))  # of a number that is known, too, if there is but one
_new = object.__new__


@dataclass
class UnsupportedFakeTensorException(RuntimeError):
    """A tensor cannot be made fake."""

    reason: str


@dataclass
class DynamicOutputShapeException(RuntimeError):
    """The shape of a result depends on elements."""

    func: Any

    def __str__(self) -> str:
        return str(self.func)


class DataDependentOutputException(DynamicOutputShapeException):
    """A result is a number that depends on elements."""


class UnsupportedOperatorException(DynamicOutputShapeException):
    """An operator says nothing about fake tensors."""


class FakeTensorDeviceMismatchError(RuntimeError):
    """The operands are on different devices."""


class FakeTensor(Tensor):
    """A tensor without elements that is, for all that can be seen of it, on a device.

    >>> import flambeau as torch
    >>> from flambeau._subclasses.fake_tensor import FakeTensorMode
    >>> with FakeTensorMode():
    ...     x = torch.randn(10**6, 10**6, device="cuda")
    ...     y = (x @ x).sum(1)
    >>> y.shape, y.device
    (torch.Size([1000000]), device(type='cuda', index=0))
    """

    fake_mode: FakeTensorMode
    constant: Any
    item_memo: Any = None

    @staticmethod
    def __new__(
        cls,
        fake_mode_or_elem: FakeTensorMode | Tensor | None = None,
        elem: Tensor | None = None,
        device: Any = None,
        constant: Any = None,
        real_tensor: Tensor | None = None,
        pytype: type[Tensor] | None = None,
        dispatch_keys: Any = None,
        *,
        fake_mode: FakeTensorMode | None = None,
        fake_device: Any = None,
        requires_grad: bool | None = None,
        **state: Any,
    ) -> Any:
        if isinstance(fake_mode_or_elem, Tensor):  # the newer form: the tensor first, the rest by name
            elem = fake_mode_or_elem
        elif fake_mode is None:
            fake_mode = fake_mode_or_elem
        device = fake_device if device is None else device
        if elem is None or fake_mode is None:
            raise TypeError("FakeTensor: expected a meta tensor and a FakeTensorMode")
        if real_tensor is not None:
            raise NotImplementedError(
                "FakeTensor: real tensors are not carried beside fake ones; leave real_tensor out"
            )
        modes.overrides |= cls._class_k
        made = _new(cls)
        for slot in ("_array", "dtype", "_edge", "_view", "_autograd_meta"):
            setattr(made, slot, getattr(elem, slot))
        made._storage, made._k = storage_of(elem), elem._k | cls._class_k
        if made._view is not None and local.grad:
            made._storage.add_view(made)
        made.fake_mode, made.constant, made.__dict__["_wrapper_device"] = fake_mode, constant, _numbered(device)
        return made if requires_grad is None else made.requires_grad_(requires_grad)

    def __init__(self, *args: Any, **named: Any) -> None:
        pass

    @property
    def shape(self) -> Any:
        """The sizes; those that change from call to call as expressions, if they are known."""
        known = self.__dict__.get("_sizes")
        return known if known is not None else Tensor.shape.fget(self)  # type: ignore[attr-defined]

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or one of them."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def fake_device(self) -> device:
        """The device that the tensor pretends to be on."""
        return self.device

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        mode = next(t for t in tensors_in(args) if isinstance(t, FakeTensor)).fake_mode
        with mode:
            return func(*args, **(kwargs or {}))

    def __repr__(self, **named: Any) -> str:
        parts = ["...", f"size={tuple(self.shape)}"]
        if self.device != CPU:
            parts.append(f"device='{self.device}'")
        if self.dtype is not default.float:
            parts.append(f"dtype={self.dtype}")
        node = self.grad_fn
        if node is not None:
            parts.append(f"grad_fn=<{type(node).__name__}>")
        elif self._k & GRAD:
            parts.append("requires_grad=True")
        text = f"FakeTensor({', '.join(parts)})"
        return f"Parameter({text})" if getattr(self, "_is_param", False) else text

    __str__ = __repr__

    def numpy(self, *, force: bool = False) -> Any:
        raise RuntimeError(".numpy() is not supported for tensor subclasses.")

    def tolist(self) -> Any:
        if self.constant is None:
            raise DataDependentOutputException(operator_of("_local_scalar_dense", ()))
        return self.constant.tolist()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo[id(self)] = self.fake_mode.fake(self.detach(), self.device)
        made._k |= self._k & GRAD
        if getattr(self, "_is_param", False):
            made._is_param = True
        return made


def _numbered(given: Any) -> device:
    found = as_device(given)
    return device(found.type, 0) if found.type == "cuda" and found.index is None else found


class FakeTensorMode(TorchDispatchMode):
    """While it is on, tensors that a program makes are fake, and operations on fake tensors compute nothing.

    >>> import flambeau as torch
    >>> from flambeau._subclasses.fake_tensor import FakeTensorMode
    >>> with FakeTensorMode() as mode:
    ...     net = torch.nn.Linear(3, 4)
    ...     print(net(torch.ones(2, 3)).shape)
    torch.Size([2, 4])
    >>> mode.from_tensor(torch.ones(5)) * 2
    FakeTensor(..., size=(5,))
    """

    def __init__(
        self, *, allow_fallback_kernels: bool = True, allow_non_fake_inputs: bool = False, shape_env: Any = None,
        static_shapes: Any = None, export: bool = False,
    ):  # fmt: skip
        super().__init__()
        if shape_env is not None:
            raise NotImplementedError("FakeTensorMode: there are no symbolic shapes; leave shape_env out")
        self.allow_fallback_kernels, self.allow_non_fake_inputs = allow_fallback_kernels, allow_non_fake_inputs
        self.shape_env, self.static_shapes, self.export = shape_env, static_shapes, export
        self._inside = 0  # how many functions run for the program
        self._known: dict[int, Any] = {}  # id of a tensor -> (the tensor, its fake form)
        self._outer: list[Any] = []

    made = (
        _OF_NUMBERS
        | _OF_ONE
        | {"empty", "rand", "randn", "randint", "arange", "linspace", "eye", "randperm", "empty_strided"}
    )

    @classmethod
    def is_infra_mode(cls) -> bool:
        return True

    def __enter__(self) -> FakeTensorMode:
        self._outer.append((local.fake, current.device))
        local.fake = self
        current.device = get_default_device()  # short ways of making tensors look whether one is set
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        super().__exit__(*error)
        local.fake, current.device = self._outer.pop()

    # -- tensors ---------------------------------------------------------------------------------------------------

    def fake(self, t: Tensor, where: Any, constant: Any = None) -> FakeTensor:
        """A meta tensor as a fake one on a device."""
        return FakeTensor(self, t, where, constant)

    def lifted(self, made: Tensor, where: Any = None) -> FakeTensor:
        """The fake form of a tensor of numbers that are known; one number stays so."""
        return self.fake(_without_memory(made), where or made.device, made if made._array.size == 1 else None)

    def from_tensor(self, tensor: Tensor, **named: Any) -> FakeTensor:
        """The fake form of a tensor: always the same one for a tensor that lives."""
        if isinstance(tensor, FakeTensor):
            self._check_mode(tensor)
            return tensor
        known = self._known.get(id(tensor))
        if known is not None and known[0]() is tensor:
            return known[1]
        made = self.fake(_without_memory(tensor), tensor.device)
        made._k |= tensor._k & GRAD
        if getattr(tensor, "_is_param", False) or hasattr(tensor, "_is_param"):
            made._is_param = True  # type: ignore[attr-defined]
        for name, value in getattr(tensor, "__dict__", {}).items():
            made.__dict__.setdefault(name, value)
        self._known[id(tensor)] = weakref.ref(tensor), made
        return made

    def _check_mode(self, t: FakeTensor) -> None:
        if t.fake_mode is not self:
            raise AssertionError(f"Mixing fake modes NYI {t.fake_mode} vs {self}")

    def _check_inputs(self, tensors: list[Tensor], name: Callable[[], str]) -> None:
        for t in tensors:
            if isinstance(t, FakeTensor):
                self._check_mode(t)
            elif not (self._inside or self.allow_non_fake_inputs or local.walk is not None or t._k & META):
                raise AssertionError(_NOT_FAKE.format(name()))

    # -- records ---------------------------------------------------------------------------------------------------

    def run(self, op: Any, args: tuple[Any, ...]) -> Any:
        """What a record gives for fake operands."""
        tensors = tensors_in(args)
        self._check_inputs(tensors, lambda: f"{operator_of(op, args)}({', '.join(str(a) for a in args)})")
        where = self._device(tensors) if op.name != "to_copy" else args[2]
        given = tree_map(lambda a: _without_memory(a) if isinstance(a, Tensor) else a, args)
        try:
            out = op.compute(given, META)
        except DataDependent:
            raise DynamicOutputShapeException(operator_of(op, args)) from None
        constant = self._constant(op, args, tensors)
        if isinstance(out, (tuple, list)):
            return type(out)([None if t is None else self.fake(t, where) for t in out])
        return self.fake(out, where, constant)

    def _constant(self, op: Any, args: tuple[Any, ...], tensors: list[Tensor]) -> Any:
        """The value of a result of numbers that are known."""
        if not tensors or not all([isinstance(t, FakeTensor) and t.constant is not None for t in tensors]):
            return None
        return self._apart(op, tree_map(lambda a: a.constant if isinstance(a, FakeTensor) else a, args), {})

    def _apart(self, function: Any, args: Any, named: Any) -> Any:
        """A call that no mode sees, on tensors that are not fake."""
        with unset_fake_temporarily():
            grad, local.grad = local.grad, False
            try:
                return function(*args, **named)
            finally:
                local.grad = grad

    def _device(self, tensors: list[Tensor]) -> Any:
        """The device of all operands; a CPU tensor without dimensions counts as a number."""
        known = [t.device for t in tensors if isinstance(t, FakeTensor) and (t._array.ndim or t.device != CPU)]
        found = dict.fromkeys(known)
        if len(found) > 1:
            first, second = list(found)[:2]
            raise FakeTensorDeviceMismatchError(
                f"Expected all tensors to be on the same device, but found at least two devices, {first} and {second}!"
            )
        return next(iter(found), CPU)

    # -- functions -------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: Any, named: dict[str, Any]) -> Any:
        """What a public function gives; NotImplemented if it is part of one that runs already."""
        name = getattr(function, "__name__", "")
        tensors = tensors_in((*args, *named.values()))
        if name == "item":
            (t,) = tensors
            if getattr(t, "constant", None) is None:
                raise DataDependentOutputException(operator_of("_local_scalar_dense", ()))
            return self._apart(function, (t.constant,), {})  # type: ignore[attr-defined]
        if self._inside or name == "requires_grad_":
            return NotImplemented
        if name in _OF_NUMBERS and not tensors:
            where = named.pop("device", None)
            return self.lifted(self._apart(function, args, named), as_device(where))
        if local.fake is not self:
            with self:
                return self.call(function, args, named)
        self._check_inputs(tensors, lambda: f"{name}({', '.join(str(a) for a in args)})")
        self._inside += 1
        try:
            out = function(*args, **named)
        finally:
            self._inside -= 1
        if out is not None and args and out is args[0]:
            self._written(function, args, named)
            return out
        if name in _OF_ONE and not tensors and out._array.size == 1:
            where = named.pop("device", None)
            return self.fake(out, where, self._apart(function, args, named))
        where = named.get("device")
        if where is None:
            where = self._device([t for t in tensors if isinstance(t, FakeTensor)]) if tensors else as_device(None)

        def result(t: Any) -> Any:
            if not isinstance(t, Tensor) or isinstance(t, FakeTensor):
                return t
            if t._k & META:
                return self.fake(t, where)
            return self.lifted(t)

        return tree_map(result, out)

    def _written(self, function: Any, args: Any, named: dict[str, Any]) -> None:
        """A write to a known number makes another number known, if all that went into it was."""
        target = args[0]
        if getattr(target, "constant", None) is None:
            return
        tensors = [t for t in tensors_in((*args, *named.values())) if isinstance(t, FakeTensor)]
        if all([t.constant is not None for t in tensors]):
            given = tree_map(lambda a: a.constant if isinstance(a, FakeTensor) else a, (tuple(args), named))
            self._apart(function, *given)
        else:
            target.constant = None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with self:
            return func(*args, **(kwargs or {}))


def _without_memory(t: Tensor) -> Tensor:
    """A tensor as its shape rules see it; one without elements is taken as it is."""
    if t._k & META:
        return t
    steps = tuple([s // t._array.itemsize for s in t._array.strides])
    return wrap(empty_meta(t._array.shape, t.dtype, steps), t.dtype, META)


class FakeTensorConverter:
    """Makes fake tensors of real ones; which are known already, each mode knows itself."""

    def from_real_tensor(self, fake_mode: FakeTensorMode, t: Tensor, **named: Any) -> FakeTensor:
        """The fake form of a tensor in a mode."""
        return fake_mode.from_tensor(t)


class unset_fake_temporarily:
    """A block in which tensors are real, though a fake mode is on."""

    def __enter__(self) -> Any:
        self._outer = local.dispatch_modes, local.fake, current.device
        kept = [mode for mode in local.dispatch_modes if not isinstance(mode, FakeTensorMode)]
        local.dispatch_modes, local.fake, current.device = tuple(kept), None, None
        return self._outer[1]

    def __exit__(self, *error: Any) -> None:
        local.dispatch_modes, local.fake, current.device = self._outer


class MetadataMismatchError(RuntimeError):
    """A real result is unlike the fake one."""


class CrossRefFakeMode(TorchDispatchMode):
    """Runs every operator on fake tensors as well, and raises if the real results are unlike the fake ones.

    >>> import flambeau as torch
    >>> from flambeau._subclasses import CrossRefFakeMode
    >>> with CrossRefFakeMode():
    ...     y = torch.ones(2, 3) @ torch.ones(3)
    """

    def __init__(
        self,
        ignore_op_fn: Callable[[Any], bool] | None = None,
        *,
        check_strides: bool = True,
        check_aliasing: bool = True,
        only_check_ops_with_meta: bool = True,
    ) -> None:
        super().__init__()
        self.ignore_op_fn = ignore_op_fn or (lambda func: False)
        self.check_strides, self.check_aliasing = check_strides, check_aliasing
        self.only_check_ops_with_meta = only_check_ops_with_meta

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named, fakes = kwargs or {}, None
        if not self.ignore_op_fn(func):
            given: Any = None
            try:
                with FakeTensorMode() as mode:
                    given = tree_map(lambda a: mode.from_tensor(a) if isinstance(a, Tensor) else a, (args, named))
                    fakes = func(*given[0], **given[1])
            except (DynamicOutputShapeException, UnsupportedFakeTensorException, NotImplementedError):
                if not self.only_check_ops_with_meta:
                    raise
        out = func(*args, **named)
        if fakes is not None:
            pairs = list(zip(tree_leaves(out), tree_leaves(fakes)))
            for real, fake in pairs:
                if isinstance(real, Tensor) and isinstance(fake, Tensor):
                    self._compare(func, real, fake, tensors_in(args), tensors_in(given[0]))
        return out

    def _compare(self, func: Any, real: Tensor, fake: Tensor, before: Any, before_fake: Any) -> None:
        found = ""
        if tuple(real.shape) != tuple(fake.shape):
            found = f"Shapes {real.shape} and {fake.shape} are not equal!"
        elif real.dtype is not fake.dtype:
            found = f"Dtypes {real.dtype} and {fake.dtype} are not equal!"
        elif real.device != fake.device:
            found = f"Devices {real.device} and {fake.device} are not equal!"
        elif self.check_strides and real.numel() and real.layout is strided and real.stride() != fake.stride():
            found = f"Stride mismatch! Strides are {real.stride()} and {fake.stride()}!"
        elif self.check_aliasing:
            shares = [
                [storage_of(t) is storage_of(a) for a in those] for t, those in ((real, before), (fake, before_fake))
            ]
            if shares[0] != shares[1]:
                found = "One of them is a view of an argument, the other is not!"
        if found:
            raise MetadataMismatchError(
                f"When comparing the output of {func} on FakeTensor and concrete Tensors, found mismatched tensor metadata: {found}"
            )


def is_fake(x: object) -> bool:
    """Whether a tensor is fake.

    >>> import flambeau as torch
    >>> from flambeau._subclasses.fake_tensor import FakeTensorMode, is_fake
    >>> is_fake(torch.ones(2)), is_fake(FakeTensorMode().from_tensor(torch.ones(2)))
    (False, True)
    """
    return isinstance(x, FakeTensor)
