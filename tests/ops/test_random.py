"""Random tensors: PyTorch's streams through the public functions, layouts, generators, dropout, errors."""

import numpy as np
import pytest

import flambeau as torch
from flambeau.nn import functional


def test_seeded_values_are_pytorchs():
    torch.manual_seed(0)
    assert torch.rand(2, 3).flatten().tolist() == pytest.approx(
        [0.4962566, 0.7682218, 0.0884774, 0.1320305, 0.3074228, 0.6340787], abs=1e-6
    )
    torch.manual_seed(0)
    assert torch.randn(3).tolist() == pytest.approx([1.5409961, -0.2934289, -2.1787894], abs=1e-6)
    torch.manual_seed(0)
    assert torch.randn(18)[-3:].tolist() == pytest.approx([-0.8436768, 0.9318267, 1.2590092], abs=1e-6)
    assert torch.rand(1).item() == pytest.approx(0.1506798, abs=1e-6)  # 18 uniforms were drawn, then 16 for the last 16
    torch.manual_seed(0)
    assert torch.empty(18).normal_(2, 3)[:2].tolist() == pytest.approx([-1.3775195, -1.4570806], abs=1e-6)
    torch.manual_seed(0)
    assert torch.randperm(6).tolist() == [2, 5, 3, 0, 1, 4]
    assert torch.initial_seed() == 0


def test_functions_follow_in_place_forms():
    for function, changed in [
        (lambda: torch.rand(3, 5), lambda: torch.empty(3, 5).uniform_()),
        (lambda: torch.randn(3, 7), lambda: torch.empty(3, 7).normal_()),
        (lambda: torch.randint(2, 9, (4,)), lambda: torch.empty(4, dtype=torch.int64).random_(2, 9)),
        (lambda: torch.normal(1.0, 2.0, (4, 5)), lambda: torch.empty(4, 5).normal_(1, 2)),
        (lambda: torch.rand_like(torch.zeros(2, 3)), lambda: torch.zeros(2, 3).uniform_()),
    ]:
        torch.manual_seed(3)
        a = function()
        torch.manual_seed(3)
        assert torch.equal(a, changed())


def test_strided_tensors_are_filled_in_memory_order():
    torch.manual_seed(1)
    expected = torch.rand(4, 3)
    torch.manual_seed(1)
    assert torch.equal(torch.zeros(4, 3).t().uniform_(), expected.t())
    torch.manual_seed(1)
    mask = functional.dropout(torch.ones(4, 3).t())
    torch.manual_seed(1)
    assert torch.equal(mask, functional.dropout(torch.ones(4, 3)).t())


def test_generators_and_states():
    g = torch.Generator().manual_seed(7)
    state = g.get_state()
    first = torch.rand(5, generator=g)
    g.set_state(state)
    assert torch.equal(torch.rand(5, generator=g), first)
    torch.manual_seed(1)
    with torch.random.fork_rng():
        torch.rand(10)
    inside = torch.rand(2)
    torch.manual_seed(1)
    assert torch.equal(inside, torch.rand(2))
    before = torch.get_rng_state()
    torch.rand(1)
    torch.set_rng_state(before)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(TypeError):
        torch.set_rng_state(torch.zeros(3))
    with pytest.raises(RuntimeError):
        torch.set_rng_state(torch.zeros(3, dtype=torch.uint8))
    with pytest.raises(TypeError):
        torch.rand(2, generator=3)


def test_options():
    assert torch.rand(2, dtype=torch.float64, requires_grad=True).requires_grad
    assert torch.rand(2, device="meta").is_meta
    out = torch.zeros(3)
    assert torch.rand(3, out=out) is out and bool((out > 0).any())
    assert torch.randint(5, (2,), dtype=torch.uint8).dtype is torch.uint8
    assert torch.randint_like(torch.zeros(3), 2, 5).dtype is torch.float32
    assert torch.rand(()).shape == ()


