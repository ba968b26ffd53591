"""What a backward pass can make again by a few instructions is not kept for it."""

import copy

import flambeau as torch
from flambeau.compiler._region import Region


def _both(function, *args):
    """(results and gradients, what the program keeps) of a function, after its results were compared with the eager ones."""
    found = []
    region = Region(function)
    for call in (function, region, region):
        given = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
        out = call(*given)
        out.sum().backward()
        found.append([out.detach(), *[a.grad for a in given if a.grad is not None]])
    for others in found[1:]:
        for a, b in zip(found[0], others):
            assert torch.equal(a, b)
    return sorted(v.node.name for v in region.entries[0].program.saved)


def test_products_of_what_is_kept_are_made_again():
    x, y = torch.randn(64, 128, requires_grad=True), torch.randn(64, 128, requires_grad=True)
    assert _both(lambda x, y: (x.tanh() * y.sigmoid()).square(), x, y) == ["sigmoid", "tanh"]


def test_chains_are_made_again_from_their_beginning():
    x = torch.randn(64, 128, requires_grad=True)

    def f(x):
        a = x.exp()
        b = a * a
        c = b + a
        return (c * b).square() + a

    assert _both(f, x) == ["exp"]


def test_dear_small_and_foreign_operands_stay():
    x, y = torch.randn(64, 128, requires_grad=True), torch.randn(64, 128)
    assert _both(lambda x: (x.exp().sin() * 2).cos(), x).count("exp") == 1
    assert "add" in _both(lambda x, y: (x + y).square(), x, y)  # nobody else needs y
    small = torch.randn(4, 4, requires_grad=True)
    assert "mul" in _both(lambda x: (x.tanh() * x.tanh()).square(), small)


def test_nothing_is_made_again_from_what_was_written_to():
    x = torch.randn(64, 128, requires_grad=True)

    def f(x):
        a = x.detach().clone()
        b = a * 2
        out = x * b
        a.add_(1)
        return out * b

    _both(f, x)


def test_an_argument_may_change_before_the_backward_pass():
    """A product of arguments that the pass itself does not need is kept: nobody may be told that he must not write to them."""
    x, y = torch.randn(64, 128, requires_grad=True), torch.randn(64, 128)
    region = Region(lambda x, y: (x * 1.5 + y).square())
    for _ in range(3):
        given = y.clone()
        out = region(x, given)
        given.zero_()
        out.sum().backward()
        assert torch.allclose(x.grad, 3 * (x * 1.5 + y).detach())
        x.grad = None


def test_copies_in_order_join_pointwise_loops():
    x = torch.randn(512, 512, requires_grad=True)  # the gradient of the mean is one number, that clone would write out
    region = Region(lambda x: x.tanh().square().mean())
    for _ in range(3):
        x.grad = None
        region(x).backward()
    back = region.entries[0].program.backward_program._lowered
    assert [type(step).__name__ for part in back.parts for step in part.steps] == ["Loop", "Fused"]


def test_an_operation_is_done_again_beside_its_derivative():
    """The loop of the derivative has most of its instructions anyway: neither program keeps the activation for the product."""
    x, w = torch.randn(64, 64, requires_grad=True), torch.randn(64, 64, requires_grad=True)
    assert _both(lambda x, w: torch.nn.functional.gelu(x * 2) @ w, x, w) == ["mul"]


def test_whole_steps_keep_no_activation_for_the_second_pass():
    layers = [torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 64)]
    x, found = torch.randn(128, 64), []

    def made():
        torch.manual_seed(0)
        model = torch.nn.Sequential(*[copy.deepcopy(m) for _ in range(3) for m in layers])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step():
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        return step

    eager, region = made(), Region(made())
    for _ in range(4):
        found.append((eager(), region()))
    assert all([torch.equal(a, b) for a, b in found])
    names = [node.name for node in region.entries[0].program.forward_program.graph.nodes]
    assert (
        names.count("gelu") == 3 + 2 and names.count("gelu_backward_x") == 3
    )  # the last one's uses are near each other


def test_what_views_show_is_kept_once():
    x, w = torch.randn(2, 32, 64, requires_grad=True), torch.randn(64, 192, requires_grad=True)

    def f(x, w):
        q, k, v = [part.unflatten(-1, (4, 16)).transpose(1, 2) for part in (x @ w).chunk(3, -1)]
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

    assert _both(f, x, w) == ["attention", "attention", "matmul"]


def _normalized(change=None):
    torch.manual_seed(0)
    norm, layers = torch.nn.LayerNorm(64), torch.nn.ModuleList([torch.nn.Linear(64, 64) for _ in range(4)])
    model = torch.nn.ModuleList([norm, *layers])
    x = torch.randn(100, 64)

    def step():
        model.zero_grad()
        y = x
        for layer in layers:
            y = y + layer(norm(y)).tanh()
            if change is not None:
                change(norm)
        loss = y.square().mean()
        loss.backward()
        return loss

    return step, model


def test_norms_are_made_again_in_whole_steps():
    step, model = _normalized()
    eager = [step().item()] + [p.grad.clone() for p in model.parameters()]
    region = Region(step)
    for _ in range(3):
        found = [region().item()] + [p.grad for p in model.parameters()]
        assert found[0] == eager[0] and all(map(torch.equal, found[1:], eager[1:]))
    graph = region.entries[0].program.forward_program.graph
    assert [node.name for node in graph.nodes].count("norm_rows") > 4


def test_norms_are_not_made_again_when_their_parameters_change():
    with torch.no_grad():
        step, model = _normalized(lambda norm: norm.bias.detach().mul_(1.5))
        other, twin = _normalized(lambda norm: norm.bias.detach().mul_(1.5))
    region = Region(other)
    for _ in range(3):
        assert step().item() == region().item()
        for p, q in zip(model.parameters(), twin.parameters()):
            assert torch.equal(p.grad, q.grad)


def test_layer_norms_are_made_again():
    layer = torch.nn.LayerNorm(128)
    x, w = torch.randn(64, 128, requires_grad=True), torch.randn(16, 128, requires_grad=True)
    kept = _both(lambda x, w: (layer(x.exp()) @ w.T).exp(), x, w)
    assert kept == ["exp", "exp", "norm_rows", "norm_rows"]  # means and factors, which are small


def test_layer_norms_that_are_results_are_kept():
    layer = torch.nn.LayerNorm(128)
    region = Region(lambda x: layer(x.exp()))
    x = torch.randn(64, 128, requires_grad=True)
    for _ in range(2):
        region(x).square().sum().backward()
    assert "norm_rows" not in [node.name for node in region.entries[0].program.backward_program.graph.nodes]
