"""pyro: models and guides, variational inference, sampling, predictions, processes and distributions of its own."""

import contextlib

import pyro
import pyro.distributions as dist
import pytest
import torch
from pyro import poutine
from pyro.infer import (
    HMC,
    MCMC,
    NUTS,
    SVI,
    EmpiricalMarginal,
    Importance,
    Predictive,
    Trace_ELBO,
    TraceEnum_ELBO,
    TraceGraph_ELBO,
    TraceMeanField_ELBO,
    autoguide,
    config_enumerate,
)  # fmt: skip
from pyro.optim import Adam, ClippedAdam


@pytest.fixture(autouse=True)
def _clean():
    pyro.clear_param_store()
    pyro.set_rng_seed(0)
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


X = torch.linspace(-1, 1, 12, dtype=torch.float64)
Y = 2 * X + 0.5 + 0.1 * torch.sin(20 * X)


def regression(x, y=None):
    slope = pyro.sample("slope", dist.Normal(0.0, 1.0))
    shift = pyro.sample("shift", dist.Normal(0.0, 1.0))
    noise = pyro.sample("noise", dist.HalfNormal(1.0))
    with pyro.plate("data", len(x)):
        return pyro.sample("y", dist.Normal(slope * x + shift, noise), obs=y)


GUIDES = [
    "AutoNormal", "AutoDelta", "AutoDiagonalNormal", "AutoMultivariateNormal", "AutoLowRankMultivariateNormal",
]  # fmt: skip


@pytest.mark.parametrize("name", GUIDES)
def test_guides(name, record_property):
    guide = getattr(autoguide, name)(regression)
    svi = SVI(regression, guide, Adam({"lr": 0.05}), Trace_ELBO())
    record_property("losses", [svi.step(X, Y) for _ in range(15)])
    record_property("medians", [float(v) for _, v in sorted(guide.median(X, Y).items())])


@pytest.mark.parametrize("loss", [Trace_ELBO, TraceGraph_ELBO, TraceMeanField_ELBO])
def test_losses(loss, record_property):
    def guide(x, y=None):
        for name in ("slope", "shift"):
            place = pyro.param(f"{name}_loc", torch.tensor(0.1))
            pyro.sample(name, dist.Normal(place, 0.3))
        scale = pyro.param("scale", torch.tensor(0.5), constraint=dist.constraints.positive)
        pyro.sample("noise", dist.LogNormal(scale.log(), 0.1))

    if loss is TraceMeanField_ELBO:
        model = poutine.block(regression, hide=[])
    else:
        model = regression
    svi = SVI(model, guide, ClippedAdam({"lr": 0.02}), loss(num_particles=2))
    record_property("losses", [svi.step(X, Y) for _ in range(8)])
    record_property("scale", float(pyro.param("scale").detach()))


def test_enumeration(record_property):
    data = torch.tensor([0.0, 0.2, 3.9, 4.1, 4.0])

    @config_enumerate
    def mixture(data):
        weights = pyro.sample("weights", dist.Dirichlet(0.5 * torch.ones(2)))
        with pyro.plate("components", 2):
            places = pyro.sample("places", dist.Normal(2.0, 3.0))
        with pyro.plate("data", len(data)):
            which = pyro.sample("which", dist.Categorical(weights))
            pyro.sample("obs", dist.Normal(places[which], 0.5), obs=data)

    guide = autoguide.AutoDelta(poutine.block(mixture, expose=["weights", "places"]))
    svi = SVI(mixture, guide, Adam({"lr": 0.1}), TraceEnum_ELBO(max_plate_nesting=1))
    record_property("losses", [svi.step(data) for _ in range(12)])
    record_property("places", guide.median(data)["places"].tolist())


def test_traces_and_handlers(record_property):
    trace = poutine.trace(regression).get_trace(X, Y)
    record_property("logp", float(trace.log_prob_sum()))
    record_property("names", sorted(trace.nodes))
    fixed = poutine.condition(regression, data={"slope": torch.tensor(2.0)})
    record_property("conditioned", float(poutine.trace(fixed).get_trace(X, Y).log_prob_sum()))
    scaled = poutine.scale(regression, 0.5)
    replayed = poutine.trace(poutine.replay(scaled, trace)).get_trace(X, Y)
    record_property("half", float(replayed.log_prob_sum()))
    seeded = poutine.seed(regression, 3)
    assert torch.equal(seeded(X), seeded(X))
    lifted = poutine.lift(lambda: pyro.param("p", torch.tensor(1.0)), prior=dist.Normal(0.0, 1.0))
    assert lifted() is not None


@pytest.mark.parametrize("kernel", [HMC, NUTS])
def test_sampling(kernel, record_property):
    options = {"step_size": 0.05, "num_steps": 4} if kernel is HMC else {"step_size": 0.1, "max_tree_depth": 3}
    chain = MCMC(
        kernel(regression, adapt_step_size=False, **options), num_samples=12, warmup_steps=4, disable_progbar=True
    )
    chain.run(X, Y)
    record_property("slope", chain.get_samples()["slope"].tolist())
    made = Predictive(regression, chain.get_samples())(X)["y"]
    assert made.shape == (12, 12)


def test_importance(record_property):
    found = Importance(lambda: regression(X, Y), num_samples=30).run()
    record_property("mean", float(EmpiricalMarginal(found, "slope").mean))


