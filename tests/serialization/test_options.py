"""Where storages go, mapped files, and the settings of saving and loading."""

import io
import mmap
import os
import zipfile
import zlib

import pytest

import flambeau as torch
from flambeau import _utils, nn
from flambeau._serialization import locations
from flambeau._subclasses.fake_tensor import FakeTensor, FakeTensorMode

SERIALIZATION = torch.serialization


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


FORMATS = [{}, {"_use_new_zipfile_serialization": False}]


@pytest.mark.parametrize("options", FORMATS)
def test_map_location(options):
    x = {"a": torch.arange(3.0)}
    for where in (None, "cpu", torch.device("cpu"), {"cuda:0": "cpu"}, {"cpu": "cpu"}, lambda storage, tag: None):
        assert torch.load(saved(x, **options), where)["a"].tolist() == [0, 1, 2]
    for where in ("meta", torch.device("meta"), {"cpu": "meta"}):
        assert torch.load(saved(x, **options), map_location=where)["a"].is_meta
    seen = []
    torch.load(
        saved(x, **options),
        map_location=lambda storage, tag: seen.append((type(storage), len(storage), tag)) or storage,
    )
    assert seen == [(torch.UntypedStorage, 12, "cpu")]


def test_map_location_errors():
    x = torch.ones(2)
    with pytest.raises(RuntimeError, match="restore"):
        torch.load(saved(x), "nowhere")
    with pytest.raises(TypeError):
        torch.load(saved(x), 3)
    with pytest.raises(KeyError):
        torch.load(saved(x), lambda storage, tag: {}["none"])
    if not torch.cuda.is_available():
        with pytest.raises(RuntimeError, match="CUDA"):
            torch.load(saved(x), "cuda")


def test_own_places():
    tags = []
    SERIALIZATION.register_package(
        1, lambda storage: "mine", lambda storage, tag: tags.append(tag) or storage if tag == "mine" else None
    )
    try:
        assert SERIALIZATION.location_tag(torch.ones(1).untyped_storage()) == "mine"
        file = saved(torch.ones(2))
        assert torch.load(file).tolist() == [1, 1] and tags == ["mine"]
    finally:
        from flambeau._serialization import locations

        del locations._registry[0]
    file.seek(0)
    with pytest.raises(RuntimeError, match="mine"):
        torch.load(file)


def test_mapped_files(tmp_path):
    path = tmp_path / "model.pt"
    x = torch.arange(1000.0)
    torch.save({"x": x, "part": x[3:5], "empty": torch.zeros(0)}, path)
    made = torch.load(path, mmap=True)
    assert torch.equal(made["x"], x)
    made["part"][0] = 100
    assert made["x"][3] == 100 and torch.load(path)["x"][3] == 3  # the file is not written
    torch.save("another", path)
    assert torch.equal(made["x"][4:], x[4:])  # still the old file
    with pytest.raises(ValueError, match="path"):
        torch.load(io.BytesIO(), mmap=True)
    torch.save(1, path, _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mmap"):
        torch.load(path, mmap=True)


def test_mapped_files_can_be_shared(tmp_path):
    path = tmp_path / "model.pt"
    torch.save(torch.zeros(3), path)
    with SERIALIZATION.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True)[1] = 5
    assert SERIALIZATION.get_default_mmap_options() == mmap.MAP_PRIVATE
    assert torch.load(path, mmap=True).tolist() == [0, 5, 0]
    with pytest.raises(ValueError):
        SERIALIZATION.set_default_mmap_options(77)


def test_checksums_can_be_left_out():
    SERIALIZATION.set_crc32_options(False)
    try:
        assert not SERIALIZATION.get_crc32_options()
        bad = bytearray(saved(torch.zeros(4)).getvalue())
    finally:
        SERIALIZATION.set_crc32_options(True)
    at = bad.index(bytes(16), bad.index(b"/data/0"))
    bad[at] = 1
    assert torch.load(io.BytesIO(bad)).shape == (4,)


def test_skipped_data():
    with SERIALIZATION.skip_data():
        file = saved({"x": torch.full((4,), 7.0)})
        assert torch.load(saved(torch.ones(3))).shape == (3,)
    assert torch.load(file)["x"].tolist() == [0, 0, 0, 0]


def test_byte_order_setting():
    assert SERIALIZATION.get_default_load_endianness() is None
    SERIALIZATION.set_default_load_endianness(SERIALIZATION.LoadEndianness.BIG)
    try:
        file = saved(torch.tensor([1], dtype=torch.int16), _disable_byteorder_record=True)
        assert torch.load(file).tolist() == [256]
    finally:
        SERIALIZATION.set_default_load_endianness(None)
    with pytest.raises(TypeError):
        SERIALIZATION.set_default_load_endianness("little")


