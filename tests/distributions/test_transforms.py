"""Transforms: inverses, volume changes, shapes, caches; and the registry that finds them for constraints."""

import copy
import math
import pickle

import numpy as np
import pytest

import flambeau as torch
from flambeau import distributions as D
from flambeau.distributions import biject_to, constraints, transform_to


def t(values):
    return torch.tensor(values, dtype=torch.float64)


ELEMENTWISE = [
    D.ExpTransform(),
    D.AffineTransform(1.0, -2.0),
    D.AffineTransform(t([0.0, 1.0, 2.0]), t([2.0, -1.0, 0.5])),
    D.PowerTransform(t(2.5)),
    D.SigmoidTransform(),
    D.SoftplusTransform(),
    D.TanhTransform(),
    D.CumulativeDistributionTransform(D.Normal(t(0.3), t(2.0))),
    D.ComposeTransform([D.ExpTransform(), D.AffineTransform(1.0, 3.0), D.SigmoidTransform().inv.inv]),
    D.identity_transform,
    D.StackTransform([D.ExpTransform(), D.SigmoidTransform(), D.TanhTransform()], dim=-1),
    D.CatTransform([D.ExpTransform(), D.SigmoidTransform()], dim=-1, lengths=[1, 2]),
]
VECTORS = [
    D.StickBreakingTransform(),
    D.CorrCholeskyTransform(),
    D.ReshapeTransform((3,), (1, 3)),
    D.IndependentTransform(D.ExpTransform(), 1),
    D.AffineTransform(1.0, t([2.0, -1.0, 0.5]), event_dim=1),
    D.ComposeTransform([D.ExpTransform(), D.StickBreakingTransform()]),
]
X = t([[0.2, 0.7, 1.3], [0.5, 0.1, 0.9]])


@pytest.mark.parametrize("transform", [*ELEMENTWISE, *VECTORS], ids=lambda x: type(x).__name__)
def test_inverse(transform):
    y = transform(X)
    np.testing.assert_allclose(transform.inv(y).numpy(), X.numpy(), rtol=1e-9)
    assert tuple(transform.forward_shape(X.shape)) == tuple(y.shape)
    assert tuple(transform.inverse_shape(y.shape)) == tuple(X.shape)
    assert transform.codomain.check(y).all()
    assert transform.inv.inv is transform or transform.inv.inv == transform
    forward, backward = transform.log_abs_det_jacobian(X, y), transform.inv.log_abs_det_jacobian(y, X)
    np.testing.assert_allclose(backward.numpy(), -forward.numpy(), rtol=1e-9)
    assert transform.bijective


