"""Samplers that reject, as kernels: gamma, Poisson, binomial. They read uniforms drawn ahead.

A kernel stops before an element for which the uniforms do not suffice. `start` holds a normal number left over and
whether there is one; `end` gets how many elements are done, how many uniforms they used, the uniforms (-1: none) that
the normal left over came from, and whether there is one.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._core.dtypes import BY_NUMPY
from ..loops.lang import kernel

TWO_PI = 2.0 * math.pi
_SQUEEZE = float(np.float32(0.0331))


@kernel("(n),(n),(k),(s)->(n),(e)")
def gamma(m: Any, shape: Any, inverse: Any, u: Any, start: Any, out: Any, end: Any) -> None:
    """Marsaglia and Tsang; `inverse` is 1 / alpha for alpha below 1 (infinite: the sample is 0), otherwise 0."""
    n, k = shape.n, u.n
    done = m.value(0, "i64")
    enough = m.value(1, "i64")
    used = m.value(0, "i64")
    left = start[0] + 0.0
    has_left = m.cast(start[1], "i64")
    pair = m.value(-1, "i64")
    while (done < n) & (enough == 1):
        at = used + 0
        spare = left + 0.0
        has_spare = has_left + 0
        source = pair + 0
        d = shape[done]
        power = inverse[done]
        scale = d + 0.0
        result = m.value(0.0, "f64")
        going = m.where(power == math.inf, m.value(0, "i64"), m.value(1, "i64"))
        if (going == 1) & (power > 0.0):
            if at < k:
                scale = m.library("pow", 1.0 - u[at], power) * d
                at = at + 1
            else:
                enough = 0
                going = 0
        c = 1.0 / m.real_sqrt(d * 9.0)
        while going == 1:
            if at + 3 > k:
                enough = 0
                going = 0
            else:
                x = spare + 0.0
                if has_spare == 1:
                    has_spare = 0
                else:
                    radius = m.real_sqrt(-2.0 * m.library("log1p", -u[at + 1]))
                    angle = u[at] * TWO_PI
                    spare = radius * m.library("sin", angle)
                    x = radius * m.library("cos", angle)
                    has_spare = 1
                    source = at
                    at = at + 2
                y = x * c + 1.0
                if not y <= 0.0:  # NaN ends the search
                    v = y * y * y
                    w = 1.0 - u[at]
                    at = at + 1
                    square = x * x
                    result = scale * v
                    if w < 1.0 - square * square * _SQUEEZE:  # noqa: SIM114 (`or` would compute both)
                        going = 0
                    elif not m.library("log", w) >= square * 0.5 + d * (1.0 - v + m.library("log", v)):
                        going = 0
        if enough == 1:
            out[done] = result
            done = done + 1
            used = at
            left = spare
            has_left = has_spare
            pair = source
    end[0] = done
    end[1] = used
    end[2] = pair
    end[3] = has_left


@kernel("(n),(k),(s)->(n),(e)")
def poisson(m: Any, rate: Any, u: Any, start: Any, out: Any, end: Any) -> None:
    """Products of uniforms below a rate of 10, transformed rejection with squeeze (Hoermann, 1993) from there."""
    n, k = rate.n, u.n
    done = m.value(0, "i64")
    enough = m.value(1, "i64")
    used = m.value(0, "i64")
    while (done < n) & (enough == 1):
        at = used + 0
        r = rate[done]
        certain = (r == 0.0) | (r == math.inf)
        result = m.where(certain, r, 0.0)
        going = m.where(certain, m.value(0, "i64"), m.value(1, "i64"))
        if (going == 1) & (r < 10.0):
            limit = m.library("exp", -r)
            product = m.value(1.0, "f64")
            result = result - 1.0
            while going == 1:
                if at < k:
                    product = product * u[at]
                    at = at + 1
                    result = result + 1.0
                    going = m.where(product > limit, m.value(1, "i64"), m.value(0, "i64"))
                else:
                    enough = 0
                    going = 0
        root = m.real_sqrt(r)
        b = root * 2.53 + 0.931
        a = b * 0.02483 - 0.059
        spread = m.library("log", 1.1239 + 1.1328 / (b - 3.4))
        accept = 0.9277 - 3.6224 / (b - 2.0)
        while going == 1:
            if at + 2 > k:
                enough = 0
                going = 0
            else:
                x = u[at] - 0.5
                v = u[at + 1]
                at = at + 2
                us = 0.5 - m.real_abs(x)
                result = m.floor((a * 2.0 / us + b) * x + r + 0.43)
                quick = (us >= 0.07) & (v <= accept)
                refused = (us == 0.0) | (result < 0.0) | ((us < 0.013) & (v > us))
                if quick & (us != 0.0):
                    going = 0
                elif not refused:
                    height = m.library("log", v) + spread - m.library("log", a / (us * us) + b)
                    if height <= result * m.library("log", r) - r - m.library("lgamma", result + 1.0):
                        going = 0
        if enough == 1:
            out[done] = result
            done = done + 1
            used = at
    end[0] = done
    end[1] = used
    end[2] = m.value(-1, "i64")
    end[3] = m.cast(start[1], "i64")


# log(k!) less Stirling's approximation of it, for k up to 9
STIRLING_TAIL = (
    0.0810614667953272, 0.0413406959554092, 0.0276779256849983, 0.02079067210376509,
    0.0166446911898211, 0.0138761288230707, 0.0118967099458917, 0.0104112652619720,
    0.00925546218271273, 0.00833056343336287,
)  # fmt: skip


def _tail(m: Any, k: Any) -> Any:
    square = (k + 1.0) * (k + 1.0)
    result = (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)
    for i, exact in enumerate(STIRLING_TAIL):
        result = m.where(k == float(i), exact, result)
    return result


@kernel("(n),(n),(k),(s)->(n),(e)")
def binomial(m: Any, count: Any, chance: Any, u: Any, start: Any, out: Any, end: Any) -> None:
    """Geometric waiting times for few successes, Hoermann's BTRS for many. What derives from the arguments alone keeps their precision."""
    length, k = count.n, u.n
    done = m.value(0, "i64")
    enough = m.value(1, "i64")
    used = m.value(0, "i64")
    while (done < length) & (enough == 1):
        at = used + 0
        n, p = count[done], chance[done]
        q = m.where(p > 0.5, 1.0 - p, p)
        deviation = m.real_sqrt(n * q * (1.0 - q))
        spread = deviation * 2.53 + 1.15
        trials, b = m.cast(n, "f64"), m.cast(spread, "f64")
        nothing = ~((n > 0.0) & (p > 0.0))
        certain = nothing | (p >= 1.0) | (n == math.inf)
        missing = (n != n) | (p != p)
        result = m.value(0.0, "f64")
        going = m.where(certain, m.value(0, "i64"), m.value(1, "i64"))
        if (going == 1) & (n * q < 10.0):
            wait = m.library("log1p", -m.cast(q, "f64"))
            total = m.value(0.0, "f64")
            result = result - 1.0
            while going == 1:
                if at < k:
                    total = total + m.ceil(m.library("log", u[at]) / wait)
                    at = at + 1
                    result = result + 1.0
                    going = m.where(total > trials, m.value(0, "i64"), m.value(1, "i64"))
                else:
                    enough = 0
                    going = 0
        a = m.cast(spread * 0.0248 + -0.0873 + q * 0.01, "f64")
        c = m.cast(n * q + 0.5, "f64")
        accept = m.cast(0.92 - 4.2 / spread, "f64")
        odds = m.cast(q / (1.0 - q), "f64")
        alpha = m.cast((2.83 + 5.1 / spread) * deviation, "f64")
        mode = m.cast(m.floor((n + 1.0) * q), "f64")
        while going == 1:
            if at + 2 > k:
                enough = 0
                going = 0
            else:
                x = u[at] - 0.5
                v = u[at + 1]
                at = at + 2
                us = 0.5 - m.real_abs(x)
                result = m.floor((a * 2.0 / us + b) * x + c)
                quick = (us >= 0.07) & (v <= accept)
                refused = (us == 0.0) | (result < 0.0) | (result > trials)
                if quick & (us != 0.0):
                    going = 0
                elif not refused:
                    bound = (mode + 0.5) * m.library("log", (mode + 1.0) / (odds * (trials - mode + 1.0)))
                    bound = bound + (trials + 1.0) * m.library("log", (trials - mode + 1.0) / (trials - result + 1.0))
                    bound = bound + (result + 0.5) * m.library("log", odds * (trials - result + 1.0) / (result + 1.0))
                    bound = bound + _tail(m, mode) + _tail(m, trials - mode)
                    bound = bound - _tail(m, result) - _tail(m, trials - result)
                    if m.library("log", v * alpha / (a / (us * us) + b)) <= bound:
                        going = 0
        if enough == 1:
            drawn = m.where(p > 0.5, trials - result, result)
            known = m.where(nothing, m.where(missing, math.nan, m.value(0.0, "f64")), trials)
            out[done] = m.where(certain, known, drawn)
            done = done + 1
            used = at
    end[0] = done
    end[1] = used
    end[2] = m.value(-1, "i64")
    end[3] = m.cast(start[1], "i64")


def bulk(name: str, operand: Any) -> Any:
    """The kernel of that name over elements of a dtype."""
    found = {"gamma": gamma, "poisson": poisson, "binomial": binomial}[name]
    return found((BY_NUMPY[operand].code,) * (len(found.inputs) - 2) + ("f64", "f64", "f64", "i64"))
