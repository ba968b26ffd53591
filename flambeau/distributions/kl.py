"""`kl_divergence` and the formulas for pairs of distributions."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

from .._ops.registry import ops
from .._tensor import Tensor
from .bernoulli import Bernoulli
from .beta import Beta
from .binomial import Binomial
from .categorical import Categorical
from .cauchy import Cauchy
from .continuous_bernoulli import ContinuousBernoulli
from .dirichlet import Dirichlet
from .distribution import Distribution
from .exp_family import ExponentialFamily
from .exponential import Exponential
from .gamma import Gamma
from .geometric import Geometric
from .gumbel import Gumbel
from .half_normal import HalfNormal
from .independent import Independent
from .laplace import Laplace
from .lowrank_multivariate_normal import LowRankMultivariateNormal, _batch_lowrank_logdet, _batch_lowrank_mahalanobis
from .multivariate_normal import MultivariateNormal, _batch_mahalanobis
from .normal import Normal
from .one_hot_categorical import OneHotCategorical
from .pareto import Pareto
from .poisson import Poisson
from .transformed_distribution import TransformedDistribution
from .uniform import Uniform
from .utils import _softplus, _sum_rightmost
from .utils import euler_constant as _euler_gamma

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}
_KL_MEMOIZE: dict[tuple[type, type], Callable[[Any, Any], Any]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Any], Any]:
    """Decorator: the function computes KL(p || q) for distributions of two types and their subtypes."""
    for kind in (type_p, type_q):
        if not isinstance(kind, type):  # any class, as in PyTorch: families of others need not stem from ours
            raise TypeError(f"register_kl: expected subclasses of Distribution, got {kind!r}")

    def decorator(function: Any) -> Any:
        _KL_REGISTRY[type_p, type_q] = function
        _KL_MEMOIZE.clear()
        return function

    return decorator


def _dispatch_kl(type_p: type, type_q: type) -> Any:
    """The formula for the most specific pair of types."""
    matches = [(p, q) for p, q in _KL_REGISTRY if issubclass(type_p, p) and issubclass(type_q, q)]
    if not matches:
        return NotImplemented
    near_p, near_q = type_p.__mro__.index, type_q.__mro__.index
    by_p = _KL_REGISTRY[min(matches, key=lambda pair: (near_p(pair[0]), near_q(pair[1])))]
    by_q = _KL_REGISTRY[min(matches, key=lambda pair: (near_q(pair[1]), near_p(pair[0])))]
    if by_p is not by_q:
        warnings.warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}): register_kl for this pair says which is meant",
            RuntimeWarning,
            stacklevel=3,
        )
    return by_p


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """KL(p || q), the mean of log p - log q over p, for each element of the batch.

    >>> import flambeau as torch
    >>> from flambeau.distributions import Normal
    >>> torch.distributions.kl_divergence(Normal(0.0, 1.0), Normal(1.0, 1.0))
    tensor(0.5000)
    """
    kinds = type(p), type(q)
    function = _KL_MEMOIZE.get(kinds)
    if function is None:
        function = _KL_MEMOIZE[kinds] = _dispatch_kl(*kinds)
    if function is NotImplemented:
        names = f"{type(p).__name__} and {type(q).__name__}"
        raise NotImplementedError(f"No KL(p || q) is implemented for p and q of types {names}")
    return function(p, q)


# -- helpers -------------------------------------------------------------------------------------------------------


def _infinite_like(tensor: Tensor) -> Tensor:
    return ops.full_like(tensor, math.inf)


def _x_log_x(tensor: Tensor) -> Tensor:
    return ops.xlogy(tensor, tensor)


def _batch_trace_XXT(bmat: Tensor) -> Tensor:
    return bmat.square().sum((-2, -1))


def _expand_to(matrix: Tensor, batch_shape: Any) -> Tensor:
    return matrix.expand(batch_shape + matrix.shape[-2:])


def _infinite(p: type, attribute: str, *others: type) -> None:
    """Registers an infinite divergence from others, that lack some of p's support."""

    def infinity(p: Any, q: Any) -> Tensor:
        return _infinite_like(getattr(p, attribute))

    for q in others:
        register_kl(p, q)(infinity)


