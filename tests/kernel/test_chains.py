"""Long bodies, of which several vectors are computed side by side: each element has the bits that it has by itself."""

import numpy as np
import pytest

import flambeau as torch
from flambeau._kernel.loops import chains, pointwise

FUNCTIONS = ["exp", "log1p", "erf", "tanh", "sin", "lgamma", "erfinv", "sigmoid"]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16"])
def test_elements_do_not_depend_on_their_neighbours(name, dtype):
    f = getattr(torch, name)
    x = (torch.arange(333) % 97 / 100 + 0.01).to(getattr(torch, dtype))
    x[200] = float("inf")  # a rare case among others
    one_by_one = torch.cat([f(x[i : i + 1]) for i in range(len(x))])
    for start, stop in ((0, 333), (1, 130), (3, 36), (5, 300)):
        assert torch.equal(f(x[start:stop]).nan_to_num(7.0), one_by_one[start:stop].nan_to_num(7.0))
    assert torch.equal(f(x[::2]).nan_to_num(7.0), one_by_one[::2].nan_to_num(7.0))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("steps", [8, 30, 60])
def test_addends_from_memory(steps, stream, monkeypatch):
    """A polynomial whose constants, from both ends of float32's range, must each be met in its own step."""

    def body(m, x):
        for k in range(steps):
            x = m.fma(x, 0.5, m.constant(float(3**k % 101) * (1 if k % 3 else 1e-30), x))
            x = m.maximum(x, -1e30)
        return x

    def made(overwrites):
        monkeypatch.setattr(chains, "is_neon", lambda: overwrites)
        monkeypatch.setattr(pointwise, "has_vectors", lambda *_: False)  # as there are no masks where these are
        text = pointwise.render_pointwise("kernel", body, ("f32",), ("f32",), ("f32",), stream)
        assert ("@addends" in text) == overwrites
        return pointwise._made("polynomial", body, ("f32",), ("f32",), ("f32",), stream)

    x = np.arange(1, 1000, dtype="f4")
    assert np.array_equal(made(True)(x), made(False)(x))
