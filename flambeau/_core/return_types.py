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


_FIELDS = {
    "max": "values indices",
    "min": "values indices",
    "sort": "values indices",
    "topk": "values indices",
    "kthvalue": "values indices",
    "median": "values indices",
    "nanmedian": "values indices",
    "mode": "values indices",
    "cummax": "values indices",
    "cummin": "values indices",
    "aminmax": "min max",
    "frexp": "mantissa exponent",
    "histogram": "hist bin_edges",
    "histogramdd": "hist bin_edges",
    "qr": "Q R",
    "slogdet": "sign logabsdet",
    "svd": "U S V",
    "geqrf": "a tau",
    "triangular_solve": "solution cloned_coefficient",
    "lu_unpack": "P L U",
    "linalg_eig": "eigenvalues eigenvectors",
    "linalg_eigh": "eigenvalues eigenvectors",
    "linalg_svd": "U S Vh",
    "linalg_qr": "Q R",
    "linalg_slogdet": "sign logabsdet",
    "linalg_lstsq": "solution residuals rank singular_values",
    "linalg_lu": "P L U",
    "linalg_lu_factor": "LU pivots",
    "linalg_lu_factor_ex": "LU pivots info",
    "linalg_cholesky_ex": "L info",
    "linalg_inv_ex": "inverse info",
    "linalg_solve_ex": "result info",
    "linalg_ldl_factor": "LD pivots",
    "linalg_ldl_factor_ex": "LD pivots info",
}
# What the same operations give with `out=`.
_FIELDS.update({f"{name}_out": fields for name, fields in _FIELDS.items() if name != "histogramdd"})


def __getattr__(name: str) -> Any:
    """The classes are made when they are first asked for."""
    if name not in _FIELDS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    made = globals()[name] = _named(name, *_FIELDS[name].split())
    return made


def all_kinds() -> list[Any]:
    """All classes, by name."""
    return [globals().get(name) or __getattr__(name) for name in sorted(_FIELDS)]


def with_out(kind: Any) -> Any:
    """The class of an operation's results with `out=`, from the one without."""
    name = kind.__name__ + "_out"
    return globals().get(name) or __getattr__(name) if name in _FIELDS else kind
