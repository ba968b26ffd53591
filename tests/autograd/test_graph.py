"""The recorded graph and the walk through it: accumulation, lifetime, hooks, modes, depth, memory."""

import gc
import resource
import threading
import weakref

import numpy as np
import pytest

import flambeau as torch


def leaf(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def test_gradients_accumulate_over_backward_calls():
    x = leaf(1.0)
    for _ in range(3):
        (x * x).sum().backward()
    assert x.grad.tolist() == [6.0]


def test_a_tensor_used_twice_gets_the_sum():
    x = leaf(2.0, 3.0)
    (x * x + x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_broadcast_operands_get_summed_gradients():
    rows, bias = torch.ones(64, 3, requires_grad=True), torch.zeros(3, requires_grad=True)
    (rows + bias).sum().backward()
    assert bias.grad.tolist() == [64.0] * 3
    assert rows.grad.shape == (64, 3)


def test_two_leaves_do_not_share_one_gradient():
    a, b = leaf(1.0), leaf(2.0)
    (a + b).sum().backward()
    a.grad.zero_()
    assert b.grad.tolist() == [1.0]


def test_graph_is_freed_after_backward():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match="second time"):
        y.backward()
    z = (x * x).sum()
    z.backward(retain_graph=True)
    z.backward()
    assert x.grad.tolist() == [6.0]


def test_non_scalar_needs_a_gradient():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="scalar"):
        (x * x).backward()
    (x * x).backward(torch.tensor([1.0, 10.0]))
    assert x.grad.tolist() == [2.0, 40.0]
    with pytest.raises(RuntimeError, match="shape"):
        (x * x).backward(torch.ones(3))


def test_backward_without_history_raises():
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.ones(()).backward()


def test_node_names_and_edges():
    x = leaf(1.0)
    y = (x * 2).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    assert y.grad_fn.next_functions[0][0].name() == "MulBackward0"
    end = y.grad_fn.next_functions[0][0].next_functions[0][0]
    assert end.name() == "torch::autograd::AccumulateGrad" and end.variable is x
    assert y.grad_fn.next_functions[0][0].next_functions[0][0] is end


def test_retain_grad_and_non_leaf_gradients():
    x = leaf(3.0)
    y = x * x
    y.retain_grad()
    (y * 2).sum().backward()
    assert y.grad.tolist() == [2.0] and x.grad.tolist() == [12.0]


def test_hooks_replace_gradients_and_can_be_removed():
    x = leaf(1.0)
    seen = []
    y = x * 3
    handle = y.register_hook(lambda g: seen.append(g.tolist()) or g * 10)
    y.sum().backward()
    assert seen == [[1.0]] and x.grad.tolist() == [30.0]
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]
    x.grad = None
    x.register_hook(lambda g: g + 1)
    (x * 3 + x * 2).sum().backward()
    assert x.grad.tolist() == [6.0], "a leaf's hook sees the whole gradient once"


def test_post_accumulate_hook_runs_when_the_gradient_is_there():
    x = leaf(1.0)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.tolist()))
    (x * 4).sum().backward()
    assert seen == [[4.0]]


def test_post_accumulate_hooks_may_give_the_tensor_that_they_changed():
    x = leaf(1.0)
    handle = x.register_post_accumulate_grad_hook(lambda t: t.add_(t.grad, alpha=-0.5))
    (x * 4).sum().backward()
    assert x.tolist() == [-1.0] and x.grad.tolist() == [4.0]
    handle.remove()
    x.register_post_accumulate_grad_hook(lambda t: 5)
    with pytest.raises(TypeError, match="expected Variable, but hook returned 'int'"):
        (x * 4).sum().backward()


def test_node_hooks():
    x = leaf(1.0)
    y = x * 3
    y.grad_fn.register_hook(lambda inputs, outputs: (inputs[0] * 2, *inputs[1:]))
    y.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_writing_to_a_saved_tensor_is_detected():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    y = x.exp()
    z = y.sum()
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        z.backward()
    y = x + 1  # the sum keeps nothing, so changing its input does no harm
    z = (y + 1).sum()
    y.mul_(3)
    z.backward()


def test_leaves_refuse_in_place_writes():
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        x.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        x[0:1].add_(1)
    with torch.no_grad():
        x.add_(1)
    assert x.tolist() == [2.0] and x.is_leaf