def test_small_things():
    import numpy

    assert SERIALIZATION.StorageType("FloatStorage").dtype is torch.float32
    assert SERIALIZATION.normalize_storage_type(torch.FloatStorage) is torch.FloatStorage
    assert SERIALIZATION.check_module_version_greater_or_equal(numpy, (1, 0))
    assert not SERIALIZATION.check_module_version_greater_or_equal(numpy, (100,))
    with pytest.raises(RuntimeError, match="malformed"):
        SERIALIZATION.check_module_version_greater_or_equal(numpy, (1, None))
    with SERIALIZATION.mkdtemp() as folder:
        assert os.path.isdir(folder)
    assert not os.path.exists(folder)
    assert _utils._rebuild_tensor_v2(torch.arange(3).storage(), 1, (2,), (1,), False, None).tolist() == [1, 2]


def test_storages_from_files(tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(bytes(range(8)))
    private = torch.UntypedStorage.from_file(path, False, 4)
    private[0] = 9
    assert private.tolist() == [9, 1, 2, 3] and path.read_bytes()[0] == 0
    with pytest.raises(RuntimeError):
        torch.UntypedStorage.from_file(path, False, 100)
    shared = torch.IntStorage.from_file(str(path), True, 4)
    shared[3] = 5
    del shared
    assert path.stat().st_size == 16 and path.read_bytes()[12] == 5


@pytest.mark.parametrize(
    ("count", "location", "index"), [(1, "cuda", 0), (1, "cuda:0", 0), (3, "cuda:2", 2), (2, "cuda:1", 1)]
)
def test_gpus_that_tags_name(monkeypatch, count, location, index):
    monkeypatch.setattr(locations, "gpu_count", lambda: count)
    assert locations.validate_cuda_device(location) == torch.device("cuda", index)
    for number in (count, count + 5):
        with pytest.raises(RuntimeError, match=f"device {number}, but there are only {count}"):
            locations.validate_cuda_device(f"cuda:{number}")


def test_no_gpus(monkeypatch):
    monkeypatch.setattr(locations, "gpu_count", lambda: 0)
    with pytest.raises(RuntimeError, match="Attempting to deserialize object on a CUDA device"):
        locations.validate_cuda_device("cuda")


def test_tags_of_storages():
    storage = torch.ones(2).untyped_storage()
    restore = SERIALIZATION.default_restore_location
    assert restore(storage, "cpu") is storage and restore(storage, "meta").device.type == "meta"
    assert SERIALIZATION.location_tag(torch.empty(2, device="meta").untyped_storage()) == "meta"
    with pytest.raises(RuntimeError, match="don't know how to restore data location"):
        restore(storage, "somewhere")


@pytest.mark.parametrize("asked", [None, False, True])
@pytest.mark.parametrize("usual", [False, True])
def test_writers_have_checksums_if_asked_or_by_default(asked, usual):
    SERIALIZATION.set_crc32_options(usual)
    try:
        file = io.BytesIO()
        writer = torch.PyTorchFileWriter(file, *([] if asked is None else [asked]))
        writer.write_record("note", b"hello", 5)
        writer.write_end_of_file()
    finally:
        SERIALIZATION.set_crc32_options(True)
    with zipfile.ZipFile(file) as archive:
        has = zlib.crc32(b"hello") == archive.getinfo("archive/note").CRC
    assert has is (usual if asked is None else asked)


def test_a_fake_mode_loads_fake_tensors():
    weights = {"a": torch.arange(6.0).view(2, 3).t(), "b": nn.Parameter(torch.ones(2))}
    for options in FORMATS:
        file = saved(weights, **options)
        for where, place in (
            (None, "cpu"),
            ("cuda:1", "cuda:1"),
            ({"cpu": "meta"}, "meta"),
            (lambda s, tag: None, "cpu"),
        ):
            file.seek(0)
            with FakeTensorMode() as mode:
                found = torch.load(file, map_location=where)
            assert all(isinstance(t, FakeTensor) and str(t.device) == place for t in found.values())
            assert found["a"].shape == (3, 2) and found["a"].stride() == (1, 3) and found["a"].fake_mode is mode
            assert found["b"].requires_grad


def test_fake_tensors_are_saved_as_room_for_data():
    with FakeTensorMode():
        whole = torch.ones(2, 3)
        things = {"whole": whole, "row": whole[1], "gpu": torch.ones(2, device="cuda", dtype=torch.int16)}
    with SERIALIZATION.skip_data(materialize_fake_tensors=True):
        file = saved(things)
    found = torch.load(file, map_location="cpu")
    assert {type(t) for t in found.values()} == {torch.Tensor}
    assert found["whole"].shape == (2, 3) and found["gpu"].dtype == torch.int16
    found["whole"].fill_(5)
    assert found["row"].tolist() == [5, 5, 5]
    tags = []
    file.seek(0)
    torch.load(file, map_location=lambda storage, tag: tags.append(tag) or storage)
    assert tags == ["cpu", "cuda:0"]


def test_what_has_no_data_to_skip():
    with SERIALIZATION.skip_data():
        with pytest.warns(UserWarning, match="meta device under skip_data context manager is a no-op"):
            saved(torch.ones(2, device="meta"))
        with pytest.raises(RuntimeError, match="Cannot serialize nested tensor under skip_data"):
            saved(torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]))
        with pytest.raises(RuntimeError, match="_use_new_zipfile_serialization=False"):
            saved(torch.ones(2), _use_new_zipfile_serialization=False)
