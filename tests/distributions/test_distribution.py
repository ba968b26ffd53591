"""What all distributions share: arguments, shapes, expansion, text, constraints and utilities."""

import copy
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau import distributions as D
from flambeau.distributions import constraints, utils

t = torch.tensor
EXAMPLES = [
    D.Bernoulli(t([0.2, 0.7])), D.Bernoulli(logits=t([0.2, 0.7])), D.Beta(t([0.5, 2.0]), 1.0),
    D.Binomial(4, t([0.2, 0.7])), D.Categorical(torch.ones(2, 3)), D.Cauchy(t([0.0, 1.0]), 1.0), D.Chi2(t([1.0, 2.0])),
    D.ContinuousBernoulli(t([0.2, 0.7])), D.Dirichlet(torch.ones(2, 3)), D.Exponential(t([1.0, 2.0])),
    D.FisherSnedecor(t([1.0, 2.0]), 5.0), D.Gamma(t([1.0, 2.0]), 1.0), D.GeneralizedPareto(0.0, 1.0, t([0.1, 0.2])),
    D.Geometric(t([0.2, 0.7])), D.Gumbel(t([0.0, 1.0]), 1.0), D.HalfCauchy(t([1.0, 2.0])), D.HalfNormal(t([1.0, 2.0])),
    D.Independent(D.Normal(torch.zeros(2, 3), 1.0), 1), D.InverseGamma(t([1.0, 2.0]), 1.0),
    D.Kumaraswamy(t([1.0, 2.0]), 3.0), D.Laplace(t([0.0, 1.0]), 1.0), D.LKJCholesky(3, t([1.0, 2.0])),
    D.LogNormal(t([0.0, 1.0]), 1.0), D.LogisticNormal(torch.zeros(2, 3), 1.0),
    D.LowRankMultivariateNormal(torch.zeros(2, 3), torch.ones(3, 1), torch.ones(3)),
    D.MixtureSameFamily(D.Categorical(torch.ones(2, 3)), D.Normal(torch.zeros(2, 3), 1.0)),
    D.Multinomial(4, torch.ones(2, 3)), D.MultivariateNormal(torch.zeros(2, 3), torch.eye(3)),
    D.NegativeBinomial(t([1.0, 2.0]), t(0.4)), D.Normal(t([0.0, 1.0]), 1.0), D.OneHotCategorical(torch.ones(2, 3)),
    D.Pareto(t([1.0, 2.0]), 1.0), D.Poisson(t([1.0, 2.0])), D.RelaxedBernoulli(t(0.5), t([0.2, 0.7])),
    D.RelaxedOneHotCategorical(t(0.5), torch.ones(2, 3)), D.StudentT(t([1.0, 2.0])), D.Uniform(t([0.0, 1.0]), 2.0),
    D.VonMises(t([0.0, 1.0]), t(1.0)), D.Weibull(t([1.0, 2.0]), 1.0), D.Wishart(t([3.0, 4.0]), torch.eye(2)),
]  # fmt: skip


@pytest.mark.parametrize("d", EXAMPLES, ids=lambda d: type(d).__name__)
def test_expand(d):
    wide = d.expand((5, 2))
    assert type(wide) is type(d) and wide.batch_shape == (5, 2) and wide.event_shape == d.event_shape
    value = d.sample((3, 1))
    assert value.shape == (3, 1, *d.batch_shape, *d.event_shape)
    np.testing.assert_allclose(wide.log_prob(value).numpy(), d.log_prob(value).expand(3, 5, 2).numpy(), rtol=1e-5)
    assert wide.sample((4,)).shape == (4, 5, 2, *d.event_shape)
    for name in ("mean", "variance"):
        try:
            expected = getattr(d, name)
        except NotImplementedError:
            continue
        got = getattr(wide, name)
        np.testing.assert_allclose(got.numpy(), np.broadcast_to(expected.numpy(), got.shape), rtol=1e-5)


