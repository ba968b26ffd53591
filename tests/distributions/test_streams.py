"""Samples for a seed are those that PyTorch draws on the CPU."""

import tracemalloc

import numpy as np
import pytest

import flambeau as torch
from flambeau import distributions as D

t = torch.tensor

# distribution, two samples, the mean of thirty
STREAMS = [
    ("D.Bernoulli(t([0.2, 0.5, 0.9]))", [1.0, 1.0, 0.0, 1.0, 0.0, 1.0], 0.555556),
    ("D.Bernoulli(logits=t([-1.0, 0.0, 2.0]))", [1.0, 1.0, 0.0, 1.0, 0.0, 1.0], 0.566667),
    ("D.Beta(t([0.5, 2.0]), 3.0)", [0.577066, 0.375391, 0.353291, 0.397715], 0.262989),
    ("D.Binomial(t([5.0, 40.0]), t([0.3, 0.6]))", [1.0, 22.0, 1.0, 27.0], 12.9167),
    ("D.Categorical(t([[0.2, 0.8], [0.6, 0.4]]))", [0.0, 1.0, 1.0, 1.0], 0.55),
    ("D.Categorical(logits=t([0.0, 1.0, 2.0]))", [1.0, 2.0], 1.63333),
    ("D.Cauchy(t([0.0, 1.0]), 2.0)", [-2.89699, 6.30758, 1.19596, 2.13811], 0.0725478),
    ("D.Chi2(t([1.0, 5.0]))", [3.71166, 2.03271, 2.07683, 5.9198], 2.58689),
    ("D.ContinuousBernoulli(t([0.2, 0.5, 0.9]))", [0.0855065, 0.486553, 0.994162, 0.0973959, 0.583943, 0.855298], 0.526967),
    ("D.Dirichlet(t([0.5, 1.0, 3.0]))", [0.351625, 0.0270079, 0.621367, 0.0116429, 0.5547, 0.433657], 0.333333),
    ("D.Exponential(t([0.5, 2.0]))", [0.427213, 1.08268, 2.22673, 0.546334], 1.1937),
    ("D.FisherSnedecor(t([3.0, 8.0]), 6.0)", [1.24343, 4.74869, 0.604197, 1.87174], 1.48649),
    ("D.Gamma(t([0.3, 4.0]), 2.0)", [0.623382, 1.04288, 0.351067, 2.33678], 0.965216),
    ("D.GeneralizedPareto(0.0, 1.0, t([-0.3, 0.0, 0.5]))", [0.157547, 0.666609, 14.7024, 0.179397, 0.876934, 1.61314], 1.11672),
    ("D.Geometric(t([0.1, 0.4]))", [18.0, 1.0, 0.0, 3.0], 4.06667),
    ("D.Gumbel(t([0.0, 1.0]), 2.0)", [-1.28742, 1.65587, 8.47517, -0.154805], 1.66087),
    ("D.HalfCauchy(t([1.0, 2.0]))", [1.4485, 5.30758, 0.597979, 1.13811], 4.08916),
    ("D.HalfNormal(t([1.0, 2.0]))", [0.737629, 3.89186, 0.699542, 2.60459], 1.13053),
    ("D.InverseGamma(t([3.0, 4.0]), 2.0)", [0.492407, 0.227335, 1.04534, 0.630073], 0.765946),
    ("D.Kumaraswamy(t([0.5, 2.0]), 3.0)", [0.220716, 0.462038, 2.30642e-05, 0.669161], 0.270142),
    ("D.Laplace(t([0.0, 1.0]), 2.0)", [-2.42076, 0.945476, 7.10332, -1.17651], 0.686868),
    ("D.LKJCholesky(3, 1.5)", [1.0, 0.0, 0.0, -0.551742, 0.834015, 0.0, -0.0804499, -0.89617, 0.436356, 1.0, 0.0, 0.0, 0.323961, 0.94607, 0.0, 0.0535341, -0.102684, 0.993272], 0.306213),
    ("D.LogNormal(t([0.0, 1.0]), 0.5)", [1.44602, 7.19197, 0.70485, 1.41744], 2.05529),
    ("D.LogisticNormal(t([0.0, 1.0]), 0.5)", [0.41962, 0.509532, 0.0708474, 0.260587, 0.433546, 0.305866], 0.333333),
    ("D.LowRankMultivariateNormal(t([0.0, 1.0]), t([[1.0], [2.0]]), t([0.5, 1.0]))", [0.242979, 1.17296, 1.583, 4.62224], 0.408538),
    ("D.MixtureSameFamily(D.Categorical(t([0.4, 0.6])), D.Normal(t([0.0, 5.0]), 1.0))", [-0.699542, 4.73038], 3.39736),
    ("D.Multinomial(9, t([0.2, 0.3, 0.5]))", [3.0, 0.0, 6.0, 4.0, 2.0, 3.0], 3.0),
    ("D.MultivariateNormal(t([0.0, 1.0]), t([[2.0, 0.5], [0.5, 1.0]]))", [1.04317, 3.08104, -0.989301, -0.465513], 0.436252),
    ("D.NegativeBinomial(t([3.0, 7.0]), t([0.4, 0.6]))", [6.0, 18.0, 5.0, 6.0], 6.88333),
    ("D.Normal(t([0.0, 1.0]), 2.0)", [1.47526, 4.89186, -1.39908, -1.60459], 0.430188),
    ("D.OneHotCategorical(t([0.2, 0.3, 0.5]))", [1.0, 0.0, 0.0, 0.0, 0.0, 1.0], 0.333333),
    ("D.Pareto(t([1.0, 2.0]), 3.0)", [1.0738, 4.11623, 1.44936, 2.87879], 2.18761),
    ("D.Poisson(t([2.0, 30.0]))", [2.0, 33.0, 1.0, 23.0], 16.6667),
    ("D.RelaxedBernoulli(t(0.5), t([0.2, 0.9]))", [0.00191358, 0.986438, 0.996626, 0.768605], 0.580065),
    ("D.RelaxedOneHotCategorical(t(0.5), t([0.2, 0.3, 0.5]))", [9.20886e-06, 0.00014466, 0.999846, 0.00575217, 0.141923, 0.852324], 0.333333),
    ("D.StudentT(t([2.0, 9.0]), 1.0, 2.0)", [3.57094, 5.32715, -0.330229, -2.49246], 0.479659),
    ("D.Uniform(t([0.0, 1.0]), 3.0)", [0.447125, 1.97311, 2.95698, 1.3368], 1.79347),
    ("D.VonMises(t([0.0, 1.0]), t([0.5, 4.0]))", [-1.86241, 1.4224, 0.19782, 1.01573], 0.288945),
    ("D.Weibull(t([1.0, 2.0]), 1.5)", [0.357335, 3.34748, 1.07421, 2.12172], 1.32461),
    ("D.Wishart(t(5.0), t([[2.0, 0.5], [0.5, 1.0]]))", [20.8507, 9.02646, 9.02646, 6.17169, 9.67364, 0.995564, 0.995564, 3.2883], 4.64503),
]  # fmt: skip


