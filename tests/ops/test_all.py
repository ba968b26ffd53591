"""Every pointwise record: values against NumPy/SciPy, layouts, in-place and out= forms, first and second derivatives.

Nothing here names an op that has no special domain, parameter or reference: a new record is tested by existing.
"""

import importlib.util
import inspect
from pathlib import Path

import numpy as np
import pytest
import scipy.special as sp

import flambeau as torch
from flambeau._ops.records.pointwise_call import slow
from flambeau._ops.records.pointwise_op import Pointwise
from flambeau._ops.registry import methods, records
from flambeau.autograd import gradcheck, gradgradcheck

_spec = importlib.util.spec_from_file_location("samples", Path(__file__).resolve().parent.parent / "samples.py")
_samples = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_samples)
domain_of, params_of = _samples.domain_of, _samples.params_of
POINTWISE = {name: op for name, op in sorted(records.items()) if isinstance(op, Pointwise)}
REFERENCE = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "true_divide": np.divide, "neg": np.negative,
    "rsub": lambda x, y: y - x, "abs": np.abs, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x), "square": np.square,
    "reciprocal": np.reciprocal, "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2,
    "log10": np.log10, "log1p": np.log1p, "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos,
    "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh,
    "atanh": np.arctanh, "atan2": np.arctan2, "hypot": np.hypot, "pow": np.power, "maximum": np.maximum, "minimum": np.minimum,
    "fmax": np.fmax, "fmin": np.fmin, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sign": np.sign,
    "sgn": np.sign, "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "logical_and": np.logical_and, "logical_or": np.logical_or,
    "logical_xor": np.logical_xor, "logical_not": np.logical_not, "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert, "copysign": np.copysign, "logaddexp": np.logaddexp,
    "logaddexp2": np.logaddexp2, "sinc": np.sinc, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "sigmoid": sp.expit,
    "erf": sp.erf, "erfc": sp.erfc, "erfinv": sp.erfinv, "lgamma": sp.gammaln, "digamma": sp.digamma, "xlogy": sp.xlogy,
    "special_xlog1py": sp.xlog1py, "remainder": np.remainder, "fmod": np.fmod, "floor_divide": np.floor_divide,
    "div_floor": np.floor_divide, "div_trunc": lambda x, y: np.trunc(x / y), "heaviside": np.heaviside, "signbit": np.signbit, "gcd": np.gcd, "lcm": np.lcm,
    "nextafter": np.nextafter, "frac": lambda x: x - np.trunc(x), "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x * sp.expit(x), "softplus": lambda x, b, t: np.log1p(np.exp(x * b)) / b,
    "gelu": lambda x: x * sp.ndtr(x), "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "leaky_relu": lambda x, s: np.where(x > 0, x, s * x), "elu": lambda x, a, s, i: np.where(x > 0, s * x, a * np.expm1(x * i)),
    "hardtanh": np.clip, "threshold": lambda x, t, v: np.where(x > t, x, v), "log_sigmoid": sp.log_expit,
    "hardshrink": lambda x, a: np.where(np.abs(x) > a, x, 0), "softshrink": lambda x, a: np.sign(x) * np.maximum(np.abs(x) - a, 0),
    "hardsigmoid": lambda x: np.clip(x / 6 + 0.5, 0, 1), "hardswish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3))),
    "addcmul": lambda x, a, b, v: x + v * a * b, "addcdiv": lambda x, a, b, v: x + v * a / b, "clamp": np.clip,
    "clamp_min": np.maximum, "clamp_max": np.minimum, "lerp": lambda x, y, w: x + w * (y - x), "where": np.where,
    "cube": lambda x: x**3, "add_scaled": lambda x, y, a: x + a * y, "sub_scaled": lambda x, y, a: x - a * y,
    "conj_physical": np.conj, "angle": np.angle, "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift,
    "isposinf": np.isposinf, "isneginf": np.isneginf, "ldexp": lambda x, y: x * 2.0**y,
    "i0": sp.i0, "special_i0e": sp.i0e, "special_i1": sp.i1, "special_i1e": sp.i1e, "special_erfcx": sp.erfcx,
    "special_ndtri": sp.ndtri, "special_log_ndtr": sp.log_ndtr, "special_entr": sp.entr, "igamma": sp.gammainc,
    "igammac": sp.gammaincc, "special_zeta": sp.zeta, "special_bessel_j0": sp.j0, "special_bessel_j1": sp.j1,
}  # fmt: skip
REFUSES_BOOL = {"neg", "sub", "rsub"}
REAL_REFERENCE = {"sgn", "logaddexp", "logaddexp2", "sigmoid", "silu", "log_sigmoid"}  # SciPy has them for reals only
CATEGORY = "bifc"
KIND_DTYPES = {
    "f": (torch.float32, torch.float64),
    "i": (torch.int64, torch.int32),
    "b": (torch.bool,),
    "c": (torch.complex128,),
}


