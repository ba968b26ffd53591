"""Datasets from files made here: formats, attributes, and files that want to do harm."""

import gzip
import hashlib
import io
import pickle
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau.vision import datasets
from flambeau.vision.datasets import utils
from flambeau.vision.datasets.cifar import read_batch
from flambeau.vision.datasets.mnist import read_sn3_pascalvincent_tensor


def _idx(array, kind=8):
    return struct.pack(">BBBB", 0, 0, kind, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def _mnist(folder, counts=(7, 3), name="MNIST"):
    raw = folder / name / "raw"
    raw.mkdir(parents=True)
    generator = np.random.default_rng(0)
    for part, n in zip(("train", "t10k"), counts):
        images = generator.integers(0, 256, (n, 28, 28), dtype=np.uint8)
        (raw / f"{part}-images-idx3-ubyte").write_bytes(_idx(images))
        (raw / f"{part}-labels-idx1-ubyte").write_bytes(_idx((np.arange(n) % 10).astype(np.uint8)))
    return raw


def test_mnist(tmp_path):
    _mnist(tmp_path)
    train, test = datasets.MNIST(str(tmp_path)), datasets.MNIST(tmp_path, train=False)
    assert (len(train), len(test)) == (7, 3)
    assert train.data.shape == (7, 28, 28)
    assert train.data.dtype is torch.uint8
    assert train.targets.tolist() == list(range(7))
    assert train.class_to_idx["3 - three"] == 3
    assert repr(test).splitlines() == [
        "Dataset MNIST", "    Number of datapoints: 3", f"    Root location: {tmp_path}", "    Split: Test",
    ]  # fmt: skip
    with pytest.warns(UserWarning, match="renamed"):
        assert train.train_labels is train.targets


def test_mnist_items(tmp_path):
    pytest.importorskip("PIL")
    from flambeau.vision.transforms import ToTensor

    _mnist(tmp_path, name="FashionMNIST")
    data = datasets.FashionMNIST(tmp_path, transform=ToTensor(), target_transform=lambda t: t * 10)
    image, target = data[2]
    assert torch.allclose(image[0] * 255, data.data[2].float())
    assert target == 20
    batch, targets = next(iter(torch.utils.data.DataLoader(data, batch_size=4)))
    assert batch.shape == (4, 1, 28, 28)
    assert targets.tolist() == [0, 10, 20, 30]
    lines = repr(data).splitlines()
    assert lines[-3:] == ["    StandardTransform", "Transform: ToTensor()", lines[-1]]


def test_missing_files(tmp_path):
    with pytest.raises(RuntimeError, match=r"Dataset not found. You can use download=True to download it"):
        datasets.MNIST(tmp_path)
    with pytest.raises(RuntimeError, match="Dataset not found or corrupted"):
        datasets.CIFAR10(tmp_path)
    with pytest.raises(ValueError, match="Unknown value 'foo' for argument split"):
        datasets.EMNIST(tmp_path, "foo")


def test_emnist(tmp_path):
    raw = tmp_path / "EMNIST" / "raw"
    raw.mkdir(parents=True)
    (raw / "emnist-letters-train-images-idx3-ubyte").write_bytes(_idx(np.zeros((2, 28, 28), np.uint8)))
    (raw / "emnist-letters-train-labels-idx1-ubyte").write_bytes(_idx(np.array([1, 26], np.uint8)))
    data = datasets.EMNIST(tmp_path, "letters")
    assert [data.classes[i] for i in data.targets.tolist()] == ["a", "z"]
    assert len(datasets.EMNIST.classes_split_dict["balanced"]) == 47


@pytest.mark.parametrize("kind, dtype", [(8, "u1"), (9, "i1"), (11, ">i2"), (12, ">i4"), (13, ">f4"), (14, ">f8")])
def test_idx_types(tmp_path, kind, dtype):
    array = np.arange(6).reshape(2, 3).astype(dtype)
    (tmp_path / "x.gz").write_bytes(gzip.compress(_idx(array, kind)))
    assert np.array_equal(read_sn3_pascalvincent_tensor(tmp_path / "x.gz").numpy(), array)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\x08",
        b"\x1f\x8b\x08\x01",
        b"\0\0\x07\x01" + struct.pack(">I", 1) + b"a",  # no such type
        b"\0\0\x08\x09" + struct.pack(">9I", *[1] * 9) + b"a",  # too many dimensions
        b"\0\0\x08\x03" + struct.pack(">I", 1),  # sizes cut off
        b"\0\0\x08\x03" + struct.pack(">3I", *[2**32 - 1] * 3) + b"abc",  # announces more than any memory
        b"\0\0\x08\x01" + struct.pack(">I", 2) + b"abc",  # more than announced
    ],
)
def test_bad_idx_files(tmp_path, content):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises((ValueError, MemoryError, OverflowError)):
        read_sn3_pascalvincent_tensor(tmp_path / "x")


