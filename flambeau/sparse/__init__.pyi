# Written by tools/stubs.py from the operations' schemas and signatures. Do not edit.

from collections.abc import Callable, Iterable, Iterator, Sequence
from builtins import bool as _bool, complex as _complex, float as _float, int as _int
from typing import Any, overload

import numpy as np

from .. import return_types
from .._core.devices import device as _device
from .._core.dtypes import dtype as _dtype
from .._core.layouts import layout as _layout, memory_format as _memory_format
from .._core.sizes import Size as Size
from .._ops.making.generator import Generator as Generator
from .._tensor.storage import UntypedStorage as UntypedStorage
from .._tensor import Tensor

_Number = _int | _float | _complex
_Scalar = Any  # the number that a tensor holds
_DeviceLike = _device | str | _int
_size = Sequence[_int]
from .._core.dtypes import BY_NAME as BY_NAME
from .._core.layouts import sparse_coo as sparse_coo
from .._ops.records.rules import SCALAR_NAMES as SCALAR_NAMES
from .._tensor import Tensor as Tensor
from .._tensor.constructors import construct_sparse as construct_sparse
from .semi_structured import SparseSemiStructuredTensor as SparseSemiStructuredTensor
from .semi_structured import SparseSemiStructuredTensorCUSPARSELT as SparseSemiStructuredTensorCUSPARSELT
from .semi_structured import SparseSemiStructuredTensorCUTLASS as SparseSemiStructuredTensorCUTLASS
from .semi_structured import to_sparse_semi_structured as to_sparse_semi_structured
from ._invariants import check_sparse_tensor_invariants as check_sparse_tensor_invariants
from ._invariants import spsolve as spsolve
BFloat16Tensor: Any
ByteTensor: Any
CharTensor: Any
DoubleTensor: Any
FloatTensor: Any
HalfTensor: Any
IntTensor: Any
LongTensor: Any
ShortTensor: Any
def addmm(mat: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0) -> Tensor: ...
def as_sparse_gradcheck(gradcheck: Any) -> Any: ...
def log_softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor: ...
def mm(mat1: Tensor, mat2: Tensor, reduce: str | None = None) -> Tensor: ...
def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1.0, alpha: Any = 1.0, out: Tensor | None = None) -> Tensor: ...
def softmax(input: Tensor, dim: _int, *, dtype: _dtype | None = None) -> Tensor: ...
def spdiags(diagonals: Tensor, offsets: Tensor, shape: Any, layout: Any = None) -> Tensor: ...
def sum(input: Tensor, dim: Any = None, dtype: _dtype | None = None) -> Tensor: ...
