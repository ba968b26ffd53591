"""Recorded GPU work: what it computes when it is launched again, and what cannot be recorded."""

import pytest

import flambeau as torch

F = torch.nn.functional
C = "cuda"


def test_without_a_gpu():
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.raises(RuntimeError, match="dummy base class CUDAGraph"):
        torch.cuda.CUDAGraph()
    with pytest.raises((AssertionError, RuntimeError)):
        torch.cuda.graph_pool_handle()
    assert torch.cuda.is_current_stream_capturing() is False


def recorded(function, warm=3):
    """The graph of a function, and its results."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(warm):
            function()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        assert torch.cuda.is_current_stream_capturing()
        out = function()
    assert not torch.cuda.is_current_stream_capturing()
    return graph, out


def calls():
    x, image, q = (
        torch.randn(64, 64, device=C),
        torch.randn(4, 3, 16, 16, device=C),
        torch.randn(2, 4, 64, 64, device=C, dtype=torch.bfloat16),
    )
    mlp = torch.nn.Sequential(
        torch.nn.Linear(64, 64), torch.nn.GELU(), torch.nn.LayerNorm(64), torch.nn.Linear(64, 10)
    ).cuda()
    conv = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU()).cuda().eval()
    lstm, index = torch.nn.LSTM(64, 32).cuda(), torch.randint(0, 64, (32,), device=C)
    compiled = torch.compile(lambda x: (x.sin() * 2).softmax(-1) @ x)
    return {
        "pointwise": (lambda: (x * 2 + 1).relu().sum(0), x), "mlp": (lambda: mlp(x), x), "conv": (lambda: conv(image), image),
        "attention": (lambda: F.scaled_dot_product_attention(q, q, q, is_causal=True), q), "lstm": (lambda: lstm(x[None])[0], x),
        "orders": (lambda: x.sort(-1)[0] + x.cumsum(0) + x.argmax(0) + x.topk(4)[0].sum(), x),
        "places": (lambda: torch.zeros(64, 64, device=C).index_add_(0, index, x[index] * 2), x), "compiled": (lambda: compiled(x), x),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["pointwise", "mlp", "conv", "attention", "lstm", "orders", "places", "compiled"])
@pytest.mark.parametrize("warm", [0, 3])
@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_replays(name, warm):
    function, x = calls()[name]
    function()
    graph, out = recorded(function, warm)
    others = [torch.full((64, 64), 7.0, device=C) for _ in range(8)]  # memory of the graph is nobody else's
    for seed in range(3):
        torch.manual_seed(seed)
        x.normal_()
        graph.replay()
        assert torch.allclose(out.float(), function().float(), rtol=1e-2, atol=1e-2)
    assert all(bool((o == 7).all()) for o in others)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_a_whole_step():
    torch.manual_seed(0)
    models = [
        torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)).cuda() for _ in range(2)
    ]
    models[1].load_state_dict(models[0].state_dict())
    x, y = torch.randn(8, 16, device=C), torch.randint(0, 4, (8,), device=C)

    def step(model, optimizer):
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    optimizers = [torch.optim.Adam(m.parameters(), lr=0.01, capturable=True) for m in models]
    graph, loss = recorded(lambda: step(models[0], optimizers[0]))
    for _ in range(3):
        step(models[1], optimizers[1])
    for _ in range(5):
        x.normal_()
        graph.replay()
        assert torch.allclose(loss, step(models[1], optimizers[1]), rtol=1e-4)
    for p, q in zip(models[0].parameters(), models[1].parameters()):
        assert torch.allclose(p, q, rtol=1e-3, atol=1e-5)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_random_numbers_differ_from_replay_to_replay():
    x = torch.ones(1000, device=C)
    graph, out = recorded(lambda: F.dropout(x, 0.5) + torch.rand(1000, device=C))
    seen = []
    for _ in range(3):
        graph.replay()
        seen.append(out.cpu())
    assert not seen[0].equal(seen[1]) and not seen[1].equal(seen[2])
    torch.cuda.manual_seed(3)
    graph.replay()
    first = out.cpu()
    torch.cuda.manual_seed(3)
    graph.replay()
    assert first.equal(out.cpu())
    torch.cuda.manual_seed(3)
    plain = torch.rand(5, device=C)
    torch.cuda.manual_seed(3)
    assert plain.equal(torch.rand(5, device=C))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_what_cannot_be_recorded():
    x, model = torch.ones(4, device=C), torch.nn.Linear(4, 4).cuda()
    optimizer = torch.optim.Adam(model.parameters(), fused=True)
    model(x).sum().backward()
    for function in (lambda: x.sum().item(), lambda: x[x > 0], optimizer.step):
        graph = torch.cuda.CUDAGraph()
        with pytest.raises(RuntimeError), torch.cuda.graph(graph):
            function()
        assert (x * 2).sum().item() == 8
    with pytest.raises(RuntimeError, match="non-default stream"):
        torch.cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="without a preceding"):
        torch.cuda.CUDAGraph().replay()
    first, out = recorded(lambda: x * 2)
    second = torch.cuda.CUDAGraph()
    with torch.cuda.graph(second, pool=first.pool()):
        more = out + 1
    first.replay()
    second.replay()
    assert more.tolist() == [3.0] * 4
    with pytest.raises(RuntimeError, match="already owns"), torch.cuda.graph(first):
        pass
    first.reset()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_graphed_callables():
    torch.manual_seed(0)
    layers = torch.nn.Linear(8, 16).cuda(), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 3)).cuda()
    x = torch.randn(5, 8, device=C)
    plain = [torch.nn.Linear(8, 16).cuda(), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(16, 3)).cuda()]
    for one, other in zip(plain, layers):
        one.load_state_dict(other.state_dict())
    samples = (x.clone(),), (torch.randn(5, 16, device=C, requires_grad=True),)
    first, second = torch.cuda.make_graphed_callables(layers, samples)
    for _ in range(3):
        x = torch.randn(5, 8, device=C)
        got, expected = second(first(x)), plain[1](plain[0](x))
        assert torch.allclose(got, expected, atol=1e-5)
        got.square().sum().backward()
        expected.square().sum().backward()
        for one, other in zip(layers, plain):
            for p, q in zip(one.parameters(), other.parameters()):
                assert torch.allclose(p.grad, q.grad, rtol=1e-4, atol=1e-5)
                p.grad = q.grad = None
    first.eval()
    assert torch.allclose(first(x), plain[0](x), atol=1e-6)
    function = torch.cuda.make_graphed_callables(
        lambda a, b: (a * b, a.sum()), (torch.ones(3, device=C, requires_grad=True), torch.ones(3, device=C))
    )
    a = torch.tensor([1.0, 2.0, 3.0], device=C, requires_grad=True)
    product, total = function(a, torch.full((3,), 2.0, device=C))
    (product.sum() + total).backward()
    assert product.tolist() == [2.0, 4.0, 6.0] and total.item() == 6.0 and a.grad.tolist() == [3.0] * 3