@pytest.mark.parametrize(
    ("fill", "mean", "std"),
    [
        (lambda t: t.uniform_(2, 4), 3.0, 2 / 12**0.5), (lambda t: t.normal_(1, 2), 1.0, 2.0),
        (lambda t: t.exponential_(2), 0.5, 0.5), (lambda t: t.geometric_(0.25), 4.0, 12**0.5),
        (lambda t: t.bernoulli_(0.3), 0.3, 0.21**0.5), (lambda t: t.random_(10), 4.5, (99 / 12) ** 0.5),
    ],
)  # fmt: skip
def test_moments(fill, mean, std):
    torch.manual_seed(0)
    values = fill(torch.empty(100_000, dtype=torch.float64)).numpy()
    assert values.mean() == pytest.approx(mean, abs=0.02 * max(1, std))
    assert values.std() == pytest.approx(std, rel=0.02)


def test_random_writes_cut_the_graph():
    x = torch.ones(3, requires_grad=True)
    y = x * 2
    y.uniform_()
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0, 0.0]
    p = torch.full((3,), 0.5, requires_grad=True)
    torch.bernoulli(p).sum().backward()
    assert p.grad.tolist() == [0.0, 0.0, 0.0]
    with pytest.raises(RuntimeError, match="leaf"):
        x.normal_()


@pytest.mark.parametrize(
    ("error", "use"),
    [
        (RuntimeError, lambda: torch.zeros(2).uniform_(2, 1)), (RuntimeError, lambda: torch.randint(5, 2, (3,))),
        (RuntimeError, lambda: torch.randint(0, 300, (3,), dtype=torch.uint8)),
        (NotImplementedError, lambda: torch.rand(2, dtype=torch.int32)),
        (NotImplementedError, lambda: torch.zeros(2, dtype=torch.int64).normal_()),
        (RuntimeError, lambda: torch.normal(torch.zeros(2), -torch.ones(2))),
        (RuntimeError, lambda: torch.bernoulli(torch.full((2,), 1.5))),
        (RuntimeError, lambda: torch.multinomial(torch.ones(3), 4)),
        (RuntimeError, lambda: torch.multinomial(torch.tensor([-1.0, 2.0]), 1)),
        (RuntimeError, lambda: torch.multinomial(torch.zeros(2), 1)),
        (RuntimeError, lambda: torch.poisson(torch.tensor([-1.0]))),
        (RuntimeError, lambda: torch.rand(-1)), (TypeError, lambda: torch.rand("a")), (TypeError, lambda: torch.randint((3,))),
        (ValueError, lambda: functional.dropout(torch.ones(1), 1.5)),
    ],
)  # fmt: skip
def test_errors(error, use):
    with pytest.raises(error):
        use()


def test_multinomial_follows_weights():
    torch.manual_seed(0)
    drawn = torch.multinomial(torch.tensor([1.0, 0.0, 3.0]), 20_000, replacement=True).numpy()
    counts = np.bincount(drawn, minlength=3) / len(drawn)
    assert counts[1] == 0 and counts[2] == pytest.approx(0.75, abs=0.02)
    assert sorted(torch.multinomial(torch.ones(5), 5).tolist()) == [0, 1, 2, 3, 4]


def test_dropout():
    x = torch.ones(1000, requires_grad=True)
    y = functional.dropout(x, 0.25)
    y.sum().backward()
    kept = y.detach() != 0
    assert torch.equal(x.grad, y.detach())
    assert set(y.detach().numpy().round(5)) == {0.0, np.float32(1.33333)}
    assert 0.7 < kept.float().mean().item() < 0.8
    assert functional.dropout(x, 0.5, training=False) is x
    assert functional.dropout(torch.ones(3), 1.0).tolist() == [0.0, 0.0, 0.0]
    z = torch.ones(4)
    assert functional.dropout(z, 0.5, inplace=True) is z
    channels = functional.dropout2d(torch.ones(2, 50, 3, 3)).flatten(2)
    assert torch.equal(channels.amax(-1), channels.amin(-1))
    out, mask = torch.native_dropout(torch.ones(10), 0.5, True)
    assert torch.equal(out != 0, mask)
    noisy = functional.alpha_dropout(
        torch.randn(20_000, generator=torch.Generator().manual_seed(0)), 0.2, training=True
    )
    assert noisy.mean().item() == pytest.approx(0.0, abs=0.05) and noisy.std().item() == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("size", [1, 5000])
