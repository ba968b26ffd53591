"""Operations on sparse tensors."""

from __future__ import annotations

from typing import Any

from .._core.dtypes import BY_NAME
from .._core.layouts import sparse_coo
from .._ops.records.rules import SCALAR_NAMES
from .._tensor import Tensor
from .._tensor.constructors import construct_sparse
from .._tensor.methods import install
from .semi_structured import (  # noqa: F401 (programs take them from here)
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

install(globals(), "sparse")


def as_sparse_gradcheck(gradcheck: Any) -> Any:
    """`gradcheck` for functions of sparse tensors; ours takes them itself, so that it is the same function.

    >>> import flambeau as torch
    >>> gradcheck = torch.sparse.as_sparse_gradcheck(torch.autograd.gradcheck)
    >>> x = torch.tensor([[0.0, 1.0], [2.0, 0.0]], dtype=torch.float64).to_sparse().requires_grad_()
    >>> gradcheck(lambda t: t.to_dense(), x, masked=True)
    True
    """
    return gradcheck


class _TypedMeta(type):
    """Classes such as sparse.FloatTensor: calling one makes a COO tensor, `isinstance` looks at dtype and layout."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Tensor:
        if args and isinstance(args[0], Tensor):
            args = (args[0], args[1].to(cls.dtype), *args[2:])
        return construct_sparse(cls.dtype, device, args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor) and instance.dtype is cls.dtype and instance.layout is sparse_coo  # type: ignore[attr-defined]


_typed_classes = {
    word + "Tensor": _TypedMeta(word + "Tensor", (), {
        "dtype": BY_NAME[d], "layout": sparse_coo, "is_sparse": True, "is_cuda": False, "is_xpu": False,
        "__module__": "torch.sparse",
    })
    for d, word in SCALAR_NAMES.items() if not word.startswith(("UInt", "Complex", "Bool", "Q"))
}  # fmt: skip
globals().update(_typed_classes)
from ._invariants import check_sparse_tensor_invariants as check_sparse_tensor_invariants  # noqa: E402
from ._invariants import spsolve as spsolve  # noqa: E402