def test_in_place_operations_are_differentiated():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * 1
    y.mul_(w)
    y.add_(x)
    y.sum().backward()
    assert x.grad.tolist() == [4.0, 5.0] and w.grad.tolist() == [1.0, 2.0]


def test_writes_through_views_reach_the_base():
    w = leaf(1.0, 2.0)
    base = torch.zeros(4)
    part, other = base[1:3], base[2:4]
    part.add_(w)
    assert base.requires_grad and other.requires_grad
    assert base.grad_fn.name() == "torch::autograd::CopySlices"
    (base * base).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [2.0, 4.0]
    w.grad = None
    other.sum().backward()
    assert w.grad.tolist() == [0.0, 1.0]


def test_item_assignment_is_differentiated():
    w, x = leaf(5.0), torch.ones(3, requires_grad=True)
    y = x * 2
    y[1] = w[0]
    (y * y).sum().backward()
    assert w.grad.tolist() == [10.0] and x.grad.tolist() == [8.0, 0.0, 8.0]


def test_detach_shares_memory_and_ends_history():
    x = leaf(1.0)
    y = x.detach()
    assert not y.requires_grad and y.data_ptr() == x.data_ptr()
    y.add_(1)
    assert x.tolist() == [2.0]


def test_grad_by_inputs():
    x, y = leaf(1.0), leaf(2.0)
    z = x * y
    assert torch.autograd.grad(z.sum(), (x, y))[0].tolist() == [2.0]
    assert x.grad is None
    with pytest.raises(RuntimeError, match="not have been used"):
        torch.autograd.grad((x * 2).sum(), (x, y))
    assert torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True)[1] is None
    assert torch.autograd.grad((x * 2).sum(), (x, y), materialize_grads=True)[1].tolist() == [0.0]
    mid = x * 3
    assert torch.autograd.grad((mid * mid).sum(), mid)[0].tolist() == [6.0]


def test_backward_into_chosen_inputs():
    x, y = leaf(1.0), leaf(2.0)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [2.0] and y.grad is None


def test_higher_orders():
    x = leaf(0.5, dtype=torch.float64)
    y = x.sin()
    for expected in (np.cos(0.5), -np.sin(0.5), -np.cos(0.5), np.sin(0.5)):
        (y,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        assert abs(y.item() - expected) < 1e-14


def test_modes_are_restored_after_errors_and_belong_to_a_thread():
    x = leaf(1.0)
    with pytest.raises(ValueError), torch.no_grad():
        raise ValueError
    assert torch.is_grad_enabled()
    seen = []
    with torch.no_grad():
        thread = threading.Thread(target=lambda: seen.append((x * 2).requires_grad))
        thread.start()
        thread.join()
        assert not (x * 2).requires_grad
        with torch.enable_grad():
            assert (x * 2).requires_grad
    assert seen == [True]

    @torch.no_grad()
    def quiet():
        return x * 2

    @torch.no_grad
    def also_quiet():
        return x * 2

    assert not quiet().requires_grad and not also_quiet().requires_grad
    with torch.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    assert torch.is_grad_enabled()


def test_no_grad_generators_switch_only_while_they_run():
    @torch.no_grad()
    def numbers():
        yield torch.is_grad_enabled()
        yield torch.is_grad_enabled()

    outside = []
    for inside in numbers():
        assert not inside
        outside.append(torch.is_grad_enabled())
    assert outside == [True, True]


def test_inference_tensors_stay_out_of_graphs():
    x = leaf(1.0)
    with torch.inference_mode():
        y = torch.ones(1) * 2
        assert not (x * 2).requires_grad
    assert y.is_inference()
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        (x * y).sum().backward()
    with pytest.raises(RuntimeError, match=r"[Ii]nference"):
        y.add_(1)
    (x * y.clone()).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_integer_tensors_cannot_require_grad():
    with pytest.raises(RuntimeError, match="floating point"):
        torch.tensor([1], requires_grad=True)


def test_anomaly_mode_names_the_operation():
    x = leaf(0.0)
    told = pytest.warns(UserWarning, match="Error detected in SqrtBackward0")
    slow = pytest.warns(UserWarning, match="Anomaly Detection has been enabled")
    with slow, told, torch.autograd.detect_anomaly(), pytest.raises(RuntimeError, match="SqrtBackward0"):
        (x.sqrt() * 0).sum().backward()


def test_saved_tensor_hooks_see_what_is_kept():
    x = leaf(3.0)
    packed = []

    def pack(t):
        packed.append(t.tolist())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t * 2):
        y = x * x
    y.sum().backward()
    assert packed == [[3.0], [3.0]] and x.grad.tolist() == [12.0]