def test_binomial_with_next_to_no_probability(size):
    prob = torch.full((size,), 1e-320, dtype=torch.float64)
    assert not torch.binomial(torch.full((size,), 10.0, dtype=torch.float64), prob).any()


@pytest.mark.parametrize(
    "call",
    [
        lambda **g: torch.randint(0, 9, (4, 3), **g), lambda **g: torch.randint(7, (5,), **g), lambda **g: torch.randint(-40, 90, (256,), **g),
        lambda **g: torch.randint(0, 1 << 27, (20,), **g), lambda **g: torch.randint(0, 1 << 29, (20,), **g), lambda **g: torch.randint(3, (), **g),
        lambda **g: torch.randperm(2, **g), lambda **g: torch.randperm(256, **g), lambda **g: torch.randperm(257, **g),
        lambda **g: torch.normal(2, 0.5, (3, 5), **g), lambda **g: torch.normal(0.0, 1.0, (40,), **g), lambda **g: torch.randn(4, 16, **g),
        lambda **g: torch.rand(4, 16, **g),
    ],
)  # fmt: skip
def test_a_few_are_those_of_a_generator(call):
    torch.manual_seed(3)
    few = [call() for _ in range(3)]
    generator = torch.Generator().manual_seed(3)
    for made in few:
        wanted = call(generator=generator)
        assert made.dtype is wanted.dtype and made.shape == wanted.shape and made.equal(wanted)


def test_a_few_like_another():
    x = torch.zeros(4, 16, requires_grad=True)
    for like, plain in ((torch.rand_like, torch.rand), (torch.randn_like, torch.randn)):
        torch.manual_seed(4)
        made = like(x)
        torch.manual_seed(4)
        assert made.equal(plain(4, 16)) and not made.requires_grad
        assert like(x.t()).stride() == x.t().stride() and like(x.double()).dtype is torch.float64
    with pytest.raises(RuntimeError, match="negative dimension"):
        torch.normal(0.0, 1.0, (-2,))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_uniform_over_a_range_that_its_dtype_has_no_number_for(dtype):
    info = torch.finfo(dtype)
    with pytest.raises(RuntimeError, match="uniform_ expects to-from"):
        torch.empty(3, dtype=dtype).uniform_(info.min, info.max)
    assert torch.empty(3, dtype=dtype).uniform_(info.min, 0).max() < 0


def test_integers_that_a_dtype_does_not_hold_are_told():
    with pytest.warns(UserWarning, match=r"to - 1 is out of bounds \[-\(2\^24\), 2\^24\]"):
        torch.empty(3).random_(0, 1 << 25)
    with pytest.warns(UserWarning, match="from is out of bounds"):
        torch.randint(-300, 0, (3,), dtype=torch.bfloat16)
    torch.empty(3).random_(0, (1 << 24) + 1)  # warnings are errors in these tests


def test_randint_names_the_argument():
    with pytest.raises(TypeError, match=r"argument 'high' \(position 1\) must be int, not float"):
        torch.randint(0.5, size=(2,))


@pytest.mark.parametrize("rows, draws", [(1, 30), (5, 7), (5, 400)])
def test_draws_fall_between_the_right_bounds(rows, draws):
    from flambeau._core.random_transforms import _search_rows

    source = np.random.default_rng(rows * draws)
    weights = source.random((rows, 50)) * (source.random((rows, 50)) > 0.3) + (np.arange(50) == 20)
    bounds = np.cumsum(weights, axis=1)
    bounds /= bounds[:, -1:]
    drawn = source.random((rows, draws))
    drawn[0, :3] = 0.0, 1.0, bounds[0, 20]
    found = _search_rows(bounds, drawn)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, [np.searchsorted(b, d).clip(max=49) for b, d in zip(bounds, drawn)])


@pytest.mark.parametrize("fill", ["uniform_", "normal_"])
def test_inference_tensors_are_not_filled_outside_of_inference_mode(fill):
    with torch.inference_mode():
        made = torch.zeros(3)
        getattr(made, fill)()
    with pytest.raises(RuntimeError, match="inference tensor"):
        getattr(made, fill)()
    with torch.no_grad(), pytest.raises(RuntimeError, match="inference tensor"):
        getattr(torch.nn.init, fill)(made)
