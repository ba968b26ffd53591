"""Gradients of densities by parameters, and of samples by the parameters that they were drawn for."""

import numpy as np
import pytest
from scipy import special

import flambeau as torch
from flambeau import distributions as D


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


A, B, X, P = [0.7, 2.5], [1.3, 3.2], [0.3, 0.8], [0.2, 0.7]
DENSITIES = {
    "Bernoulli": (lambda p: D.Bernoulli(p), [P], [0.0, 1.0]),
    "Beta": (D.Beta, [A, B], X),
    "Binomial": (lambda p: D.Binomial(5, logits=p), [X], [2.0, 4.0]),
    "Categorical": (lambda p: D.Categorical(logits=p), [[A, B]], [1, 0]),
    "Cauchy": (D.Cauchy, [A, B], X),
    "Chi2": (D.Chi2, [A], X),
    "ContinuousBernoulli": (lambda p: D.ContinuousBernoulli(p), [P], X),
    "Dirichlet": (D.Dirichlet, [A], [0.3, 0.7]),
    "Exponential": (D.Exponential, [A], X),
    "FisherSnedecor": (D.FisherSnedecor, [A, B], X),
    "Gamma": (D.Gamma, [A, B], X),
    "GeneralizedPareto": (D.GeneralizedPareto, [[-0.3, -0.2], A, [-0.2, 0.3]], X),
    "Geometric": (lambda p: D.Geometric(p), [P], [2.0, 4.0]),
    "Gumbel": (D.Gumbel, [A, B], X),
    "HalfCauchy": (D.HalfCauchy, [A], X),
    "HalfNormal": (D.HalfNormal, [A], X),
    "InverseGamma": (D.InverseGamma, [A, B], X),
    "Kumaraswamy": (D.Kumaraswamy, [A, B], X),
    "Laplace": (D.Laplace, [A, B], X),
    "LKJCholesky": (lambda c: D.LKJCholesky(2, c), [A], [[1.0, 0.0], [0.6, 0.8]]),
    "LogNormal": (D.LogNormal, [A, B], X),
    "LogisticNormal": (D.LogisticNormal, [A, B], [0.2, 0.5, 0.3]),
    "LowRankMultivariateNormal": (D.LowRankMultivariateNormal, [A, [[1.0], [2.0]], B], X),
    "Multinomial": (lambda p: D.Multinomial(4, logits=p), [A], [1.0, 3.0]),
    "MultivariateNormal": (lambda m, r: D.MultivariateNormal(m, scale_tril=r.tril()), [A, [[1.0, 0.0], [0.5, 2.0]]], X),
    "NegativeBinomial": (lambda n, p: D.NegativeBinomial(n, p), [A, P], [2.0, 4.0]),
    "Normal": (D.Normal, [A, B], X),
    "Pareto": (D.Pareto, [[0.2, 0.3], B], X),
    "Poisson": (D.Poisson, [A], [2.0, 4.0]),
    "RelaxedBernoulli": (lambda s, p: D.RelaxedBernoulli(s, p), [0.5, P], X),
    "RelaxedOneHotCategorical": (lambda s, p: D.RelaxedOneHotCategorical(s, logits=p), [0.5, A], [0.3, 0.7]),
    "StudentT": (D.StudentT, [A, B, B], X),
    "VonMises": (D.VonMises, [A, B], X),
    "Weibull": (D.Weibull, [A, B], X),
    "Wishart": (lambda n, r: D.Wishart(n, scale_tril=r.tril()), [4.5, [[1.0, 0.0], [0.5, 2.0]]], [[3.0, 1.0], [1.0, 2.0]]),
}  # fmt: skip


@pytest.mark.parametrize("name", DENSITIES)
def test_density(name):
    make, parameters, value = DENSITIES[name]
    value = torch.tensor(value) if isinstance(value[0], int) else torch.tensor(value, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda *p: make(*p).log_prob(value), [leaf(p) for p in parameters])


# -- samples -------------------------------------------------------------------------------------------------------


