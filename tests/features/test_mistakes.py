"""Common mistakes have the effect that teachers warn of: an error, or silently other numbers."""

import io
import sys

import numpy as np
import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


def quadratic(steps, clear=True, update=True, lr=0.4):
    w = nn.Parameter(torch.tensor([1.0]))
    optimizer = torch.optim.SGD([w], lr=lr)
    for _ in range(steps):
        if clear:
            optimizer.zero_grad()
        (w**2).sum().backward()
        if update:
            optimizer.step()
    return w.item()


def test_data_left_on_another_device():
    model = nn.Linear(2, 2).to("meta")
    with pytest.raises((RuntimeError, NotImplementedError)):
        model(torch.ones(1, 2)).tolist()


def test_forgotten_zero_grad_and_step():
    assert abs(quadratic(20)) < 1e-6 < abs(quadratic(20, clear=False))
    assert quadratic(20, update=False) == 1


def test_forgotten_eval():
    torch.manual_seed(0)
    x = torch.randn(8, 4)
    drop = nn.Sequential(nn.Linear(4, 32), nn.Dropout())
    assert not torch.equal(drop(x), drop(x))
    norm = nn.BatchNorm1d(4)
    assert not torch.allclose(norm(x)[:2], norm(x[:2]))
    assert torch.equal(norm.eval()(x)[:2], norm(x[:2]))


def test_statistics_never_learnt():
    norm, x = nn.BatchNorm1d(2).eval(), torch.randn(50, 2) * 5 + 9
    assert norm(x).mean() > 5


def test_softmax_before_cross_entropy():
    logits, y = torch.tensor([[4.0, 0.0], [0.0, 4.0]], requires_grad=True), torch.tensor([0, 1])
    right, wrong = F.cross_entropy(logits, y), F.cross_entropy(logits.softmax(1), y)
    assert wrong > 10 * right
    (strong,) = torch.autograd.grad(F.cross_entropy(-logits, y), logits)
    (weak,) = torch.autograd.grad(F.cross_entropy((-logits).softmax(1), y), logits)
    assert weak.norm() < strong.norm() / 10
    assert not torch.allclose(F.nll_loss(logits.softmax(1), y), F.nll_loss(logits.log_softmax(1), y))


def test_targets_of_the_wrong_type():
    with pytest.raises(RuntimeError):
        nn.CrossEntropyLoss()(torch.randn(4, 10), torch.zeros(4))
    with pytest.raises(RuntimeError):
        nn.BCELoss()(torch.rand(4), torch.ones(4, dtype=torch.int64))
    with pytest.raises(RuntimeError):
        nn.Linear(3, 2)(torch.from_numpy(np.zeros((4, 3))))


def test_sigmoid_followed_by_bce():
    x = torch.tensor([200.0], requires_grad=True)
    loss = nn.BCELoss()(x.sigmoid(), torch.zeros(1))
    loss.backward()
    assert loss == 100 and x.grad == 0


class Wrong(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.ones(2)
        self.layers = [nn.Linear(2, 2)]
        local = nn.Linear(2, 2)
        self.size = local.in_features


def test_unregistered_parts():
    model = Wrong()
    assert not list(model.parameters()) and not model.state_dict()
    assert model.double().plain.dtype is torch.float32
    with pytest.raises(ValueError):
        torch.optim.SGD(model.parameters(), lr=0.1)


def test_forward_called_by_name_skips_hooks():
    seen, layer = [], nn.ReLU()
    layer.register_forward_hook(lambda *_: seen.append(1))
    layer.forward(torch.ones(1))
    assert not seen


def test_weights_rebuilt_in_the_loop():
    w = torch.ones(1, requires_grad=True)
    w = w - 0.1 * w
    (w**2).sum().backward()
    with pytest.warns(UserWarning):
        assert w.grad is None
    with pytest.raises(ValueError):
        torch.optim.SGD([w], lr=0.1)


def test_shared_memory_surprises():
    array = np.zeros(2)
    t = torch.from_numpy(array)
    array[0] = 1
    assert t[0] == 1
    part = t[:1]
    part[0] = 5
    assert t[0] == 5
    with pytest.raises(RuntimeError):
        torch.zeros(2, 3).t().view(6)


def test_star_is_not_the_matrix_product():
    a, b = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[5.0, 6.0], [7.0, 8.0]])
    assert (a * b).tolist() == [[5, 12], [21, 32]] and (a @ b).tolist() == [[19, 22], [43, 50]]


def test_batch_major_input_mixes_samples():
    torch.manual_seed(0)
    rnn, x = nn.RNN(3, 4), torch.randn(2, 5, 3)
    changed = x.clone()
    changed[0] += 1
    assert not torch.allclose(rnn(x)[0][1], rnn(changed)[0][1])
    rnn.batch_first = True
    assert torch.allclose(rnn(x)[0][1], rnn(changed)[0][1])


