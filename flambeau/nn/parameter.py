"""`Parameter` and `Buffer`: tensors that a module notices when they are assigned to it."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .._core.state import GRAD
from .._interception.overrides import disabled_torch_function
from .._kernel.native.site import also_plain
from .._ops.registry import ops
from .._tensor import Tensor, detached
from .._tensor.copying import rebuild_from_type, reduce_plain, set_state, state_of


class _ParameterMeta(type(Tensor)):  # type: ignore[misc]
    """Tensors of other classes that were made parameters are instances too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Parameter and isinstance(instance, Tensor) and getattr(instance, "_is_param", False)


class Parameter(Tensor, metaclass=_ParameterMeta):
    """A tensor that is part of a module: assigned to one, it appears in `parameters()`.

    >>> import flambeau as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __module__ = f"{Tensor.__module__}.nn.parameter"  # of the alias, if there is one
    __torch_function__ = classmethod(disabled_torch_function)  # results of operations are plain tensors

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Any:
        if data is None:
            data = ops.empty(0)
        if type(data) is Tensor or type(data) is Parameter:
            return Tensor._make_subclass(cls, data, requires_grad)
        made = data.detach().requires_grad_(requires_grad)
        if type(made) is not type(data):
            raise RuntimeError(
                f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
                f"instance of the same type, but it returned {type(made).__name__}: mend it in __torch_dispatch__"
            )
        made._is_param = True
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) in memo:
            return memo[id(self)]
        made = memo[id(self)] = type(self)(ops.clone(self.detach()), bool(self._k & GRAD))
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: Any) -> Any:
        state = state_of(self)
        if type(self) is not Parameter:
            rebuild, args = reduce_plain(self)
            return rebuild_from_type, (rebuild, type(self), args, state)
        args = (detached(self), bool(self._k & GRAD), OrderedDict())
        return (_rebuild_parameter_with_state, (*args, state)) if state else (_rebuild_parameter, args)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    """A parameter as it is pickled; the name and arguments are those of PyTorch's checkpoints."""
    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(data: Tensor, requires_grad: bool, backward_hooks: Any, state: Any) -> Any:
    made = Parameter(data, bool(requires_grad))
    set_state(made, state)
    return made


also_plain(Parameter)


class _BufferMeta(type(Tensor)):  # type: ignore[misc]
    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        return cls is Buffer and isinstance(instance, Tensor) and getattr(instance, "_is_buffer", False)


class Buffer(Tensor, metaclass=_BufferMeta):
    """A tensor that is part of a module's state but not a parameter; it stays a plain tensor.

    >>> import flambeau as torch
    >>> torch.nn.Buffer(torch.zeros(2))
    tensor([0., 0.])
    """

    __torch_function__ = classmethod(disabled_torch_function)

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Any:
        made = ops.empty(0) if data is None else data.detach().requires_grad_(data.requires_grad)
        made.persistent, made._is_buffer = persistent, True
        return made


# -- lazy ones ---------------------------------------------------------------------------------------------------

_UNINITIALIZED = (
    "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in `load_state_dict` when "
    "trying to load an uninitialized parameter into an initialized one. Call `forward` to initialize the parameters before "
    "accessing their attributes."
)
_ALLOWED = frozenset(
    ("to", "cpu", "cuda", "float", "double", "half", "bfloat16", "detach", "requires_grad_", "is_floating_point",
     "is_complex", "__hash__", "__get__", "__set__", "size", "copy_", "new_empty", "is_meta", "__repr__")
)  # fmt: skip


class UninitializedTensorMixin:
    """A tensor whose shape is found out at the first forward call of its module."""

    cls_to_become: type

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives the tensor its shape (uninitialised memory), and makes it an ordinary parameter or buffer."""
        self.data = ops.empty(
            shape,
            device=self.data.device if device is None else device,
            dtype=self.data.dtype if dtype is None else dtype,
        )
        requires_grad = self._k & GRAD
        self._k &= ~self._class_k
        self.__class__ = self.cls_to_become
        self._k |= requires_grad

    @property
    def shape(self) -> Any:
        raise RuntimeError(_UNINITIALIZED)

    def share_memory_(self) -> Any:
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer; run its module on a batch first"
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)  # type: ignore[attr-defined]

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in _ALLOWED:
            return Tensor.__torch_function__.__func__(cls, func, types, args, kwargs)  # type: ignore[attr-defined]
        raise ValueError(f"Attempted to use an uninitialized parameter in {func}; run its module on a batch first")


def is_lazy(param: Any) -> bool:
    """Whether a parameter's shape is not known yet."""
    return isinstance(param, UninitializedTensorMixin)


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter without a shape yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return Tensor._make_subclass(cls, ops.empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.data.device, self.data.dtype)
        return memo[id(self)]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer without a shape yet."""

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> Any:
        made = Tensor._make_subclass(cls, ops.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent, made._is_buffer = persistent, True
        return made
