"""Divergences against numerical integration, sums over the support, and means over samples."""

import warnings

import numpy as np
import pytest

import flambeau as torch
from flambeau import distributions as D
from flambeau.distributions import kl


def t(*values):
    return torch.tensor(values, dtype=torch.float64)


ONE = {
    "Beta": [D.Beta(t(2.0), t(3.5)), D.Beta(t(1.2), t(1.7))],
    "Cauchy": [D.Cauchy(t(0.0), t(1.0)), D.Cauchy(t(1.0), t(2.5))],
    "ContinuousBernoulli": [D.ContinuousBernoulli(t(0.3)), D.ContinuousBernoulli(t(0.8))],
    "Exponential": [D.Exponential(t(1.5)), D.Exponential(t(0.4))],
    "Gamma": [D.Gamma(t(2.0), t(1.5)), D.Gamma(t(3.3), t(0.7))],
    "Gumbel": [D.Gumbel(t(0.5), t(1.0)), D.Gumbel(t(-0.5), t(1.8))],
    "HalfNormal": [D.HalfNormal(t(1.0)), D.HalfNormal(t(2.0))],
    "Laplace": [D.Laplace(t(0.5), t(1.0)), D.Laplace(t(-0.5), t(1.8))],
    "Normal": [D.Normal(t(0.5), t(1.0)), D.Normal(t(-0.5), t(1.8))],
    "Pareto": [D.Pareto(t(1.0), t(4.0)), D.Pareto(t(0.6), t(3.0))],
    "Uniform": [D.Uniform(t(0.7), t(0.9)), D.Uniform(t(-0.5), t(1.5))],
}
PAIRS = [(p, q) for p, q in kl._KL_REGISTRY if p.__name__ in ONE and q.__name__ in ONE]


GRIDS = {
    "Beta": np.linspace(1e-9, 1 - 1e-9, 200001),
    "Cauchy": np.tan(np.pi * (np.linspace(1e-7, 1 - 1e-7, 200001) - 0.5)),
    "ContinuousBernoulli": np.linspace(1e-9, 1 - 1e-9, 200001),
    "Pareto": np.geomspace(1 + 1e-9, 2e4, 200001),
    "Uniform": np.linspace(0.7 + 1e-12, 0.9 - 1e-12, 200001),
    **{name: np.linspace(1e-9, 60, 200001) for name in ("Exponential", "Gamma", "HalfNormal")},
    **{name: np.linspace(-60, 60, 200001) for name in ("Gumbel", "Laplace", "Normal")},
}


def integral(p, q):
    x = GRIDS[type(p).__name__]
    log_p, log_q = p.log_prob(torch.tensor(x)).numpy(), q.log_prob(torch.tensor(x)).numpy()
    density = np.exp(log_p)
    return np.trapezoid(np.where(density > 0, density * (log_p - np.maximum(log_q, -1e30)), 0), x)


@pytest.mark.parametrize("p, q", PAIRS, ids=[f"{p.__name__}-{q.__name__}" for p, q in PAIRS])
def test_pairs_of_one_variable(p, q):
    mine, other = ONE[p.__name__][0], ONE[q.__name__][1]
    ours = D.kl_divergence(mine, other).item()
    torch.manual_seed(0)
    if other.support.check(mine.sample((5000,))).all():
        assert ours == pytest.approx(integral(mine, other), rel=2e-3, abs=1e-4)
    else:
        assert ours == np.inf


DISCRETE = [
    (D.Bernoulli(t(0.3, 0.8)), D.Bernoulli(logits=t(0.5, -1.0))),
    (D.Binomial(6, t(0.3, 0.8)), D.Binomial(6, logits=t(0.5, -1.0))),
    (D.Categorical(t(0.3, 0.5, 0.2)), D.Categorical(t(0.1, 0.1, 0.8))),
    (D.OneHotCategorical(t(0.3, 0.5, 0.2)), D.OneHotCategorical(t(0.1, 0.1, 0.8))),
    (D.Bernoulli(t(0.3, 0.8)), D.Poisson(t(1.5, 0.4))),
]


@pytest.mark.parametrize("p, q", DISCRETE, ids=[f"{type(p).__name__}-{type(q).__name__}" for p, q in DISCRETE])
def test_discrete_pairs(p, q):
    values = p.enumerate_support()
    log_p, log_q = p.log_prob(values), q.log_prob(values)
    expected = (log_p.exp() * (log_p - log_q)).sum(0)
    np.testing.assert_allclose(D.kl_divergence(p, q).numpy(), expected.numpy(), rtol=1e-9)


@pytest.mark.parametrize("p, q", [(D.Geometric(t(0.3)), D.Geometric(t(0.6))), (D.Poisson(t(4.0)), D.Poisson(t(6.0)))])
def test_counts(p, q):
    values = torch.arange(200, dtype=torch.float64)
    log_p, log_q = p.log_prob(values), q.log_prob(values)
    assert D.kl_divergence(p, q).item() == pytest.approx((log_p.exp() * (log_p - log_q)).sum().item(), rel=1e-9)