@pytest.mark.parametrize("transform", ELEMENTWISE, ids=lambda x: type(x).__name__)
def test_slope(transform):
    x = X.clone().requires_grad_()
    y = transform(x)
    slope = torch.autograd.grad(y.sum(), x)[0]
    np.testing.assert_allclose(transform.log_abs_det_jacobian(x, y).detach(), slope.abs().log(), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("transform", VECTORS, ids=lambda x: type(x).__name__)
def test_volume(transform):
    def free(x):
        """The image without the elements that follow from the others."""
        y = transform(x)
        if isinstance(transform, D.CorrCholeskyTransform):
            return D.utils.tril_matrix_to_vec(y, diag=-1)
        return y.flatten()[:3]

    jacobian = torch.autograd.functional.jacobian(free, X[0])
    expected = torch.linalg.slogdet(jacobian).logabsdet
    np.testing.assert_allclose(
        transform.log_abs_det_jacobian(X[0], transform(X[0])).numpy(), expected.numpy(), rtol=1e-8
    )


def test_signs():
    assert D.ExpTransform().sign == 1
    assert D.AffineTransform(0.0, -2.0).sign == -1
    assert D.ComposeTransform([D.AffineTransform(0.0, -2.0), D.AffineTransform(0.0, -1.0)]).sign == 1
    assert D.PowerTransform(t(-1.0)).inv.sign == -1
    with pytest.raises(NotImplementedError):
        D.AbsTransform().sign  # noqa: B018


def test_cache():
    transform = D.StickBreakingTransform().with_cache()
    y = transform(X)
    assert transform.inv(y) is X and transform(X) is y
    assert D.ExpTransform().inv(D.ExpTransform()(X)) is not X
    assert D.ComposeTransform([D.ExpTransform()]).with_cache().parts[0]._cache_size == 1
    with pytest.raises(ValueError):
        D.ExpTransform(cache_size=2)


def test_equality():
    assert D.ExpTransform() == D.ExpTransform() and D.ExpTransform() != D.SigmoidTransform()
    assert D.AffineTransform(t(1.0), 2.0) == D.AffineTransform(1.0, 2.0) != D.AffineTransform(1.0, 3.0)
    assert D.PowerTransform(t(2.0)).inv == D.PowerTransform(t(2.0)).inv
    assert D.ComposeTransform([D.ExpTransform()]) == D.ComposeTransform([D.ExpTransform()])
    with pytest.raises(TypeError):
        hash(D.ExpTransform())


@pytest.mark.parametrize("transform", [*ELEMENTWISE, *VECTORS], ids=lambda x: type(x).__name__)
def test_copies(transform):
    transform.inv  # noqa: B018  (its reference must not be in the way)
    for again in (copy.deepcopy(transform), pickle.loads(pickle.dumps(transform)), transform.with_cache(1)):
        np.testing.assert_array_equal(again(X).numpy(), transform(X).numpy())


def test_text():
    assert repr(D.ExpTransform().inv) == "_InverseTransform(ExpTransform())"
    assert repr(D.ComposeTransform([D.ExpTransform()])) == "ComposeTransform(\n    ExpTransform()\n)"
    assert repr(D.IndependentTransform(D.ExpTransform(), 1)) == "IndependentTransform(ExpTransform(), 1)"


def test_matrices():
    x = torch.randn(2, 3, 3, dtype=torch.float64)
    for transform in (D.LowerCholeskyTransform(), D.PositiveDefiniteTransform()):
        y = transform(x)
        assert transform.codomain.check(y).all()
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-9)


def test_wrong_shapes():
    with pytest.raises(ValueError, match="Too few dimensions"):
        D.StickBreakingTransform().forward_shape(())
    with pytest.raises(ValueError, match="Too few dimensions"):
        D.IndependentTransform(D.ExpTransform(), 1)(t(1.0))
    with pytest.raises(ValueError, match="different numbers of elements"):
        D.ReshapeTransform((2, 3), (5,))
    with pytest.raises(ValueError, match="Shape mismatch"):
        D.ReshapeTransform((2, 3), (6,)).forward_shape((3, 2))
    with pytest.raises(ValueError, match="lower-diagonal"):
        D.CorrCholeskyTransform().forward_shape((4,))
    with pytest.raises(ValueError, match="not square"):
        D.CorrCholeskyTransform().inverse_shape((4, 3))
    with pytest.raises(ValueError, match="event_dim"):
        D.ReshapeTransform((2, 3), (6,)).event_dim  # noqa: B018


CONSTRAINTS = [
    constraints.real, constraints.positive, constraints.nonnegative, constraints.greater_than(2.0),
    constraints.less_than(-1.0), constraints.unit_interval, constraints.interval(-1.0, 3.0),
    constraints.half_open_interval(0.0, 2.0), constraints.simplex, constraints.independent(constraints.positive, 1),
    constraints.corr_cholesky, constraints.cat([constraints.real, constraints.positive], dim=-1, lengths=[1, 2]),
    constraints.stack([constraints.real, constraints.positive, constraints.unit_interval], dim=-1),
]  # fmt: skip


@pytest.mark.parametrize("constraint", CONSTRAINTS, ids=repr)
@pytest.mark.parametrize("registry", [biject_to, transform_to], ids=["biject_to", "transform_to"])
def test_registry(registry, constraint):
    transform = registry(constraint)
    y = transform(X)
    assert constraint.check(y).all()
    np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-8)
    assert transform.bijective or registry is transform_to


