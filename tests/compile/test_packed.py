"""Packed sequences in compiled programs: lengths are expected to be those of the recorded run, as other sizes that tensors hold are."""

import pytest

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import rnn as packing


class Encoder(nn.Module):
    def __init__(self, kind, **options):
        super().__init__()
        torch.manual_seed(0)
        self.rnn = kind(3, 4, batch_first=True, bidirectional=True)
        self.options = options

    def forward(self, x, lengths):
        packed = packing.pack_padded_sequence(x, lengths, batch_first=True, **self.options)
        out, _ = packing.pad_packed_sequence(self.rnn(packed)[0], batch_first=True)
        return out.sum(1)


LENGTHS = [5, 2, 2], [5, 3, 1], [5, 2, 2]
GIVEN = {
    "numbers": lambda lengths: lengths,
    "tensor": torch.tensor,
    "list of a tensor": lambda lengths: torch.tensor(lengths).tolist(),
}


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize(("kind", "options"), [(nn.LSTM, {}), (nn.GRU, {"enforce_sorted": False})])
def test_programs_for_lengths(kind, options, given):
    eager, model = Encoder(kind, **options), Encoder(kind, **options)
    compiled = torch.compile(model)
    for lengths in LENGTHS:
        x = torch.randn(3, 5, 3)
        for run in (eager, compiled):
            run.zero_grad()
            run(x, GIVEN[given](lengths)).square().sum().backward()
        assert torch.equal(compiled(x, GIVEN[given](lengths)), eager(x, GIVEN[given](lengths)))
        for p, q in zip(eager.parameters(), model.parameters()):
            torch.testing.assert_close(q.grad, p.grad)
    assert len(compiled._region.entries) == 2


def test_packed_arguments():
    layer = nn.LSTM(3, 4, batch_first=True)
    compiled = torch.compile(lambda packed: packing.pad_packed_sequence(layer(packed)[0], batch_first=True)[0])
    with torch.no_grad():
        for lengths in LENGTHS:  # of the same sizes
            packed = packing.pack_padded_sequence(torch.randn(3, 5, 3), lengths, batch_first=True)
            expected = packing.pad_packed_sequence(layer(packed)[0], batch_first=True)[0]
            assert torch.equal(compiled(packed), expected)
    assert len(compiled._region.entries) == 2
