"""Graphs that `make_fx` records hold no numbers of the tensors they were traced with, and check elements in each run."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._subclasses.fake_tensor import DataDependentOutputException, FakeTensorMode
from flambeau.fx.experimental.proxy_tensor import make_fx

X = torch.arange(12.0).reshape(3, 4) + 1
I, T = torch.tensor(1), torch.tensor(2.0)

READ = {
    "x[i]": (lambda x, i: x[i], I), "x[:, i]": (lambda x, i: x[:, i], I), "x[i:]": (lambda x, i: x[i:], I),
    "x[i, i]": (lambda x, i: x[i, i], I), "windows": (lambda x, i: F.fractional_max_pool2d(x[None], 2, 1), I), "narrow": (lambda x, i: x.narrow(0, i, 1), I),
    "select": (lambda x, i: x.select(0, i), I), "tensor_split": (lambda x, i: x.tensor_split(i)[0], I),
    "alpha": (lambda x, t: torch.add(x, x, alpha=t), T), "value": (lambda x, t: torch.addcmul(x, x, x, value=t), T),
    "item": (lambda x, t: x * t.item(), T), "float": (lambda x, t: x * float(t), T), "branch": (lambda x, t: x if t > 1 else -x, T),
    "tolist": (lambda x, t: x * t.tolist(), T), "numpy": (lambda x, t: x * float(t.numpy()), T),
    "equal": (lambda x, t: x * torch.equal(x, x * t), T), "allclose": (lambda x, t: x * torch.allclose(x, x * t), T),
    "random": (lambda x, t: x * torch.rand(1).item(), T), "classes": (lambda x, i: F.one_hot(i), I),
    "written": (lambda x, t: x * _written(t).item(), T),
}  # fmt: skip


def _written(t):
    made = torch.tensor([1.0, 2.0])
    made[0] = t
    return made.sum()


@pytest.mark.parametrize("name", READ)
def test_numbers_of_traced_tensors_are_refused(name):
    f, other = READ[name]
    with pytest.raises(RuntimeError, match="value out of a tracing tensor"):
        make_fx(f)(X, other)
    with pytest.raises((DataDependentOutputException, RuntimeError)):
        make_fx(f, tracing_mode="fake")(X, other)


FIXED = {
    "item": lambda x: x * torch.tensor(3.0).item(), "sum": lambda x: x * float(torch.tensor([3.0, 4.0]).sum()),
    "index": lambda x: x[torch.tensor(1)], "shape": lambda x: x * torch.tensor(x.shape).prod().item(),
    "zeros": lambda x: x + torch.zeros(1).item(),
}  # fmt: skip


@pytest.mark.parametrize("name", FIXED)
def test_numbers_that_stay_are_read(name):
    f = FIXED[name]
    graph = make_fx(f)(X)
    assert torch.equal(graph(X * 2), f(X * 2))
    assert torch.ops.aten._local_scalar_dense.default not in [node.target for node in graph.graph.nodes]


TENSORS = {
    "masked_fill": lambda x, t: x.masked_fill(x > 2, t), "fill_": lambda x, t: x.clone().fill_(t), "where": lambda x, t: torch.where(x > 2, t, x),
    "one_hot": lambda x, t: F.one_hot(t.long(), 7), "nonzero_static": lambda x, t: torch.nonzero_static(x > t, size=3),
    "embedding_bag": lambda x, t: F.embedding_bag(t.long().reshape(1, 1) - 1, x),
    "gradient of gather": lambda x, t: torch.func.grad(lambda x: x.gather(0, t.long().reshape(1, 1) - 1).sin().sum())(x),
    "max_unpool": lambda x, t: F.max_unpool1d(*F.max_pool1d((x * t)[None], 2, return_indices=True), 2),
    "affine_grid": lambda x, t: F.affine_grid(x[:2, :3][None] * t, (1, 2, 3, 4), align_corners=False),
    "fill": lambda x, t: torch.fill(x, 3) * t,
}  # fmt: skip


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", TENSORS)
def test_numbers_in_tensors_are_computed(name, mode):
    f, other = TENSORS[name], torch.tensor(3.0)
    graph = make_fx(f, tracing_mode=mode)(X, T)
    torch.manual_seed(1)
    expected = f(X * 2, other)
    torch.manual_seed(1)
    assert torch.equal(graph(X * 2, other), expected)


REFUSED = {
    "inv": (lambda x, t: torch.linalg.inv(torch.eye(3) * t), 0.0), "solve": (lambda x, t: torch.linalg.solve(torch.eye(3) * t, x), 0.0),
    "cholesky": (lambda x, t: torch.linalg.cholesky(torch.eye(3) * t), -1.0), "bce": (lambda x, t: F.binary_cross_entropy(t / 3, t * 0), 4.0),
    "gaussian_nll_loss": (lambda x, t: F.gaussian_nll_loss(x, x, x * 0 + t), -1.0), "one_hot": (lambda x, t: F.one_hot(t.long(), 4), 7.0),
    "embedding": (lambda x, t: F.embedding(t.long(), x), 7.0), "nll_loss": (lambda x, t: F.nll_loss(x[:1], t.long().reshape(1)), 7.0),
}  # fmt: skip


@pytest.mark.parametrize("mode", ["real", "fake"])
@pytest.mark.parametrize("name", REFUSED)
def test_what_elements_are_refused_for(name, mode):
    f, bad = REFUSED[name]
    graph = make_fx(f, tracing_mode=mode)(X, T)
    assert torch.allclose(graph(X, T).to(torch.float64), f(X, T).to(torch.float64))
    graph.graph.eliminate_dead_code()
    graph.recompile()
    with pytest.raises(Exception) as expected:
        f(X, torch.tensor(bad))
    with pytest.raises(type(expected.value)):
        graph(X, torch.tensor(bad))


def test_a_loss_of_sequences_needs_elements():
    f = lambda x, y: F.ctc_loss(x.log_softmax(-1), y, (3,), (2,))
    with pytest.raises(NotImplementedError, match="ctc_loss"):
        make_fx(f, tracing_mode="fake")(X, torch.tensor([1, 2]))


def test_grids_are_not_kept_without_elements():
    theta, size = torch.eye(2, 3)[None] * 0.7, (1, 1, 3, 5)
    with FakeTensorMode() as mode:
        F.affine_grid(mode.from_tensor(theta), size, align_corners=False)
    grid = F.affine_grid(theta, size, align_corners=False)
    assert torch.allclose(grid[0, 0, 0], torch.tensor([-0.56, -0.4667]), atol=1e-4)


def test_sizes_of_operators_are_lists():
    graph = make_fx(lambda x: F.conv2d(x[None, None], x[None, None, :2, :2]))(X)
    (node,) = [n for n in graph.graph.nodes if n.target is torch.ops.aten.convolution.default]
    assert node.args[3:] == ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
