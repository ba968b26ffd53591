"""Tangents of operations that write numbers or other tensors into a part of their result: these have none."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F

torch_like = torch.Generator().manual_seed(0)
X = torch.rand(3, 4, dtype=torch.float64, generator=torch_like)
V = torch.rand(3, 4, dtype=torch.float64, generator=torch_like)
D = torch.rand(3, 4, dtype=torch.float64, generator=torch_like)
MASK, ROWS, PLACES = X > 0.5, torch.tensor([0, 2]), torch.zeros(1, 4, dtype=torch.int64)


def written(t, key, value):
    copy = t.clone()
    copy[key] = value
    return copy


CASES = {
    "pad": lambda t: F.pad(t, (1, 2), value=3.0), "pad less": lambda t: F.pad(t, (-1, 2, 1, 0), value=2.0),
    "reflect": lambda t: F.pad(t, (1, 1), mode="reflect"), "constant_pad_nd": lambda t: torch.constant_pad_nd(t, (1, 1), 3.0),
    "fill": lambda t: torch.fill(t, 2.0), "fill by a result": lambda t: torch.fill(t, t.sum()),
    "masked_fill": lambda t: t.masked_fill(MASK, 5.0), "masked_fill by a result": lambda t: t.masked_fill(MASK, t.sum()),
    "index_fill": lambda t: t.index_fill(0, ROWS, 7.0), "scatter": lambda t: t.scatter(0, PLACES, 2.0),
    "scatter of another": lambda t: t.scatter(0, PLACES, V), "where": lambda t: torch.where(MASK, t, 2.0),
    "fill_diagonal_": lambda t: t.clone().fill_diagonal_(2.0), "assign": lambda t: written(t, 0, 4.0),
    "assign by mask": lambda t: written(t, MASK, 4.0), "index_put": lambda t: t.index_put((ROWS,), V[0, 0]),
    "index_add": lambda t: t.index_add(0, ROWS, V[:2]), "index_copy": lambda t: t.index_copy(0, ROWS, V[:2]),
    "masked_scatter": lambda t: t.masked_scatter(MASK, V), "select_scatter": lambda t: t.select_scatter(V[0], 0, 1),
    "slice_scatter": lambda t: t.slice_scatter(V[:2], 0, 0, 2), "cat": lambda t: torch.cat([t, V]),
    "addmm": lambda t: torch.addmm(V[:, :3], t, V.t()), "linear": lambda t: F.linear(t, V, V[:, 0]),
    "copy_": lambda t: t.clone().copy_(V), "zero_": lambda t: t.clone().zero_(), "lerp": lambda t: torch.lerp(t, V, 0.3),
    "put": lambda t: t.put(ROWS, V[0, :2]), "diff": lambda t: t.diff(prepend=V[:, :1]),
    "threshold": lambda t: F.threshold(t, 0.5, 9.0), "nan_to_num": lambda t: torch.nan_to_num(t, 2.0),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_tangents_are_slopes(name):
    function = CASES[name]
    _, tangent = torch.func.jvp(function, (X,), (D,))
    slope = (function(X + 1e-6 * D) - function(X - 1e-6 * D)) / 2e-6
    torch.testing.assert_close(tangent, slope, rtol=1e-6, atol=1e-7)


def test_tangents_that_are_lost_are_refused():
    with pytest.raises(NotImplementedError, match="differentiate backwards"):
        torch.func.jvp(lambda t: t.to_sparse().to_dense(), (X,), (D,))
