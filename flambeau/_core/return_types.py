"""Named results of operations that give several tensors, as in `torch.return_types`."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

_HOME = __name__.partition(".")[0] + ".return_types"  # where programs and pickles find the classes


def _named(name: str, *fields: str) -> Any:
    base = namedtuple(name, fields)  # type: ignore[misc]

    def new(cls: Any, *iterable: Any) -> Any:
        if len(iterable) == 1 and len(fields) > 1:
            iterable = tuple(iterable[0])
        if len(iterable) != len(fields):
            raise TypeError(
                f"torch.return_types.{name}() takes a {len(fields)}-sequence ({len(iterable)}-sequence given)"
            )
        return tuple.__new__(cls, iterable)

    def show(self: Any) -> str:
        inside = ",\n".join(f"{field}={value!r}" for field, value in zip(fields, self))
        return f"torch.return_types.{name}(\n{inside})"

    members = {
        "__slots__": (), "__new__": new, "__repr__": show, "__module__": _HOME,
        "n_fields": len(fields), "n_sequence_fields": len(fields), "n_unnamed_fields": 0,
    }  # fmt: skip
    return type(name, (base,), members)


max = _named("max", "values", "indices")
min = _named("min", "values", "indices")
sort = _named("sort", "values", "indices")
topk = _named("topk", "values", "indices")
kthvalue = _named("kthvalue", "values", "indices")
median = _named("median", "values", "indices")
nanmedian = _named("nanmedian", "values", "indices")
mode = _named("mode", "values", "indices")
cummax = _named("cummax", "values", "indices")
cummin = _named("cummin", "values", "indices")
aminmax = _named("aminmax", "min", "max")
frexp = _named("frexp", "mantissa", "exponent")
histogram = _named("histogram", "hist", "bin_edges")
histogramdd = _named("histogramdd", "hist", "bin_edges")
qr = _named("qr", "Q", "R")
slogdet = _named("slogdet", "sign", "logabsdet")
svd = _named("svd", "U", "S", "V")
geqrf = _named("geqrf", "a", "tau")
triangular_solve = _named("triangular_solve", "solution", "cloned_coefficient")
lu_unpack = _named("lu_unpack", "P", "L", "U")
linalg_eig = _named("linalg_eig", "eigenvalues", "eigenvectors")
linalg_eigh = _named("linalg_eigh", "eigenvalues", "eigenvectors")
linalg_svd = _named("linalg_svd", "U", "S", "Vh")
linalg_qr = _named("linalg_qr", "Q", "R")
linalg_slogdet = _named("linalg_slogdet", "sign", "logabsdet")
linalg_lstsq = _named("linalg_lstsq", "solution", "residuals", "rank", "singular_values")
linalg_lu = _named("linalg_lu", "P", "L", "U")
linalg_lu_factor = _named("linalg_lu_factor", "LU", "pivots")
linalg_lu_factor_ex = _named("linalg_lu_factor_ex", "LU", "pivots", "info")
linalg_cholesky_ex = _named("linalg_cholesky_ex", "L", "info")
linalg_inv_ex = _named("linalg_inv_ex", "inverse", "info")
linalg_solve_ex = _named("linalg_solve_ex", "result", "info")
linalg_ldl_factor = _named("linalg_ldl_factor", "LD", "pivots")
linalg_ldl_factor_ex = _named("linalg_ldl_factor_ex", "LD", "pivots", "info")

# What the same operations give with `out=`.
_WITH_OUT = [c for name, c in globals().items() if hasattr(c, "n_fields") and name != "histogramdd"]
globals().update({c.__name__ + "_out": _named(c.__name__ + "_out", *c._fields) for c in _WITH_OUT})


def with_out(kind: Any) -> Any:
    """The class of an operation's results with `out=`, from the one without."""
    return globals().get(kind.__name__ + "_out", kind)