@pytest.mark.slow
def test_a_chain_of_100000_operations_goes_backward():
    x = leaf(1.0)
    y = x
    for _ in range(100_000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del y  # and is taken down without recursion


def test_graphs_go_away_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0)
        y = (x.exp() * x).tanh()
        node = weakref.ref(y.grad_fn)
        del y
        assert node() is None
        z = x.sigmoid()
        z.mul_(2)
        node = weakref.ref(z.grad_fn)
        del z
        assert node() is None
    finally:
        gc.enable()


def test_keeping_a_loss_keeps_its_graph_and_item_does_not():
    x = leaf(1.0)
    kept = (x * x).sum()
    node = weakref.ref(kept.grad_fn)
    number = kept.item()
    del kept
    gc.collect()
    assert node() is None and number == 1.0


@pytest.mark.slow
def test_200000_training_steps_leak_nothing():
    torch.manual_seed(0)
    w, b = torch.randn(4, 1, requires_grad=True), torch.zeros(1, requires_grad=True)
    x = torch.randn(8, 4)
    target = x.sum(1, keepdim=True)

    def steps(count):
        for _ in range(count):
            error = x @ w + b - target
            (error * error).mean().backward()
            with torch.no_grad():
                for p in (w, b):
                    p.sub_(0.01 * p.grad)
                    p.grad = None

    steps(5_000)
    gc.collect()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    objects = len(gc.get_objects())
    steps(195_000)
    gc.collect()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 4096, f"peak memory grew by {grown} KiB"
    assert len(gc.get_objects()) - objects < 100
    assert torch.allclose(w, torch.ones(4, 1), atol=1e-3)


def test_a_loop_of_views_keeps_only_its_base():
    base = torch.arange(6.0).reshape(2, 3)
    x = base
    for _ in range(1000):
        x = x.t()
    depth, t = 0, x
    while t._view is not None:
        t, depth = t._view[0], depth + 1
    assert depth < 50
    w = torch.tensor(2.0, requires_grad=True)
    x.mul_(w)
    base.sum().backward()
    assert w.grad.item() == 15.0


def test_second_derivatives_of_piecewise_linear_functions_are_zero():
    x = leaf(-1.0, 2.0)
    (g,) = torch.autograd.grad(torch.relu(x).sum(), x, create_graph=True)
    assert g.requires_grad
    g.sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_an_overwritten_value_gets_a_zero_gradient():
    x, v = leaf(1.0), leaf(5.0)
    y = x * 2
    y.copy_(v)
    y.sum().backward()
    assert x.grad.tolist() == [0.0] and v.grad.tolist() == [1.0]


@pytest.mark.parametrize("function", [
    lambda a: a.view(6), lambda a: a + a, lambda a: -a, lambda a: torch.cat([a, a]), lambda a: a.sum(0), lambda a: a.expand(4, 2, 3),
    lambda a: a.clone(), lambda a: torch.nn.functional.pad(a, (1, 1)), lambda a: a[0], lambda a: a.mean(1), lambda a: a + 2,
])  # fmt: skip
def test_nodes_that_kept_nothing_may_be_used_again(function):
    a = torch.randn(2, 3, requires_grad=True)
    y = function(a)
    y.sum().backward()
    first = a.grad.clone()
    y.sum().backward()
    assert torch.equal(a.grad, 2 * first)


def test_nodes_that_kept_tensors_may_not():
    a = torch.randn(2, 3, requires_grad=True)
    for y in (a * a, a.exp(), a @ a.t(), torch.relu(a), a.softmax(1)):
        y.sum().backward()
        with pytest.raises(RuntimeError, match="second time"):
            y.sum().backward()


def test_grad_takes_pytorch_s_order():
    x, unused = torch.ones(2, requires_grad=True), torch.ones(1, requires_grad=True)
    found = torch.autograd.grad((x * 2).sum(), (x, unused), None, None, False, True, True)
    assert found[0].tolist() == [2.0, 2.0] and found[1] is None
    assert torch.autograd.grad((x * 2).sum(), x, only_inputs=True)[0].tolist() == [2.0, 2.0]


