"""Meta tensors: every operation knows the shape of its results without computing them, whatever their size."""

import pytest

import flambeau as torch
import flambeau.nn.functional as F
from flambeau._ops.records.primitive import Primitive
from flambeau._ops.registry import records

K = 10**6


def meta(*shape, dtype=torch.float32):
    return torch.empty(*shape, dtype=dtype, device="meta", requires_grad=dtype.is_floating_point)


def whole(*shape):
    return torch.empty(*shape, dtype=torch.int64, device="meta")


def test_every_primitive_has_a_shape_rule():
    for record in records.values():
        assert not isinstance(record, Primitive) or record.view or record.meta is not None, record
    with pytest.raises(TypeError, match="needs a shape rule"):
        Primitive(lambda backend, x: x, name="without_rule")


HUGE = {
    "conv2d": (lambda: F.conv2d(meta(1000, 64, 4000, 4000), meta(128, 64, 3, 3), padding=1), (1000, 128, 4000, 4000)),
    "conv_transpose2d": (lambda: F.conv_transpose2d(meta(1000, 64, 4000, 4000), meta(64, 32, 3, 3), stride=2), (1000, 32, 8001, 8001)),
    "max_pool2d": (lambda: F.max_pool2d(meta(1000, 64, 4000, 4000), 3, 2, 1), (1000, 64, 2000, 2000)),
    "adaptive_avg_pool2d": (lambda: F.adaptive_avg_pool2d(meta(1000, 64, 4000, 4000), (7, 5)), (1000, 64, 7, 5)),
    "attention": (lambda: F.scaled_dot_product_attention(*[meta(100, 100, K, 64)] * 3), (100, 100, K, 64)),
    "sort": (lambda: torch.sort(meta(K, K), 0).values, (K, K)), "topk": (lambda: torch.topk(meta(K, K), 5).indices, (K, 5)),
    "median": (lambda: meta(K * K).median(), ()), "svd": (lambda: torch.linalg.svd(meta(K, 1000), False).S, (1000,)),
    "solve": (lambda: torch.linalg.solve(meta(K, K), meta(K, 7)), (K, 7)), "eigvals": (lambda: torch.linalg.eigvals(meta(K, K)), (K,)),
    "det": (lambda: torch.linalg.det(meta(K, K)), ()), "qr": (lambda: torch.linalg.qr(meta(K, K)).R, (K, K)),
    "fft": (lambda: torch.fft.fft(meta(K * K)), (K * K,)), "rfft": (lambda: torch.fft.rfft(meta(K, K)), (K, K // 2 + 1)),
    "cross_entropy": (lambda: F.cross_entropy(meta(K, K), whole(K)), ()), "mse_loss": (lambda: F.mse_loss(meta(K, K), meta(K, K)), ()),
    "binary_cross_entropy": (lambda: F.binary_cross_entropy(meta(K, K), meta(K, K).detach()), ()),
    "layer_norm": (lambda: F.layer_norm(meta(K, K), (K,), meta(K), meta(K)), (K, K)),
    "batch_norm": (lambda: F.batch_norm(meta(K, K), None, None, meta(K), meta(K), True), (K, K)),
    "group_norm": (lambda: F.group_norm(meta(1000, 64, 4000, 4000), 8), (1000, 64, 4000, 4000)),
    "embedding": (lambda: F.embedding(whole(K, 1000), meta(K, 1000)), (K, 1000, 1000)), "one_hot": (lambda: F.one_hot(whole(K), K), (K, K)),
    "interpolate": (lambda: F.interpolate(meta(1000, 64, 4000, 4000), scale_factor=2, mode="bilinear"), (1000, 64, 8000, 8000)),
    "grid_sample": (lambda: F.grid_sample(meta(1000, 64, 4000, 4000), meta(1000, 9, 5, 2), align_corners=False), (1000, 64, 9, 5)),
    "unfold": (lambda: F.unfold(meta(100, 64, 4000, 4000), 3), (100, 576, 3998 * 3998)), "x[i, j]": (lambda: meta(K, K)[whole(K), whole(K)], (K,)),
    "dropout": (lambda: F.dropout(meta(K, K), 0.5), (K, K)), "multinomial": (lambda: torch.multinomial(meta(1000, K), 5), (1000, 5)),
    "lstm": (lambda: torch.nn.LSTM(1000, 500, 2, device="meta")(meta(10000, 1000, 1000))[0], (10000, 1000, 500)),
    "encoder": (lambda: torch.nn.TransformerEncoderLayer(512, 8, device="meta", batch_first=True)(meta(1000, K, 512)), (1000, K, 512)),
    "matmul": (lambda: meta(10, K, K) @ meta(K, 100), (10, K, 100)), "quantile": (lambda: torch.quantile(meta(K, K), 0.5, 1), (K,)),
    "more than memory has addresses": (lambda: meta(10**9, 10**9, dtype=torch.float64).exp(), (10**9, 10**9)),
}  # fmt: skip


@pytest.mark.parametrize("name", HUGE)
def test_huge_tensors_forward_and_backward(name):
    call, shape = HUGE[name]
    made = call()
    assert made.device.type == "meta" and tuple(made.shape) == shape
    if made.requires_grad:
        made.backward(torch.empty_like(made))


def test_strides_are_those_of_computed_results():
    image = torch.empty(2, 8, 6, 6).to(memory_format=torch.channels_last)
    calls = [
        (lambda x: F.conv2d(x, torch.empty(4, 8, 3, 3, device=x.device)), image), (lambda x: F.max_pool2d(x, 2), image), (lambda x: F.pad(x, (1, 1)), image),
        (lambda x: torch.linalg.inv(x), torch.eye(4)), (lambda x: torch.linalg.svd(x, False).U, torch.rand(2, 5, 4)), (lambda x: x.clone(), torch.rand(3, 4).t()),
        (lambda x: torch.flip(x, (0,)), torch.rand(3, 4).t()), (lambda x: x.double(), torch.rand(3, 4).t()), (lambda x: torch.sort(x, 0).values, torch.rand(3, 4).t()),
        (lambda x: x[:, torch.zeros(2, dtype=torch.int64, device=x.device)], torch.rand(3, 4, 5).permute(2, 0, 1)),
    ]  # fmt: skip
    for call, x in calls:
        without = torch.empty_strided(x.shape, x.stride(), device="meta")
        assert call(without).stride() == call(x).stride()


@pytest.mark.parametrize(
    "call",
    [
        torch.nonzero, torch.unique, lambda x: x[x > 0], lambda x: torch.masked_select(x, x > 0), lambda x: torch.bincount(x.long()),
        lambda x: F.one_hot(x.long()), lambda x: torch.equal(x, x), lambda x: x.sum().item(), lambda x: x.tolist(), lambda x: bool(x.sum()),
        lambda x: torch.repeat_interleave(x, x.long()), lambda x: torch.allclose(x, x),
    ],
)  # fmt: skip
def test_what_depends_on_elements_says_so(call):
    with pytest.raises(NotImplementedError, match=r"Meta tensors|meta tensor"):
        call(torch.empty(4, device="meta"))


def test_mistakes_are_found_without_elements():
    with pytest.raises(RuntimeError, match=r"shape|size"):
        meta(3, 4) @ meta(3, 4)
    with pytest.raises(RuntimeError, match="channels"):
        F.conv2d(meta(1, 3, 8, 8), meta(4, 5, 3, 3))
    with pytest.raises(RuntimeError):
        torch.linalg.inv(meta(3, 4))
    with pytest.raises(RuntimeError):
        meta(3, 4) + meta(5)
    with pytest.raises(RuntimeError, match="overflow"):
        torch.empty(10**10, 10**10, device="meta")


def test_writes_in_place_keep_their_history():
    x, y = meta(3, 4), meta(3, 4)
    out = x.clone().mul_(y).exp_()
    assert "Exp" in type(out.grad_fn).__name__
    assert [g.shape for g in torch.autograd.grad(out.sum(), [x, y])] == [(3, 4), (3, 4)]
    with pytest.raises(RuntimeError, match="broadcast shape"):
        torch.empty(3, device="meta").add_(torch.empty(2, 3, device="meta"))
