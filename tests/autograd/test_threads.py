"""Backward passes of several threads into the same leaves add up exactly, and forks between them do not hang."""

import os
import signal
import sys
import threading

import pytest

import flambeau as torch


def together(work, count=8):
    errors = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


@pytest.fixture(autouse=True)
def switching():
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("size, steps", [(3, 50), (100_000, 20)])
def test_no_gradient_is_lost(size, steps):
    leaf = torch.zeros(size, requires_grad=True)
    together(lambda number: [(leaf * 1.0).sum().backward() for _ in range(steps)])
    assert float(leaf.grad.min()) == float(leaf.grad.max()) == 8 * steps


def test_the_first_gradients_of_new_leaves():
    """The slot for a gradient is made once, whoever comes first."""
    for _ in range(30):
        leaves = [torch.zeros(4, requires_grad=True) for _ in range(4)]
        start = threading.Barrier(6)

        def work(number, leaves=leaves, start=start):
            start.wait()
            sum((leaf * 2.0).sum() for leaf in leaves).backward()

        together(work, 6)
        assert [leaf.grad.tolist() for leaf in leaves] == [[12.0] * 4] * 4


def test_a_shared_module():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.Tanh(), torch.nn.Linear(30, 3)).double()
    x = torch.randn(8, 16, 20, dtype=torch.float64)
    for part in x:
        model(part).square().sum().backward()
    alone = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    together(lambda number: model(x[number]).square().sum().backward())
    for p, expected in zip(model.parameters(), alone):
        assert torch.allclose(p.grad, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_sparse_gradients_and_graphs_of_gradients():
    table = torch.zeros(10, 3, requires_grad=True)
    index = torch.tensor([1, 1, 7])
    together(
        lambda number: [torch.nn.functional.embedding(index, table, sparse=True).sum().backward() for _ in range(10)]
    )
    assert table.grad.to_dense()[:, 0].tolist() == [0.0, 160.0, 0, 0, 0, 0, 0, 80.0, 0, 0]
    leaf = torch.ones(3, requires_grad=True)
    together(lambda number: [(leaf * leaf).sum().backward(create_graph=True) for _ in range(5)])
    assert leaf.grad.tolist() == [80.0] * 3
    leaf.grad = None


def test_hooks_may_run_other_backward_passes():
    leaf, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)

    def hook(p):
        with torch.enable_grad():
            (other * 3).sum().backward()

    leaf.register_post_accumulate_grad_hook(hook)
    together(lambda number: [(leaf * 2).sum().backward() for _ in range(10)])
    assert leaf.grad.tolist() == [160.0] * 2 and other.grad.tolist() == [240.0] * 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_children_can_compute_gradients():
    leaf, going = torch.zeros(50_000, requires_grad=True), True

    def work(number):
        while going:
            (leaf * 1.0).sum().backward()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            child = os.fork()
            if not child:
                signal.alarm(30)
                leaf.grad = None
                (leaf * 2.0).sum().backward()
                os._exit(0 if float(leaf.grad[0]) == 2.0 else 3)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    finally:
        going = False
        for thread in threads:
            thread.join()