def test_registry_of_others():
    assert isinstance(transform_to(constraints.lower_cholesky), D.LowerCholeskyTransform)
    assert isinstance(transform_to(constraints.positive_definite), D.PositiveDefiniteTransform)
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        biject_to(constraints.lower_cholesky)
    with pytest.raises(NotImplementedError, match="Cannot transform"):
        transform_to(constraints.boolean)
    with pytest.raises(TypeError):
        biject_to.register(int, lambda constraint: None)


@pytest.mark.slow
def test_transformed_distributions():
    base = D.Normal(torch.zeros(5, 2, dtype=torch.float64), 1.0)
    d = D.TransformedDistribution(base, [D.ExpTransform(), D.StickBreakingTransform()])
    assert d.batch_shape == (5,) and d.event_shape == (3,)
    assert d.expand((4, 5)).sample((2,)).shape == (2, 4, 5, 3)
    scaled = D.TransformedDistribution(D.Normal(0.0, 1.0), D.AffineTransform(torch.zeros(3), 2.0))
    assert scaled.batch_shape == (3,)
    falling = D.TransformedDistribution(D.Exponential(t(1.0)), D.AffineTransform(0.0, -1.0))
    assert falling.cdf(t(-1.0)).item() == pytest.approx(np.exp(-1))
    assert falling.icdf(falling.cdf(t(-1.0))).item() == pytest.approx(-1)
    with pytest.raises(ValueError, match="at least 1 dim"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), D.SoftmaxTransform())
    with pytest.raises(ValueError, match="list of Transforms"):
        D.TransformedDistribution(D.Normal(0.0, 1.0), [1])


@pytest.mark.slow
def test_modes_supports_and_families():
    d, t = torch.distributions, torch.tensor
    assert d.FisherSnedecor(t([3.0, 1.0]), t([2.0, 5.0])).mode.tolist() == pytest.approx([1 / 6, math.nan], nan_ok=True)
    assert d.Weibull(t([1.0, 2.0]), t([0.5, 3.0])).mode.tolist() == pytest.approx([1.0, 1.74716])
    assert d.Wishart(t(5.0), covariance_matrix=torch.eye(2)).mode.tolist() == [[2.0, 0.0], [0.0, 2.0]]
    rows = d.Independent(d.Bernoulli(t([[0.2, 0.3]])), 1)
    assert rows.entropy().tolist() == pytest.approx([1.11127], abs=1e-5)
    with pytest.raises(NotImplementedError):
        rows.enumerate_support()
    for family in (
        d.Bernoulli(t([0.3])),
        d.Poisson(t([3.0])),
        d.ContinuousBernoulli(t([0.3])),
        d.Gamma(t([2.0]), t([3.0])),
    ):
        (slope,) = torch.autograd.grad(
            family._log_normalizer(*(p := [n.detach().requires_grad_() for n in family._natural_params])).sum(), p[-1:]
        )
        torch.testing.assert_close(slope, family.mean)  # of x itself, the last sufficient statistic


def test_transforms_side_by_side():
    from flambeau.distributions import transforms as tr

    joined = tr.CatTransform([tr.ExpTransform(), tr.identity_transform], dim=0, lengths=[1, 2])
    stacked = tr.StackTransform([tr.ExpTransform(), tr.AffineTransform(0.0, 2.0)], dim=0)
    for f, x in ((joined, torch.tensor([1.0, 2.0, 3.0])), (stacked, torch.tensor([[1.0], [2.0]]))):
        torch.testing.assert_close(f.inv(f(x)), x)
        assert f.domain.check(x).all() and f.codomain.check(f(x)).all() and f.bijective and f.domain.event_dim == 0
    assert stacked.log_abs_det_jacobian(x, stacked(x)).flatten().tolist() == pytest.approx([1.0, math.log(2)])