def test_predictions(record_property):
    guide = autoguide.AutoNormal(regression)
    made = Predictive(regression, guide=guide, num_samples=5)(X)
    record_property("y", made["y"].flatten().tolist()[:20])
    record_property("noise", made["noise"].flatten().tolist())


def test_gaussian_processes(record_property):
    import pyro.contrib.gp as gp

    kernel = gp.kernels.RBF(1, variance=torch.tensor(1.0), lengthscale=torch.tensor(0.5))
    model = gp.models.GPRegression(X, Y, kernel, noise=torch.tensor(0.1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = Trace_ELBO().differentiable_loss(model.model, model.guide)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    record_property("losses", losses)
    mean, cov = model(torch.tensor([0.0, 0.5]), full_cov=True)
    record_property("mean", mean.tolist())
    record_property("cov", cov.flatten().tolist())


def test_modules(record_property):
    from pyro.nn import PyroModule, PyroSample

    class Bayes(PyroModule):
        def __init__(self):
            super().__init__()
            self.linear = PyroModule[torch.nn.Linear](1, 1)
            self.linear.weight = PyroSample(dist.Normal(0.0, 1.0).expand([1, 1]).to_event(2))
            self.linear.bias = PyroSample(dist.Normal(0.0, 1.0).expand([1]).to_event(1))

        def forward(self, x, y=None):
            mean = self.linear(x.unsqueeze(-1)).squeeze(-1)
            with pyro.plate("data", len(x)):
                pyro.sample("obs", dist.Normal(mean, 0.2), obs=y)
            return mean

    model = Bayes()
    guide = autoguide.AutoDiagonalNormal(model)
    svi = SVI(model, guide, Adam({"lr": 0.03}), Trace_ELBO())
    record_property("losses", [svi.step(X, Y) for _ in range(8)])


OWN = {
    "ZeroInflatedPoisson": lambda: dist.ZeroInflatedPoisson(torch.tensor(2.0), gate=torch.tensor(0.3)),
    "BetaBinomial": lambda: dist.BetaBinomial(torch.tensor(2.0), torch.tensor(3.0), 10),
    "Delta": lambda: dist.Delta(torch.tensor(1.0)), "Logistic": lambda: dist.Logistic(torch.tensor(0.0), torch.tensor(1.0)),
    "AsymmetricLaplace": lambda: dist.AsymmetricLaplace(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(2.0)),
    "InverseGamma": lambda: dist.InverseGamma(torch.tensor(2.0), torch.tensor(1.0)),
    "LKJCholesky": lambda: dist.LKJCholesky(3, torch.tensor(2.0)), "Stable": lambda: dist.Stable(1.5, 0.2),
    "MaskedMixture": lambda: dist.MaskedMixture(torch.tensor([True, False]), dist.Normal(0.0, 1.0).expand([2]), dist.Normal(5.0, 1.0).expand([2])),

    "ProjectedNormal": lambda: dist.ProjectedNormal(torch.tensor([1.0, 0.5])),
    "DirichletMultinomial": lambda: dist.DirichletMultinomial(torch.tensor([1.0, 2.0]), 5),
    "Unit": lambda: dist.Unit(torch.tensor(0.5)), "OrderedLogistic": lambda: dist.OrderedLogistic(torch.tensor(0.3), torch.tensor([-1.0, 1.0])),
    "GaussianHMM": lambda: dist.GaussianHMM(
        dist.MultivariateNormal(torch.zeros(2), torch.eye(2)), torch.eye(2).expand(3, 2, 2),
        dist.MultivariateNormal(torch.zeros(3, 2), torch.eye(2).expand(3, 2, 2)), torch.eye(2).expand(3, 2, 2),
        dist.MultivariateNormal(torch.zeros(3, 2), torch.eye(2).expand(3, 2, 2)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name, make in OWN.items() if make])
def test_own_distributions(name, record_property):
    made = OWN[name]()
    try:
        value = made.sample()
        record_property("sample", value.flatten().tolist())
    except NotImplementedError:
        value = torch.zeros(made.event_shape)
    with contextlib.suppress(NotImplementedError):
        record_property("logp", made.log_prob(value).flatten().tolist())


def test_flows(record_property):
    from pyro.distributions import transforms as T

    base = dist.Normal(torch.zeros(3), torch.ones(3)).to_event(1)
    for name in ("planar", "radial", "affine_coupling", "spline", "affine_autoregressive", "householder", "batchnorm"):
        torch.manual_seed(1)
        flow = getattr(T, name)(3)
        made = dist.TransformedDistribution(base, [flow])
        torch.manual_seed(2)
        value = made.sample((4,))
        record_property(name, value.flatten().tolist())
        record_property(f"{name} logp", made.log_prob(value).flatten().tolist())


def test_diagnostics(record_property):
    from pyro.ops import stats

    torch.manual_seed(0)
    x = torch.randn(2, 50).cumsum(1)
    record_property("rhat", float(stats.split_gelman_rubin(x)))
    record_property("size", float(stats.effective_sample_size(x)))
    record_property("hpdi", stats.hpdi(x[0], 0.9).tolist())
    record_property("quantile", stats.quantile(x[0], [0.1, 0.9]).tolist())
