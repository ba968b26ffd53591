"""Reductions of dense tensors give what they give of other layouts, planned or not."""

import numpy as np
import pytest

import flambeau as torch

CALLS = {
    "sum": lambda x: x.sum(),
    "sum_dim": lambda x: x.sum(-1),
    "sum_first": lambda x: torch.sum(x, 0, True),
    "mean": lambda x: x.mean(dim=1, keepdim=True),
    "max": lambda x: x.max(),
    "max_dim": lambda x: x.max(dim=-1, keepdim=True),
    "min_dim": lambda x: torch.min(x, 1),
    "argmax": lambda x: x.argmax(),
    "argmin_dim": lambda x: x.argmin(dim=-1, keepdim=True),
    "std": lambda x: x.std(),
    "var_dim": lambda x: x.var(dim=-1, keepdim=True),
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: torch.cumprod(x, dim=1),
    "topk": lambda x: x.topk(3),
    "sort": lambda x: x.sort(-1, True),
    "max_first": lambda x: x.max(0),
    "argmin_first": lambda x: x.argmin(0, True),
    "std_first": lambda x: x.std(0),
    "var_mean": lambda x: torch.var_mean(x, 1, keepdim=True),
    "cumsum_first": lambda x: x.cumsum(0),
    "prod": lambda x: x.prod(),
    "prod_dim": lambda x: x.prod(1, True),
    "amax": lambda x: x.amax(),
    "amin_dim": lambda x: x.amin(dim=0, keepdim=True),
    "any": lambda x: (x > 0.5).any(-1),
    "all": lambda x: (x > 0.01).all(),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: torch.log_softmax(x, dim=1),
}


def parts(result):
    return result if isinstance(result, tuple) else (result,)


@pytest.mark.sweep
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_equals_the_long_way(name, dtype):
    torch.manual_seed(0)
    dense = torch.rand(5, 7).to(dtype)
    wide = torch.zeros(5, 14, dtype=dtype)
    wide[:, ::2] = dense
    for _ in range(2):  # the second call finds its plan
        short, long = CALLS[name](dense), CALLS[name](wide[:, ::2])
        assert type(short) is type(long)
        for a, b in zip(parts(short), parts(long)):
            assert a.dtype is b.dtype and a.shape == b.shape
            torch.testing.assert_close(a, b)


@pytest.mark.parametrize("name", [n for n in CALLS if n[:3] not in ("arg", "any", "all")])
def test_gradients(name):
    torch.manual_seed(0)
    x = torch.rand(4, 6, dtype=torch.float64, requires_grad=True)

    def values(x):
        made = parts(CALLS[name](x))
        return tuple(t for t in made if t.dtype.is_floating_point)

    assert all(t.requires_grad for t in values(x))
    assert torch.autograd.gradcheck(values, (x,))
    assert torch.autograd.gradgradcheck(values, (x,))


def test_wrong_arguments_are_still_errors():
    x = torch.rand(3, 4)
    x.sum(1, True), x.sum(0, False)
    for call in (lambda: x.sum(1, 1), lambda: x.sum(0, 0), lambda: x.softmax(), lambda: x.cumsum()):
        with pytest.raises(TypeError):
            call()
    for call in (lambda: x.sum(2), lambda: x.max(-3), lambda: x.softmax(2), lambda: x.cumsum(5), lambda: x.argmax(2)):
        with pytest.raises(IndexError):
            call()
    with pytest.raises(RuntimeError):
        x.topk(5)
    with pytest.raises(RuntimeError):
        torch.ones(3, dtype=torch.int64).mean()
    with pytest.warns(UserWarning):
        assert torch.ones(1).std().isnan()


def test_saved_input_is_checked_for_writes():
    x = torch.rand(3, 4, requires_grad=True)
    y = x * 1
    loss = y.cumprod(-1).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "int32", "uint8", "bool"])
@pytest.mark.parametrize("shape", [(300, 3), (129, 2), (16, 20, 4), (1024, 8), (131, 7)])
def test_short_rows(shape, dtype):
    """Vectors hold an element each of many rows; NaN, infinities and both zeros are what they are along a row."""
    values = np.random.default_rng(0).standard_normal(shape) * 3
    if dtype.startswith("float"):
        values[0], values[1, ..., -1], values[2, ..., 0], values[3] = -0.0, np.nan, np.inf, -np.inf
    x = torch.from_numpy(np.abs(values) if dtype == "uint8" else values).to(getattr(torch, dtype))
    a = x.numpy()
    for made, expected in (
        (x.amax(-1), a.max(-1)), (x.amin(-1), a.min(-1)), (x.any(-1), (a != 0).any(-1)), (x.all(-1), (a != 0).all(-1)),
        (x.count_nonzero(-1), (a != 0).sum(-1)), (x.sum(-1), a.astype(np.float64).sum(-1)),
    ):  # fmt: skip
        np.testing.assert_allclose(made.numpy().astype(np.float64), expected.astype(np.float64), rtol=2e-3, atol=2e-3)
    if dtype.startswith("float"):
        wide = a.astype(np.float64)
        np.testing.assert_allclose(x.mean(-1).numpy(), wide.mean(-1), rtol=2e-3, atol=2e-3)
        np.testing.assert_allclose(
            x.prod(-1).double().clamp(-6e4, 6e4), wide.prod(-1).clip(-6e4, 6e4), rtol=5e-3, atol=2e-3
        )