@pytest.mark.parametrize("d", EXAMPLES, ids=lambda d: type(d).__name__)
def test_support_and_copies(d):
    value = d.sample((3,))
    assert d.support.check(value).all()
    assert d.support.event_dim == len(d.event_shape)
    for again in (copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        np.testing.assert_array_equal(again.log_prob(value).numpy(), d.log_prob(value).numpy())
    repr(d)


@pytest.mark.parametrize("d", [d for d in EXAMPLES if d.has_enumerate_support], ids=lambda d: type(d).__name__)
def test_enumerated_probabilities_have_sum_one(d):
    values = d.enumerate_support()
    assert values.shape[1:] == d.batch_shape + d.event_shape
    np.testing.assert_allclose(d.log_prob(values).exp().sum(0).numpy(), np.ones(2), rtol=1e-6)
    assert d.enumerate_support(expand=False).shape[1] == 1


def test_text():
    assert repr(D.Normal(0.0, 1.0)) == "Normal(loc: 0.0, scale: 1.0)"
    assert repr(D.Normal(torch.zeros(2), 1.0)) == "Normal(loc: torch.Size([2]), scale: torch.Size([2]))"
    assert (
        repr(D.Independent(D.Normal(torch.zeros(1), 1.0), 1))
        == "Independent(Normal(loc: tensor([0.]), scale: tensor([1.])), 1)"
    )
    assert repr(D.Bernoulli(logits=torch.zeros(3))) == "Bernoulli(logits: torch.Size([3]))"
    assert repr(D.Beta(1.0, 2.0)) == "Beta()"


def test_numbers_take_the_dtype_of_tensors():
    assert D.Normal(0, 1).loc.dtype is torch.float32
    assert D.Normal(t(0.0, dtype=torch.float64), 1).scale.dtype is torch.float64
    assert D.Normal(torch.zeros(2, 1), torch.ones(3)).batch_shape == (2, 3)
    with pytest.raises(ValueError, match="Number"):
        D.Normal("a", 1)


@pytest.mark.parametrize(
    "make, phrase",
    [
        (lambda: D.Normal(0.0, -1.0), "scale .* to satisfy the constraint GreaterThan"),
        (lambda: D.Normal(t([0.0, float("nan")]), 1.0), "loc .* to satisfy the constraint Real"),
        (lambda: D.Bernoulli(1.5), "probs .* to satisfy the constraint Interval"),
        (lambda: D.Bernoulli(), "Either `probs` or `logits` must be specified"),
        (lambda: D.Categorical(torch.ones(2), torch.ones(2)), "Either `probs` or `logits` must be specified"),
        (lambda: D.Categorical(t(1.0)), "probs.* must be at least one-dimensional"),
        (lambda: D.Categorical(t([-1.0, 1.5])), "to satisfy the constraint Simplex"),
        (lambda: D.Uniform(1.0, 0.0), "low .* to satisfy the constraint LessThan"),
        (lambda: D.Dirichlet(t(1.0)), "concentration.* must be at least one-dimensional"),
        (lambda: D.Beta(-1.0, 1.0), "concentration.* to satisfy the constraint"),
        (lambda: D.Binomial(-1, t(0.5)), "total_count .* to satisfy the constraint"),
        (lambda: D.Geometric(0.0), "probs .* positive"),
        (lambda: D.ContinuousBernoulli(t(1.5)), "probs has invalid values"),
        (lambda: D.MultivariateNormal(t(0.0), torch.eye(2)), "loc must be at least one-dimensional"),
        (lambda: D.MultivariateNormal(torch.zeros(2)), "Exactly one of"),
        (lambda: D.MultivariateNormal(torch.zeros(2), torch.ones(2)), "must be at least two-dimensional"),
        (lambda: D.MultivariateNormal(torch.zeros(2), -torch.eye(2)), "to satisfy the constraint PositiveDefinite"),
        (lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(3, 1), torch.ones(2)), "cov_factor"),
        (lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(2, 1), torch.ones(3)), "cov_diag"),
        (lambda: D.LowRankMultivariateNormal(torch.zeros(2), torch.ones(4, 2, 1), torch.ones(3, 2)), "Incompatible batch shapes"),
        (lambda: D.Wishart(t(0.5), torch.eye(2)), "greater than ndim - 1"),
        (lambda: D.LKJCholesky(1), "dim"),
        (lambda: D.Independent(D.Normal(0.0, 1.0), 1), "reinterpreted_batch_ndims"),
        (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(0.0, 1.0)), "Categorical"),
        (lambda: D.MixtureSameFamily(D.Categorical(torch.ones(3)), D.Normal(torch.zeros(2), 1.0)), "batch_shape\\[-1\\]"),
        (lambda: D.MixtureSameFamily(D.Categorical(torch.ones(4, 3)), D.Normal(torch.zeros(2, 3), 1.0)), "not compatible"),
    ],
)  # fmt: skip
def test_wrong_parameters(make, phrase):
    with pytest.raises(ValueError, match=phrase):
        make()


