"""When hooks run: a leaf's as soon as its last gradient is there, those of tensors before those of nodes."""

import pytest

import flambeau as torch


@pytest.fixture
def log():
    return []


def leaves(log, names, *shape):
    made = []
    for name in names:
        t = torch.ones(*(shape or (3,)), requires_grad=True)
        t.register_hook(lambda g, name=name: log.append(name))
        t.register_post_accumulate_grad_hook(lambda p, name=name: log.append(name.upper()))
        made.append(t)
    return made


CASES = {
    "aAbB": lambda a, b, c: a * b + a,
    "cCaAbB": lambda a, b, c: (a * b) * c + a,
    "bBaA": lambda a, b, c: ((b * a) * a) * a,
    "cCaAbB ": lambda a, b, c: a * b + b * c + c * a,
    "aAbB ": lambda a, b, c: b.exp() * a.exp() + b,
    "aAcCbB": lambda a, b, c: torch.stack([a, c, b]),
}


@pytest.mark.parametrize("order", CASES)
def test_leaves(log, order):
    CASES[order](*leaves(log, "abc")).sum().backward()
    assert "".join(log) == order.strip()


def test_a_regularized_network(log):
    a, b, c, d = leaves(log, "abcd", 2, 2)
    out = torch.relu(a @ b) @ c + d
    (out.sum() + (b * b).sum()).backward()
    assert "".join(log) == "dDcCaAbB"


def test_between_other_nodes(log):
    a, b = leaves(log, "ab")
    y, z = a * 2, b * 3
    y.register_hook(lambda g: log.append("y"))
    z.register_hook(lambda g: log.append("z"))
    (y + z + a).sum().backward()
    assert "".join(log) == "zbByaA"


def test_roots_that_are_leaves(log):
    a, b = leaves(log, "ab")
    torch.autograd.backward([b, (a * 1).sum()], [torch.ones(3), None])
    assert "".join(log) == "bBaA" and b.grad.tolist() == [1, 1, 1]


def test_only_some_inputs(log):
    a, b = leaves(log, "ab")
    ((a * 2) * b).sum().backward(inputs=[a])
    assert "".join(log) == "aA" and b.grad is None


def test_gradients_that_never_come(log):
    class First(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            return x * 1, y * 1

        @staticmethod
        def backward(ctx, x, y):
            return x, None

    a, b = leaves(log, "ab")
    u, _ = First.apply(a, b)
    (u.sum() + (b * 2).sum() + (a.exp() * b.exp()).sum()).backward()
    assert "".join(log) == "aAbB"


def test_kinds_of_a_leaf(log):
    a = torch.ones(3, requires_grad=True)
    a.grad = torch.full((3,), 10.0)
    node = a.view_as(a).grad_fn.next_functions[0][0]
    node.register_prehook(lambda gradients: log.append("before"))
    node.register_hook(lambda inputs, outputs: log.append((inputs, outputs[0].tolist())))
    a.register_post_accumulate_grad_hook(lambda p: log.append(p.grad.tolist()))
    a.register_hook(lambda g: log.append("tensor"))
    (a * 2).sum().backward()
    assert log == ["tensor", "before", [12.0] * 3, ((), [2.0] * 3)]


def test_kinds_of_a_result(log):
    a = torch.ones(2, requires_grad=True)
    y = a * 2
    handle = y.grad_fn.register_prehook(lambda gradients: (gradients[0] * 3,))
    y.retain_grad()
    y.register_hook(lambda g: g * 5)
    y.sum().backward(retain_graph=True)
    assert y.grad.tolist() == [5, 5] and a.grad.tolist() == [30, 30]
    handle.remove()
    y.sum().backward()
    assert a.grad.tolist() == [40, 40]


def test_a_hook_that_is_added_while_the_node_runs_sees_no_gradients_in_this_pass():
    received = []

    def unpack(t):
        node = torch._C._current_autograd_node()
        if not received:
            node.register_hook(lambda made, got: received.append(got))
        return t

    x = torch.ones(2, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        out = x.exp()
    out.sum().backward(retain_graph=True)
    assert received == [(None,)]
    out.sum().backward()
    assert received[1][0].tolist() == [1, 1]
