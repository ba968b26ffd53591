"""Random numbers inside vmap: an error unless asked for, the same for all samples, or different ones."""

import pytest

import flambeau as torch
from flambeau.distributions import Categorical, Gamma, Normal, OneHotCategorical
from flambeau.func import vmap

WIDE = torch.linspace(0, 1, 40).reshape(1, 1, 5, 8)
FUNCTIONS = {
    "randn": lambda x: torch.randn(3) + x,
    "rand_like": torch.rand_like,
    "normal_": lambda x: x.clone().normal_(),
    "randint": lambda x: torch.randint(0, 1000, (3,)),
    "randperm": lambda x: torch.randperm(9),
    "dropout": lambda x: torch.nn.functional.dropout(x + 1, 0.5),
    "dropout of an unmapped tensor": lambda x: torch.nn.functional.dropout(torch.ones(50), 0.5),
    "attention": lambda x: torch.nn.functional.scaled_dot_product_attention(WIDE, WIDE, WIDE, dropout_p=0.5),
    "zeros_like": lambda x: torch.zeros_like(x).normal_(),
    "new_empty": lambda x: x.new_empty(3).exponential_(),
    "gumbel_softmax": torch.nn.functional.gumbel_softmax,
    "Normal of numbers": lambda x: Normal(0.0, 1.0).sample(),
    "Normal of numbers, of a shape": lambda x: Normal(0.0, 1.0).sample((2,)),
    "Normal of tensors": lambda x: Normal(torch.zeros(3), torch.ones(3)).sample() + x,
    "Normal.rsample": lambda x: Normal(x, 1.0).rsample(),
    "Categorical": lambda x: Categorical(torch.ones(1000)).sample((5,)),
    "OneHotCategorical": lambda x: OneHotCategorical(torch.ones(1000)).sample(),
    "Gamma": lambda x: Gamma(torch.ones(3), torch.ones(3)).sample(),
}
FOR_TENSORS = {
    "normal": lambda x: torch.normal(x, torch.ones(3)),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x: torch.multinomial(torch.softmax(torch.zeros(30) + x.sum(), 0), 3),
    "Normal.sample": lambda x: Normal(x, 1.0).sample(),
    "Normal.sample of a shape": lambda x: Normal(x, torch.ones(3)).sample((2,)),
}


def run(function, randomness):
    torch.manual_seed(0)
    return vmap(function, randomness=randomness)(torch.zeros(5, 3))


@pytest.mark.parametrize("name", [*FUNCTIONS, *FOR_TENSORS])
def test_different(name):
    made = run({**FUNCTIONS, **FOR_TENSORS}[name], "different")
    assert len(made) == 5
    assert any(not torch.equal(made[0], sample) for sample in made[1:])


@pytest.mark.parametrize("name", FUNCTIONS)
def test_same(name):
    made = run(FUNCTIONS[name], "same")
    assert all(torch.equal(made[0], sample) for sample in made)


@pytest.mark.parametrize("name", FOR_TENSORS)
def test_same_of_samples_that_differ_is_an_error(name):
    with pytest.raises(RuntimeError, match="same randomness with a batched tensor input"):
        run(FOR_TENSORS[name], "same")


@pytest.mark.parametrize("name", [*FUNCTIONS, *FOR_TENSORS])
def test_error(name):
    with pytest.raises(RuntimeError, match="random operation"):
        run({**FUNCTIONS, **FOR_TENSORS}[name], "error")


def test_the_batch_is_drawn_as_one():
    torch.manual_seed(3)
    expected = torch.randn(5, 3)
    torch.manual_seed(3)
    assert torch.equal(vmap(lambda x: torch.randn(3), randomness="different")(torch.zeros(5, 3)), expected)


def test_filling_a_tensor_outside_is_an_error():
    outer = torch.zeros(3)
    with pytest.raises(RuntimeError, match="different inplace randomness on an unbatched tensor"):
        vmap(lambda x: outer.normal_() + x, randomness="different")(torch.zeros(5, 3))


def test_nested():
    made = vmap(lambda x: vmap(lambda y: torch.rand(2), randomness="same")(x), randomness="different")(
        torch.zeros(4, 3)
    )
    assert made.shape == (4, 3, 2)
    assert torch.equal(made[0, 0], made[0, 2]) and not torch.equal(made[0, 0], made[1, 0])


def test_functionalize_writes_once_to_inputs():
    x = torch.zeros(2)
    seen = []

    def function(x):
        x.add_(1)
        seen.append(x is outer)
        return x.view(2, 1).mul_(3)

    outer = x
    made = torch.func.functionalize(function)(x)
    assert made.tolist() == [[3], [3]] and x.tolist() == [3, 3] and seen == [False]
    with pytest.raises(RuntimeError, match="remove"):
        torch.func.functionalize(function, remove="nothing")


def test_batch_norms_without_statistics_run_inside_vmap():
    net = torch.func.replace_all_batch_norm_modules_(
        torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3))
    )
    assert net[1].running_mean is None and not net[1].track_running_stats
    assert vmap(net)(torch.randn(4, 5, 3)).shape == (4, 5, 3)


def test_debug_unwrap():
    seen = []
    vmap(lambda x: seen.append(torch.func.debug_unwrap(x).shape) or x)(torch.ones(3, 2))
    assert seen == [(3, 2)]
