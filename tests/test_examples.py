"""The examples reach what their first lines say; the demo learns."""

import importlib.util
from pathlib import Path

import pytest

import flambeau as torch

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_newton_finds_the_minimum():
    assert torch.allclose(load("newton").main(), torch.ones(2, dtype=torch.float64), atol=1e-9)


def test_a_throw_is_fitted():
    assert load("fit_a_throw").main() < 0.01


def test_spirals_are_told_apart():
    assert load("spirals_raw_tensors").main(steps=400) > 0.97


@pytest.mark.slow
def test_the_demo_learns_draws_and_resumes(tmp_path, capsys, monkeypatch):
    pytest.importorskip("matplotlib")  # part of the test requirements; the package itself does not need it
    from flambeau._demo import training

    monkeypatch.setattr(training, "EXAMPLES", 2800)
    assert training.run(epochs=3, directory=str(tmp_path)) == 0
    said = capsys.readouterr().out
    assert float(said.split("   accuracy ")[1].split("%")[0]) > 90
    for name in ("curves", "predictions"):
        assert (tmp_path / f"flambeau-demo-{name}.png").read_bytes().startswith(b"\x89PNG")
    assert training.run(epochs=3, directory=str(tmp_path), resume=True) == 0
    assert "after epoch 3" in capsys.readouterr().out


def test_a_resumed_run_has_the_losses_of_one_without_a_break(tmp_path):
    from flambeau._demo.digits import DrawnDigits
    from flambeau._demo.training import Run

    class Silent:
        def update(self): ...
        def set_postfix(self, **figures): ...

    def loader():
        return torch.utils.data.DataLoader(DrawnDigits(320), 32, shuffle=True)

    torch.manual_seed(0)
    whole = Run(2, 10)
    whole.train(loader(), Silent())
    whole.save(tmp_path / "first.pt")
    whole.train(loader(), Silent())
    torch.manual_seed(99)
    resumed = Run(2, 10)
    resumed.resume(tmp_path / "first.pt")
    resumed.train(loader(), Silent())
    assert resumed.losses == whole.losses


def test_drawn_digits_follow_from_the_seed():
    from flambeau._demo.digits import DrawnDigits

    first, same, other = DrawnDigits(30, 5), DrawnDigits(30, 5), DrawnDigits(30, 6)
    assert torch.equal(first.images, same.images) and not torch.equal(first.images, other.images)
    assert first.images.shape == (30, 1, 28, 28) and first.images.min() >= 0 and first.images.max() <= 1
    assert first.targets.bincount().tolist() == [3] * 10