def dtypes_of(op):
    for category in sorted(op.rule.takes, reverse=True):
        for d in KIND_DTYPES[CATEGORY[category]]:
            if d not in op.rule.excluded:
                yield d


def operand(rng, op, index, shape, d):
    if (op.name in ("where", "masked_fill") or op.masks) and _wants_bool(op, index):
        return rng.integers(0, 2, shape).astype(bool)
    if d is torch.bool:
        return rng.integers(0, 2, shape).astype(bool)
    if d.category == 1:
        return rng.integers(1, 5, shape).astype(d.numpy)
    low, high = domain_of(op, index)
    values = rng.uniform(low, high, shape)
    # away from kinks at integers and halves, so that finite differences are right
    values = np.where(np.abs(values * 2 - np.rint(values * 2)) < 0.05, values + 0.06, values)
    if d.is_complex:
        values = values + 1j * rng.uniform(0.2, 1, shape)
    return np.asarray(values).astype(d.numpy)


def _wants_bool(op, index):
    return op.names[index] in ("condition", "mask", "c") or index in op.masks


def call(op, arrays, wrap=torch.from_numpy):
    return slow(op, (*[wrap(a) if isinstance(a, np.ndarray) else a for a in arrays], *params_of(op)))


def make(rng, op, shape, d):
    return [np.asarray(operand(rng, op, i, shape, d)) for i in range(op.arity)]


def close(a, b, d):
    tolerance = {torch.float32: 2e-6, torch.float64: 1e-13, torch.complex128: 1e-12}.get(d, 1e-6)
    np.testing.assert_allclose(a, b, rtol=tolerance * 10, atol=tolerance)


# Parameters of integers are integers: the tests of their families have these.
CASES = [(n, d) for n, op in sorted(POINTWISE.items()) for d in dtypes_of(op) if d.category >= 2 or not op.params]


@pytest.mark.sweep
@pytest.mark.parametrize(("name", "d"), CASES, ids=lambda v: v if isinstance(v, str) else v.name)
def test_values_in_every_layout(name, d):
    op = POINTWISE[name]
    rng = np.random.default_rng(sum(map(ord, name)))
    arrays = make(rng, op, (4, 6), d)
    if d is torch.bool and name in REFUSES_BOOL:
        with pytest.raises(RuntimeError):
            call(op, arrays)
        return
    out = call(op, arrays)
    first = out[0] if isinstance(out, tuple) else out
    assert first.shape == (4, 6)
    reference = REFERENCE.get(name)
    if reference is not None and not isinstance(out, tuple) and not (d.is_complex and name in REAL_REFERENCE):
        given = [a.astype(np.float64) if op.rule.to_float and d.category < 2 else a for a in arrays]
        if d is torch.bool and name in ("sign", "sgn"):
            given = [a.astype(np.int8) for a in arrays]
        with np.errstate(all="ignore"):
            expected = reference(*given, *params_of(op))
        close(first.numpy(), expected, first.dtype)
    same = first.numpy()
    strided = [np.ascontiguousarray(a.T).T for a in arrays]
    wide = [np.repeat(a, 2, axis=1)[:, ::2] for a in arrays]
    for layout in (strided, wide):
        other = call(op, layout)
        close((other[0] if isinstance(other, tuple) else other).numpy(), same, first.dtype)
    one = call(op, [np.asarray(a[1, 2]) for a in arrays])
    one = one[0] if isinstance(one, tuple) else one
    assert one.shape == () and isinstance(one, torch.Tensor)
    close(one.numpy(), same[1, 2], first.dtype)
    empty = call(op, [a[:0] for a in arrays])
    assert (empty[0] if isinstance(empty, tuple) else empty).shape == (0, 6)
    if op.arity > 1:
        mixed = call(op, [arrays[0], *[a[:1] for a in arrays[1:]]])
        full = call(op, [arrays[0], *[np.ascontiguousarray(np.broadcast_to(a[:1], a.shape)) for a in arrays[1:]]])
        close(
            (mixed[0] if isinstance(mixed, tuple) else mixed).numpy(),
            (full[0] if isinstance(full, tuple) else full).numpy(),
            first.dtype,
        )


