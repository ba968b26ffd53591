"""What can be asked of a backward pass while it runs, and what it leaves on tensors and nodes."""

import pytest

import flambeau as torch
from flambeau._autograd import engine
from flambeau._autograd.node import edge_of


def test_the_pass_that_runs_now_can_be_asked():
    a, b = (torch.randn(2, requires_grad=True) for _ in range(2))
    c = a * b
    out = c.sin().sum()
    aside = c.cos().grad_fn
    leaf_a, leaf_b = c.grad_fn.next_functions[0][0], c.grad_fn.next_functions[1][0]
    seen = []

    def hook(g):
        will = torch._C._will_engine_execute_node
        seen.append((torch._C._current_graph_task_id() >= 0, will(c.grad_fn), will(aside), will(leaf_a), will(leaf_b)))

    c.register_hook(hook)
    torch.autograd.backward(out, inputs=(a,), retain_graph=True)
    out.backward(retain_graph=True)
    assert seen == [(True, True, False, True, False), (True, True, False, True, True)]
    with pytest.raises(RuntimeError, match="are currently running autograd"):
        torch.autograd.grad(out, a, retain_graph=True)
    with pytest.raises(RuntimeError, match="during the backward pass"):
        torch._C._will_engine_execute_node(c.grad_fn)
    with pytest.raises(RuntimeError, match="expects an grad_fn"):
        torch._C._will_engine_execute_node(out)
    assert torch._C._current_autograd_node() is None and torch._C._current_graph_task_id() == -1


def test_the_order_of_a_pass_is_known_before():
    a, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
    out = b.sin() * a.cos()
    predicted = []
    out.register_hook(lambda g: predicted.extend(torch._C._current_graph_task_execution_order()))
    with torch.autograd.set_multithreading_enabled(False):
        out.backward(retain_graph=True)
    names = [node.name().split("::")[-1] for node in predicted]
    assert names == ["MulBackward0", "CosBackward0", "AccumulateGrad", "SinBackward0", "AccumulateGrad"]
    with pytest.raises(RuntimeError, match="with multithreading disabled"):
        out.backward()
    with pytest.raises(RuntimeError, match="should only be called during the backward pass"):
        torch._C._current_graph_task_execution_order()


def test_passes_inside_of_passes_do_not_run_out_of_stack():
    class Deep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch.enable_grad():
                ctx.x = x.detach().requires_grad_() - 1
            return ctx.x.detach()

        @staticmethod
        def backward(ctx, g):
            if ctx.x >= 0:
                with torch.enable_grad():
                    Deep.apply(ctx.x).sum().backward()
            return g

    v = torch.tensor(300.0, requires_grad=True)
    Deep.apply(v).sum().backward()
    assert v.grad == 1


def test_blocks_of_hooks_that_a_hook_opens_end_with_the_pass():
    def unpack(x):
        block.__enter__()
        return x

    block = torch.autograd.graph.saved_tensors_hooks(lambda x: x, unpack)
    with block:
        torch.randn(3, requires_grad=True).sin().sum().backward()
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: packed.append(1) or x, lambda x: x):
        torch.randn(3, requires_grad=True).sin()
    torch.randn(3, requires_grad=True).sin()
    assert packed == [1]


def test_what_a_node_receives():
    x = torch.rand(2, 3, requires_grad=True)
    (about,) = (x * 2).grad_fn._input_metadata
    assert about.shape == (2, 3) and about.dtype is torch.float32 and not about.is_nested_tensor
    assert [m.shape for m in torch.var_mean(x, dim=0)[0].grad_fn._input_metadata] == [(3,), (3,)]


def test_several_gradients_at_once_in_each_pass():
    a, b = (torch.tensor(1.0, requires_grad=True) for _ in range(2))
    x, y = a * 2, b * 3
    seen = []
    handle = torch.autograd.graph.register_multi_grad_hook((x, y), seen.append)
    (x + y).backward(retain_graph=True)
    x.backward(retain_graph=True)  # the other is not part of this pass
    assert [[None if g is None else g.item() for g in grads] for grads in seen] == [[1.0, 1.0], [1.0, None]]
    handle.remove()
    first = []
    torch.autograd.graph.register_multi_grad_hook((x, y), first.append, mode="any")
    (x + y).backward(retain_graph=True)
    (x + y).backward()
    assert len(first) == 2


def test_hooks_of_a_node_run_where_its_gradient_is_asked_for():
    log = []
    a = torch.tensor(1.0, requires_grad=True)
    b = a.clone()
    b.grad_fn.register_prehook(lambda gs: log.append("node"))
    b.grad_fn.register_hook(lambda made, given: log.append("after"))
    b.register_hook(lambda g: log.append("tensor") or g * 3)
    b.sum().backward(inputs=(b,), retain_graph=True)
    assert log == ["tensor", "node", "after"] and b.grad.item() == 3
    log.clear()
    assert torch.autograd.grad(b.sum(), b)[0] == 3 and log == ["tensor"]
    log.clear()
    torch.autograd.backward(b, inputs=(torch.tensor(1.0, requires_grad=True),))  # leads nowhere
    assert log == ["tensor"]