_infinite(Beta, "concentration1", Pareto)
_infinite(ContinuousBernoulli, "probs", Pareto)
_infinite(Exponential, "rate", Beta, ContinuousBernoulli, Pareto, Uniform)
_infinite(Gamma, "concentration", Beta, ContinuousBernoulli, Pareto, Uniform)
_infinite(Gumbel, "loc", Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
_infinite(Laplace, "loc", Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
_infinite(Normal, "loc", Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform)
_infinite(Pareto, "scale", Beta, ContinuousBernoulli, Uniform)
_infinite(Poisson, "rate", Bernoulli, Binomial)

# -- two of one kind -----------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _kl_bernoulli_bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = p.probs * (_softplus(-q.logits) - _softplus(-p.logits))
    one = one.masked_fill(q.probs == 0, math.inf).masked_fill(p.probs == 0, 0)
    zero = (1 - p.probs) * (_softplus(q.logits) - _softplus(p.logits))
    zero = zero.masked_fill(q.probs == 1, math.inf).masked_fill(p.probs == 1, 0)
    return one + zero


@register_kl(Beta, Beta)
def _kl_beta_beta(p: Beta, q: Beta) -> Tensor:
    total_p, total_q = p.concentration1 + p.concentration0, q.concentration1 + q.concentration0
    normalizers = q._log_normalizer(q.concentration1, q.concentration0) - p._log_normalizer(
        p.concentration1, p.concentration0
    )
    one = (p.concentration1 - q.concentration1) * ops.digamma(p.concentration1)
    zero = (p.concentration0 - q.concentration0) * ops.digamma(p.concentration0)
    return normalizers + one + zero + (total_q - total_p) * ops.digamma(total_p)


@register_kl(Binomial, Binomial)
def _kl_binomial_binomial(p: Binomial, q: Binomial) -> Tensor:
    if (p.total_count < q.total_count).any():
        raise NotImplementedError("KL of Binomial distributions where q.total_count > p.total_count is not implemented")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + ops.log_sigmoid(-p.logits) - ops.log_sigmoid(-q.logits))
    return ops.where(p.total_count > q.total_count, math.inf, kl)


@register_kl(Categorical, Categorical)
def _kl_categorical_categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = p.probs * (p.logits - q.logits)
    terms = ops.where(q.probs == 0, math.inf, terms)
    return ops.where(p.probs == 0, 0, terms).sum(-1)


@register_kl(OneHotCategorical, OneHotCategorical)
def _kl_onehotcategorical_onehotcategorical(p: OneHotCategorical, q: OneHotCategorical) -> Tensor:
    return _kl_categorical_categorical(p._categorical, q._categorical)


@register_kl(Cauchy, Cauchy)
def _kl_cauchy_cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    # Chyzak and Nielsen (2019)
    apart = (p.scale + q.scale).square() + (p.loc - q.loc).square()
    return apart.log() - (4 * p.scale * q.scale).log()


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _kl_continuous_bernoulli_continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    rest_p = p._cont_bern_log_norm() + ops.log1p(-p.probs)
    rest_q = q._cont_bern_log_norm() + ops.log1p(-q.probs)
    return p.mean * (p.logits - q.logits) + rest_p - rest_q


@register_kl(Dirichlet, Dirichlet)
def _kl_dirichlet_dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    moved = ops.digamma(a) - ops.digamma(a.sum(-1, keepdim=True))
    return q._log_normalizer(b) - p._log_normalizer(a) + ((a - b) * moved).sum(-1)


@register_kl(Exponential, Exponential)
def _kl_exponential_exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _kl_gamma_gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    rates = b * (p.rate / q.rate).log() + a * (q.rate / p.rate - 1)
    return rates + ops.lgamma(b) - ops.lgamma(a) + (a - b) * ops.digamma(a)


@register_kl(Geometric, Geometric)
def _kl_geometric_geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - ops.log1p(-q.probs) / p.probs - q.logits


@register_kl(Gumbel, Gumbel)
def _kl_gumbel_gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio = p.scale / q.scale
    apart = (q.loc - p.loc) / q.scale
    grown = ops.exp(apart + ops.lgamma(1 + ratio))
    return grown - ratio.log() - apart + ratio * _euler_gamma - (1 + _euler_gamma)


@register_kl(HalfNormal, HalfNormal)
def _kl_halfnormal_halfnormal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return _kl_normal_normal(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _kl_laplace_laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio = p.scale / q.scale
    apart = (p.loc - q.loc).abs()
    return -ratio.log() + apart / q.scale + ratio * ops.exp(-apart / p.scale) - 1


@register_kl(Normal, Normal)
def _kl_normal_normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    apart = ((p.loc - q.loc) / q.scale).square()
    return 0.5 * (ratio + apart - 1 - ratio.log())


@register_kl(Pareto, Pareto)
def _kl_pareto_pareto(p: Pareto, q: Pareto) -> Tensor:
    scales, shapes = p.scale / q.scale, q.alpha / p.alpha
    result = q.alpha * scales.log() - shapes.log() + shapes - 1
    return ops.where(p.scale < q.scale, math.inf, result)


@register_kl(Poisson, Poisson)
def _kl_poisson_poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate * (p.rate.log() - q.rate.log()) - (p.rate - q.rate)


@register_kl(Uniform, Uniform)
def _kl_uniform_uniform(p: Uniform, q: Uniform) -> Tensor:
    result = ((q.high - q.low) / (p.high - p.low)).log()
    return ops.where((q.low > p.low) | (q.high < p.high), math.inf, result)


@register_kl(ExponentialFamily, ExponentialFamily)
def _kl_expfamily_expfamily(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            f"The cross KL-divergence between different exponential families ({type(p).__name__} and "
            f"{type(q).__name__}) is not a Bregman divergence"
        )
    normalizer, parameters, slopes = p._normalizer_and_slopes()
    others = q._natural_params
    result = q._log_normalizer(*others) - normalizer
    for mine, other, slope in zip(parameters, others, slopes):
        result = result - _sum_rightmost((other - mine) * slope, len(q.event_shape))
    return result


@register_kl(Independent, Independent)
def _kl_independent_independent(p: Independent[Any], q: Independent[Any]) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("KL of Independent distributions with different reinterpreted_batch_ndims")
    return _sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _kl_transformed_transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL of distributions that are transformed differently")
    return kl_divergence(p.base_dist, q.base_dist)


# -- multivariate normal distributions -----------------------------------------------------------------------------


def _factor(p: MultivariateNormal) -> Tensor:
    return p._unbroadcasted_scale_tril


def _parts(p: LowRankMultivariateNormal) -> tuple[Tensor, Tensor, Tensor]:
    return p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag, p._capacitance_tril


def _check_events(p: Distribution, q: Distribution) -> None:
    if p.event_shape != q.event_shape:
        raise ValueError(
            f"KL-divergence between multivariate normals of different event shapes: {p.event_shape} and {q.event_shape}"
        )


def _solved(factor: Tensor, matrix: Tensor) -> Tensor:
    """L^-1 A, with the batch dimensions of both."""
    shape = ops.broadcast_tensors(factor[..., 0, 0], matrix[..., 0, 0])[0].shape
    return ops.linalg_solve_triangular(_expand_to(factor, shape), _expand_to(matrix, shape), upper=False)


@register_kl(MultivariateNormal, MultivariateNormal)
def _kl_multivariatenormal_multivariatenormal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q)
    half_dets = q._half_log_det() - p._half_log_det()
    trace = _batch_trace_XXT(_solved(_factor(q), _factor(p)))
    apart = _batch_mahalanobis(_factor(q), q.loc - p.loc)
    return half_dets + 0.5 * (trace + apart - p.event_shape[0])


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _kl_multivariatenormal_lowrankmultivariatenormal(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    _check_events(p, q)
    W, D, capacitance = _parts(q)
    L = _factor(p)
    dets = _batch_lowrank_logdet(W, D, capacitance) - 2 * p._half_log_det()
    apart = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, capacitance)
    # tr((W W^T + D)^-1 L L^T) by Woodbury's identity
    inner = _solved(capacitance, W.mT / D.unsqueeze(-2))
    trace = _batch_trace_XXT(L / D.sqrt().unsqueeze(-1)) - _batch_trace_XXT(ops.matmul(inner, L))
    return 0.5 * (dets + trace + apart - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _kl_lowrankmultivariatenormal_lowrankmultivariatenormal(
    p: LowRankMultivariateNormal, q: LowRankMultivariateNormal
) -> Tensor:
    _check_events(p, q)
    W, D, capacitance = _parts(q)
    V, E, _ = _parts(p)
    dets = _batch_lowrank_logdet(W, D, capacitance) - p._log_det()
    apart = _batch_lowrank_mahalanobis(W, D, q.loc - p.loc, capacitance)
    # tr((W W^T + D)^-1 (V V^T + E)), each of the four products on its own
    inner = _solved(capacitance, W.mT / D.unsqueeze(-2))
    first = (E / D).sum(-1) + _batch_trace_XXT(V / D.sqrt().unsqueeze(-1))
    second = _batch_trace_XXT(inner * E.sqrt().unsqueeze(-2)) + _batch_trace_XXT(ops.matmul(inner, V))
    return 0.5 * (dets + first - second + apart - p.event_shape[0])


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _kl_lowrankmultivariatenormal_multivariatenormal(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    _check_events(p, q)
    V, E, _ = _parts(p)
    dets = 2 * q._half_log_det() - p._log_det()
    apart = _batch_mahalanobis(_factor(q), q.loc - p.loc)
    trace = _batch_trace_XXT(_solved(_factor(q), V)) + _batch_trace_XXT(_solved(_factor(q), E.sqrt().diag_embed()))
    return 0.5 * (dets + trace + apart - p.event_shape[0])


# -- two kinds -----------------------------------------------------------------------------------------------------


def _mean_log_normal_density(mean: Tensor, variance: Tensor, q: Normal) -> Tensor:
    """The mean of -log q over a variable with this mean and variance."""
    apart = (variance + (mean - q.loc).square()) / q.scale.square()
    return 0.5 * (math.log(2 * math.pi) + apart) + q.scale.log()


def _mean_log_gamma_density(mean: Tensor, mean_log: Tensor, q: Gamma) -> Tensor:
    """The mean of -log q over a variable with this mean and mean logarithm."""
    b = q.concentration
    return ops.lgamma(b) - b * q.rate.log() - (b - 1) * mean_log + q.rate * mean


def _to_normal(p: Any, q: Normal) -> Tensor:
    return -p.entropy() + _mean_log_normal_density(p.mean, p.variance, q)


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return -p.entropy() - q.rate.log() + q.rate * p.mean


def _to_uniform(p: Any, q: Uniform) -> Tensor:
    result = -p.entropy() + (q.high - q.low).log()
    return ops.where((q.low > p.support.lower_bound) | (q.high < p.support.upper_bound), math.inf, result)


for _kind in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Uniform):
    register_kl(_kind, Normal)(_to_normal)
for _kind in (Beta, ContinuousBernoulli, Gamma):
    register_kl(_kind, Exponential)(_to_exponential)
for _kind in (Beta, ContinuousBernoulli):
    register_kl(_kind, Uniform)(_to_uniform)


@register_kl(Bernoulli, Poisson)
def _kl_bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * q.rate.log() - q.rate)


@register_kl(Beta, ContinuousBernoulli)
def _kl_beta_continuous_bernoulli(p: Beta, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._cont_bern_log_norm()


@register_kl(Beta, Gamma)
def _kl_beta_gamma(p: Beta, q: Gamma) -> Tensor:
    mean_log = ops.digamma(p.concentration1) - ops.digamma(p.concentration1 + p.concentration0)
    return -p.entropy() + _mean_log_gamma_density(p.mean, mean_log, q)


@register_kl(Exponential, Gamma)
def _kl_exponential_gamma(p: Exponential, q: Gamma) -> Tensor:
    return -p.entropy() + _mean_log_gamma_density(p.mean, -p.rate.log() - _euler_gamma, q)


@register_kl(Exponential, Gumbel)
def _kl_exponential_gumbel(p: Exponential, q: Gumbel) -> Tensor:
    shrunk = p.rate * q.scale
    apart = q.loc / q.scale
    return shrunk.log() - 1 + apart.exp() * shrunk / (shrunk + 1) - apart + shrunk.reciprocal()


@register_kl(Gamma, Gumbel)
def _kl_gamma_gumbel(p: Gamma, q: Gumbel) -> Tensor:
    shrunk, apart = p.rate * q.scale, q.loc / q.scale
    grown = ops.exp(apart) * (1 + shrunk.reciprocal()).pow(-p.concentration)
    return -p.entropy() + q.scale.log() + p.concentration / shrunk - apart + grown


@register_kl(Normal, Gumbel)
def _kl_normal_gumbel(p: Normal, q: Gumbel) -> Tensor:
    apart = (p.loc - q.loc) / q.scale
    grown = ops.exp(-apart + 0.5 * (p.scale / q.scale).square())
    return -p.entropy() + apart + grown + q.scale.log()


@register_kl(Normal, Laplace)
def _kl_normal_laplace(p: Normal, q: Laplace) -> Tensor:
    away = p.loc - q.loc
    z = away / p.scale
    mean_distance = math.sqrt(2 / math.pi) * p.scale * ops.exp(-0.5 * z.square()) + away * ops.erf(z * math.sqrt(0.5))
    return -p.entropy() + mean_distance / q.scale + (2 * q.scale).log()


def _pareto_mean(p: Pareto) -> Tensor:
    """Without the limit at 1, where the divergences below are infinite anyway: its gradient would be NaN there."""
    return p.alpha * p.scale / (p.alpha - 1)


@register_kl(Pareto, Exponential)
def _kl_pareto_exponential(p: Pareto, q: Exponential) -> Tensor:
    result = -p.entropy() - q.rate.log() + q.rate * _pareto_mean(p)
    return ops.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Gamma)
def _kl_pareto_gamma(p: Pareto, q: Gamma) -> Tensor:
    mean_log = p.scale.log() + p.alpha.reciprocal()
    result = -p.entropy() + _mean_log_gamma_density(_pareto_mean(p), mean_log, q)
    return ops.where(p.alpha <= 1, math.inf, result)


@register_kl(Pareto, Normal)
def _kl_pareto_normal(p: Pareto, q: Normal) -> Tensor:
    variance = p.scale.square() * p.alpha / ((p.alpha - 1).square() * (p.alpha - 2))
    result = -p.entropy() + _mean_log_normal_density(_pareto_mean(p), variance, q)
    return ops.where(p.alpha <= 2, math.inf, result)


@register_kl(Uniform, Beta)
def _kl_uniform_beta(p: Uniform, q: Beta) -> Tensor:
    width = p.high - p.low
    log_x = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    log_rest = (_x_log_x(1 - p.low) - _x_log_x(1 - p.high) - width) / width
    normalizer = q._log_normalizer(q.concentration1, q.concentration0)
    result = normalizer - width.log() - (q.concentration1 - 1) * log_x - (q.concentration0 - 1) * log_rest
    return ops.where((p.high > q.support.upper_bound) | (p.low < q.support.lower_bound), math.inf, result)


@register_kl(Uniform, ContinuousBernoulli)
def _kl_uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    result = -p.entropy() - p.mean * q.logits - ops.log1p(-q.probs) - q._cont_bern_log_norm()
    return ops.where((p.high >= q.support.upper_bound) | (p.low <= q.support.lower_bound), math.inf, result)


@register_kl(Uniform, Exponential)
def _kl_uniform_exponetial(p: Uniform, q: Exponential) -> Tensor:
    result = q.rate * p.mean - (p.high - p.low).log() - q.rate.log()
    return ops.where(p.low < q.support.lower_bound, math.inf, result)


@register_kl(Uniform, Gamma)
def _kl_uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    width = p.high - p.low
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = -p.entropy() + _mean_log_gamma_density(p.mean, mean_log, q)
    return ops.where(p.low < q.support.lower_bound, math.inf, result)


@register_kl(Uniform, Gumbel)
def _kl_uniform_gumbel(p: Uniform, q: Gumbel) -> Tensor:
    width = p.high - p.low
    low, high = (q.loc - p.low) / q.scale, (q.loc - p.high) / q.scale
    grown = q.scale * (ops.exp(low) - ops.exp(high)) / width
    return (q.scale / width).log() + (p.mean - q.loc) / q.scale + grown


@register_kl(Uniform, Pareto)
def _kl_uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    width = p.high - p.low
    mean_log = (_x_log_x(p.high) - _x_log_x(p.low) - width) / width
    result = mean_log * (q.alpha + 1) - q.alpha.log() - q.alpha * q.scale.log() - width.log()
    return ops.where(p.low < q.support.lower_bound, math.inf, result)
