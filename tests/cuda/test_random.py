"""Random numbers on a GPU that is none: they are drawn there, and those of tensors have the distribution that these give."""

import os

import pytest

import flambeau as torch
from flambeau._core import state
from flambeau._ops.making.generator import default_of

from .emulated import Kernel
from .fake_gpu import Array, back, on_gpu

pytestmark = pytest.mark.sweep

CUDA = torch.device("cuda")
F = torch.nn.functional
NATIVE = os.environ.get("FLAMBEAU_NATIVE_ENTRY") != "0"


def drawn(seed, make):
    default_of(state.CUDA).manual_seed(seed)
    return back(make())


@pytest.mark.parametrize("make", [
    lambda: torch.rand(3, 5, device=CUDA), lambda: torch.randn(15, device=CUDA), lambda: torch.randint(0, 9, (7,), device=CUDA),
    lambda: on_gpu(torch.zeros(4, 6)).uniform_(), lambda: on_gpu(torch.zeros(4, 6)).t().normal_(2.0, 3.0),
    lambda: on_gpu(torch.zeros(4, 6))[:, ::2].exponential_(),
])  # fmt: skip
def test_the_same_seed_gives_the_same_numbers(gpu, make):
    first, second, other = drawn(1, make), drawn(1, make), drawn(2, make)
    assert torch.equal(first, second) and not torch.equal(first, other)


def test_numbers_are_drawn_into_their_place(gpu):
    torch.rand(4, 5, device=CUDA)
    before = Array.made
    made = torch.rand(4, 5, device=CUDA)
    assert Array.made == before + 1
    before = Array.made
    made.normal_()
    turned = made.t()  # a view
    assert turned.uniform_() is turned and Array.made <= before + 3
    values = back(made)
    assert bool(((values >= 0) & (values < 1)).all())


def test_gaps_are_left_alone(gpu):
    whole = on_gpu(torch.full((4, 6), 7.0))
    whole[:, ::2].uniform_()
    values = back(whole)
    assert bool((values[:, 1::2] == 7).all()) and bool((values[:, ::2] < 1).all())


@pytest.mark.slow
def test_weights_say_how_often_a_place_is_drawn(gpu):
    weights = torch.tensor([[0.0, 1.0, 3.0, 0.0], [5.0, 0.0, 0.0, 5.0]])
    many = back(torch.multinomial(on_gpu(weights), 4000, replacement=True))
    assert many.shape == (2, 4000) and many.dtype is torch.int64
    for row, wanted in zip(many, weights / weights.sum(-1, keepdim=True)):
        shares = torch.bincount(row, minlength=4) / 4000
        assert bool((shares[wanted == 0] == 0).all()) and float((shares - wanted).abs().max()) < 0.05
    one = torch.cat([back(torch.multinomial(on_gpu(weights), 1)) for _ in range(200)], 1)
    assert set(one[0].tolist()) == {1, 2} and set(one[1].tolist()) == {0, 3}
    assert 0.6 < float((one[0] == 2).float().mean()) < 0.9
    two = back(torch.multinomial(on_gpu(weights), 2))
    assert sorted(two[0].tolist()) == [1, 2] and sorted(two[1].tolist()) == [0, 3]
    half = back(torch.multinomial(on_gpu(weights[1]).half(), 1))
    assert half.shape == (1,) and half.item() in (0, 3)


@pytest.mark.parametrize("weights, message", [
    ([1.0, -1.0], "element < 0"), ([1.0, float("nan")], "`nan`"), ([float("inf"), 1.0], "`inf`"), ([0.0, 0.0], "sum of probabilities <= 0"),
])  # fmt: skip
def test_weights_that_are_none(gpu, weights, message):
    rows = torch.tensor(weights).repeat(4, 1)
    rows[:3] = 0.5
    for _ in range(4):
        with pytest.raises(RuntimeError, match=message):
            torch.multinomial(on_gpu(weights), 1)
        with pytest.raises(RuntimeError, match=message):
            torch.multinomial(on_gpu(rows), 1)


def test_chances_of_elements(gpu):
    chances = torch.tensor([0.0, 1.0, 0.25]).repeat(1000, 1)
    made = back(torch.bernoulli(on_gpu(chances)))
    assert made[:, 0].sum() == 0 and made[:, 1].sum() == 1000 and 200 < made[:, 2].sum() < 300
    written = on_gpu(torch.full((1000, 3), 7.0)).bernoulli_(on_gpu(chances))
    assert set(back(written).unique().tolist()) == {0.0, 1.0}
    torch.bernoulli(on_gpu([0.5, 1.5]))
    with pytest.raises(RuntimeError, match="p_in >= 0 && p_in <= 1"):
        gpu.errors.check()
    gpu.errors.check()  # once


