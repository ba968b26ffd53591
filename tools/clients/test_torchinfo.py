"""torchinfo: summaries of networks; the printed tables must be the same."""

import pytest
import torch
from torch import nn
from torchinfo import summary


class Digits(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, 10, 5)
        self.second = nn.Conv2d(10, 20, 5)
        self.drop = nn.Dropout2d(0.3)
        self.out = nn.Sequential(nn.Linear(320, 50), nn.ReLU(), nn.Linear(50, 10))

    def forward(self, x):
        x = nn.functional.relu(nn.functional.max_pool2d(self.first(x), 2))
        x = nn.functional.relu(nn.functional.max_pool2d(self.drop(self.second(x)), 2))
        return nn.functional.log_softmax(self.out(x.flatten(1)), 1)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(20, 12)
        self.encoder = nn.LSTM(12, 8, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        return self.head(self.encoder(self.words(x))[0])


class Shared(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.ones(6))
        self.frozen = nn.Linear(6, 6, bias=False).requires_grad_(False)
        self.many = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])

    def forward(self, x, more):
        for layer in (self.layer, self.layer, self.frozen, *self.many):
            x = layer(x) * self.scale
        return {"sum": x + more["a"], "parts": [x, x]}


COLUMNS = ("input_size", "output_size", "num_params", "params_percent", "kernel_size", "mult_adds", "trainable")


@pytest.mark.parametrize("depth", [1, 3])
def test_convolutions(depth, record_property):
    table = summary(
        Digits(), (16, 1, 28, 28), depth=depth, col_names=COLUMNS, verbose=0, row_settings=("depth", "var_names")
    )
    record_property("table", str(table))
    record_property(
        "numbers", [table.total_params, table.trainable_params, table.total_mult_adds, table.total_output_bytes]
    )


def test_indices_and_recurrence(record_property):
    record_property("table", str(summary(Tagger(), (2, 7), dtypes=[torch.long], col_names=COLUMNS, verbose=0)))


def test_shared_frozen_and_dictionaries(record_property):
    data = [torch.ones(3, 6), {"a": torch.ones(3, 6)}]
    record_property("table", str(summary(Shared(), input_data=data, col_names=COLUMNS, verbose=0)))


def test_transformer(record_property):
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    record_property(
        "table", str(summary(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (2, 5, 16), verbose=0))
    )


def test_without_running(record_property, capsys):
    record_property("table", str(summary(Digits(), verbose=0)))
    record_property("half", str(summary(Digits().double(), (2, 1, 28, 28), dtypes=[torch.float64], mode="train")))
    assert "Conv2d" in capsys.readouterr().out


def test_errors():
    with pytest.raises(RuntimeError, match="Failed to run torchinfo"):
        summary(Digits(), (2, 3, 28, 28), verbose=0)
