"""The observer of steps: losses by line, phases of time, programs with and without optimizers; nothing is left behind."""

import flambeau as torch
from flambeau import nn
from flambeau._observe.steps import BACKWARD, EVALUATION, FORWARD, LOADER, OPTIMIZER, Steps, value_of
from flambeau.utils.data import DataLoader, TensorDataset


def observed(program):
    seen = []
    steps = Steps()
    steps.on_step.append(seen.append)
    with steps:
        program()
    return steps, seen


def test_a_loop_with_loader_and_evaluation():
    net = nn.Linear(3, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    loader = DataLoader(TensorDataset(torch.randn(8, 3), torch.randint(0, 2, (8,))), 4)
    values = []

    def program():
        for x, y in loader:
            opt.zero_grad()
            loss = nn.functional.cross_entropy(net(x), y)
            values.append(loss.item())
            loss.backward()
            opt.step()
            with torch.no_grad():
                net(x)

    steps, seen = observed(program)
    assert [step.number for step in seen] == [1, 2]
    assert [value_of(step.losses["loss"]) for step in seen] == values
    first, second = seen
    assert min(first.times[LOADER], first.times[FORWARD], first.times[BACKWARD], first.times[OPTIMIZER]) > 0
    assert first.times[EVALUATION] == 0 < second.times[EVALUATION]  # it came after the first step
    assert abs(sum(sum(step.times) for step in seen) - second.at) < 1e-6
    assert [ref() for ref in steps.roots.values()] == [net] and seen[0].optimizer is opt


def test_what_stood_there_before_is_back():
    before = nn.Module.__call__, torch.Tensor.backward, torch.autograd.backward
    observed(lambda: None)
    assert (nn.Module.__call__, torch.Tensor.backward, torch.autograd.backward) == before


def test_accumulated_losses_are_averaged_and_other_lines_have_other_names():
    w = nn.Parameter(torch.ones(1))

    def program():
        opt = torch.optim.SGD([w], lr=0.0)
        for _ in range(2):
            for k in (1.0, 3.0):
                (w * k).sum().backward()
            (w * 10).sum().backward()
            opt.step()

    _, seen = observed(program)
    assert len(seen) == 2
    (first, a), (second, b) = seen[0].losses.items()
    assert first == "loss" and second.startswith("loss, line ")
    assert value_of(a) == 2.0 and value_of(b) == 10.0


def test_without_an_optimizer_a_step_ends_with_the_next_backward():
    w = torch.ones(1, requires_grad=True)

    def program():
        for k in range(3):
            (w * k).sum().backward()

    _, seen = observed(program)
    assert [step.losses["loss"] for step in seen] == [[0.0], [1.0], [2.0]]


def test_lbfgs_calls_backward_inside_of_its_step():
    w = nn.Parameter(torch.tensor([3.0]))
    opt = torch.optim.LBFGS([w], max_iter=3)

    def closure():
        opt.zero_grad()
        loss = (w**2).sum()
        loss.backward()
        return loss

    _, seen = observed(lambda: opt.step(closure))
    assert len(seen) == 1 and len(seen[0].losses["loss"]) > 1
    assert seen[0].times[BACKWARD] > 0 and seen[0].times[OPTIMIZER] > 0


def test_scaled_losses_are_shown_unscaled():
    w = nn.Parameter(torch.ones(1))
    opt = torch.optim.SGD([w], lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)

    def program():
        scaler.scale((w * 2).sum()).backward()
        scaler.step(opt)

    _, seen = observed(program)
    assert seen[0].losses["loss"] == [2.0]
