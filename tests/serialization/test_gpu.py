"""Checkpoints of tensors on a GPU."""

import copy
import io
import pickle

import pytest

import flambeau as torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]
FORMATS = [{}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False}]


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


@pytest.mark.parametrize("options", FORMATS)
def test_devices(options):
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    things = {"x": x, "row": x[1], "p": torch.nn.Parameter(torch.ones(2, device="cuda")), "here": torch.ones(2)}
    made = torch.load(saved(things, **options))
    assert made["x"].is_cuda and made["p"].is_cuda and not made["here"].is_cuda
    made["row"][0] = 100
    assert made["x"].tolist() == [[0, 1, 2], [100, 4, 5]] and made["p"].requires_grad
    assert {t.device.type for t in torch.load(saved(things, **options), map_location="cpu").values()} == {"cpu"}
    assert {t.device.type for t in torch.load(saved(things, **options), map_location="cuda").values()} == {"cuda"}
    moved = torch.load(saved(things, **options), map_location={"cuda:0": "cpu"})
    assert moved["x"].tolist() == [[0, 1, 2], [3, 4, 5]] and moved["x"].device.type == "cpu"
    with pytest.raises(RuntimeError, match="device 77"):
        torch.load(saved(things, **options), map_location="cuda:77")


def test_pickle_and_copies():
    x = torch.arange(4.0, device="cuda")
    for again in (lambda t: pickle.loads(pickle.dumps(t)), copy.deepcopy):
        whole, part = again([x, x[1:3]])
        part[0] = 9
        assert whole.is_cuda and whole.tolist() == [0, 9, 2, 3]


def test_storages():
    storage = torch.arange(3, device="cuda").untyped_storage()
    assert storage.device.type == "cuda" and storage.cpu().tolist() == storage.tolist()
    assert storage.cpu().cuda().device.type == "cuda" and storage.to(device="cuda") is storage
    assert torch.serialization.location_tag(storage) == "cuda:0"


def test_safetensors(tmp_path):
    from flambeau.utils.safetensors import load_file, save_file

    save_file({"x": torch.arange(3, device="cuda")}, tmp_path / "x")
    assert load_file(tmp_path / "x", device="cuda")["x"].is_cuda and load_file(tmp_path / "x")["x"].tolist() == [
        0,
        1,
        2,
    ]
