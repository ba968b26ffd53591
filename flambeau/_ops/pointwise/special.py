"""Special functions: error, gamma, zeta and Bessel functions, orthogonal polynomials."""

from __future__ import annotations

import math
from typing import Any

from ..._core.dtypes import FLOATING, default, from_numpy_dtype
from ..._kernel.math import bessel as bessel  # register functions of `m`
from ..._kernel.math import specialmath
from ..._tensor import Tensor, wrap
from ..records.batching import leading
from ..records.declare import pointwise
from ..records.inplace import in_place_form
from ..records.primitive import primitive
from ..records.rules import narrow, real_floating, real_floating_only
from ..records.shape_rules import same
from ..registry import expose, labelled, methods, ops, public

_TWO_BY_ROOT_PI = 2.0 / math.sqrt(math.pi)
_DENSITY = 1.0 / math.sqrt(2.0 * math.pi)

# -- error functions ---------------------------------------------------------------------------------------------

erf_op = pointwise(
    "erf", lambda m, x: m.erf(x), real_floating, {"x": lambda m, g, x: g * (m.exp(-(x * x)) * _TWO_BY_ROOT_PI)},
    aliases=("special.erf",),
)  # fmt: skip
erfc_op = pointwise(
    "erfc", lambda m, x: m.erfc(x), real_floating, {"x": lambda m, g, x: g * (m.exp(-(x * x)) * -_TWO_BY_ROOT_PI)},
    aliases=("special.erfc",),
)  # fmt: skip


def _erfinv_slope(m: Any, g: Any, x: Any) -> Any:
    """By the input, not by the result, which programs scale in place."""
    y = m.erfinv(x)
    return g * (m.exp(y * y) * (0.5 * math.sqrt(math.pi)))


erfinv_op = pointwise(
    "erfinv", lambda m, x: m.erfinv(x), real_floating,
    {"x": _erfinv_slope}, aliases=("special.erfinv",),
)  # fmt: skip


def _special(name: str, body: Any, rule: Any = real_floating, gradient: Any = None, **options: Any) -> Any:
    """A record whose function is only under `special`."""
    grad = None if gradient is None else {"x": gradient}
    return pointwise(
        f"special_{name}", body, rule, grad, paths=(f"special.{name}",), method=False, inplace=False, **options
    )


erfcx_op = _special(
    "erfcx", lambda m, x: m.erfcx(x), narrow, lambda m, g, x, out: g * (x * 2.0 * out - _TWO_BY_ROOT_PI)
)
ndtr_op = _special(
    "ndtr", lambda m, x: m.ndtr(x), gradient=lambda m, g, x: g * (m.exp(x * x * -0.5) * _DENSITY),
    backward_name="MulBackward1",
    short=lambda m, cut, x: cut(cut(m.erf(cut(x * math.sqrt(0.5)))) + 1.0) * 0.5,
)  # fmt: skip
expose(
    "ndtr_quick", ndtr_op.call, None, None
)  # the kernels' cheaper form, for formulas that are also read with tensors
expose("erfcx", erfcx_op.call, None, None)  # likewise


def _by_log_ndtr(m: Any, g: Any, x: Any, out: Any) -> Any:
    """The density by the probability; below 0 both vanish, and their exponents say nothing about their quotient."""
    left, zero = x < 0.0, m.zeros_like(x)
    below = math.sqrt(2.0 / math.pi) / m.erfcx(m.where(left, -x, zero) * math.sqrt(0.5))
    above = m.exp(m.where(left, zero, x * x * -0.5 - out)) * _DENSITY
    return g * m.where(left, below, above)


log_ndtr_op = _special("log_ndtr", lambda m, x: m.log_ndtr(x), narrow, _by_log_ndtr)
ndtri_op = _special(
    "ndtri", lambda m, x: m.ndtri(x), narrow,
    lambda m, g, out: g * (m.exp(out * out * 0.5) * math.sqrt(2.0 * math.pi)),
)  # fmt: skip
entr_op = _special(
    "entr",
    lambda m, x: m.where(x > 0.0, -x * m.log(x), m.where(x == 0.0, m.zeros_like(x), m.where(x < 0.0, -math.inf, x))),
    gradient=lambda m, g, x: g * (-1.0 - m.log(x)),
)

