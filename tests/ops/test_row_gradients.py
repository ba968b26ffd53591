"""Gradients by one kernel are those that the formulas give, which are used when gradients are differentiated again."""

import pytest

import flambeau as torch

F = torch.nn.functional
Y = torch.rand(5, 6, generator=torch.Generator().manual_seed(1)) + 0.1
TARGET = torch.tensor([0, 3, 5, 3, 1])
PLACES = torch.tensor([[0, 2], [1, 1], [2, 0]])
WEIGHT = torch.tensor([0.5, 1.0, 2.0, 0.1, 0.7, 1.5])
SIGNS = torch.tensor([1.0, -1.0, 1.0, -1.0, 1.0])
LABELS = torch.tensor([[0, 2, -1, 1, 1, 1], [5, -1, 0, 0, 0, 0], [-1] * 6, [0, 1, 2, 3, 4, 5], [3, 3, -1, 0, 0, 0]])
CALLS = {
    "max": lambda x: x.max(),
    "max_ties": lambda x: x.clamp(max=0.5).max(),
    "amax_ties": lambda x: x.clamp(max=0.5).amax(1, True),
    "amin_first": lambda x: x.amin(0),
    "max_first": lambda x: x.max(0).values,
    "sort_first": lambda x: x.sort(0, descending=True).values,
    "topk_first": lambda x: x.topk(2, 0).values,
    "kthvalue": lambda x: x.kthvalue(2, 0, True).values,
    "median": lambda x: x.median(1).values,
    "mode": lambda x: x.mode(0).values,
    "cummax": lambda x: x.cummax(1).values,
    "var": lambda x: x.var(),
    "var_first": lambda x: x.var(0, keepdim=True),
    "std": lambda x: x.std(1, correction=0),
    "std_of_equal": lambda x: (x * 0).std(1),
    "std_all": lambda x: torch.std_mean(x)[0],
    "norm": lambda x: x.norm(),
    "norm_first": lambda x: x.norm(dim=0),
    "norm_of_zeros": lambda x: (x * 0).norm(dim=1),
    "logsumexp": lambda x: x.logsumexp(0),
    "normalize": lambda x: F.normalize(x),
    "normalize_below_eps": lambda x: F.normalize(x, eps=5.0),
    "cosine": lambda x: F.cosine_similarity(x, Y),
    "cosine_first": lambda x: F.cosine_similarity(Y, x, 0),
    "cosine_below_eps": lambda x: F.cosine_similarity(x, Y, eps=3.0),
    "cosine_of_zeros": lambda x: F.cosine_similarity(x * 0, Y),
    "cosine_embedding": lambda x: F.cosine_embedding_loss(x, Y, SIGNS, 0.1),
    "pairwise_distance": lambda x: F.pairwise_distance(x, Y),
    "triplet": lambda x: F.triplet_margin_loss(x, Y, Y.flip(0)),
    "hinge": lambda x: F.hinge_embedding_loss(x, (Y > 0.5) * 2.0 - 1, 0.4),
    "ranking": lambda x: F.margin_ranking_loss(x, Y, Y - 0.5, 0.1),
    "nll": lambda x: F.nll_loss(x, TARGET),
    "nll_weighted": lambda x: F.nll_loss(x, TARGET, WEIGHT, ignore_index=3),
    "nll_each": lambda x: F.nll_loss(x, TARGET, WEIGHT, ignore_index=3, reduction="none"),
    "nll_places": lambda x: F.nll_loss(x.reshape(3, 5, 2), PLACES, reduction="sum"),
    "nll_one": lambda x: F.nll_loss(x[0], torch.tensor(2)),
    "entropy_smooth": lambda x: F.cross_entropy(x, TARGET, WEIGHT, ignore_index=0, label_smoothing=0.2),
    "entropy_places": lambda x: F.cross_entropy(x.reshape(3, 5, 2), PLACES, label_smoothing=0.2, reduction="none"),
    "binary_entropy": lambda x: F.binary_cross_entropy(x, Y.clamp(max=1)),
    "multi_margin": lambda x: F.multi_margin_loss(x, TARGET, weight=WEIGHT, margin=0.6),
    "multi_margin_square": lambda x: F.multi_margin_loss(x, TARGET, p=2, reduction="none"),
    "multilabel_margin": lambda x: F.multilabel_margin_loss(x, LABELS),
}


def gradient(call, x, again):
    out = call(x)
    cotangent = torch.linspace(0.5, 1.5, out.numel()).view(out.shape)
    return torch.autograd.grad(out, x, cotangent, create_graph=again)[0].detach()


@pytest.mark.parametrize("name", CALLS)
def test_kernel_and_formula_agree(name):
    torch.manual_seed(0)
    x = torch.rand(5, 6, requires_grad=True)
    by_kernel = gradient(CALLS[name], x, False)
    assert by_kernel.shape == x.shape
    torch.testing.assert_close(by_kernel, gradient(CALLS[name], x, True), atol=1e-6, rtol=1e-5)
    turned = x.detach().T.contiguous().T.requires_grad_()  # a layout that is not dense
    torch.testing.assert_close(by_kernel, gradient(CALLS[name], turned, False))


@pytest.mark.parametrize(
    "name", ["multi_margin", "multi_margin_square", "multilabel_margin", "triplet", "hinge", "ranking"]
)
def test_second_derivatives_of_margins(name):
    x = torch.linspace(-1, 2, 30, dtype=torch.float64).view(5, 6).sin().requires_grad_()
    first = torch.autograd.grad(CALLS[name](x.float()).sum(), x, create_graph=True)[0]
    found = torch.zeros_like(x)
    if first.requires_grad:  # it may be the same everywhere nearby
        (found,) = torch.autograd.grad(first.square().sum(), x, allow_unused=True)
    step = 1e-2
    place = torch.zeros(5, 6, dtype=torch.float64)
    place[1, 2] = step

    def square(x):
        return torch.autograd.grad(CALLS[name](x.float()).sum(), x)[0].square().sum()

    expected = (square(x + place) - square(x - place)) / (2 * step)
    torch.testing.assert_close(found[1, 2], expected.detach(), atol=1e-3, rtol=1e-2)


@pytest.mark.parametrize("name", ["nll_weighted", "cosine", "multi_margin", "multilabel_margin", "cosine_embedding"])
def test_losses_without_history_are_the_same(name):
    x = torch.rand(5, 6, requires_grad=True)
    with torch.no_grad():
        assert torch.equal(CALLS[name](x), CALLS[name](x.clone()))
    torch.testing.assert_close(CALLS[name](x).detach(), torch.vmap(CALLS[name])(x.detach()[None])[0])


def test_targets_outside_are_refused():
    x = torch.zeros(2, 3)
    for bad in (3, -1):
        with pytest.raises(IndexError, match="out of bounds"):
            F.nll_loss(x, torch.tensor([0, bad]))
    with pytest.raises(RuntimeError, match="target out of range"):
        F.multi_margin_loss(x, torch.tensor([0, 3]))
    assert F.nll_loss(x, torch.tensor([0, -1]), ignore_index=-1) == 0
    assert F.nll_loss(x, torch.tensor([-1, -1]), ignore_index=-1).isnan()


def test_saved_scores_are_checked_for_writes():
    for name in ("cosine", "nll_weighted", "multi_margin", "norm"):
        x = torch.rand(5, 6, requires_grad=True) * 1
        out = CALLS[name](x)
        x.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()