def rates(per_batch):
    p = nn.Parameter(torch.zeros(1))
    p.grad = torch.zeros(1)
    optimizer = torch.optim.SGD([p], lr=1.0)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=2)
    for _ in range(4):
        for _ in range(5 if per_batch else 1):
            optimizer.step()
            scheduler.step()
    return optimizer.param_groups[0]["lr"]


def test_scheduler_at_the_wrong_cadence():
    assert rates(False) == pytest.approx(0.01) and rates(True) < 1e-9


def test_adam_rescales_its_decay():
    def shrunk(kind):
        w = nn.Parameter(torch.tensor([10.0, 0.1]))
        optimizer = kind([w], lr=0.01, weight_decay=0.1)
        w.grad = torch.zeros(2)
        optimizer.step()
        return (w.detach() - torch.tensor([10.0, 0.1])).tolist()

    assert shrunk(torch.optim.Adam) == pytest.approx([-0.01, -0.01], rel=1e-4)  # the same step for both
    assert shrunk(torch.optim.AdamW) == pytest.approx([-0.01, -0.0001], rel=1e-3)  # in proportion


def test_means_of_batch_means_are_biased():
    each = torch.tensor([1.0, 1.0, 1.0, 1.0, 9.0])
    means = [b.mean().item() for b in each.split(4)]
    assert sum(means) / 2 == 5 and each.mean().item() == pytest.approx(2.6)


def test_accumulation_without_division():
    w = nn.Parameter(torch.ones(1))
    for _ in range(4):
        (w**2).sum().backward()
    assert w.grad.item() == 4 * 2


def test_accumulation_with_batch_norm():
    torch.manual_seed(0)
    x = torch.randn(8, 3)
    parts = torch.cat([nn.BatchNorm1d(3)(p) for p in x.split(4)])
    assert not torch.allclose(parts, nn.BatchNorm1d(3)(x), atol=1e-2)


@pytest.mark.parametrize("place, bounded", [("between", True), ("before", False), ("after", False)])
def test_where_to_clip(place, bounded):
    w = nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.SGD([w], lr=1.0)

    def clip():
        nn.utils.clip_grad_norm_([w], 1.0)

    w.grad = torch.zeros(1)
    if place == "before":
        clip()
    (w * 100).sum().backward()
    if place == "between":
        clip()
    optimizer.step()
    if place == "after":
        clip()
    assert (w.abs().item() <= 1) is bounded


def test_frozen_and_forgotten_layers():
    frozen, forgotten, head = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 1)
    frozen.requires_grad_(False)
    optimizer = torch.optim.SGD([*frozen.parameters(), *head.parameters()], lr=0.1)
    before = [frozen.weight.clone(), forgotten.weight.clone()]
    head(forgotten(frozen(torch.ones(1, 2)))).sum().backward()
    optimizer.step()
    assert frozen.weight.grad is None and forgotten.weight.grad is not None
    assert torch.equal(frozen.weight, before[0]) and torch.equal(forgotten.weight, before[1])


def test_whole_models_break_when_their_class_is_gone():
    module = type(sys)("vanishing")
    exec("from flambeau import nn\nclass Net(nn.Linear): pass", module.__dict__)
    sys.modules["vanishing"] = module
    module.Net.__module__ = "vanishing"
    buffer = io.BytesIO()
    torch.save(module.Net(1, 1), buffer)
    del sys.modules["vanishing"]
    buffer.seek(0)
    with pytest.raises((ModuleNotFoundError, AttributeError)):
        torch.load(buffer, weights_only=False)


def continued(with_state):
    w = nn.Parameter(torch.tensor([1.0, -2.0]))
    optimizer = torch.optim.Adam([w], lr=0.1)
    for step in range(6):
        if step == 3:
            state = optimizer.state_dict()
            optimizer = torch.optim.Adam([w], lr=0.1)
            if with_state:
                optimizer.load_state_dict(state)
        optimizer.zero_grad()
        (w**4).sum().backward()
        optimizer.step()
    return w.detach()


def test_optimizer_state_not_saved():
    assert not torch.allclose(continued(True), continued(False))


def test_exporting_in_train_mode():
    model = nn.Sequential(nn.Linear(4, 64), nn.Dropout())
    x = torch.ones(2, 4)
    assert not torch.equal(model(x), model(x)) and torch.equal(model.eval()(x), model(x))


def test_as_strided_reads_neighbours_but_not_beyond():
    whole = torch.arange(10)
    part = whole[:4]
    assert part.as_strided((6,), (1,)).tolist() == [0, 1, 2, 3, 4, 5]
    with pytest.raises(RuntimeError):
        part.as_strided((11,), (1,))


def test_one_sample_in_training_batch_norm():
    with pytest.raises(ValueError):
        nn.BatchNorm1d(3)(torch.randn(1, 3))


def test_splits_share_one_transform():
    class Data(torch.utils.data.Dataset):
        scale = 1

        def __len__(self):
            return 4

        def __getitem__(self, index):
            return index * self.scale

    train, test = torch.utils.data.random_split(Data(), [2, 2])
    train.dataset.scale = 0
    assert test[0] == 0 and test.dataset is train.dataset
