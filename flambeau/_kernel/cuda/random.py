"""CUDA text of kernels that draw random numbers: a counter-based generator (Philox 4x32, ten rounds) and transforms.

An element's numbers depend on a key and its position only, so that threads need no state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ..loops.pointwise import store
from ..render.symbols import symbols
from ..render.value import COMPUTE, SIZE, Value
from .render import KERNEL, Cuda, joined

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
_UNIT_BITS = {"f16": 11, "bf16": 8, "f32": 24}  # of a uniform number: as many as its mantissa holds


def philox(counter: Value, key: Value) -> list[Value]:
    """Four 32-bit words from a 64-bit counter and a 64-bit key."""
    m = symbols
    low, high = m.cast(counter, "u32"), m.cast(counter >> 32, "u32")
    words = [low, high, m.constant(0, low), m.constant(0, low)]
    keys = [m.cast(key, "u32"), m.cast(key >> 32, "u32")]
    for _ in range(_ROUNDS):
        products = [m.cast(words[2 * k], "u64") * _MULTIPLIERS[k] for k in range(2)]
        (low0, high0), (low1, high1) = ((m.cast(p, "u32"), m.cast(p >> 32, "u32")) for p in products)
        words = [high1 ^ words[1] ^ keys[0], low1, high0 ^ words[3] ^ keys[1], low0]
        keys = [k + increment for k, increment in zip(keys, _INCREMENTS)]
    return words


# -- transforms: (m, words, type of the result, parameters) -> one element ---------------------------------------------


def _unit(m: Any, words: list[Value], type: str) -> Value:
    """A number from 0 up to, but not, 1."""
    if type == "f64":
        return m.cast(_long(m, words) >> 11, "f64") * 2.0**-53
    bits = _UNIT_BITS.get(type, 24)
    return m.cast(words[0] >> (32 - bits), "f32") * 2.0**-bits


def _long(m: Any, words: list[Value]) -> Value:
    return (m.cast(words[0], "u64") << 32) | m.cast(words[1], "u64")


def _positive(m: Any, words: list[Value], kind: str) -> Value:
    """A number above 0, up to 1."""
    if kind == "f64":
        return (m.cast(_long(m, words) >> 11, "f64") + 1.0) * 2.0**-53
    return (m.cast(words[0] >> 8, "f32") + 1.0) * 2.0**-24


def _kind(type: str) -> str:
    return "f64" if type == "f64" else "f32"


def uniform(m: Any, words: list[Value], type: str, low: Value, high: Value) -> Value:
    low, high = m.cast(low, _kind(type)), m.cast(high, _kind(type))
    made = m.fma(_unit(m, words, type), high - low, low)
    return m.where(made >= high, low, made)


def normal(m: Any, words: list[Value], type: str, mean: Value, std: Value) -> Value:
    kind = _kind(type)
    angle = _unit(m, words[len(words) // 2 :], kind) * (2.0 * math.pi)
    radius = m.real_sqrt(-2.0 * m.log(_positive(m, words, kind)))
    return m.fma(radius * m.cos(angle), m.cast(std, kind), m.cast(mean, kind))


def log_normal(m: Any, words: list[Value], type: str, mean: Value, std: Value) -> Value:
    return m.exp(normal(m, words, type, mean, std))


def exponential(m: Any, words: list[Value], type: str, rate: Value) -> Value:
    kind = _kind(type)
    time = m.maximum(-m.log(_positive(m, words, kind)), 2.0 ** (-54 if kind == "f64" else -25))  # never zero
    return time / m.cast(rate, kind)


def cauchy(m: Any, words: list[Value], type: str, median: Value, sigma: Value) -> Value:
    kind = _kind(type)
    return m.fma(m.tan((_positive(m, words, kind) - 0.5) * math.pi), m.cast(sigma, kind), m.cast(median, kind))


def bernoulli(m: Any, words: list[Value], type: str, p: Value) -> Value:
    return m.cast(m.cast(words[0], "f64") * 2.0**-32 < p, COMPUTE.get(type, type))


def randint(m: Any, words: list[Value], type: str, low: Value, high: Value) -> Value:
    return m.cast(_long(m, words) % m.cast(high - low, "u64"), "i64") + low


class Sampler(NamedTuple):
    """A transform, how many words it takes for a float and for a double, and the type and defaults of its parameters."""

    transform: Callable[..., Any]
    words: tuple[int, int]
    kind: str = "f64"
    defaults: tuple[float, ...] = ()


SAMPLERS = {
    "uniform": Sampler(uniform, (1, 2), defaults=(0.0, 1.0)), "normal": Sampler(normal, (2, 4), defaults=(0.0, 1.0)),
    "log_normal": Sampler(log_normal, (2, 4), defaults=(1.0, 2.0)), "exponential": Sampler(exponential, (1, 2), defaults=(1.0,)),
    "cauchy": Sampler(cauchy, (1, 2), defaults=(0.0, 1.0)), "bernoulli": Sampler(bernoulli, (1, 1)),
    "keep_mask": Sampler(bernoulli, (1, 1)), "randint": Sampler(randint, (2, 2), "i64"),
}  # fmt: skip


def render_random(name: str, sampler: str, type: str, count: int) -> str:
    """CUDA text of a kernel that fills contiguous memory; `count` numbers are its parameters."""
    transform, words, kind, _ = SAMPLERS[sampler]
    need = words[type == "f64"]
    each = 4 // need  # elements that a thread makes of four words
    given = [f"{'double' if kind == 'f64' else 'long long'} p{k}" for k in range(count)]
    r = Cuda(
        "elements", ["char* y", "unsigned long long i", "unsigned long long key", *given], "__device__ __forceinline__"
    )
    drawn = philox(Value(r, "i", "u64"), Value(r, "key", "u64"))
    numbers = [Value(r, f"p{k}", kind) for k in range(count)]
    for e in range(each):
        made = transform(symbols, drawn[e * need : (e + 1) * need], type, *numbers)
        store(r, r.address("y", r.constant("i64", e * SIZE[type])), type, made)
    passed = "".join(f", p{k}" for k in range(count))
    size = SIZE[type] * each
    return f"""{joined([r])}
{KERNEL} void {name}({", ".join(["char* y", "long long n", "unsigned long long key", "const unsigned long long* shift", *given])}) {{
  key += *shift;
  long long groups = (n + {each - 1}) / {each};
  for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < groups; i += gridDim.x * (long long)blockDim.x) {{
    alignas({min(size, 16)}) char made[{size}];
    elements(made, i, key{passed});
    long long rest = (n - i * {each}) * {SIZE[type]};
    if (rest >= {size}) {{
      #pragma unroll
      for (int b = 0; b < {size // SIZE[type]}; ++b) (({_WORD[SIZE[type]]}*)y)[i * {each} + b] = (({_WORD[SIZE[type]]}*)made)[b];
    }} else {{
      for (int b = 0; b < rest / {SIZE[type]}; ++b) (({_WORD[SIZE[type]]}*)y)[i * {each} + b] = (({_WORD[SIZE[type]]}*)made)[b];
    }}
  }}
}}
"""
