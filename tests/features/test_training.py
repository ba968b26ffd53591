"""Training and evaluation loops, whole."""

import copy

import pytest

import flambeau as torch
from flambeau import nn

F = nn.functional


def task(samples=96, features=6, classes=3):
    torch.manual_seed(0)
    x = torch.randn(samples, features)
    return x, (x @ torch.randn(features, classes)).argmax(1)


def network(features=6, classes=3):
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(features, 16), nn.ReLU(), nn.Linear(16, classes))


def loader(x, y, size=32):
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=size)


def train_epoch(model, batches, optimizer):
    model.train()
    total = 0.0
    for x, y in batches:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        optimizer.step()
        total += loss.item() * len(x)
    return total / len(batches.dataset)


@torch.no_grad()
def evaluate(model, batches):
    model.eval()
    total, correct, seen = 0.0, 0, 0
    for x, y in batches:
        logits = model(x)
        total += F.cross_entropy(logits, y).item() * len(x)
        correct += (logits.argmax(dim=1) == y).sum().item()
        seen += len(x)
    return total / seen, correct / seen


def test_the_loss_falls():
    x, y = task()
    model, batches = network(), loader(x, y)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = [train_epoch(model, batches, optimizer) for _ in range(30)]
    assert losses[-1] < 0.3 * losses[0] and evaluate(model, batches)[1] > 0.9


def test_iterations_of_an_epoch():
    assert len(loader(*task(1000), size=32)) == 32 and len(loader(*task(1000), size=50)) == 20


def test_validation_changes_nothing():
    x, y = task()
    model = nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3), nn.Dropout())
    before = copy.deepcopy(model.state_dict())
    evaluate(model, loader(x, y))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_weighted_metrics_equal_the_whole():
    x, y = task(70)
    model = network()
    loss, accuracy = evaluate(model, loader(x, y))
    assert loss == pytest.approx(F.cross_entropy(model(x), y).item(), rel=1e-5)
    assert accuracy == pytest.approx((model(x).argmax(1) == y).float().mean().item())


def test_accumulated_gradients_equal_the_batch():
    x, y = task(32)
    whole, parts = network(), network()
    F.cross_entropy(whole(x), y).backward()
    for a, b in zip(x.split(8), y.split(8)):
        (F.cross_entropy(parts(a), b) / 4).backward()
    for p, q in zip(whole.parameters(), parts.parameters()):
        assert torch.allclose(p.grad, q.grad, atol=1e-6)


def test_early_stopping():
    losses = iter([1.0, 0.8, 0.9, 0.7, 0.75, 0.71, 0.8, 0.1])
    model, best, patience, waited, stopped = nn.Linear(1, 1), float("inf"), 3, 0, None
    for epoch, loss in enumerate(losses):
        with torch.no_grad():
            model.weight.fill_(epoch)
        if loss < best:
            best, waited, kept = loss, 0, copy.deepcopy(model.state_dict())
        else:
            waited += 1
        if waited >= patience:
            stopped = epoch
            break
    model.load_state_dict(kept)
    assert stopped == 6 and model.weight.item() == 3


def test_a_tiny_batch_is_learnt_by_heart():
    x, y = task(5)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    for _ in range(150):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
    assert loss < 0.01


def test_small_batches_are_noisy():
    x, y = task(64)
    model = network()

    def scatter(size):
        gradients = []
        for a, b in zip(x.split(size), y.split(size)):
            model.zero_grad()
            F.cross_entropy(model(a), b).backward()
            gradients.append(model[0].weight.grad.clone())
        return torch.stack(gradients).var(0).sum()

    assert scatter(1) > 4 * scatter(16)


def test_transfer_learning():
    x, y = task()
    model = network(classes=7)
    pretrained = {k: v.clone() for k, v in model.state_dict().items()}
    model[2] = nn.Linear(16, 3)
    for p in model[0].parameters():
        p.requires_grad = False
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-2)
    head = model[2].weight.clone()
    train_epoch(model, loader(x, y), optimizer)
    assert torch.equal(model[0].weight, pretrained["0.weight"]) and not torch.equal(model[2].weight, head)
    for p in model.parameters():
        p.requires_grad = True
    train_epoch(model, loader(x, y), torch.optim.AdamW(model.parameters(), lr=1e-3))
    assert not torch.equal(model[0].weight, pretrained["0.weight"])


def test_truncated_backpropagation():
    rnn, x = nn.RNN(2, 3), torch.randn(6, 1, 2, requires_grad=True)
    _, h = rnn(x[:3])
    carried = h.detach()
    assert torch.equal(carried, h)
    rnn(x[3:], carried)[0].sum().backward()
    assert not x.grad[:3].any() and x.grad[3:].any()


def test_gradient_reaches_one_network_only():
    generator, critic = nn.Linear(2, 3), nn.Linear(3, 1)
    critic(generator(torch.randn(4, 2)).detach()).mean().backward()
    assert generator.weight.grad is None and critic.weight.grad is not None
    current, target, states = nn.Linear(2, 1), nn.Linear(2, 1), torch.randn(4, 2)
    F.mse_loss(current(states), target(states).detach()).backward()
    assert target.weight.grad is None and current.weight.grad.any()


def test_policy_gradient():
    torch.manual_seed(0)
    logits = torch.zeros(3, requires_grad=True)
    optimizer = torch.optim.SGD([logits], lr=0.5)
    for _ in range(60):
        p = logits.softmax(0)
        action = torch.multinomial(p.detach(), 1)
        loss = -(p[action].log() * (action == 1).float()).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert logits.softmax(0)[1] > 0.8


def test_decay_gives_smaller_weights():
    x, y = task()

    def norm(decay):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=decay)
        for _ in range(20):
            train_epoch(model, loader(x, y), optimizer)
        return sum(p.norm() for p in model.parameters())

    assert norm(1.0) < norm(0.0)


def test_residual_connections_carry_the_gradient():
    def first_gradient(residual):
        torch.manual_seed(0)
        layers = nn.ModuleList([nn.Linear(16, 16) for _ in range(30)])
        x = torch.randn(4, 16, requires_grad=True)
        y = x
        for layer in layers:
            y = (y if residual else 0) + torch.sigmoid(layer(y))
        y.sum().backward()
        return x.grad.norm().item()

    assert first_gradient(False) < 1e-10 < 0.1 < first_gradient(True)
