"""Densities, distribution functions, moments and entropies against SciPy."""

import functools

import numpy as np
import pytest
import scipy  # its parts, which take a second, are imported when a test names them

import flambeau as torch
from flambeau import distributions as D


def t(values):
    return torch.tensor(values, dtype=torch.float64)


A, B = np.array([0.7, 2.5, 4.5]), np.array([1.3, 3.2, 6.1])
LOC, SCALE = np.array([-1.0, 0.3, 2.0]), np.array([0.5, 1.7, 3.0])
P = np.array([0.15, 0.5, 0.8])
INSIDE, POSITIVE, REAL = np.array([0.1, 0.45, 0.93]), np.array([0.2, 1.4, 7.0]), np.array([-2.0, 0.4, 5.0])
COUNTS = np.array([0.0, 2.0, 5.0])

CONTINUOUS = {
    "Beta": lambda: (D.Beta(t(A), t(B)), scipy.stats.beta(A, B), INSIDE),
    "Cauchy": lambda: (D.Cauchy(t(LOC), t(SCALE)), scipy.stats.cauchy(LOC, SCALE), REAL),
    "Chi2": lambda: (D.Chi2(t(A)), scipy.stats.chi2(A), POSITIVE),
    "Exponential": lambda: (D.Exponential(t(A)), scipy.stats.expon(scale=1 / A), POSITIVE),
    "FisherSnedecor": lambda: (D.FisherSnedecor(t(A), t(B)), scipy.stats.f(A, B), POSITIVE),
    "Gamma": lambda: (D.Gamma(t(A), t(B)), scipy.stats.gamma(A, scale=1 / B), POSITIVE),
    "GeneralizedPareto": lambda: (
        D.GeneralizedPareto(t(LOC), t(SCALE), t([-0.2, 0.0, 0.4])),
        scipy.stats.genpareto([-0.2, 0.0, 0.4], LOC, SCALE),
        LOC + 0.6,
    ),
    "Gumbel": lambda: (D.Gumbel(t(LOC), t(SCALE)), scipy.stats.gumbel_r(LOC, SCALE), REAL),
    "HalfCauchy": lambda: (D.HalfCauchy(t(SCALE)), scipy.stats.halfcauchy(scale=SCALE), POSITIVE),
    "HalfNormal": lambda: (D.HalfNormal(t(SCALE)), scipy.stats.halfnorm(scale=SCALE), POSITIVE),
    "InverseGamma": lambda: (D.InverseGamma(t(B + 2), t(A)), scipy.stats.invgamma(B + 2, scale=A), POSITIVE),
    "Laplace": lambda: (D.Laplace(t(LOC), t(SCALE)), scipy.stats.laplace(LOC, SCALE), REAL),
    "LogNormal": lambda: (D.LogNormal(t(LOC), t(SCALE)), scipy.stats.lognorm(SCALE, scale=np.exp(LOC)), POSITIVE),
    "Normal": lambda: (D.Normal(t(LOC), t(SCALE)), scipy.stats.norm(LOC, SCALE), REAL),
    "Pareto": lambda: (D.Pareto(t(SCALE), t(B + 2)), scipy.stats.pareto(B + 2, scale=SCALE), SCALE + 0.3),
    "StudentT": lambda: (D.StudentT(t(B + 2), t(LOC), t(SCALE)), scipy.stats.t(B + 2, LOC, SCALE), REAL),
    "Uniform": lambda: (D.Uniform(t(LOC), t(LOC + 2)), scipy.stats.uniform(LOC, 2), LOC + 0.7),
    "VonMises": lambda: (D.VonMises(t(LOC), t(SCALE)), scipy.stats.vonmises(SCALE, LOC), np.array([-2.0, 0.4, 3.0])),
    "Weibull": lambda: (D.Weibull(t(SCALE), t(A)), scipy.stats.weibull_min(A, scale=SCALE), POSITIVE),
}
DISCRETE = {
    "Bernoulli": lambda: (D.Bernoulli(t(P)), scipy.stats.bernoulli(P), np.array([0.0, 1.0, 1.0])),
    "Binomial": lambda: (D.Binomial(t([7.0] * 3), logits=t(np.log(P / (1 - P)))), scipy.stats.binom(7, P), COUNTS),
    "Geometric": lambda: (D.Geometric(t(P)), scipy.stats.geom(P, loc=-1), COUNTS),
    "NegativeBinomial": lambda: (D.NegativeBinomial(t(A), t(P)), scipy.stats.nbinom(A, 1 - P), COUNTS),
    "Poisson": lambda: (D.Poisson(t(A)), scipy.stats.poisson(A), COUNTS),
}


@functools.cache
def case(name):
    """A distribution, SciPy's, and values."""
    return {**CONTINUOUS, **DISCRETE}[name]()


