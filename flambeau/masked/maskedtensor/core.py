"""`MaskedTensor`: data and a mask; operations look at what the mask shows, and give masked tensors again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.dtypes import FLOATING, bool_
from ..._errors.frames import warn_user
from ..._interception.overrides import DisableTorchFunctionSubclass
from ..._ops.records.pointwise_op import Pointwise
from ..._ops.registry import functions, ops, records
from ..._tensor import Tensor

__all__ = ["MaskedTensor", "is_masked_tensor"]

# Reductions and normalisations: those of `masked` compute them.
_BY_MASK = frozenset(
    [
        "sum",
        "mean",
        "prod",
        "amin",
        "amax",
        "argmin",
        "argmax",
        "std",
        "var",
        "median",
        "logsumexp",
        "softmax",
        "log_softmax",
        "softmin",
        "normalize",
    ]
)
# What only moves elements does the same to the mask.
_MOVES = frozenset(
    [
        "view",
        "reshape",
        "flatten",
        "t",
        "transpose",
        "swapaxes",
        "permute",
        "movedim",
        "unsqueeze",
        "unfold",
        "squeeze",
        "expand",
        "expand_as",
        "__getitem__",
        "select",
        "narrow",
        "index_select",
        "cat",
        "stack",
        "unbind",
        "split",
        "chunk",
        "contiguous",
        "T",
        "mT",
    ]
)
# What changes values, kind or place leaves the mask.
_KEEPS = frozenset(
    [
        "clone",
        "detach",
        "to",
        "double",
        "float",
        "half",
        "bfloat16",
        "int",
        "long",
        "bool",
        "type",
        "ones_like",
        "zeros_like",
        "full_like",
        "rand_like",
        "randn_like",
        "empty_like",
        "requires_grad_",
        "to_dense",
        "_to_copy",
    ]
)
_PLAIN = frozenset(
    [
        "__get__",
        "dim",
        "size",
        "numel",
        "nelement",
        "stride",
        "is_contiguous",
        "element_size",
        "is_floating_point",
        "__len__",
        "__bool__",
        "__int__",
        "__float__",
        "backward",
    ]
)


def is_masked_tensor(obj: Any, /) -> bool:
    """Whether an object is a masked tensor.

    >>> import flambeau as torch
    >>> torch.masked.is_masked_tensor(torch.ones(1))
    False
    """
    return isinstance(obj, MaskedTensor)


def _same_masks(first: Tensor, second: Tensor) -> bool:
    return first.shape == second.shape and bool(ops.equal(first, second))


class MaskedTensor(Tensor):
    """A tensor whose elements count where its mask is True; `masked_tensor` and `as_masked_tensor` make one.

    >>> import flambeau as torch
    >>> x = torch.masked.masked_tensor(torch.arange(4.0).reshape(2, 2), torch.tensor([[True, True], [False, True]]))
    >>> x.sum(0)
    MaskedTensor(
      [  0.0000,   4.0000]
    )
    >>> round(x.mean().item(), 4), (x * 2).to_tensor(-1.0)
    (1.3333, tensor([[ 0.,  2.],
            [-1.,  6.]]))
    """

    by_functions = True  # operators of `torch.ops.aten` come as the functions that they are

    _masked_mask: Tensor

    @staticmethod
    def __new__(cls: Any, data: Tensor, mask: Tensor, requires_grad: bool = False) -> Any:
        cls._check(data, mask)
        if requires_grad and data.dtype.category < FLOATING:
            raise RuntimeError("Only Tensors of floating point and complex dtype can require gradients")
        if data.requires_grad:
            warn_user(
                "It is not recommended to create a MaskedTensor with a tensor that requires_grad: this is a copy without "
                "its history. as_masked_tensor() has the history."
            )
        with DisableTorchFunctionSubclass():
            made = data.detach().clone().as_subclass(cls)
            made._masked_mask = mask
            return made.requires_grad_(requires_grad) if requires_grad else made

    def __init__(self, data: Tensor, mask: Tensor, requires_grad: bool = False) -> None:
        pass

    @staticmethod
    def _check(data: Any, mask: Any) -> None:
        if not isinstance(data, Tensor) or is_masked_tensor(data):
            raise TypeError("data must be a Tensor")
        if not isinstance(mask, Tensor) or is_masked_tensor(mask):
            raise TypeError("mask must be a Tensor")
        if mask.dtype is not bool_:
            raise TypeError("mask must have dtype bool.")
        if data.dim() != mask.dim():
            raise ValueError("data.dim() must equal mask.dim()")
        if data.shape != mask.shape:
            raise ValueError("data.size() must equal mask.size()")
        if data.is_sparse or mask.is_sparse:
            raise NotImplementedError("masked tensors over sparse ones are not there; call to_dense() first")

    @classmethod
    def _from_values(cls, data: Tensor, mask: Tensor) -> MaskedTensor:
        """A masked tensor over `data`, with its history."""
        cls._check(data, mask)
        with DisableTorchFunctionSubclass():
            # what the mask hides gets no gradient
            seen = ops.where(mask, data, data.detach()) if data.requires_grad else data.view_as(data)
            made = seen.as_subclass(cls)
            made._masked_mask = mask
        return made

    # -- what is inside ----------------------------------------------------------------------------------------------

    def get_data(self) -> Tensor:
        """The data, hidden elements too."""
        with DisableTorchFunctionSubclass():
            return self.as_subclass(Tensor)

    def get_mask(self) -> Tensor:
        """The mask: True where elements count."""
        return self._masked_mask

    def to_tensor(self, value: Any) -> Tensor:
        """A plain tensor with `value` where elements do not count."""
        return ops.where(self._masked_mask, self.get_data(), value)

    @property
    def grad(self) -> Any:
        """The gradient, masked as the tensor is."""
        with DisableTorchFunctionSubclass():
            found = Tensor.grad.__get__(self)
        return None if found is None else MaskedTensor._from_values(found, self._masked_mask)

    @grad.setter
    def grad(self, value: Any) -> None:
        with DisableTorchFunctionSubclass():
            Tensor.grad.__set__(self, value.get_data() if is_masked_tensor(value) else value)  # type: ignore[attr-defined]

    def item(self) -> Any:
        """The only element as a number."""
        return self.get_data().item()

    def __deepcopy__(self, memo: Any) -> MaskedTensor:
        return MaskedTensor(self.get_data(), self._masked_mask.clone(), self.requires_grad)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return MaskedTensor, (self.get_data().detach(), self._masked_mask, self.requires_grad)

    # -- printing ----------------------------------------------------------------------------------------------------

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        data, mask = self.get_data().detach(), self._masked_mask
        shown = _numbers(data.tolist(), mask.tolist(), data.dtype.category >= 2)
        if data.dim() == 0:
            return f"MaskedTensor({shown.strip() if shown.strip() == '--' else shown}, {bool(mask)})"
        return "MaskedTensor(\n" + _indented(shown) + "\n)"

    __str__ = __repr__

    # -- operations --------------------------------------------------------------------------------------------------

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name, kwargs = getattr(func, "__name__", ""), kwargs or {}
        if name in _PLAIN:
            with DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        rule = _rule(name, args)
        if rule is None:
            raise TypeError(
                f"no implementation found for 'torch.{name}' on MaskedTensor; use get_data() and get_mask()"
            )
        with DisableTorchFunctionSubclass():
            return rule(func, args, kwargs)


def _rule(name: str, args: Any) -> Callable[..., Any] | None:
    """How an operation is done, by its kind."""
    bare = name.strip("_") if name.startswith("__") and name != "__getitem__" else name
    if bare in _BY_MASK:
        return _reduced
    if bare == "all":
        return lambda func, a, k: _reduced(func, a, k, "all")
    if bare in _MOVES:
        return _moved
    if bare in _KEEPS:
        return _kept
    if bare == "where":
        return _chosen
    plain = {
        "truediv": "div",
        "radd": "add",
        "rmul": "mul",
        "iadd": "add",
        "imul": "mul",
        "isub": "sub",
        "invert": "bitwise_not",
    }.get(bare, bare)
    if bare == "_is_any_true":
        return lambda func, a, k: _wrapped(func(a[0].get_data() & a[0]._masked_mask), ops.any(a[0]._masked_mask) | True)
    if plain.removesuffix("_") in ("logit", "positive") or isinstance(records.get(plain.removesuffix("_")), Pointwise):
        return _elementwise
    return None


def _data(tree: Any) -> Any:
    if isinstance(tree, MaskedTensor):
        return tree.get_data()
    if isinstance(tree, (list, tuple)):
        return type(tree)(_data(x) for x in tree)
    return tree


def _masks(tree: Any) -> Any:
    if isinstance(tree, MaskedTensor):
        return tree._masked_mask
    if isinstance(tree, (list, tuple)):
        return type(tree)(_masks(x) for x in tree)
    return tree


def _wrapped(data: Any, mask: Any) -> Any:
    if isinstance(data, (list, tuple)):
        return type(data)(_wrapped(d, m) for d, m in zip(data, mask))
    return MaskedTensor._from_values(data, mask)


def _common(args: Any) -> Tensor:
    """The mask of all masked operands, which must be the same."""
    masks = [a._masked_mask for a in args if isinstance(a, MaskedTensor)]
    if any(not _same_masks(masks[0], other) for other in masks[1:]):
        raise ValueError("Input masks must match. Give both operands the same mask, or combine them with where().")
    return masks[0]


def _elementwise(func: Any, args: Any, kwargs: Any) -> Any:
    mask = _common([*args, *kwargs.values()])
    made = func(*_data(args), **{k: _data(v) for k, v in kwargs.items()})
    if isinstance(args[0], MaskedTensor) and made is not NotImplemented and func.__name__.endswith("_"):
        if not func.__name__.startswith("__") or func.__name__ in ("__iadd__", "__imul__", "__isub__", "__itruediv__"):
            return args[0]  # written in place: the data is the same memory
    return made if made is NotImplemented else _wrapped(made, mask.expand(made.shape))


def _reduced(func: Any, args: Any, kwargs: Any, name: str | None = None) -> Any:
    name = name or func.__name__
    given, rest = args[0], args[1:]
    mask = given._masked_mask
    if name == "all":
        made = func(ops.where(mask, given.get_data() != 0, True), *rest, **kwargs)
    else:
        made = functions[f"masked.{name}"](given.get_data(), *rest, mask=mask, **kwargs)
    if name in ("softmax", "log_softmax", "softmin", "normalize"):
        return _wrapped(made, mask)
    options = {k: v for k, v in kwargs.items() if k in ("dim", "keepdim")}
    if rest and name not in ("std", "var"):
        options |= dict(zip(("dim", "keepdim"), rest))
    elif rest:
        options |= dict(zip(("dim",), (r for r in rest if isinstance(r, int) and not isinstance(r, bool))))
    return _wrapped(made, _any(mask, options.get("dim"), bool(options.get("keepdim", False))).expand(made.shape))


def _any(mask: Tensor, dim: Any, keepdim: bool) -> Any:
    """Where anything counts."""
    if dim is None:
        return ops.any(mask)
    for d in sorted((dim,) if isinstance(dim, int) else (d % mask.dim() for d in dim), reverse=True):
        mask = ops.any(mask, d, keepdim)
    return mask


def _moved(func: Any, args: Any, kwargs: Any) -> Any:
    return _wrapped(func(*_data(args), **kwargs), func(*_masks(args), **kwargs))


def _kept(func: Any, args: Any, kwargs: Any) -> Any:
    made = func(*_data(args), **kwargs)
    if func.__name__ == "requires_grad_":
        return args[0]
    return _wrapped(made, args[0]._masked_mask)


def _chosen(func: Any, args: Any, kwargs: Any) -> Any:
    condition, first, second = args
    pair = [m._masked_mask if isinstance(m, MaskedTensor) else ops.ones_like(condition) for m in (first, second)]
    return _wrapped(func(condition, _data(first), _data(second)), ops.where(condition, *pair))


def _numbers(data: Any, mask: Any, floats: bool) -> Any:
    if isinstance(data, list):
        return [_numbers(d, m, floats) for d, m in zip(data, mask)]
    if not mask:
        return "--".rjust(8)
    return f"{data:8.4f}" if floats and isinstance(data, float) else str(data)


def _indented(shown: Any, depth: int = 1) -> str:
    space = "  " * depth
    if not shown or isinstance(shown[0], str):
        return f"{space}[{', '.join(shown)}]"
    return f"{space}[\n" + ",\n".join(_indented(row, depth + 1) for row in shown) + f"\n{space}]"