def slope(function, a, step=1e-4):
    """The derivative by Richardson's extrapolation."""
    near = (function(a + step) - function(a - step)) / (2 * step)
    far = (function(a + 2 * step) - function(a - 2 * step)) / (4 * step)
    return (4 * near - far) / 3


@pytest.mark.parametrize("a", [0.02, 0.3, 1.0, 4.0, 30.0, 400.0])
def test_gamma_samples_move_along_quantiles(a):
    quantiles = np.array([0.001, 0.1, 0.4, 0.7, 0.99]) if a > 0.1 else np.array([0.4, 0.7, 0.99])
    x = special.gammaincinv(a, quantiles)
    expected = slope(lambda b: special.gammaincinv(b, quantiles), a, a * 1e-3)
    got = torch._standard_gamma_grad(torch.full((len(x),), a, dtype=torch.float64), torch.tensor(x))
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


@pytest.mark.parametrize("a", [2e3, 1e4, 2e4, 1e7])
def test_gamma_samples_of_large_shapes(a):
    """Around large shapes a sample is a + z sqrt(a) + (z^2 - 1) / 3 and less, with z fixed."""
    z = np.array([-4.0, -1.0, 0.0, 1.0, 4.0])

    def quantile(b):
        return b + z * np.sqrt(b) + (z**2 - 1) / 3 + (z**3 - 7 * z) / (36 * np.sqrt(b))

    got = torch._standard_gamma_grad(torch.full((5,), a, dtype=torch.float64), torch.tensor(quantile(a)))
    expected = 1 + z / (2 * np.sqrt(a)) - (z**3 - 7 * z) / (72 * a**1.5)
    np.testing.assert_allclose(got.numpy(), expected, atol=3 / a**1.5)


@pytest.mark.parametrize(
    "a, x, expected",  # from the incomplete gamma function in sixty digits
    [
        (20000.0, 18939.339828220178, 0.9730100136375107),
        (20000.0, 19434.31457505076, 0.9857308269791806),
        (20000.0, 19787.867965644036, 0.9946861380587697),
        (20000.0, 20035.355339059326, 1.0008917038385825),
        (20000.0, 20282.84271247462, 1.0070463601696158),
        (20000.0, 20707.106781186547, 1.0174814213584071),
        (20000.0, 21060.660171779822, 1.0260683516531155),
        (20000.0, 18727.207793864214, 0.9674909211314066),
        (20000.0, 21272.792206135786, 1.0311740886820142),
        (9900.0, 9601.503768868013, 0.9847871695479259),
        (9900.0, 9999.498743710663, 1.0050253576011663),
        (9900.0, 10695.989949685296, 1.0391828937133236),
        (10100.0, 9798.503731366372, 0.9849399226457748),
        (10100.0, 10200.49875621121, 1.0049753495015323),
        (10100.0, 10903.990049689672, 1.0388026482514305),
    ],
)
def test_gamma_samples_about_the_forms_for_large_shapes(a, x, expected):
    got = torch._standard_gamma_grad(torch.tensor([a], dtype=torch.float64), torch.tensor([x], dtype=torch.float64))
    np.testing.assert_allclose(got.item(), expected, rtol=3e-13)


@pytest.mark.parametrize("a, b", [(0.3, 0.4), (0.3, 5.0), (4.0, 0.5), (1.0, 1.0), (20.0, 30.0), (300.0, 2.0)])
def test_beta_samples_move_along_quantiles(a, b):
    quantiles = np.array([0.05, 0.3, 0.6, 0.95])
    x = special.betaincinv(a, b, quantiles)
    expected = slope(lambda c: special.betaincinv(c, b, quantiles), a, a * 1e-3) / (1 - x)
    kept = (x > 1e-12) & (x < 1 - 1e-12)
    got = torch._dirichlet_grad(
        torch.tensor(x), torch.full((4,), a, dtype=torch.float64), torch.full((4,), a + b, dtype=torch.float64)
    )
    np.testing.assert_allclose(got.numpy()[kept], expected[kept], rtol=1e-5)


