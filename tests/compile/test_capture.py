"""A whole forward and backward pass recorded, and run again on other values."""

import flambeau as torch
from flambeau._compile.capture import Capture


def network(x, w1, b1, w2):
    hidden = torch.tanh(x @ w1 + b1)
    out = torch.softmax(hidden @ w2, dim=1)
    return (out[:, 0].log() * -1).mean()


def values(seed):
    torch.manual_seed(seed)
    return [torch.randn(5, 3), torch.randn(3, 8), torch.randn(8), torch.randn(8, 4)]


def test_forward_and_backward_replay_on_new_inputs():
    inputs = values(0)
    with Capture(*inputs) as tape:
        for t in inputs[1:]:
            t.requires_grad_()
        loss = network(*inputs)
        loss.backward()
        grads = [t.grad for t in inputs[1:]]
    names = [step.op.name for step in tape.steps]
    assert "tanh" in names and any("backward" in n for n in names)

    fresh = values(1)
    replayed = tape.replay(fresh, [loss, *grads])
    for t in fresh[1:]:
        t.requires_grad_()
    expected = network(*fresh)
    expected.backward()
    assert torch.allclose(replayed[0], expected, rtol=1e-6)
    for got, t in zip(replayed[1:], fresh[1:]):
        assert torch.allclose(got, t.grad, rtol=1e-5, atol=1e-7)


def test_in_place_updates_replay():
    x, w = torch.tensor([1.0, 2.0]), torch.tensor([3.0, 4.0])
    with Capture(x, w) as tape:
        y = x * 2
        y.add_(w)
        z = y * y
    (again,) = tape.replay([torch.tensor([0.0, 0.0]), torch.tensor([1.0, 1.0])], [z])
    assert again.tolist() == [1.0, 1.0]


def test_nothing_is_recorded_outside():
    x = torch.ones(2)
    with Capture(x) as tape:
        x + 1
    x * 2
    assert [step.op.name for step in tape.steps] == ["add"]