def same(ours, expected):
    np.testing.assert_allclose(ours.numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_log_prob(name):
    ours, theirs, value = case(name)
    expected = theirs.logpdf(value) if name in CONTINUOUS else theirs.logpmf(value)
    same(ours.log_prob(t(value)), expected)


@pytest.mark.parametrize("name", [name for name in (*CONTINUOUS, *DISCRETE) if name != "VonMises"])
def test_moments(name):
    ours, theirs, _ = case(name)
    mean, variance = theirs.mean(), theirs.var()
    known = np.isfinite(mean)
    np.testing.assert_allclose(ours.mean.numpy()[known], mean[known], rtol=1e-8)
    known = np.isfinite(variance)
    np.testing.assert_allclose(ours.variance.numpy()[known], variance[known], rtol=1e-8)
    np.testing.assert_allclose(ours.stddev.numpy()[known], np.sqrt(variance[known]), rtol=1e-8)


@pytest.mark.parametrize("name", [*CONTINUOUS, *DISCRETE])
def test_entropy(name):
    ours, theirs, _ = case(name)
    try:
        entropy = ours.entropy()
    except NotImplementedError:
        assert name in ("FisherSnedecor", "NegativeBinomial", "Poisson", "VonMises")
        return
    np.testing.assert_allclose(entropy.numpy(), theirs.entropy(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(ours.perplexity().numpy(), np.exp(entropy.numpy()), rtol=1e-12)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_cdf(name):
    ours, theirs, value = case(name)
    try:
        cdf = ours.cdf(t(value))
    except NotImplementedError:
        assert name in ("Beta", "FisherSnedecor", "StudentT", "VonMises")
        return
    same(cdf, theirs.cdf(value))
    try:
        quantiles = ours.icdf(t([0.1, 0.5, 0.9]))
    except NotImplementedError:
        assert name in ("Chi2", "Gamma", "InverseGamma")
        return
    same(quantiles, theirs.ppf([0.1, 0.5, 0.9]))


def test_von_mises_variance():
    r = np.abs(scipy.stats.vonmises.expect(lambda x: np.cos(x), args=(1.7,), lb=-np.pi, ub=np.pi))
    assert D.VonMises(t(0.0), t(1.7)).variance.item() == pytest.approx(1 - r, rel=1e-7)


def test_continuous_bernoulli():
    """The density integrates to 1, on both sides of the region where it is a series."""
    x = np.linspace(0, 1, 2001)
    for p in (0.1, 0.4989, 0.4991, 0.5, 0.7):
        d = D.ContinuousBernoulli(t(p))
        density = d.log_prob(t(x)).exp().numpy()
        assert np.trapezoid(density, x) == pytest.approx(1, abs=1e-6)
        assert d.mean.item() == pytest.approx(np.trapezoid(x * density, x), abs=1e-6)
        assert d.variance.item() == pytest.approx(np.trapezoid((x - d.mean.item()) ** 2 * density, x), abs=1e-6)
        assert d.entropy().item() == pytest.approx(-np.trapezoid(density * np.log(density), x), abs=1e-6)
        assert d.cdf(t(0.3)).item() == pytest.approx(
            np.trapezoid(density[:601], x[:601]), abs=1e-3 if p == 0.4991 else 1e-5
        )
        assert d.icdf(d.cdf(t(0.3))).item() == pytest.approx(0.3)


def test_kumaraswamy():
    x = np.linspace(0, 1, 4001)[1:-1]
    d = D.Kumaraswamy(t(2.0), t(3.0))
    density = d.log_prob(t(x)).exp().numpy()
    np.testing.assert_allclose(density, 6 * x * (1 - x**2) ** 2, rtol=1e-9)
    assert d.mean.item() == pytest.approx(np.trapezoid(x * density, x), abs=1e-6)
    assert d.entropy().item() == pytest.approx(-np.trapezoid(density * np.log(density), x), abs=1e-5)
    assert d.mode.item() == pytest.approx(x[density.argmax()], abs=1e-3)


def test_multivariate():
    mean, covariance = np.array([0.5, -1.0]), np.array([[2.0, 0.6], [0.6, 1.0]])
    theirs, value = scipy.stats.multivariate_normal(mean, covariance), np.array([[1.0, 2.0], [0.0, 0.0], [3.0, -1.0]])
    root = np.linalg.cholesky(covariance)
    for given in (
        {"covariance_matrix": covariance},
        {"precision_matrix": np.linalg.inv(covariance)},
        {"scale_tril": root},
    ):
        ours = D.MultivariateNormal(t(mean), **{name: t(m) for name, m in given.items()})
        same(ours.log_prob(t(value)), theirs.logpdf(value))
        same(ours.entropy(), theirs.entropy())
        same(ours.covariance_matrix, covariance)
        same(ours.precision_matrix, np.linalg.inv(covariance))
        same(ours.scale_tril, root)
        same(ours.variance, [2.0, 1.0])
    factor, diagonal = np.array([[1.0], [0.5]]), np.array([0.7, 0.2])
    low = D.LowRankMultivariateNormal(t(mean), t(factor), t(diagonal))
    whole = factor @ factor.T + np.diag(diagonal)
    same(low.log_prob(t(value)), scipy.stats.multivariate_normal(mean, whole).logpdf(value))
    same(low.covariance_matrix, whole)
    same(low.precision_matrix, np.linalg.inv(whole))
    same(low.scale_tril, np.linalg.cholesky(whole))
    same(low.entropy(), scipy.stats.multivariate_normal(mean, whole).entropy())


def test_vectors_with_more_batch_dimensions_than_factors():
    roots = np.tril(np.random.default_rng(0).normal(size=(2, 3, 3))) + 3 * np.eye(3)
    value = np.random.default_rng(1).normal(size=(4, 5, 2, 3))
    ours = D.MultivariateNormal(torch.zeros(3, dtype=torch.float64), scale_tril=t(roots)).log_prob(t(value))
    for i in range(2):
        same(ours[..., i], scipy.stats.multivariate_normal(np.zeros(3), roots[i] @ roots[i].T).logpdf(value[..., i, :]))


def test_vectors_of_probabilities():
    a, x = np.array([0.7, 2.0, 3.5]), np.array([0.2, 0.3, 0.5])
    dirichlet = D.Dirichlet(t(a))
    same(dirichlet.log_prob(t(x)), scipy.stats.dirichlet(a).logpdf(x))
    same(dirichlet.entropy(), scipy.stats.dirichlet(a).entropy())
    same(dirichlet.mean, scipy.stats.dirichlet(a).mean())
    same(dirichlet.variance, scipy.stats.dirichlet(a).var())
    counts = np.array([1.0, 3.0, 2.0])
    multinomial = D.Multinomial(6, t(x))
    same(multinomial.log_prob(t(counts)), scipy.stats.multinomial(6, x).logpmf(counts))
    same(multinomial.entropy(), scipy.stats.multinomial(6, x).entropy())
    same(D.Categorical(t(x)).entropy(), scipy.stats.entropy(x))
    same(D.Categorical(logits=t(np.log(x) + 3)).log_prob(torch.tensor([2, 0])), np.log([0.5, 0.2]))
    same(D.OneHotCategorical(t(x)).log_prob(t([0.0, 0.0, 1.0])), np.log(0.5))


def test_wishart():
    V, X = np.array([[2.0, 0.5], [0.5, 1.0]]), np.array([[3.0, 1.0], [1.0, 2.0]])
    ours, theirs = D.Wishart(t(4.5), t(V)), scipy.stats.wishart(4.5, V)
    same(ours.log_prob(t(X)), theirs.logpdf(X))
    same(ours.entropy(), theirs.entropy())
    same(ours.mean, theirs.mean())
    same(ours.variance, theirs.var())


def test_lkj_is_uniform_at_one():
    """Every 2 x 2 correlation is as likely: the density of the factor is that of its angle."""
    rho = t([-0.8, 0.1, 0.6])
    factor = torch.zeros(3, 2, 2, dtype=torch.float64)
    factor[:, 0, 0], factor[:, 1, 0], factor[:, 1, 1] = 1, rho, (1 - rho**2).sqrt()
    same(D.LKJCholesky(2, t(1.0)).log_prob(factor), np.log([0.5] * 3))


def test_mixture():
    weights, loc = np.array([0.3, 0.7]), np.array([-1.0, 2.0])
    d = D.MixtureSameFamily(D.Categorical(t(weights)), D.Normal(t(loc), 1.0))
    x = np.linspace(-3, 4, 5)
    parts = scipy.stats.norm(loc, 1.0)
    same(d.log_prob(t(x)), np.log(parts.pdf(x[:, None]) @ weights))
    same(d.cdf(t(x)), parts.cdf(x[:, None]) @ weights)
    assert d.mean.item() == pytest.approx(1.1)
    assert d.variance.item() == pytest.approx(1 + 0.21 * 9)


def test_relaxed():
    temperature, logits = t(0.7), t([0.4, -1.0])
    d = D.RelaxedBernoulli(temperature, logits=logits)
    x = np.linspace(0, 1, 200001)[1:-1]
    assert np.trapezoid(d.log_prob(t(x)[:, None]).exp().numpy(), x, axis=0) == pytest.approx([1, 1], abs=1e-3)
    one_hot = D.RelaxedOneHotCategorical(temperature, logits=t([0.4, 0.0]))
    pairs = torch.stack([t(x), 1 - t(x)], -1)
    same(one_hot.log_prob(pairs)[5000:195000:9], d.log_prob(t(x)[:, None])[5000:195000:9, 0].numpy())


def test_entropy_from_the_log_normaliser_sums_each_parameter():
    df, scale = torch.tensor([5.0, 6.0]), torch.eye(3) * torch.tensor([1.0, 2.0]).reshape(2, 1, 1)
    for d in (D.Wishart(df, scale), D.Wishart(df[0], scale[0]), D.Wishart(df.reshape(2, 1), scale)):
        expected = D.ExponentialFamily.entropy(d)
        assert expected.shape == d.batch_shape
        torch.testing.assert_close(d.entropy(), expected, rtol=1e-4, atol=1e-4)


def test_binomial_takes_no_integers():
    with pytest.raises(ValueError, match="floating-point dtypes for count"):
        torch.binomial(torch.tensor([10]), torch.tensor([0.5]))
    with pytest.raises(ValueError, match="floating-point dtypes for prob"):
        torch.binomial(torch.tensor([10.0]), torch.tensor([1]))