def test_the_dtype_of_a_gradient():
    class Wide(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g.double()

    for wanted, found in ((torch.float32, torch.float32), (None, torch.float64), (torch.float16, torch.float16)):
        x = torch.tensor([1.0], requires_grad=True)
        assert x.grad_dtype is torch.float32
        x.grad_dtype = wanted
        Wide.apply(x).sum().backward()
        assert x.grad.dtype is found and x.grad_dtype is wanted
    with pytest.raises(RuntimeError, match=r"attempting to assign a gradient with dtype.*float.*grad_dtype.*Half"):
        x.grad = torch.ones(1)
    with pytest.raises(RuntimeError, match="because there is already a gradient"):
        x.grad_dtype = torch.float32
    with pytest.raises(RuntimeError, match="grad_dtype can only be accessed on leaf tensors"):
        _ = (x * 2).grad_dtype


def test_retained_gradients_follow_views_that_are_renewed():
    base = torch.tensor([1.0], requires_grad=True).clone()
    view, other = base[:], base[:]
    view.retain_grad()
    other.retain_grad()
    view.mul_(2)
    assert "AsStrided" in other.grad_fn.name()
    (view + other).sum().backward()
    assert view.grad.tolist() == other.grad.tolist() == [1.0]
    with torch.autograd._force_original_view_tracking(True):
        out = torch.ones(2, 2, requires_grad=True).clone().view(-1)
        assert out.add_(1).grad_fn.name() == "ViewBackward0"


def test_a_result_that_is_returned_twice_is_one():
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x * 2
            return out, out

        @staticmethod
        def backward(ctx, g, h):
            return g * 2 + h * 2

    x = torch.rand(2, dtype=torch.float64, requires_grad=True)
    a, b = Twice.apply(x)
    assert a is b
    assert torch.autograd.gradcheck(lambda x: sum(Twice.apply(x)), (x,))
    with pytest.warns(DeprecationWarning, match="should not be instantiated"):
        Twice()


def test_a_function_of_users_sees_all_of_its_inputs():
    """Whichever of their gradients is asked for."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, y):
            ctx.save_for_backward(x, y)
            ctx.note = "kept"
            return x * y

        @staticmethod
        def backward(ctx, g):
            x, y = ctx.saved_tensors
            assert ctx.note == "kept"
            return g * y, g * x

    a, b = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    for asked, expected in (((a,), (3,)), ((b,), (2,)), ((a, b), (3, 2)), ((b, a), (2, 3))):
        out = Product.apply(a * 1, b * 1)
        assert [g.item() for g in torch.autograd.grad(out, asked)] == list(expected)
    out = torch.exp(a) * Product.apply(a, b * 1)
    assert torch.autograd.grad(out, b)[0].item() == pytest.approx(2 * 2.718281828**2)


@pytest.mark.filterwarnings("ignore:Using backward")
def test_a_gradient_that_is_held_is_added_to():
    x = torch.ones(3, requires_grad=True)
    x.sum().backward()
    held = x.grad
    (x * 2).sum().backward()
    assert x.grad is held and held.tolist() == [3, 3, 3]
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not held and held.tolist() == [3, 3, 3] and x.grad.requires_grad
    w = torch.ones(3, 2, requires_grad=True)
    torch.nn.functional.embedding(torch.tensor([1]), w, sparse=True).sum().backward()
    sparse = w.grad
    torch.nn.functional.embedding(torch.tensor([1]), w, sparse=True).sum().backward()
    assert w.grad.is_sparse and w.grad is sparse and w.grad.to_dense()[1].tolist() == [2, 2]
    w.sum().backward()
    assert not w.grad.is_sparse and w.grad.tolist() == [[1, 1], [3, 3], [1, 1]]


_INDEX = torch.tensor([1, 1])
IN_PLACE = {  # each call with "_" or "" after its name
    "mul": lambda x, z, end: getattr(x, "mul" + end)(z),
    "div": lambda x, z, end: getattr(x, "div" + end)(z),
    "pow": lambda x, z, end: getattr(x, "pow" + end)(z),
    "atan2": lambda x, z, end: getattr(x, "atan2" + end)(z),
    "cumprod": lambda x, z, end: getattr(x * z, "cumprod" + end)(0),
    "renorm": lambda x, z, end: getattr((x * z)[None], "renorm" + end)(2, 0, 1.5),
    "scatter_reduce": lambda x, z, end: getattr(x, "scatter_reduce" + end)(0, _INDEX, z, "prod"),
    "index_reduce": lambda x, z, end: getattr(x, "index_reduce" + end)(0, _INDEX, z, "prod"),
    "lerp": lambda x, z, end: getattr(x, "lerp" + end)(z, z),
    "xlogy": lambda x, z, end: getattr(x, "xlogy" + end)(z),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("name", IN_PLACE)
def test_operations_in_place_after_other_writes(name):
    """Both operands were written to before: their versions are those of the moment."""

    def both(in_place):
        a = torch.tensor([1.5, 2.5], dtype=torch.float64, requires_grad=True)
        y = torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
        x, z = a * 2, y * 1
        x, z = (x.add_(1), z.add_(1)) if in_place else (x + 1, z + 1)
        out = IN_PLACE[name](x, z, "_" if in_place else "")
        first = torch.autograd.grad(out.sum(), (a, y), create_graph=True)
        return out, *first, *torch.autograd.grad(sum((g * g).sum() for g in first), (a, y))

    for made, expected in zip(both(True), both(False)):
        torch.testing.assert_close(made, expected)


@pytest.mark.parametrize("name", ["mul", "div", "pow", "atan2", "scatter_reduce", "xlogy"])
def test_operands_written_to_after_an_operation_in_place(name):
    x, z = torch.ones(2, requires_grad=True) * 2, torch.tensor([2.0, 3.0])
    z.add_(1)
    IN_PLACE[name](x, z, "_")
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        x.sum().backward()


def test_a_node_with_another_number_still_waits_for_its_consumers():
    x, y = torch.tensor(2.0, requires_grad=True), torch.tensor(3.0, requires_grad=True)
    a, b = x * y, x + y
    c = a * b
    for node, number in ((a.grad_fn, 100), (b.grad_fn, 200), (c.grad_fn, 1)):
        node._set_sequence_nr(number)
        assert node._sequence_nr() == number
    order = []
    for name, t in (("a", a), ("b", b), ("c", c)):
        t.register_hook(lambda g, name=name: order.append(name))
    (c + a).backward(retain_graph=True)
    assert order == ["c", "b", "a"] and (x.grad.item(), y.grad.item()) == (24, 18)
    a.grad_fn._set_sequence_nr(300)
    (c + a).backward()
    assert order[3:] == ["c", "a", "b"] and (x.grad.item(), y.grad.item()) == (48, 36)
    other = x * y
    numbers = other.grad_fn._sequence_nr(), other.grad_fn.seq
    other.backward()
    assert (other.grad_fn._sequence_nr(), other.grad_fn.seq) == numbers  # nobody gave one to a node of this graph


def test_a_sparse_gradient_that_nobody_else_holds_is_kept_without_a_copy():
    places = []

    class Seen(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            places.append(g._values().data_ptr())
            return g

    weight = torch.ones(10, 3, requires_grad=True)
    out = torch.nn.functional.embedding(torch.tensor([1, 2, 4]), Seen.apply(weight), sparse=True)
    (out * torch.arange(9.0).reshape(3, 3)).sum().backward()
    assert weight.grad._values().data_ptr() == places[0]
    weight.grad.zero_()
    torch.nn.functional.embedding(torch.tensor([1]), Seen.apply(weight), sparse=True).sum().backward()
    assert weight.grad.to_dense()[1].tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "gt", "ge"])
def test_a_comparison_in_place_forgets_what_stood_there(name):
    x = torch.tensor([0.5, 1.0, 2.0], requires_grad=True)
    y, z = x * 2, x * 3
    getattr(y, name + "_")(1)
    getattr(z[1:], name + "_")(torch.ones(2))
    assert y.grad_fn.name() == f"{name.title()}Backward0"
    (y + z).sum().backward()
    assert x.grad.tolist() == [3, 0, 0]


@pytest.mark.slow
def test_powers_of_real_numbers_by_complex_ones_twice():
    x = torch.tensor([-2.0, 3.0], requires_grad=True)
    z = torch.tensor([1 + 1j, 0.5j], requires_grad=True)
    for made, expected in (
        (x**z, [-0.1197 + 0.3746j, 1.5106 + 0.3634j]),
        ((-2.0) ** z, [-0.1197 + 0.3746j, 0.5769 - 0.7495j]),
    ):
        loss = torch.view_as_real(made).sum()
        for again in (False, True):
            (found,) = torch.autograd.grad(loss, z, create_graph=again, retain_graph=True)
            torch.testing.assert_close(found, torch.tensor(expected), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("kind", ["inside", "both", "older", "unreached"])
def test_only_what_leads_to_wanted_tensors_is_walked(kind):
    """Nodes that are older than all wanted ones are not looked at; those of leaves may be of any age."""
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    history = x
    for _ in range(20):
        history = history * 1.0
    inside = history.sin()
    later = inside * history
    wanted = {"inside": [inside], "both": [inside, x], "older": [history], "unreached": [later.exp()]}[kind]
    walked = engine._nodes_towards([later], [edge_of(t) for t in wanted])
    assert len(walked) == {"inside": 1, "both": 22, "older": 2, "unreached": 0}[kind]
    found = torch.autograd.grad(later.sum(), wanted, allow_unused=True)
    cos = x.detach().cos()
    slopes = {"inside": [x], "both": [x, cos * x + x.sin()], "older": [cos * x + x.sin()], "unreached": [None]}[kind]
    for g, slope in zip(found, slopes, strict=True):
        assert (g is None) == (slope is None)
        if slope is not None:
            torch.testing.assert_close(g, slope.detach())