# -- gamma functions ---------------------------------------------------------------------------------------------

lgamma_op = pointwise(
    "lgamma", lambda m, x: m.lgamma(x), real_floating, {"x": lambda m, g, x: g * m.digamma(x)},
    aliases=("special.gammaln",),
)  # fmt: skip
digamma_op = pointwise(
    "digamma", lambda m, x: m.digamma(x), real_floating, {"x": lambda m, g, x: g * m.polygamma(1, x)},
    aliases=("special.digamma", "special.psi"),
)  # fmt: skip
trigamma_op = pointwise(
    "trigamma", lambda m, x: m.polygamma(1, x), real_floating, {"x": lambda m, g, x: g * m.polygamma(2, x)},
    public=False, stepwise=True, backward_name="PolygammaBackward0",
)  # fmt: skip
polygamma_op = pointwise(
    "polygamma_of", lambda m, x, n: m.polygamma(n, x), real_floating, params=("n",), public=False, stepwise=True,
    grad={"x": lambda m, g, x, n: g * m.polygamma(n + 1, x)}, backward_name="PolygammaBackward0",
)  # fmt: skip


@public("polygamma", "special.polygamma", out=True, method=False)
def polygamma(n: int, input: Tensor) -> Tensor:
    """The n-th derivative of the digamma function.

    >>> import flambeau as torch
    >>> torch.polygamma(1, torch.tensor([1.0]))
    tensor([1.6449])
    """
    if isinstance(n, Tensor):
        n = n.__index__()
    if not isinstance(n, int):
        raise TypeError(f"polygamma(): argument 'n' must be int, not {type(n).__name__}")
    if n < 0:
        raise RuntimeError("polygamma(n, x) does not support negative n.")
    if n == 0:
        return digamma_op.call(input)
    return trigamma_op.call(input) if n == 1 else polygamma_op.call(input, n)


def _polygamma_method(input: Tensor, n: int) -> Tensor:
    """`torch.polygamma(n, input)`."""
    return polygamma(n, input)


methods["polygamma"] = _polygamma_method
methods["polygamma_"] = in_place_form("polygamma", labelled("PolygammaBackward1")(_polygamma_method))


def _offsets(x: Tensor, p: int) -> Tensor:
    """x, x - 1/2, …, p of them, along a last dimension."""
    steps = ops.arange(0.5 * (1 - p), 0.5, 0.5, dtype=x.dtype, device=x.device)
    return ops.unsqueeze(x, -1) + steps


@primitive(
    batch=leading, meta=same, grad={"x": lambda g, x, p: g * ops.sum(ops.digamma(_offsets(x, p)), -1)}, name="mvlgamma"
)
def mvlgamma_op(backend: Any, x: Any, p: int) -> Any:
    t = wrap(x, from_numpy_dtype(x.dtype), backend.bits)
    total = ops.sum(ops.lgamma(_offsets(t, p)), -1)
    return (total + 0.25 * math.log(math.pi) * p * (p - 1))._array


@public("mvlgamma", "special.multigammaln", out=True, inplace=True)
def mvlgamma(input: Tensor, p: int) -> Tensor:
    """The logarithm of the multivariate gamma function of dimension p.

    >>> import flambeau as torch
    >>> torch.mvlgamma(torch.tensor([3.0]), 2)
    tensor([1.5502])
    """
    if p < 1:
        raise RuntimeError("p has to be greater than or equal to 1")
    if input.dtype.category < FLOATING:
        input = ops.to_dtype(input, default.float)
    real_floating("mvlgamma", input.dtype)
    return mvlgamma_op(input, p)


