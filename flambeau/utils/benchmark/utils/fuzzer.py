"""Random inputs for benchmarks: sizes drawn from distributions, and tensors of those sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...._core.dtypes import FLOATING, float32
from ...._ops.registry import ops
from ...._tensor import Tensor

__all__ = ["FuzzedParameter", "FuzzedSparseTensor", "FuzzedTensor", "Fuzzer", "ParameterAlias"]


class ParameterAlias:
    """A choice of a distribution that stands for another parameter, to make two of them equal now and then."""

    def __init__(self, alias_to: str):
        self.alias_to = alias_to

    def __repr__(self) -> str:
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A number drawn between `minval` and `maxval` ("uniform" or "loguniform"), or among the keys of a dict of weights."""

    def __init__(
        self,
        name: str,
        minval: float | None = None,
        maxval: float | None = None,
        distribution: str | dict[Any, float] | None = None,
        strict: bool = False,
    ):
        if distribution is None:
            raise ValueError("FuzzedParameter: `distribution` must be given")
        if not isinstance(distribution, dict) and distribution not in ("uniform", "loguniform"):
            raise ValueError(
                f"FuzzedParameter: unknown distribution {distribution!r}; known: uniform, loguniform, a dict"
            )
        self._name, self._minval, self._maxval = name, minval, maxval
        self._distribution, self.strict = distribution, strict

    @property
    def name(self) -> str:
        """What the number is called in a benchmark."""
        return self._name

    def sample(self, state: np.random.RandomState) -> Any:
        """Draws a value."""
        if isinstance(self._distribution, dict):
            keys = list(self._distribution)
            weights = np.asarray([self._distribution[key] for key in keys], float)
            return keys[state.choice(len(keys), p=weights / weights.sum())]
        low, high = self._minval, self._maxval
        if low is None or high is None:
            raise ValueError(f"FuzzedParameter {self._name}: {self._distribution} needs minval and maxval")
        whole = isinstance(low, int) and isinstance(high, int)
        if self._distribution == "uniform":
            return int(state.randint(low, high + 1)) if whole else float(state.uniform(low, high))
        drawn = float(np.exp2(state.uniform(np.log2(low), np.log2(high))))
        return round(drawn) if whole else drawn


class FuzzedTensor:
    """A random tensor whose sizes and steps are parameters or numbers."""

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        steps: tuple[str | int, ...] | None = None,
        probability_contiguous: float = 0.5,
        min_elements: int | None = None,
        max_elements: int | None = None,
        max_allocation_bytes: int | None = None,
        dim_parameter: str | None = None,
        roll_parameter: str | None = None,
        dtype: Any = float32,
        cuda: bool = False,
        tensor_constructor: Callable[..., Tensor] | None = None,
    ):
        self._name, self._size, self._steps, self._contiguous = name, size, steps, probability_contiguous
        self._min_elements, self._max_elements, self._max_bytes = min_elements, max_elements, max_allocation_bytes
        self._dim, self._dtype, self._cuda, self._constructor = dim_parameter, dtype, cuda, tensor_constructor

    @property
    def name(self) -> str:
        """What the tensor is called in a benchmark."""
        return self._name

    def _values(self, given: Any, params: dict[str, Any]) -> list[int]:
        values = [params[x] if isinstance(x, str) else x for x in given]
        return values[: params[self._dim]] if self._dim else values

    def satisfies_constraints(self, params: dict[str, Any]) -> bool:
        """Whether the sizes keep to the limits."""
        size = self._values(self._size, params)
        steps = self._values(self._steps, params) if self._steps else [1] * len(size)
        elements = int(np.prod(size, dtype=object))
        nbytes = int(np.prod([n * s for n, s in zip(size, steps)], dtype=object)) * self._dtype.itemsize
        return not (
            (self._max_elements is not None and elements > self._max_elements)
            or (self._min_elements is not None and elements < self._min_elements)
            or (self._max_bytes is not None and nbytes > self._max_bytes)
        )

    def _make_tensor(self, params: dict[str, Any], state: np.random.RandomState) -> tuple[Tensor, dict[str, Any]]:
        size = self._values(self._size, params)
        steps = self._values(self._steps, params) if self._steps else [1] * len(size)
        full = [n * s for n, s in zip(size, steps)]
        if self._constructor is not None:
            made = self._constructor(size=tuple(full), dtype=self._dtype, **params)
        elif self._dtype.category == FLOATING:
            made = ops.rand(full, dtype=self._dtype)
        else:
            made = ops.randint(0, 127, tuple(full), dtype=self._dtype)
        if self._cuda:
            made = made.cuda()
        order = np.arange(len(full))
        if len(size) > 1 and state.rand() > self._contiguous:
            order = state.permutation(len(full))
            made = ops.permute(ops.contiguous(ops.permute(made, order.tolist())), np.argsort(order).tolist())
        made = made[tuple(slice(None, None, s) for s in steps)]
        facts = {
            "numel": made.numel(), "order": order, "steps": steps, "shape": tuple(size),
            "is_contiguous": made.is_contiguous(), "dtype": str(self._dtype),
        }  # fmt: skip
        return made, facts


