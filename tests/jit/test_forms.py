"""Forms of layers and statements that programs save: attention with masks, recurrent layers, norms, annotated names."""

import io
import math

import pytest

import flambeau as torch
from flambeau import jit, nn


def stored(program):
    """The program after a file."""
    buffer = io.BytesIO()
    jit.save(program, buffer)
    buffer.seek(0)
    return jit.load(buffer)


class Attention(nn.Module):
    def __init__(self, need_weights):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.need_weights = need_weights

    def forward(self, x, padding, mask):
        out, weights = self.attention(x, x, x, key_padding_mask=padding, attn_mask=mask, need_weights=self.need_weights)
        return (out, weights) if self.need_weights else out


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("kind", [torch.float32, torch.bool])
def test_attention_with_both_masks(need_weights, kind):
    torch.manual_seed(0)
    model = Attention(need_weights).eval()

    def inputs(batch):
        x = torch.randn(batch, 5, 8)
        padding = torch.zeros(batch, 5, dtype=torch.bool)
        padding[:, 3:] = True
        mask = torch.ones(5, 5).triu(1).bool()
        if kind is torch.float32:
            return x, torch.zeros(batch, 5).masked_fill(padding, -math.inf), torch.randn(5, 5)
        return x, padding, mask

    traced = stored(jit.trace(model, inputs(2)))
    for batch in (2, 3):
        given = inputs(batch)
        torch.testing.assert_close(traced(*given), model(*given))


@pytest.mark.parametrize("layer", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers(layer):
    torch.manual_seed(0)
    model = layer(3, 4, 2, batch_first=True, bidirectional=True).eval()
    traced = stored(jit.trace(model, torch.randn(2, 5, 3)))
    x = torch.randn(2, 7, 3)
    torch.testing.assert_close(traced(x)[0], model(x)[0])


def test_norms():
    def norms(x, y):
        return torch.linalg.norm(x, 3), torch.linalg.norm(y, 1, 0), torch.linalg.norm(y, "fro"), torch.linalg.norm(y)

    x, y = torch.randn(5), torch.randn(3, 4)
    traced = stored(jit.trace(norms, (torch.randn(5), torch.randn(3, 4))))
    torch.testing.assert_close(traced(x, y), norms(x, y))


def test_annotated_names_and_numbers():
    @jit.script
    def chosen(x, flag: bool):
        count: int = 3
        bound: float = float("inf")
        if flag:
            count = 4
        return x * count, min(bound, 2.0), -bound

    loaded = stored(chosen)
    for program in (chosen, loaded):
        assert program(torch.tensor(2), True) == (torch.tensor(8), 2.0, -math.inf)
        assert program(torch.tensor(2), False)[0].item() == 6


def test_only_functions_are_called():
    with pytest.raises(Exception, match=r"call|callable"):

        @jit.script
        def wrong(x):
            y = 3
            return y(x)

        wrong(torch.ones(1))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 2, lambda x: 7 // x, lambda x: x**2, lambda x: 2**x, lambda x: x == 4, lambda x: x != 4,
        lambda x: 2 - x, lambda x: 7 % x, lambda x: x & 1, lambda x: 6 & x, lambda x: x | 1, lambda x: x ^ 1,
        lambda x: ~x, lambda x: x << 1, lambda x: 1 << x, lambda x: x >> 1, lambda x: 64 >> x, lambda x: -x,
    ],
)  # fmt: skip
def test_operators_of_python(function):
    traced = stored(jit.trace(function, torch.tensor([3, 4, 5])))
    x = torch.tensor([6, 2, 1])
    assert torch.equal(traced(x), function(x))


def test_arguments_that_an_overload_takes_by_name_alone_are_written_so():
    x = torch.randn(2, 3)
    traced = jit.trace(lambda x: torch.sort(x, dim=0, descending=True, stable=True)[0], (x,))
    assert "torch.sort(x, dim=0, descending=True, stable=True)" in traced.code
    assert "torch.linalg_vander(x, N=2)" in jit.trace(lambda x: torch.linalg.vander(x, N=2), (x,)).code
    traced = jit.trace(lambda x: torch.lu(x[:, :2])[0], (x,))
    assert torch.equal(traced(x + 1), torch.linalg.lu_factor(x[:, :2] + 1)[0])


def test_squeeze_of_no_dimensions():
    x = torch.randn(1, 2, 1)
    traced = jit.trace(lambda x: x.squeeze(()), (x,))
    assert traced(x).shape == (1, 2, 1) and "annotate(List[int], [])" in traced.code


def test_parts_of_lists_among_results_are_refused():
    x = torch.rand(5, 2)
    traced = jit.trace(lambda x: torch.histogramdd(x, bins=[2, 2]).hist, (x,))
    assert torch.equal(traced(x * 3), torch.histogramdd(x * 3, bins=[2, 2]).hist)
    with pytest.raises(NotImplementedError, match="histogramdd gives a list of tensors"):
        jit.trace(lambda x: torch.histogramdd(x, bins=[2, 2]).bin_edges[0] * 1, (x,))