def vectors():
    r = np.random.default_rng(0)
    covariance = [a @ a.T + np.eye(3) for a in r.normal(size=(2, 3, 3))]
    full = [D.MultivariateNormal(torch.tensor(r.normal(size=3)), torch.tensor(c)) for c in covariance]
    low = [
        D.LowRankMultivariateNormal(
            torch.tensor(r.normal(size=3)), torch.tensor(r.normal(size=(3, 2))), torch.tensor(r.gamma(3, size=3))
        )
        for _ in range(2)
    ]
    return [(p, q) for p in (full[0], low[0]) for q in (full[1], low[1])]


@pytest.mark.parametrize("p, q", vectors())
def test_multivariate_normal(p, q):
    S, T = p.covariance_matrix.numpy(), q.covariance_matrix.numpy()
    apart = (q.loc - p.loc).numpy()
    inverse = np.linalg.inv(T)
    expected = 0.5 * (
        np.trace(inverse @ S) + apart @ inverse @ apart - 3 + np.linalg.slogdet(T)[1] - np.linalg.slogdet(S)[1]
    )
    assert D.kl_divergence(p, q).item() == pytest.approx(expected, rel=1e-9)
    wide = D.kl_divergence(p.expand((2, 1)), q.expand((4,)))
    np.testing.assert_allclose(wide.numpy(), np.full((2, 4), expected), rtol=1e-9)


@pytest.mark.parametrize(
    "p, q",
    [
        (D.Dirichlet(t(0.8, 2.0, 3.0)), D.Dirichlet(t(2.0, 1.0, 1.5))),
        (D.Independent(D.Normal(t(0.0, 1.0), 1.0), 1), D.Independent(D.Normal(t(1.0, 1.0), 2.0), 1)),
        (D.LogNormal(t(0.0), t(1.0)), D.LogNormal(t(1.0), t(1.5))),
    ],
)  # fmt: skip
def test_means_over_samples(p, q):
    torch.manual_seed(0)
    ours = D.kl_divergence(p, q)
    x = p.sample((20000,))
    terms = p.log_prob(x) - q.log_prob(x)
    error = 5 * terms.std(0) / len(x) ** 0.5
    assert ((ours - terms.mean(0)).abs() <= error + 1e-6).all()


def test_exponential_families_by_their_normalizers():
    """The general formula agrees with the special ones."""
    for name in ("Beta", "Exponential", "Gamma", "Normal"):
        p, q = ONE[name]
        general = kl._kl_expfamily_expfamily(p, q).item()
        assert general == pytest.approx(D.kl_divergence(p, q).item(), rel=1e-8)
        if name != "Beta":  # whose carrier measure has no simple mean
            assert D.ExponentialFamily.entropy(p).item() == pytest.approx(p.entropy().item(), rel=1e-8)


def test_infinite_and_zero():
    kl_divergence = D.kl_divergence
    assert kl_divergence(D.Bernoulli(t(0.5)), D.Bernoulli(t(0.0))).item() == np.inf
    assert kl_divergence(D.Bernoulli(t(0.0)), D.Bernoulli(t(0.0))).item() == 0
    assert kl_divergence(D.Categorical(t(0.0, 1.0)), D.Categorical(t(0.5, 0.5))).item() == pytest.approx(np.log(2))
    assert kl_divergence(D.Categorical(t(0.5, 0.5)), D.Categorical(t(0.0, 1.0))).item() == np.inf
    assert kl_divergence(D.Uniform(t(0.0), t(2.0)), D.Uniform(t(0.0), t(1.0))).item() == np.inf
    assert kl_divergence(D.Poisson(t(1.0)), D.Bernoulli(t(0.5))).item() == np.inf
    assert kl_divergence(D.Binomial(3, t(0.5)), D.Binomial(2, t(0.5))).item() == np.inf


def test_registration():
    class Mine(D.Normal):
        pass

    class Yours(Mine):
        pass

    try:

        @D.register_kl(Mine, D.Normal)
        def _(p, q):
            return "mine"

        assert D.kl_divergence(Yours(t(0.0), t(1.0)), Mine(t(0.0), t(1.0))) == "mine"

        @D.register_kl(D.Normal, Mine)
        def _(p, q):
            return "theirs"

        with pytest.warns(RuntimeWarning, match="Ambiguous"):
            D.kl_divergence(Yours(t(0.0), t(1.0)), Mine(t(0.0), t(1.0)))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert D.kl_divergence(D.Normal(t(0.0), t(1.0)), Mine(t(0.0), t(1.0))) == "theirs"
    finally:
        for pair in [pair for pair in kl._KL_REGISTRY if Mine in pair]:
            del kl._KL_REGISTRY[pair]
        kl._KL_MEMOIZE.clear()
    with pytest.raises(TypeError):
        D.register_kl(3, D.Normal)


def test_pairs_without_a_formula():
    with pytest.raises(NotImplementedError, match="No KL"):
        D.kl_divergence(D.Cauchy(0.0, 1.0), D.StudentT(3.0))
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.Normal(0.0, 1.0), D.Bernoulli(0.5))
    with pytest.raises(NotImplementedError):
        D.kl_divergence(D.LogNormal(0.0, 1.0), D.HalfCauchy(1.0))
    with pytest.raises(ValueError):
        D.kl_divergence(
            D.MultivariateNormal(torch.zeros(2), torch.eye(2)), D.MultivariateNormal(torch.zeros(3), torch.eye(3))
        )