class FuzzedSparseTensor(FuzzedTensor):
    """A random sparse tensor whose sizes, number of sparse dimensions and density are parameters."""

    def __init__(
        self,
        name: str,
        size: tuple[str | int, ...],
        min_elements: int | None = None,
        max_elements: int | None = None,
        dim_parameter: str | None = None,
        sparse_dim: str | None = None,
        nnz: str | None = None,
        density: str | None = None,
        coalesced: str | None = None,
        dtype: Any = float32,
        cuda: bool = False,
    ):
        super().__init__(
            name, size, min_elements=min_elements, max_elements=max_elements, dim_parameter=dim_parameter, dtype=dtype, cuda=cuda
        )  # fmt: skip
        self._sparse_dim, self._density, self._coalesced = sparse_dim, density, coalesced

    def _make_tensor(self, params: dict[str, Any], state: np.random.RandomState) -> tuple[Tensor, dict[str, Any]]:
        size = self._values(self._size, params)
        sparse_dim = min(params[self._sparse_dim] if self._sparse_dim else len(size), len(size))
        coalesced = params[self._coalesced] if self._coalesced else True
        density = params[self._density] if self._density else 0.1
        nnz = math.ceil(math.prod(size[:sparse_dim]) * density)
        places = ops.stack([ops.randint(0, n, (nnz,)) for n in size[:sparse_dim]])
        shape = (nnz, *size[sparse_dim:])
        if self._dtype.category == FLOATING:
            values = ops.randn(shape, dtype=self._dtype)
        else:
            values = ops.randint(1, 127, shape, dtype=self._dtype)
        made = ops.sparse_coo_tensor(places, values, tuple(size))
        made = made.cuda() if self._cuda else made
        made = made.coalesce() if coalesced else made
        facts = {
            "numel": math.prod(size), "shape": tuple(size), "is_coalesced": made.is_coalesced(), "density": density,
            "sparsity": 1.0 - density, "sparse_dim": made.sparse_dim(), "dense_dim": made.dense_dim(),
            "is_hybrid": made.dense_dim() > 0, "dtype": str(self._dtype),
        }  # fmt: skip
        return made, facts


class Fuzzer:
    """Draws parameters and tensors together, leaving out draws that break a constraint."""

    def __init__(
        self,
        parameters: list[Any],
        tensors: list[Any],
        constraints: list[Callable[..., bool]] | None = None,
        seed: int | None = None,
    ):
        flat = [p for part in parameters for p in (part if isinstance(part, (list, tuple)) else (part,))]
        self._parameters: list[FuzzedParameter] = flat
        self._tensors = [t for part in tensors for t in (part if isinstance(part, (list, tuple)) else (part,))]
        self._constraints = constraints or []
        names = [x.name for x in (*self._parameters, *self._tensors)]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"Fuzzer: names used twice: {sorted(twice)}")
        self._seed = int(np.random.RandomState().randint(0, 2**32 - 1, dtype=np.int64)) if seed is None else seed
        self._rejections = self._total = 0

    @property
    def rejection_rate(self) -> float:
        """The share of draws that broke a constraint."""
        return self._rejections / self._total if self._total else 0.0

    def take(self, n: int) -> Iterator[tuple[dict[str, Tensor], dict[str, Any], dict[str, Any]]]:
        """n draws: (tensors, facts about them, parameters)."""
        state = np.random.RandomState(self._seed)
        for _ in range(n):
            params = self._draw(state)
            tensors, facts = {}, {}
            for t in self._tensors:
                tensors[t.name], facts[t.name] = t._make_tensor(params, state)
            yield tensors, facts, params

    def _draw(self, state: np.random.RandomState) -> dict[str, Any]:
        for _ in range(1000):
            self._total += 1
            drawn = {p.name: p.sample(state) for p in self._parameters}
            drawn = {k: drawn[v.alias_to] if isinstance(v, ParameterAlias) else v for k, v in drawn.items()}
            fits = all(f(**drawn) for f in self._constraints) and all(
                t.satisfies_constraints(drawn) for t in self._tensors
            )
            if fits:
                return drawn
            self._rejections += 1
        raise RuntimeError("Fuzzer: no draw of a thousand satisfied the constraints")
