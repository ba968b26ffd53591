"""MNIST and the datasets in its format (IDX files): FashionMNIST, KMNIST, EMNIST."""

from __future__ import annotations

import gzip
import math
import os
import shutil
import string
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import URLError

import numpy as np

from ..._core.dtypes import int64, uint8
from ..._ops.registry import ops
from ..._tensor import Tensor
from .._images import pillow
from .utils import check_integrity, download_and_extract_archive, download_url, extract_archive, verify_str_arg
from .vision import VisionDataset

# the type that the third byte of a file names; numbers of several bytes have the most significant one first
_TYPES = {8: "u1", 9: "i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_sn3_pascalvincent_tensor(path: str | Path, strict: bool = True) -> Tensor:
    """An IDX file (also compressed, with the ending .gz) as a tensor."""
    with gzip.open(path) if str(path).endswith(".gz") else open(path, "rb") as file:
        head = file.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in _TYPES or not 1 <= head[3] <= 3:
            raise ValueError(f"{path}: not an IDX file of 1 to 3 dimensions")
        sizes = file.read(4 * head[3])
        if len(sizes) < 4 * head[3]:
            raise ValueError(f"{path}: the sizes are cut off")
        shape = [int(n) for n in np.frombuffer(sizes, ">u4")]
        dtype = np.dtype(_TYPES[head[2]])
        wanted = math.prod(shape) * dtype.itemsize
        data = file.read(wanted + 1)  # no more, whatever the file unpacks to
    if len(data) < wanted or (strict and len(data) != wanted):
        raise ValueError(
            f"{path}: {shape} elements of {dtype.itemsize} bytes are announced, but the data has another size"
        )
    array = np.frombuffer(data, dtype, count=math.prod(shape)).reshape(shape)
    return ops.from_numpy(array.astype(dtype.newbyteorder("=")))


def read_label_file(path: str | Path) -> Tensor:
    """The labels of a file, as int64."""
    x = read_sn3_pascalvincent_tensor(path, strict=False)
    if x.dtype is not uint8 or x.ndim != 1:
        raise ValueError(f"{path}: x should be of dtype torch.uint8 and have 1 dimension, got {x.dtype} and {x.ndim}")
    return x.to(int64)


def read_image_file(path: str | Path) -> Tensor:
    """The images of a file, (N, H, W) of uint8."""
    x = read_sn3_pascalvincent_tensor(path, strict=False)
    if x.dtype is not uint8 or x.ndim != 3:
        raise ValueError(f"{path}: x should be of dtype torch.uint8 and have 3 dimensions, got {x.dtype} and {x.ndim}")
    return x


class MNIST(VisionDataset):
    """Handwritten digits, 28×28: images of pillow and their labels. The files lie in `root/MNIST/raw`."""

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        ("train-labels-idx1-ubyte.gz", "d53e105ee54ea40749a09fcbcd1e9432"),
        ("t10k-images-idx3-ubyte.gz", "9fb629c4189551a2d022fa330f9573f3"),
        ("t10k-labels-idx1-ubyte.gz", "ec29112dd5afa0611ce80d1b7f02629c"),
    ]
    classes = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven", "8 - eight",
        "9 - nine",
    ]  # fmt: skip

    def __init__(
        self,
        root: str | Path,
        train: bool = True,
        transform: Callable[..., Any] | None = None,
        target_transform: Callable[..., Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform=transform, target_transform=target_transform)
        self.train = train
        if download:
            self.download()
        if not self._check_exists():
            raise RuntimeError("Dataset not found. You can use download=True to download it")
        self.data, self.targets = self._load_data()

    def _load_data(self) -> tuple[Tensor, Tensor]:
        kind = "train" if self.train else "t10k"
        images = read_image_file(os.path.join(self.raw_folder, f"{kind}-images-idx3-ubyte"))
        labels = read_label_file(os.path.join(self.raw_folder, f"{kind}-labels-idx1-ubyte"))
        if len(images) != len(labels):
            raise ValueError(f"{self.raw_folder}: {len(images)} images but {len(labels)} labels ({kind})")
        return images, labels

    def _old_name(self, old: str, new: str) -> Tensor:
        warnings.warn(f"{old} has been renamed {new}", stacklevel=3)
        return getattr(self, new)

    train_labels = property(lambda self: self._old_name("train_labels", "targets"))
    test_labels = property(lambda self: self._old_name("test_labels", "targets"))
    train_data = property(lambda self: self._old_name("train_data", "data"))
    test_data = property(lambda self: self._old_name("test_data", "data"))

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image = pillow().fromarray(self.data[index].numpy())
        return self._transformed(image, int(self.targets[index]))

    def __len__(self) -> int:
        return len(self.data)

    @property
    def raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def _check_exists(self) -> bool:
        files = [os.path.splitext(name)[0] for name, _ in self.resources]
        return all(check_integrity(os.path.join(self.raw_folder, name)) for name in files)

    def download(self) -> None:
        """Downloads the files that are not there yet."""
        if self._check_exists():
            return
        os.makedirs(self.raw_folder, exist_ok=True)
        for filename, md5 in self.resources:
            failures = []
            for mirror in self.mirrors:
                try:
                    download_and_extract_archive(mirror + filename, self.raw_folder, filename=filename, md5=md5)
                except URLError as error:
                    failures.append(f"{mirror + filename}: {error}")
                    continue
                break
            else:
                raise RuntimeError(f"Error downloading {filename}:\n" + "\n".join(failures))

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class FashionMNIST(MNIST):
    """Pictures of clothes in the format of MNIST."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "8d4fb7e6c68d591d4c3dfef9ec88bf0d"),
        ("train-labels-idx1-ubyte.gz", "25c81989df183df01b3e8a0aad5dffbe"),
        ("t10k-images-idx3-ubyte.gz", "bef4ecab320f06d8554ea6380940ec79"),
        ("t10k-labels-idx1-ubyte.gz", "bb300cfdad3c16e7a12a480ee83cd310"),
    ]
    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ]  # fmt: skip


class KMNIST(MNIST):
    """Japanese characters in the format of MNIST."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    resources = [
        ("train-images-idx3-ubyte.gz", "bdb82020997e1d708af4cf47b453dcf7"),
        ("train-labels-idx1-ubyte.gz", "e144d726b3acfaa3e44228e80efcd344"),
        ("t10k-images-idx3-ubyte.gz", "5c965bf0a639b31b8f53240b1b52f4d7"),
        ("t10k-labels-idx1-ubyte.gz", "7320c461ea6c1c855c0b718fb2a4b134"),
    ]
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class EMNIST(MNIST):
    """Handwritten letters and digits, in several splits. Its images lie on their side."""

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    md5 = "58c8d27c78d21e728a6bc7b3cc06412e"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    _merged_classes = set("cijklmopsuvwxyz")  # capital and small letter look alike
    _all_classes = set(string.digits + string.ascii_letters)
    classes_split_dict = {
        "byclass": sorted(_all_classes),
        "bymerge": sorted(_all_classes - _merged_classes),
        "balanced": sorted(_all_classes - _merged_classes),
        "letters": ["N/A", *string.ascii_lowercase],
        "digits": list(string.digits),
        "mnist": list(string.digits),
    }

    def __init__(self, root: str | Path, split: str, **kwargs: Any) -> None:
        self.split = verify_str_arg(split, "split", self.splits)
        super().__init__(root, **kwargs)
        self.classes = self.classes_split_dict[self.split]

    def _file(self, kind: str) -> str:
        part = "train" if self.train else "test"
        return os.path.join(self.raw_folder, f"emnist-{self.split}-{part}-{kind}")

    @property
    def images_file(self) -> str:
        return self._file("images-idx3-ubyte")

    @property
    def labels_file(self) -> str:
        return self._file("labels-idx1-ubyte")

    def _load_data(self) -> tuple[Tensor, Tensor]:
        return read_image_file(self.images_file), read_label_file(self.labels_file)

    def _check_exists(self) -> bool:
        return all(check_integrity(file) for file in (self.images_file, self.labels_file))

    def download(self) -> None:
        """Downloads the archive of all splits and unpacks it."""
        if self._check_exists():
            return
        os.makedirs(self.raw_folder, exist_ok=True)
        download_url(self.url, self.raw_folder, md5=self.md5)
        extract_archive(os.path.join(self.raw_folder, os.path.basename(self.url)), self.raw_folder)
        packed = os.path.join(self.raw_folder, "gzip")
        for name in os.listdir(packed):
            if name.endswith(".gz"):
                extract_archive(os.path.join(packed, name), self.raw_folder)
        shutil.rmtree(packed)