def test_normal_numbers_of_tensors(gpu):
    mean, std = torch.tensor([0.0, 10.0]).repeat(2000, 1), torch.tensor([1.0, 0.5])
    made = back(torch.normal(on_gpu(mean), on_gpu(std)))
    assert float((made.mean(0) - mean[0]).abs().max()) < 0.2 and float((made.std(0) - std).abs().max()) < 0.1
    with pytest.raises(RuntimeError, match=r"std >= 0\.0"):
        torch.normal(on_gpu([0.0]), on_gpu([-1.0]))


def by_plan(make, launches):
    """The same numbers of a seed by Python and by plans, in which each call draws a key of its own."""
    found = []
    for _ in range(2):
        default_of(state.CUDA).manual_seed(3)
        for _ in range(4):
            before = Kernel.natively
            found.append(back(make()))
    assert Kernel.natively == before + launches or not NATIVE
    for a, b in zip(found[:4], found[4:], strict=True):
        assert a.equal(b)
    assert not any([found[0].equal(other) for other in found[1:4]])
    return found[0]


@pytest.mark.parametrize("d", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_choices_have_plans(gpu, d):
    chances = torch.tensor([0.0, 1.0, 0.25]).to(d).repeat(40, 1)
    for there in (on_gpu(chances), on_gpu(chances.t().contiguous()).t()):
        made = by_plan(lambda: torch.bernoulli(there), 2)
        assert made.dtype is d and made.shape == (40, 3) and not made[:, 0].any() and made[:, 1].all()
    first = drawn(1, lambda: torch.bernoulli(on_gpu(torch.full((9, 7), 0.5))))
    assert first.equal((drawn(1, lambda: torch.rand(9, 7, device=CUDA)) < 0.5).float())  # of the same stream


@pytest.mark.parametrize("d", [torch.float32, torch.bfloat16], ids=str)
def test_dropout_has_plans(gpu, d):
    x = on_gpu(torch.ones(6, 20).to(d))
    made = by_plan(lambda: F.dropout(x, 0.25), 2)
    assert set(made.float().unique().tolist()) == {0.0, float(torch.tensor(4 / 3).to(d))}
    by_plan(lambda: F.dropout(x.t(), 0.5), 2)
    leaf = on_gpu(torch.ones(6, 20).to(d), True)
    for _ in range(4):
        before = Kernel.natively
        out = F.dropout(leaf, 0.5)
        (g,) = torch.autograd.grad(out, leaf, on_gpu(torch.ones(6, 20).to(d)))
        assert back(g).equal(back(out.detach()))  # of ones
    assert Kernel.natively == before + 3 or not NATIVE
    before = Kernel.natively
    assert F.dropout(x, 0.5, training=False) is x and F.dropout(x, 0.0) is x
    for _ in range(4):
        y = on_gpu(torch.ones(6, 20).to(d))
        assert F.dropout(y, 0.5, inplace=True) is y and y._version == 1


def test_plans_draw_from_the_generator_as_it_is(gpu):
    x, usual = on_gpu(torch.ones(50)), default_of(state.CUDA)
    for _ in range(3):
        F.dropout(x)
    kept = usual.get_state()
    first = back(F.dropout(x))
    usual.set_state(kept)
    assert back(F.dropout(x)).equal(first)
    other = torch.Generator("cuda").manual_seed(11)
    before = usual._engine
    usual.graphsafe_set_state(other)
    found = [back(F.dropout(x)) for _ in range(2)]
    usual.graphsafe_set_state(other.clone_state())
    usual._engine.seed(11)
    assert [back(F.dropout(x)).equal(f) for f in found] == [True, True]
    usual._engine = before


def test_the_key_is_the_streams_next_word(gpu):
    for seed in (1, 5):
        default_of(state.CUDA).manual_seed(seed)
        engine = default_of(state.CUDA)._engine
        words = engine.clone().words64(3)
        assert [engine.word64() for _ in range(3)] == words.tolist()


def test_new_tensors_of_random_numbers(gpu):
    made = torch.rand(3, 4, device=CUDA, requires_grad=True)
    assert made.requires_grad and made.is_leaf and torch.rand(2, device="cuda:0").shape == (2,)
    with torch.inference_mode():
        assert torch.randn(3, device=CUDA).is_inference()
    assert torch.randint(0, 9, (0, 3), device=CUDA).shape == (0, 3)
    same = torch.Generator("cuda").manual_seed(3)
    one = back(torch.rand(5, device=CUDA, generator=same))
    assert one.equal(back(torch.rand(5, device=CUDA, generator=torch.Generator("cuda").manual_seed(3))))
