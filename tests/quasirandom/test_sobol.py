"""Sobol's sequence; the numbers are PyTorch's."""

import pytest

import flambeau as torch
from flambeau.quasirandom import SobolEngine


def test_first_points():
    engine = SobolEngine(3)
    assert engine.draw(4).tolist() == [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(2).tolist() == [[0.375, 0.375, 0.625], [0.875, 0.875, 0.125]]
    assert engine.num_generated == 6
    assert engine.reset().draw(1).tolist() == [[0, 0, 0]]


def test_scrambled():
    engine = SobolEngine(3, scramble=True, seed=7)
    expected = torch.tensor([[0.1995, 0.1709, 0.7494], [0.6922, 0.7115, 0.4898], [0.8505, 0.2963, 0.7880]])
    assert torch.allclose(engine.draw(3), expected, atol=1e-4)
    torch.manual_seed(3)
    assert torch.allclose(SobolEngine(3, True).draw(1), torch.tensor([[0.0685, 0.2245, 0.6992]]), atol=1e-4)


def test_drawing_in_pieces_is_the_same():
    whole = SobolEngine(40).draw(100, dtype=torch.float64)
    engine = SobolEngine(40)
    parts = [engine.draw(n, dtype=torch.float64) for n in (1, 2, 30, 67)]
    assert torch.equal(torch.cat(parts), whole)
    assert torch.equal(SobolEngine(40).fast_forward(33).draw(67, dtype=torch.float64), whole[33:])


def test_every_dimension_is_balanced():
    points = SobolEngine(SobolEngine.MAXDIM).draw(64)
    cells = torch.sort((points * 64).long(), dim=0).values
    assert torch.equal(cells, torch.arange(64)[:, None].expand_as(cells))


def test_refusals():
    for n in (0, SobolEngine.MAXDIM + 1):
        with pytest.raises(ValueError, match="Supported range of dimensionality"):
            SobolEngine(n)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(2)
    assert repr(SobolEngine(2, True, 5)) == "SobolEngine(dimension=2, scramble=True, seed=5)"