@pytest.mark.slow
def test_edges_of_the_support():
    one, zero, nan = torch.ones(1), torch.zeros(1), torch.full((1,), float("nan"))
    assert torch._standard_gamma_grad(one, zero).item() == 0
    assert torch._standard_gamma_grad(nan, one).isnan().all()
    assert torch._dirichlet_grad(zero, one, 2 * one).item() == 0
    assert torch._dirichlet_grad(one, one, 2 * one).item() == 0
    assert torch._dirichlet_grad(nan, one, 2 * one).isnan().all()


def test_mean_of_sample_gradients():
    """The gradient of the mean of many samples is near that of the mean."""
    torch.manual_seed(0)
    a, b = leaf([0.8, 3.0]), leaf([2.0, 0.5])
    for kind in (D.Gamma, D.Beta, D.Normal, D.Laplace, D.Weibull):
        sampled = torch.autograd.grad(kind(a, b + 0.5).rsample((4000,)).mean(0).sum(), (a, b))
        exact = torch.autograd.grad(kind(a, b + 0.5).mean.sum(), (a, b), allow_unused=True)
        for estimate, value in zip(sampled, exact):
            value = torch.zeros(2) if value is None else value
            np.testing.assert_allclose(estimate.numpy(), value.numpy(), rtol=0.05, atol=0.1)


def test_dirichlet_samples():
    torch.manual_seed(0)
    a = leaf([0.8, 3.0, 1.5])
    weights = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    sampled = torch.autograd.grad((D.Dirichlet(a).rsample((8000,)) * weights).sum(-1).mean(), a)[0]
    exact = torch.autograd.grad((D.Dirichlet(a).mean * weights).sum(), a)[0]
    np.testing.assert_allclose(sampled.numpy(), exact.numpy(), atol=0.01)


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: D.Cauchy(a, b), lambda a, b: D.Exponential(a), lambda a, b: D.Gumbel(a, b),
        lambda a, b: D.HalfNormal(a), lambda a, b: D.InverseGamma(a, b), lambda a, b: D.Kumaraswamy(a, b),
        lambda a, b: D.LogNormal(a, b), lambda a, b: D.LogisticNormal(a, b), lambda a, b: D.Pareto(a, b),
        lambda a, b: D.StudentT(a, b, b), lambda a, b: D.Uniform(-a, b), lambda a, b: D.Chi2(a),
        lambda a, b: D.FisherSnedecor(a, b), lambda a, b: D.ContinuousBernoulli(a.sigmoid()),
        lambda a, b: D.RelaxedBernoulli(b[0], a.sigmoid()), lambda a, b: D.RelaxedOneHotCategorical(b[0], logits=a),
        lambda a, b: D.MultivariateNormal(a, b.diag()), lambda a, b: D.GeneralizedPareto(a, b, a / 9),
        lambda a, b: D.LowRankMultivariateNormal(a, b[:, None], b), lambda a, b: D.Wishart(a[0] + 4, b.diag()),
    ],
)  # fmt: skip
def test_every_rsample_reaches_its_parameters(make):
    a, b = leaf([0.9, 2.5]), leaf([1.3, 3.2])
    torch.manual_seed(1)
    sample = make(a, b).rsample((3,))
    assert sample.requires_grad
    (sample * torch.linspace(1, 2, sample.numel(), dtype=torch.float64).reshape(sample.shape)).sum().backward()
    assert a.grad.isfinite().all() and (a.grad != 0).any()
    assert not make(a, b).sample().requires_grad


def test_the_gradient_of_dirichlet_samples_by_its_name():
    from flambeau.distributions.dirichlet import _Dirichlet_backward

    x = torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.6, 0.3]], dtype=torch.float64)
    concentration = torch.tensor([[1.0, 2.0, 3.0], [0.5, 4.0, 1.5]], dtype=torch.float64)
    g = torch.tensor([[1.0, 0.0, 2.0], [0.5, -1.0, 1.0]], dtype=torch.float64)
    expected = [[-0.04536832242, -0.21740132414, 0.14907613037], [0.19380071752, -0.13049457413, 0.26959269880]]
    made = _Dirichlet_backward(x, concentration, g)
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-3)  # PyTorch's is a rational approximation