def test_a_compressed_file_is_read_no_further_than_announced(tmp_path):
    small = _idx(np.arange(3, dtype=np.uint8))
    (tmp_path / "x.gz").write_bytes(gzip.compress(small + bytes(1 << 26)))
    with pytest.raises(ValueError, match="another size"):
        read_sn3_pascalvincent_tensor(tmp_path / "x.gz")
    assert read_sn3_pascalvincent_tensor(tmp_path / "x.gz", strict=False).tolist() == [0, 1, 2]


# -- CIFAR -----------------------------------------------------------------------------------------------------------


def _cifar(folder, protocol=2):
    base = folder / "cifar-10-batches-py"
    base.mkdir()
    generator = np.random.default_rng(0)

    def write(name, content):
        data = pickle.dumps(content, protocol=protocol)
        (base / name).write_bytes(data)
        return [name, hashlib.md5(data).hexdigest()]

    def batch(name):
        return write(name, {"data": generator.integers(0, 256, (4, 3072), dtype=np.uint8), "labels": [0, 1, 2, 1]})

    class Small(datasets.CIFAR10):
        train_list = [batch("data_batch_1"), batch("data_batch_2")]
        test_list = [batch("test_batch")]
        meta = dict(
            zip(("filename", "md5"), write("batches.meta", {"label_names": ["a", "b", "c"]})), key="label_names"
        )

    return Small


@pytest.mark.parametrize("protocol", [2, 4])
def test_cifar(tmp_path, protocol):
    data = _cifar(tmp_path, protocol)(tmp_path)
    assert data.data.shape == (8, 32, 32, 3)
    assert data.targets == [0, 1, 2, 1] * 2
    assert data.class_to_idx == {"a": 0, "b": 1, "c": 2}
    plain = pickle.loads((tmp_path / "cifar-10-batches-py" / "data_batch_2").read_bytes())
    assert np.array_equal(data.data[5].transpose(2, 0, 1).reshape(-1), plain["data"][1])


def test_a_changed_cifar_file_is_noticed(tmp_path):
    kind = _cifar(tmp_path)
    path = tmp_path / "cifar-10-batches-py" / "test_batch"
    path.write_bytes(path.read_bytes() + b" ")
    with pytest.raises(RuntimeError, match="corrupted"):
        kind(tmp_path)


class _Runs:
    def __reduce__(self):
        return eval, ("__import__('os').system('true')",)


@pytest.mark.parametrize(
    "content",
    [
        pickle.dumps({"data": _Runs()}),
        pickle.dumps(np.zeros(2, np.uint8), protocol=2),
        pickle.dumps({"data": np.zeros(2, np.float64)}, protocol=2),
        pickle.dumps({"data": np.array([_Runs], dtype=object)}, protocol=2),
        b"cos\nsystem\n(S'true'\ntR.",
        b"\x80\x02cnumpy.core.multiarray\n_reconstruct\n.",
        b"\x80\x02}q\x00(U\x04dataq\x01",
        b"",
    ],
)
def test_hostile_pickles(content):
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        read_batch(io.BytesIO(content))


# -- folders ---------------------------------------------------------------------------------------------------------