@pytest.mark.parametrize("made, few, mean", STREAMS, ids=[case[0] for case in STREAMS])
def test_stream(made, few, mean):
    distribution = eval(made)
    torch.manual_seed(11)
    sample = distribution.sample((2,))
    assert sample.shape == (2, *distribution.batch_shape, *distribution.event_shape)
    np.testing.assert_allclose(sample.double().flatten().tolist(), few, rtol=2e-5, atol=1e-6)
    torch.manual_seed(11)
    assert distribution.sample((30,)).double().mean().item() == pytest.approx(mean, rel=2e-5, abs=1e-5)


REPARAMETERISED = [case[0] for case in STREAMS if eval(case[0]).has_rsample]


@pytest.mark.parametrize("made", REPARAMETERISED)
def test_rsample_draws_the_same(made):
    distribution = eval(made)
    torch.manual_seed(4)
    sample = distribution.sample((3,))
    torch.manual_seed(4)
    np.testing.assert_allclose(distribution.rsample((3,)).numpy(), sample.numpy(), rtol=1e-5)


def test_straight_through_has_the_gradient_of_the_probabilities():
    probs = t([0.2, 0.3, 0.5], requires_grad=True)
    sample = D.OneHotCategoricalStraightThrough(probs).rsample()
    assert sorted(sample.tolist()) == [0.0, 0.0, 1.0]
    sample[0].backward()
    np.testing.assert_allclose(probs.grad.numpy(), [0.8, -0.2, -0.2], atol=1e-6)


def test_seeds_of_other_dtypes():
    torch.manual_seed(0)
    value = D.Gamma(t([2.0], dtype=torch.float64), 1.0).sample()
    assert value.dtype is torch.float64
    assert value.item() == pytest.approx(GAMMA64, rel=1e-12)


GAMMA64 = 4.552622805135891


def test_tiny_concentrations_give_even_shares_where_all_samples_underflow():
    torch.manual_seed(0)
    sample = D.Beta(t(1e-3), t(1e-3)).sample((8,))
    tiny, last = torch.finfo(torch.float32).tiny, 1 - 2.0**-24
    assert sample.tolist() == [0.5, last, last, tiny, last, pytest.approx(1.162492e-22), tiny, 0.5]
    assert not D.Dirichlet(torch.full((3,), 1e-5)).sample((1000,)).isnan().any()


def test_log_odds_beyond_what_sigmoid_tells_apart():
    d = D.ContinuousBernoulli(logits=t([-1e38, 1e38, 20.0]))
    np.testing.assert_allclose(d.mean, [0.06272575, 0.93727422, 0.93727422], rtol=1e-6)
    np.testing.assert_allclose(d.variance, [0.003934416] * 3, rtol=1e-5)
    assert d.logits.tolist() == pytest.approx([-1e38, 1e38, 20.0])
    assert d.log_prob(t(0.0))[0].item() == pytest.approx(2.7689815)


def test_many_binomials_need_little_memory_beside_the_result():
    d = D.Binomial(t(40.0), t(0.3))
    d.sample((1000,))
    tracemalloc.start()
    try:
        torch.manual_seed(0)
        sample = d.sample((200_000,))
        assert tracemalloc.get_traced_memory()[1] < 9e6  # 0.8 MB are the result
    finally:
        tracemalloc.stop()
    torch.manual_seed(0)
    first = d.sample((100_001,))
    assert torch.equal(sample[:100_001], first) and torch.equal(sample[100_001:], d.sample((99_999,)))
