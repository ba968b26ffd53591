"""Loss functions."""

import math

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


@pytest.fixture
def batch():
    torch.manual_seed(0)
    return torch.randn(8, 10), torch.randint(0, 10, (8,))


def test_regression():
    p, t = torch.tensor([2.5, 3.0, 4.1]), torch.tensor([3.0, 3.0, 4.0])
    assert nn.MSELoss()(p, t).item() == pytest.approx((0.25 + 0 + 0.01) / 3)
    assert nn.L1Loss()(p, t).item() == pytest.approx(0.6 / 3)
    assert torch.equal(F.mse_loss(p, t), nn.MSELoss()(p, t))


def test_reductions():
    p, t = torch.zeros(2, 3), torch.ones(2, 3)
    assert nn.MSELoss(reduction="mean")(p, t) == 1 and nn.MSELoss(reduction="sum")(p, t) == 6
    assert nn.MSELoss(reduction="none")(p, t).shape == (2, 3)


@pytest.mark.slow
def test_cross_entropy_is_log_softmax_and_nll(batch):
    logits, labels = batch
    loss = nn.CrossEntropyLoss()(logits, labels)
    assert torch.allclose(loss, nn.NLLLoss()(nn.LogSoftmax(dim=1)(logits), labels))
    assert torch.allclose(loss, -logits.log_softmax(1)[torch.arange(8), labels].mean())
    assert torch.equal(F.cross_entropy(logits, labels), loss)
    images = torch.randn(2, 5, 4, 4)
    each = F.cross_entropy(images, torch.randint(0, 5, (2, 4, 4)), reduction="none")
    assert each.shape == (2, 4, 4)


def test_class_weights(batch):
    logits, labels = batch
    weight = torch.tensor([1.0] * 9 + [5.0])
    each = F.cross_entropy(logits, labels, reduction="none") * weight[labels]
    assert torch.allclose(nn.CrossEntropyLoss(weight=weight)(logits, labels), each.sum() / weight[labels].sum())


def test_label_smoothing(batch):
    logits, labels = batch
    soft = F.one_hot(labels, 10) * 0.9 + 0.1 / 10
    assert torch.allclose(nn.CrossEntropyLoss(label_smoothing=0.1)(logits, labels), F.cross_entropy(logits, soft))


def test_ignored_positions_count_for_nothing(batch):
    logits, labels = batch
    padded = labels.clone()
    padded[4:] = -100
    assert torch.allclose(F.cross_entropy(logits, padded), F.cross_entropy(logits[:4], labels[:4]))
    padded[4:] = 0
    kept = padded != 0
    assert torch.allclose(
        nn.CrossEntropyLoss(ignore_index=0)(logits, padded), F.cross_entropy(logits[kept], padded[kept])
    )


@pytest.mark.slow
def test_binary_losses():
    assert nn.BCEWithLogitsLoss()(torch.tensor([200.0]), torch.tensor([0.0])) == 200
    x, t = torch.tensor([0.3, -1.0]), torch.tensor([1.0, 0.0])
    assert torch.allclose(nn.BCEWithLogitsLoss()(x, t), nn.BCELoss()(x.sigmoid(), t))
    heavy = nn.BCEWithLogitsLoss(pos_weight=torch.tensor([3.0]), reduction="none")(x, t)
    assert heavy[0].item() == pytest.approx(-3 * math.log(1 / (1 + math.exp(-0.3))), rel=1e-5)
    with pytest.raises(RuntimeError):
        nn.BCELoss()(torch.tensor([1.5]), torch.tensor([1.0]))


def test_kl_divergence():
    p, q = torch.randn(3, 4).softmax(1), torch.randn(3, 4).softmax(1)
    loss = nn.KLDivLoss(reduction="batchmean")
    assert torch.allclose(loss(q.log(), p), (p * (p.log() - q.log())).sum() / 3)
    assert loss(p.log(), p).item() == pytest.approx(0, abs=1e-6)


def test_huber():
    p, t = torch.tensor([0.5, 4.0]), torch.zeros(2)
    assert nn.HuberLoss(delta=1.0, reduction="none")(p, t).tolist() == pytest.approx([0.125, 3.5])
    assert nn.HuberLoss(delta=2.0, reduction="none")(p, t).tolist() == pytest.approx([0.125, 6.0])
    assert nn.SmoothL1Loss(reduction="none")(p, t).tolist() == pytest.approx([0.125, 3.5])
    assert torch.equal(F.smooth_l1_loss(p, t), nn.SmoothL1Loss()(p, t))


def test_triplets():
    a, p, n = torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]), torch.tensor([[0.0, 2.0]])
    assert nn.TripletMarginLoss(margin=1.0)(a, p, n).item() == pytest.approx(5 - 2 + 1, abs=1e-4)
    assert nn.TripletMarginLoss(margin=1.0)(a, n, p).item() == pytest.approx(0, abs=1e-4)


def focal_loss(logits, targets, gamma=2.0, alpha=0.25):
    each = F.cross_entropy(logits, targets, reduction="none")
    return (alpha * (1 - torch.exp(-each)) ** gamma * each).mean()


class ContrastiveLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.margin = nn.Parameter(torch.tensor(1.0))

    def forward(self, one, two, label):
        distance = F.pairwise_distance(one, two)
        return ((1 - label) * distance**2 + label * torch.clamp(self.margin - distance, min=0) ** 2).mean()


def test_losses_written_by_hand(batch):
    logits, labels = batch[0].double().requires_grad_(), batch[1]
    assert torch.autograd.gradcheck(lambda x: focal_loss(x, labels), (logits,))
    one, two = torch.randn(5, 3).double().requires_grad_(), torch.randn(5, 3).double()
    assert torch.autograd.gradcheck(lambda x: ContrastiveLoss().double()(x, two, torch.tensor([0, 1, 0, 1, 0])), (one,))
    mu, log_var = torch.randn(3, 2, requires_grad=True), torch.randn(3, 2, requires_grad=True)
    total = F.mse_loss(mu.tanh(), torch.zeros(3, 2)) - 0.001 * 0.5 * (1 + log_var - mu**2 - log_var.exp()).mean()
    total.backward()
    assert torch.allclose(log_var.grad, 0.0005 * (log_var.exp() - 1) / 6, atol=1e-7)


def test_parameters_of_a_loss_are_saved():
    loss = ContrastiveLoss()
    assert list(loss.state_dict()) == ["margin"]
    loss(torch.zeros(1, 2), torch.ones(1, 2) * 0.1, torch.tensor([1])).backward()
    assert loss.margin.grad > 0