def test_numpy_without_recording():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()
    with torch.no_grad():
        assert x.numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    "about", [lambda node: None, lambda node: node.metadata.update(a=1), lambda node: node._set_sequence_nr(7)]
)
def test_only_gradients_that_are_asked_for_are_computed(monkeypatch, about):
    from flambeau._ops.layers.convolution import description

    def way(conv, role, plain=description.way):
        assert role != "sums", "nobody asked for the gradient by the weight"
        return plain(conv, role)

    x, w = torch.randn(4, 16, 24, 24, requires_grad=True), torch.randn(16, 16, 3, 3, requires_grad=True)
    made = torch.nn.functional.conv2d(x, w, padding=1)
    about(made.grad_fn)
    out = made.sum()
    both = torch.autograd.grad(out, (x, w), retain_graph=True)
    monkeypatch.setattr(description, "way", way)
    (alone,) = torch.autograd.grad(out, x, retain_graph=True)
    assert torch.equal(alone, both[0])
    with pytest.raises(AssertionError, match="nobody"):
        torch.autograd.grad(out, w)


def test_hooks_of_a_bias_run_before_those_of_the_weight():
    layer, order = torch.nn.Linear(3, 2), []
    for name, p in layer.named_parameters():
        p.register_hook(lambda g, name=name: order.append(name))
    layer(torch.ones(1, 3)).sum().backward()
    layer(torch.ones(2, 2, 3)).sum().backward()
    assert order == ["bias", "weight"] * 2


# -- the walk: nodes that wait alone need not queue --------------------------------------------------------------------


def _leaf(*values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_several_edges_to_one_node():
    x = _leaf(2.0, 3.0)
    y = x + 0.0
    torch.addcmul(y, y, y).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]
    x.grad = None
    torch.stack([y, x * 2.0, y, y]).sum().backward()
    assert x.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize(
    "function", [lambda a: a * 2, lambda a: 2 * a, lambda a: a / 2, lambda a: 2 / a, lambda a: a * a]
)
def test_a_number_kept_as_a_factor_is_freed_like_a_tensor(function):
    x = _leaf(2.0, 3.0)
    y = function(x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"backward through the graph a second time.*Specify retain_graph=True"):
        y.backward()


def test_sums_keep_the_order_of_edges():
    """Gradients of 1e16, -1e16 and 1: only the sum from left to right is 1."""
    x = _leaf(1.0)
    y = x * 1.0
    factors = torch.tensor([[1e16], [-1e16], [1.0]], dtype=torch.float64)
    (torch.stack([y, y, y]) * factors).sum().backward()
    assert x.grad.item() == 1.0


def test_branches_meet_again_and_many_outputs():
    x = _leaf(1.0, 2.0, 3.0)
    first, second, third = (x * 2.0).unbind()
    joined = (first * second).exp() + third * first + first
    expected = torch.autograd.grad(joined, x, retain_graph=True)[0].tolist()
    e = np.exp(2.0 * 4.0)
    np.testing.assert_allclose(expected, [2 * (4 * e + 6 + 1), 2 * 2 * e, 2 * 2])
    joined.backward()
    assert x.grad.tolist() == expected


def test_roots_that_are_leaves_or_come_twice():
    x = _leaf(1.0)
    y = x * 3.0
    torch.autograd.backward([x, y, y, x], [torch.tensor([v], dtype=torch.float64) for v in (1.0, 10.0, 100.0, 1000.0)])
    assert x.grad.item() == 1001.0 + 330.0


def test_nodes_that_were_looked_at():
    """Whoever looks at a node changes its class; the walk goes on as before."""
    x = _leaf(2.0)
    y = (x * 3.0).exp()
    assert "MulBackward0" in repr(y.grad_fn.next_functions[0][0])
    (y + y.detach() * x).sum().backward()
    np.testing.assert_allclose(x.grad.item(), 4 * np.exp(6.0))


def test_hooks_of_leaves_run_in_the_order_of_their_gradients():
    seen = []
    a, b, c = (_leaf(1.0) for _ in range(3))
    for name, leaf in (("a", a), ("b", b), ("c", c)):
        leaf.register_hook(lambda g, name=name: seen.append(name))
    ((a * b) * c).sum().backward()
    assert seen == ["c", "a", "b"]
