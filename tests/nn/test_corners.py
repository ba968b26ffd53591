"""Corners of layers and their tools: padding in encoders, pieces for devices, checks of parametrizations."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.parallel.scatter_gather import gather, scatter
from flambeau.nn.utils import parametrize


def test_padding_is_left_out_only_when_nothing_is_learnt():
    torch.manual_seed(0)
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0), 1)
    x = torch.randn(2, 4, 8)
    padding = torch.tensor([[False, False, False, True], [False, False, True, True]])
    learning = encoder(x, src_key_padding_mask=padding)
    assert learning[0, 3].abs().sum() > 0
    encoder.eval()
    with torch.no_grad():
        left_out = encoder(x, src_key_padding_mask=padding)
        assert left_out[0, 3].abs().sum() == 0 and left_out[1, 2:].abs().sum() == 0
        torch.testing.assert_close(left_out[~padding], learning[~padding])
        masked = encoder(x, mask=torch.zeros(4, 4), src_key_padding_mask=padding.float() * -1e9)
        assert masked[0, 3].abs().sum() > 0


def test_pieces_for_devices():
    x = torch.arange(6.0).reshape(3, 2)
    first, second = scatter((x, {"y": x}, "text", [], ()), ["cpu", "cpu"])
    assert first[0].shape == (2, 2) and second[0].shape == (1, 2)
    assert torch.equal(first[1]["y"], x[:2]) and torch.equal(second[1]["y"], x[2:])
    assert first[2:] == ("text", [], ()) and second[2:] == ("text", [], ())
    assert scatter("text", ["cpu", "cpu"]) == ["text", "text"] and scatter([], ["cpu"] * 3) == [[], [], []]
    assert torch.equal(gather([x[:2], x[2:]], "cpu"), x)


class Parts(nn.Module):
    """A weight as the sum of two parts, the second of which has the wrong dtype or shape."""

    def __init__(self, second):
        super().__init__()
        self.second = second

    def forward(self, a, b):
        return a + b

    def right_inverse(self, x):
        return x, self.second(x)


def test_parts_of_a_parametrization_keep_their_dtype():
    layer = nn.Linear(3, 2)
    parametrize.register_parametrization(layer, "weight", Parts(torch.zeros_like))
    layer.weight = torch.ones(2, 3)
    assert torch.equal(layer.weight, torch.ones(2, 3))
    layer.parametrizations.weight[0].second = lambda x: torch.zeros_like(x).double()
    with pytest.raises(ValueError, match=r"returned by `right_inverse` has dtype torch\.float64"):
        layer.weight = torch.ones(2, 3)


def test_orthogonal_rows_and_columns():
    for shape in ((3, 5), (5, 3), (4, 2, 2)):
        made = nn.init.orthogonal_(torch.empty(shape), gain=2).reshape(shape[0], -1)
        small = made @ made.t() if made.shape[0] <= made.shape[1] else made.t() @ made
        torch.testing.assert_close(small, 4 * torch.eye(len(small)))