igamma_op = pointwise(
    "igamma", lambda m, x, y: m.igamma(x, y), real_floating_only, aliases=("special.gammainc",), numbers="none",
    grad={"y": lambda m, g, x, y: g * m.exp((x - 1.0) * m.log(y) - y - m.lgamma(x))},
)  # fmt: skip
igammac_op = pointwise(
    "igammac", lambda m, x, y: m.igammac(x, y), real_floating_only, aliases=("special.gammaincc",), numbers="none",
    grad={"y": lambda m, g, x, y: -g * m.exp((x - 1.0) * m.log(y) - y - m.lgamma(x))},
)  # fmt: skip
zeta_op = pointwise(
    "special_zeta", lambda m, x, y: m.special_zeta(x, y), narrow, paths=("special.zeta",), method=False,
    inplace=False, grad={"y": lambda m, g, x, y: g * -x * m.special_zeta(x + 1.0, y)},
    number_names={"x": "SpecialZetaBackward1", "y": "SpecialZetaBackward2"},
)  # fmt: skip

# -- Bessel functions --------------------------------------------------------------------------------------------


def _i0e_gradient(m: Any, g: Any, x: Any, out: Any) -> Any:
    return g * (m.special_i1e(x) - m.sgn(x) * out)


def _i1_gradient(m: Any, g: Any, x: Any, out: Any) -> Any:
    """I0(x) - I1(x)/x, 1/2 at 0."""
    tiny = m.abs(x) <= 1e-16
    safe = m.where(tiny, m.ones_like(x), x)
    return g * m.where(tiny, m.ones_like(x) * 0.5, m.i0(safe) - out / safe)


def _i1e_gradient(m: Any, g: Any, x: Any, out: Any) -> Any:
    tiny = m.abs(x) <= 1e-16
    safe = m.where(tiny, m.ones_like(x), x)
    return g * m.where(tiny, m.ones_like(x) * 0.5, m.special_i0e(safe) - out * (m.sgn(safe) + m.reciprocal(safe)))


i0_op = pointwise(
    "i0", lambda m, x: m.i0(x), real_floating, {"x": lambda m, g, x: g * m.special_i1(x)}, aliases=("special.i0",)
)
i0e_op = _special("i0e", lambda m, x: m.special_i0e(x), gradient=_i0e_gradient)
i1_op = _special("i1", lambda m, x: m.special_i1(x), gradient=_i1_gradient)
i1e_op = _special("i1e", lambda m, x: m.special_i1e(x), gradient=_i1e_gradient)


def _kernel_body(name: str) -> Any:
    return lambda m, x: getattr(m, name)(x)


for _name, _kernel in {
    "modified_bessel_i0": "i0", "modified_bessel_i1": "special_i1", "modified_bessel_k0": "bessel_k0",
    "modified_bessel_k1": "bessel_k1", "bessel_j0": "bessel_j0", "bessel_j1": "bessel_j1",
    "bessel_y0": "bessel_y0", "bessel_y1": "bessel_y1", "airy_ai": "airy_ai", "spherical_bessel_j0": "spherical_j0",
    "scaled_modified_bessel_k0": "scaled_bessel_k0", "scaled_modified_bessel_k1": "scaled_bessel_k1",
}.items():  # fmt: skip
    _special(_name, _kernel_body(_kernel), narrow)

# -- orthogonal polynomials --------------------------------------------------------------------------------------


def _polynomial_body(function: Any) -> Any:
    return lambda m, x, n: function(m, x, n)


for _name, _polynomial in specialmath.POLYNOMIALS.items():
    _special(_name, _polynomial_body(_polynomial), narrow)


_POLYNOMIALS = "|".join(f"special_{name}" for name in specialmath.POLYNOMIALS)
SCHEMAS = f"""
polygamma(int n, Tensor self) -> Tensor
polygamma_(Tensor(a!) self, int n) -> Tensor(a!)
mvlgamma(Tensor self, int p) -> Tensor
igamma|igammac|special_zeta(Tensor self, Tensor other) -> Tensor
special_zeta.other_scalar(Tensor self, Scalar other) -> Tensor
special_zeta.self_scalar(Scalar self, Tensor other) -> Tensor
special_airy_ai|special_spherical_bessel_j0|special_scaled_modified_bessel_k0|special_scaled_modified_bessel_k1(Tensor x) -> Tensor
{_POLYNOMIALS}(Tensor x, Tensor n) -> Tensor
{_POLYNOMIALS}.x_scalar(Scalar x, Tensor n) -> Tensor
{_POLYNOMIALS}.n_scalar(Tensor x, Scalar n) -> Tensor
erfinv  # autocast=cuda:single
erf  # onnx
"""