@pytest.mark.parametrize(
    "d, value, phrase",
    [
        (D.Normal(0.0, 1.0), 1.0, "must be a Tensor"),
        (D.Normal(0.0, 1.0), t(float("nan")), "to be within the support"),
        (D.Normal(torch.zeros(3), 1.0), torch.zeros(2), "not broadcastable with batch_shape\\+event_shape"),
        (D.Dirichlet(torch.ones(3)), torch.ones(2), "right-most size of value must match event_shape"),
        (D.Dirichlet(torch.ones(3)), torch.ones(3), "to be within the support"),
        (D.Bernoulli(0.5), t(0.5), "to be within the support"),
        (D.Categorical(torch.ones(3)), t(3), "to be within the support"),
        (D.Uniform(0.0, 1.0), t(2.0), "to be within the support"),
        (D.Multinomial(3, torch.ones(2)), t([2.0, 2.0]), "to be within the support"),
        (D.Pareto(1.0, 1.0), t(0.5), "to be within the support"),
        (D.LogNormal(0.0, 1.0), t(-0.5), "to be within the support"),
    ],
)
def test_wrong_values(d, value, phrase):
    with pytest.raises(ValueError, match=phrase):
        d.log_prob(value)


def test_validation_can_be_turned_off():
    assert D.Normal(0.0, -1.0, validate_args=False).scale.item() == -1
    assert D.Bernoulli(0.5, validate_args=False).log_prob(t(0.5)).isfinite()
    D.Distribution.set_default_validate_args(False)
    try:
        D.Normal(0.0, -1.0)
        with pytest.raises(ValueError):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError):
        D.Distribution.set_default_validate_args(3)


def test_base_class():
    with pytest.warns(UserWarning, match="arg_constraints"):
        base = D.Distribution()
    for name in ("mean", "mode", "variance", "stddev", "support", "arg_constraints"):
        with pytest.raises(NotImplementedError):
            getattr(base, name)
    for method in (base.sample, base.rsample, base.entropy, base.enumerate_support, base.perplexity):
        with pytest.raises(NotImplementedError):
            method()
    for method in (base.log_prob, base.cdf, base.icdf):
        with pytest.raises(NotImplementedError):
            method(t(0.0))
    with pytest.raises(NotImplementedError):
        base.expand((2,))
    with pytest.warns(FutureWarning):
        assert D.Normal(0.0, 1.0).sample_n(3).shape == (3,)


def test_subclasses():
    class Plain(D.Normal):
        pass

    class Standard(D.Normal):
        def __init__(self, loc):
            super().__init__(loc, 1.0)

    assert type(Plain(0.0, 1.0).expand((3,))) is Plain
    with pytest.raises(NotImplementedError, match="expand"):
        Standard(0.0).expand((3,))

    class Own(D.Distribution):
        arg_constraints = {"rate": constraints.positive}
        support = constraints.positive

        def __init__(self, rate, validate_args=None):
            self.rate = rate
            super().__init__(rate.shape, validate_args=validate_args)

    with pytest.raises(ValueError, match="rate"):
        Own(t(-1.0))
    assert repr(Own(t(1.0))) == "Own(rate: 1.0)"


def test_moments_that_do_not_exist():
    nan = D.StudentT(t([0.5, 1.5, 3.0]), 1.0)
    assert nan.mean.isnan().tolist() == [True, False, False]
    assert nan.variance.isinf().tolist() == [False, True, False]
    assert D.FisherSnedecor(1.0, t([1.0, 3.0, 5.0])).variance.isnan().tolist() == [True, True, False]
    assert D.Pareto(1.0, t([0.5, 3.0])).mean.isinf().tolist() == [True, False]
    assert D.Categorical(torch.ones(2)).mean.isnan()
    assert D.Bernoulli(0.5).mode.isnan()
    assert D.Dirichlet(t([0.2, 0.5])).mode.tolist() in ([1.0, 0.0], [0.0, 1.0])


def test_impossible_categories():
    d = D.Categorical(t([0.0, 1.0]))
    assert d.entropy().item() == pytest.approx(0, abs=1e-5)
    multinomial = D.Multinomial(3, logits=t([-float("inf"), 0.0]), validate_args=False)
    assert multinomial.log_prob(t([0.0, 3.0])).item() == 0
    assert D.Geometric(t(1.0)).log_prob(t(0.0)).item() == 0
    assert D.NegativeBinomial(t(0.0), t(0.5)).log_prob(t(0.0)).item() == 0