def test_dataset_folder(tmp_path):
    for name in ("b/2.txt", "b/1.txt", "a/sub/3.TXT", "a/skipped.bin"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    data = datasets.DatasetFolder(tmp_path, lambda path: Path(path).read_text(), extensions=(".txt",))
    assert data.classes == ["a", "b"]
    assert [data[i] for i in range(3)] == [("a/sub/3.TXT", 0), ("b/1.txt", 1), ("b/2.txt", 1)]
    assert data.targets == [0, 1, 1]
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match="classes empty"):
        datasets.DatasetFolder(tmp_path, len, extensions=(".txt",))
    assert len(datasets.DatasetFolder(tmp_path, len, extensions=(".txt",), allow_empty=True).classes) == 3
    with pytest.raises(ValueError, match="cannot be None or not None"):
        datasets.DatasetFolder(tmp_path, len)
    with pytest.raises(FileNotFoundError, match="class folder"):
        datasets.DatasetFolder(tmp_path / "empty", len, extensions=(".txt",))


def test_image_folder(tmp_path):
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "cat").mkdir()
    image.new("L", (4, 3), 7).save(tmp_path / "cat" / "x.png")
    data = datasets.ImageFolder(tmp_path)
    assert data.imgs == [(str(tmp_path / "cat" / "x.png"), 0)]
    assert (data[0][0].mode, data[0][0].size) == ("RGB", (4, 3))


def test_transforms_argument():
    both = datasets.VisionDataset(transforms=lambda a, b: (b, a))
    assert both.transforms(1, 2) == (2, 1)
    with pytest.raises(ValueError, match="Only transforms or"):
        datasets.VisionDataset(transforms=len, transform=len)


def test_fake_data():
    pytest.importorskip("PIL")
    from flambeau.vision.transforms import PILToTensor

    data = datasets.FakeData(3, (3, 4, 5), transform=PILToTensor())
    image, target = data[1]
    assert image[0].tolist() == [
        [123, 65, 90, 102, 231],
        [101, 7, 102, 75, 77],
        [58, 192, 200, 174, 58],
        [119, 79, 217, 178, 50],
    ]
    assert target == 5
    with pytest.raises(IndexError):
        data[3]


# -- archives --------------------------------------------------------------------------------------------------------


def _tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for info, data in members:
            archive.addfile(info, io.BytesIO(data))


def _member(name, data=b"x", **fields):
    info = tarfile.TarInfo(name)
    info.size = len(data)
    for field, value in fields.items():
        setattr(info, field, value)
    return info, data


def test_archives(tmp_path):
    _tar(tmp_path / "a.tar.gz", [_member("folder/file", b"hello")])
    utils.extract_archive(tmp_path / "a.tar.gz", tmp_path / "out")
    assert (tmp_path / "out/folder/file").read_bytes() == b"hello"
    with zipfile.ZipFile(tmp_path / "b.zip", "w") as archive:
        archive.writestr("inside", "zip")
    utils.extract_archive(str(tmp_path / "b.zip"))
    assert (tmp_path / "inside").read_text() == "zip"
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"packed"))
    utils.extract_archive(tmp_path / "c.gz", remove_finished=True)
    assert (tmp_path / "c").read_bytes() == b"packed"
    assert not (tmp_path / "c.gz").exists()
    with pytest.raises(RuntimeError, match="suffixes"):
        utils.extract_archive(tmp_path / "c")


@pytest.mark.parametrize(
    "member",
    [
        _member("../escaped"),
        _member("/tmp/flambeau_escaped"),
        _member("link", b"", type=tarfile.SYMTYPE, linkname="/etc"),
        _member("pipe", b"", type=tarfile.FIFOTYPE),
    ],
)
def test_hostile_archives(tmp_path, member):
    _tar(tmp_path / "x.tar.gz", [member])
    with pytest.raises(RuntimeError, match=r"outside|neither"):
        utils.extract_archive(tmp_path / "x.tar.gz", tmp_path / "out")
    assert not (tmp_path / "escaped").exists()


def test_downloads(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"data")
    md5 = hashlib.md5(b"data").hexdigest()
    utils.download_url(source.as_uri(), tmp_path / "there", md5=md5)
    assert (tmp_path / "there/source").read_bytes() == b"data"
    with pytest.raises(RuntimeError, match="corrupted"):
        utils.download_url(source.as_uri(), tmp_path / "other", md5="0" * 32)
    assert not (tmp_path / "other/source").exists()
