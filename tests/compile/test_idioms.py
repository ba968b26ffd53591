"""Training steps with operations whose eager form is one kernel of its own: recorded whole, with the bits of eager steps."""

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


def _placed(p):
    out = torch.zeros(6, 9)
    out[:, :8] = p
    return out.square().sum()


def _placed_spectrum(p):
    out = torch.zeros(6, 7, dtype=torch.cfloat)
    out[:, :5] = torch.fft.rfft(p)
    return torch.fft.irfft(out, n=12).square().sum()


STEPS = {
    "std": lambda p: p.std(1).sum(),
    "std of all": lambda p: p.std(),
    "var_mean": lambda p: torch.stack(torch.var_mean(p, 1)).sum(),
    "logsumexp": lambda p: p.logsumexp(1).sum(),
    "norm": lambda p: p.norm(dim=1).sum(),
    "normalize": lambda p: (F.normalize(p, dim=1) * torch.arange(8.0)).sum(),
    "cosine_embedding_loss": lambda p: F.cosine_embedding_loss(
        p, torch.ones(6, 8), torch.tensor([1.0, -1, 1, 1, -1, 1])
    ),
    "hinge_embedding_loss": lambda p: F.hinge_embedding_loss(p, (torch.arange(48.0).view(6, 8) % 2) * 2 - 1),
    "margin_ranking_loss": lambda p: F.margin_ranking_loss(p[0], p[1], torch.ones(8), 0.3),
    "pairwise_distance": lambda p: F.pairwise_distance(p[:3], p[3:]).sum(),
    "triplet_margin_loss": lambda p: F.triplet_margin_loss(p[:2], p[2:4], p[4:]),
    "glu": lambda p: F.glu(p).sum(),
    "rfft": lambda p: torch.fft.rfft(p).abs().sum(),
    "irfft": lambda p: torch.fft.irfft(torch.fft.rfft(p) * 2).square().sum(),
    "slice of zeros": _placed,
    "slice of a spectrum": _placed_spectrum,
}


@pytest.mark.parametrize("name", STEPS)
def test_steps_are_recorded_whole_with_the_bits_of_eager_ones(name):
    torch.manual_seed(0)
    p = nn.Parameter(torch.randn(6, 8))

    def step():
        p.grad = None
        loss = STEPS[name](p)
        loss.backward()
        return loss

    for _ in range(3):  # until plans carry it
        expected, gradient = step().detach(), p.grad
    compiled = torch.compile(step, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled().detach(), expected)
        assert torch.equal(p.grad, gradient)


MADE = {
    "typed constructor": lambda x: torch.FloatTensor(2, 3).fill_(2) + x.sum(),
    "constructor": lambda x: torch.Tensor(x.size()).uniform_() + x,
    "new and resize_": lambda x: x.new().resize_((x.size(0), 5)).fill_(0) + x.sum(),
    "resize_as_": lambda x: torch.Tensor().resize_as_(x).copy_(x.detach()) + x,
    "view of what was resized": lambda x: (lambda y: y.view(-1)[:2].add_(1) + y.sum() + x.sum())(
        torch.Tensor().resize_(4).fill_(1)
    ),
    "empty out=": lambda x: torch.cat([x.detach(), x.detach()], out=torch.Tensor()) + x.sum(),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.filterwarnings("ignore:An output with one or more elements was resized")
def test_tensors_that_are_made_empty_and_given_sizes_are_recorded(name):
    compiled = torch.compile(MADE[name], fullgraph=True)
    for i in range(3):
        torch.manual_seed(i)
        x = torch.randn(3, 4, requires_grad=i < 2)
        torch.manual_seed(i)
        expected = MADE[name](x)
        torch.manual_seed(i)
        assert torch.equal(compiled(x), expected)
    assert len(compiled._region.entries) == 2


def test_distances_without_gradients_take_the_kernel_of_eager_calls():
    torch.manual_seed(0)
    x, y = torch.randn(7, 4), torch.randn(5, 4)
    compiled = torch.compile(lambda x, y: torch.cdist(x, y) + 1, fullgraph=True)
    for _ in range(3):
        assert torch.equal(compiled(x, y), torch.cdist(x, y) + 1)
    graph = compiled._region.entries[0].program.forward_program.graph
    assert [node.name for node in graph.nodes] == ["distances", "add"]