def test_lazy_parameters():
    d = D.Bernoulli(logits=t([0.0, 1.0], requires_grad=True))
    assert "probs" not in vars(d)
    with torch.no_grad():
        probs = d.probs
    assert probs.requires_grad and d.probs is probs
    assert isinstance(D.Bernoulli.probs, property)


# -- constraints and utilities -------------------------------------------------------------------------------------


def test_constraints():
    eye = torch.eye(3)
    checks = {
        constraints.boolean: (t([0.0, 1.0, 2.0]), [True, True, False]),
        constraints.nonnegative_integer: (t([-1.0, 0.0, 1.5]), [False, True, False]),
        constraints.positive_integer: (t([0, 1, 2]), [False, True, True]),
        constraints.integer_interval(0, 2): (t([0.0, 2.0, 3.0]), [True, True, False]),
        constraints.real: (t([0.0, float("inf"), float("nan")]), [True, True, False]),
        constraints.half_open_interval(0.0, 1.0): (t([0.0, 1.0]), [True, False]),
        constraints.less_than(1.0): (t([0.0, 1.0]), [True, False]),
        constraints.one_hot: (t([[0.0, 1.0], [1.0, 1.0], [0.5, 0.5]]), [True, False, False]),
        constraints.simplex: (t([[0.4, 0.6], [0.4, 0.7], [-0.1, 1.1]]), [True, False, False]),
        constraints.multinomial(2): (t([[1, 1], [2, 1], [-1, 2]]), [True, False, False]),
        constraints.lower_triangular: (torch.stack([eye, eye + eye.roll(1, 0).T]), [True, False]),
        constraints.lower_cholesky: (torch.stack([eye, -eye]), [True, False]),
        constraints.corr_cholesky: (torch.stack([eye, 2 * eye]), [True, False]),
        constraints.symmetric: (torch.stack([eye, eye.roll(1, 0)]), [True, False]),
        constraints.positive_definite: (torch.stack([eye, -eye]), [True, False]),
        constraints.positive_semidefinite: (torch.stack([eye, 0 * eye]), [True, True]),
        constraints.square: (torch.zeros(2, 3), False),
        constraints.real_vector: (t([[0.0, float("nan")], [0.0, 1.0]]), [False, True]),
        constraints.MixtureSameFamilyConstraint(constraints.greater_than(t([0.0, 1.0]))): (
            t([2.0, 0.5]),
            [True, False],
        ),
    }
    for constraint, (value, expected) in checks.items():
        assert constraint.check(value).tolist() == expected, constraint


def test_dependent_constraints():
    assert constraints.is_dependent(constraints.dependent) and constraints.is_dependent(D.Uniform.support)
    assert not constraints.is_dependent(constraints.real)
    assert D.Uniform.support.event_dim == 0 and not D.Uniform.support.is_discrete
    assert constraints.dependent(event_dim=1).event_dim == 1
    with pytest.raises(ValueError):
        constraints.dependent.check(t(0.0))
    with pytest.raises(NotImplementedError):
        constraints.dependent.event_dim  # noqa: B018
    with pytest.raises(ValueError, match=r"Expected value\.dim"):
        constraints.independent(constraints.real, 2).check(torch.ones(3))


def test_triangles():
    for diag in (-2, -1, 0, 1, 2):
        n = 5
        matrix = torch.randn(2, n, n).tril(diag)
        vector = utils.tril_matrix_to_vec(matrix, diag)
        np.testing.assert_array_equal(utils.vec_to_tril_matrix(vector, diag).numpy(), matrix.numpy())
    with pytest.raises(ValueError):
        utils.tril_matrix_to_vec(torch.ones(3, 3), 3)
    with pytest.raises(ValueError):
        utils.vec_to_tril_matrix(torch.ones(4))


def test_probabilities_and_logits():
    probs = t([0.0, 0.2, 1.0], dtype=torch.float64)
    logits = utils.probs_to_logits(probs, is_binary=True)
    assert logits.isfinite().all()
    np.testing.assert_allclose(utils.logits_to_probs(logits, is_binary=True).numpy(), probs.numpy(), atol=1e-15)
    np.testing.assert_allclose(
        utils.logits_to_probs(utils.probs_to_logits(probs / 1.2)).numpy(), probs / 1.2, atol=1e-15
    )