@pytest.mark.parametrize("name", sorted(POINTWISE))
def test_large_arrays_use_threads_and_agree(name):
    op = POINTWISE[name]
    d = torch.float32 if 2 in op.rule.takes else torch.int64
    rng = np.random.default_rng(1)
    small = make(rng, op, (1000,), d)
    big = [np.tile(a, 300) for a in small]
    expected, out = call(op, small), call(op, big)
    expected, out = (t[0] if isinstance(t, tuple) else t for t in (expected, out))
    np.testing.assert_array_equal(out.numpy().reshape(300, 1000), np.broadcast_to(expected.numpy(), (300, 1000)))


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in sorted(POINTWISE)
        if n in methods and n + "_" in methods and not POINTWISE[n].params and n != "masked_fill"
    ],
)
def test_in_place_and_out_forms(name):
    op = POINTWISE[name]
    d = torch.float32 if 2 in op.rule.takes else torch.int64
    rng = np.random.default_rng(2)
    arrays = make(rng, op, (3, 4), d)
    expected = call(op, arrays)
    if isinstance(expected, tuple) or len(inspect.signature(methods[name]).parameters) < op.arity:
        pytest.skip("has another public form")
    tensors = [torch.from_numpy(a.copy()) for a in arrays]
    if expected.dtype is d:
        target = tensors[0]
        address = target.data_ptr()
        assert getattr(target, name + "_")(*tensors[1:]) is target
        assert target.data_ptr() == address
        np.testing.assert_array_equal(target.numpy(), expected.numpy())
    out = torch.empty(0, dtype=expected.dtype)
    if hasattr(torch, name) and op.takes_out:
        inputs = [torch.from_numpy(a) for a in arrays]
        assert getattr(torch, name)(*inputs, out=out) is out
        np.testing.assert_array_equal(out.numpy(), expected.numpy())


DIFFERENTIABLE = [
    n
    for n, op in sorted(POINTWISE.items())
    if op.differentiable and 2 in op.rule.takes and torch.float64 not in op.rule.excluded
]
# derivatives that PyTorch does not have either, or that are only piecewise
NO_SECOND = {"frexp", "nextafter"}


@pytest.mark.slow  # in double precision, whose kernels nothing else here needs; recorded calls have derivatives beside PyTorch's
@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_first_and_second_derivatives(name):
    op = POINTWISE[name]
    rng = np.random.default_rng(3)
    inputs = []
    for i, a in enumerate(make(rng, op, (2, 3), torch.float64)):
        t = torch.from_numpy(a)
        inputs.append(t.requires_grad_() if t.is_floating_point() and op.grads[i] is not None else t)
    params = params_of(op)

    def function(*args):
        out = slow(op, (*args, *params))
        return out[0] if isinstance(out, tuple) else out

    if not any(t.requires_grad for t in inputs):
        pytest.skip("no differentiable operand")
    assert gradcheck(function, tuple(inputs))
    if name not in NO_SECOND:
        assert gradgradcheck(function, tuple(inputs), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in DIFFERENTIABLE if 3 in POINTWISE[n].rule.takes])
def test_complex_derivatives(name):
    op = POINTWISE[name]
    rng = np.random.default_rng(4)
    inputs = [
        t.requires_grad_() if t.is_complex() and op.grads[i] is not None else t
        for i, t in enumerate(map(torch.from_numpy, make(rng, op, (2,), torch.complex128)))
    ]
    params = params_of(op)
    assert gradcheck(lambda *args: slow(op, (*args, *params)), tuple(inputs))


def test_most_records_have_an_independent_reference():
    without = [n for n in POINTWISE if n not in REFERENCE]
    assert len(without) < 0.5 * len(POINTWISE), without
