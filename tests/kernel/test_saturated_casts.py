"""Floats become the nearest integer of a type and NaN 0, by the CPU's instruction or without one."""

import numpy as np
import pytest

from flambeau._kernel.loops import pointwise
from flambeau._kernel.render import llvm

TYPES = {t: np.dtype(f"{t[0]}{int(t[1:]) // 8}") for t in ("i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64")}


def _values(d, source):
    limits = np.iinfo(d)
    edges = [float(limits.min), float(limits.max), 0.0]
    near = [e + step for e in edges for step in (-300.0, -1.5, -1.0, -0.5, 0.0, 0.5, 0.99, 1.0, 1.5, 300.0)]
    x = np.array([*near, 1e30, -1e30, np.inf, -np.inf, np.nan, -0.0, 2.0**31, 2.0**32, 2.0**63, 2.0**64], source)
    return np.concatenate([x, np.nextafter(x, source(0)), np.nextafter(x, source(-np.inf))])


def _expected(x, d):
    limits = np.iinfo(d)
    clipped = [
        0 if np.isnan(v) else limits.max if v >= limits.max else limits.min if v <= limits.min else int(v)
        for v in x.tolist()
    ]
    return np.array(clipped, d)


@pytest.mark.parametrize("instruction", [True, False])
@pytest.mark.parametrize("source", [np.float32, np.float64])
@pytest.mark.parametrize("code", TYPES)
def test_casts_saturate(monkeypatch, instruction, source, code):
    if instruction and not llvm._SATURATES:
        pytest.skip("this CPU has none")
    monkeypatch.setattr(llvm, "_SATURATES", instruction)
    kind = "f32" if source is np.float32 else "f64"
    cast = pointwise.pointwise_ufunc("cast", lambda m, x: m.cast(x, code), (kind,), (code,), (kind,))
    for x in (_values(TYPES[code], source), _values(TYPES[code], source)[::2]):
        assert cast(x).tolist() == _expected(x, TYPES[code]).tolist()
