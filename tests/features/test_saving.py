"""Saving and loading."""

import io
import pickle

import pytest

import flambeau as torch
from flambeau import nn


class Net(nn.Module):
    def __init__(self, classes=2):
        super().__init__()
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, classes)

    def forward(self, x):
        return self.head(self.body(x).relu())


def round_trip(value, **options):
    buffer = io.BytesIO()
    torch.save(value, buffer)
    buffer.seek(0)
    return torch.load(buffer, **options)


def test_files_and_buffers(tmp_path):
    value = {"a": [torch.arange(6).reshape(2, 3).t(), torch.ones(2, dtype=torch.bfloat16)], "n": 3, "s": ("x", None)}
    torch.save(value, tmp_path / "file.pt")
    for back in (torch.load(tmp_path / "file.pt"), round_trip(value)):
        assert back["a"][0].stride() == (1, 3) and torch.equal(back["a"][0], value["a"][0])
        assert back["a"][1].dtype is torch.bfloat16 and back["n"] == 3 and back["s"] == ("x", None)
    model, other = Net(), Net()
    torch.save(model.state_dict(), tmp_path / "weights.pt")
    other.load_state_dict(torch.load(tmp_path / "weights.pt"))
    assert torch.equal(model(torch.ones(1, 3)), other(torch.ones(1, 3)))


def epochs(model, optimizer, scheduler, count):
    for _ in range(count):
        optimizer.zero_grad()
        model(torch.ones(2, 3)).square().sum().backward()
        optimizer.step()
        scheduler.step()


def parts():
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 2)


def test_checkpoints_continue_identically():
    torch.manual_seed(0)
    whole = parts()
    epochs(*whole, 3)
    saved = round_trip({"epoch": 3, "parts": [p.state_dict() for p in whole]}, map_location="cpu")
    resumed = parts()
    for part, state in zip(resumed, saved["parts"]):
        part.load_state_dict(state)
    epochs(*whole, 3)
    epochs(*resumed, 3)
    assert saved["epoch"] == 3 and torch.equal(whole[0].body.weight, resumed[0].body.weight)
    assert whole[2].get_last_lr() == resumed[2].get_last_lr()


def test_partial_loading():
    pretrained, model = round_trip(Net(classes=7).state_dict()), Net()
    current = model.state_dict()
    head = current["head.weight"].clone()
    matching = {k: v for k, v in pretrained.items() if k in current and v.shape == current[k].shape}
    current.update(matching)
    model.load_state_dict(current)
    assert list(matching) == ["body.weight", "body.bias"]
    assert torch.equal(model.body.weight, pretrained["body.weight"]) and torch.equal(model.head.weight, head)


def as_cuda_file(value):
    """A file whose tensors say that they were on a GPU."""
    buffer = io.BytesIO()
    torch.save(value, buffer, _use_new_zipfile_serialization=False)
    return io.BytesIO(buffer.getvalue().replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:0"))


@pytest.mark.parametrize(
    "location", ["cpu", torch.device("cpu"), {"cuda:0": "cpu"}, lambda storage, location: storage]
)  # fmt: skip
def test_map_location(location):
    assert torch.load(as_cuda_file(torch.arange(3)), map_location=location).tolist() == [0, 1, 2]


@pytest.mark.skipif(torch.cuda.is_available(), reason="the file goes to the GPU there")
def test_a_gpu_file_needs_map_location_without_a_gpu():
    with pytest.raises(RuntimeError):
        torch.load(as_cuda_file(torch.arange(3)))


def test_whole_models_are_refused_by_default():
    model = Net()
    with pytest.raises(pickle.UnpicklingError):
        round_trip(model)
    back = round_trip(model, weights_only=False)
    assert torch.equal(back(torch.ones(1, 3)), model(torch.ones(1, 3)))
