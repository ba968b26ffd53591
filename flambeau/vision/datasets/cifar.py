"""CIFAR-10 and CIFAR-100. Their files are pickles, read by an unpickler that knows arrays, lists, text and numbers only."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from .._images import pillow
from .utils import check_integrity, download_and_extract_archive
from .vision import VisionDataset


class _Dtype:
    """Stands for a dtype in a pickle."""

    def __init__(self, name: Any, *rest: Any):
        self.name = name

    def __setstate__(self, state: Any) -> None:
        pass  # byte order and alignment, which bytes do not have


class _Array:
    """Stands for an array in a pickle, until its bytes come."""

    def __init__(self, *arguments: Any):
        self.array: np.ndarray | None = None

    def __setstate__(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise pickle.UnpicklingError("an array without shape, dtype and data")
        _, shape, dtype, fortran, data = state
        data = data.encode("latin1") if isinstance(data, str) else data
        if not isinstance(dtype, _Dtype) or dtype.name not in ("u1", "|u1") or not isinstance(data, bytes):
            raise pickle.UnpicklingError("an array of something else than bytes")
        if not isinstance(shape, tuple) or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise pickle.UnpicklingError(f"an array of shape {shape!r}")
        if math.prod(shape) != len(data):
            raise pickle.UnpicklingError(f"an array of shape {shape} with {len(data)} bytes")
        self.array = np.frombuffer(data, np.uint8).reshape(shape, order="F" if fortran else "C")


def _encoded(text: Any, encoding: Any = "latin1") -> bytes:
    """How Python 3 writes bytes into old pickles."""
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise pickle.UnpicklingError("an encoded value that is not text")
    return text.encode("latin1")


_KNOWN: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): _Array,
    ("numpy._core.multiarray", "_reconstruct"): _Array,
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _encoded,
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _KNOWN[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"the file asks for {module}.{name}, which no CIFAR file needs") from None


def read_batch(file: BinaryIO) -> dict[str, Any]:
    """The contents of a batch or meta file: arrays of bytes, lists, text and numbers."""
    content = _Unpickler(file, encoding="latin1").load()
    if not isinstance(content, dict):
        raise pickle.UnpicklingError(f"a CIFAR file holds a dict, not a {type(content).__name__}")
    return {key: value.array if isinstance(value, _Array) else value for key, value in content.items()}


class CIFAR10(VisionDataset):
    """Photographs of ten classes, 32×32: images of pillow and their labels."""

    base_folder = "cifar-10-batches-py"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz"
    filename = "cifar-10-python.tar.gz"
    tgz_md5 = "c58f30108f718f92721af3b95e74349a"
    train_list = [
        ["data_batch_1", "c99cafc152244af753f735de768cd75f"],
        ["data_batch_2", "d4bba439e000b95fd0a9bffe97cbabec"],
        ["data_batch_3", "54ebc095f3ab1f0389bbae665268c751"],
        ["data_batch_4", "634d18415352ddfa80567beed471001a"],
        ["data_batch_5", "482c414d41f54cd18b22e5b47cb7c3cb"],
    ]
    test_list = [["test_batch", "40351d587109b95175f43aff81a1287e"]]
    meta = {"filename": "batches.meta", "key": "label_names", "md5": "5ff9c542aee3614f3951f8cda6e48888"}

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
        if not self._check_integrity():
            raise RuntimeError("Dataset not found or corrupted. You can use download=True to download it")
        parts: list[np.ndarray] = []
        self.targets: list[int] = []
        for name, _ in self.train_list if train else self.test_list:
            images, labels = self._read(name)
            parts.append(images)
            self.targets += labels
        self.data = np.ascontiguousarray(np.concatenate(parts).transpose(0, 2, 3, 1))  # (N, H, W, C)
        self._load_meta()

    def _read(self, name: str) -> tuple[np.ndarray, list[int]]:
        path = os.path.join(self.root, self.base_folder, name)
        with open(path, "rb") as file:
            batch = read_batch(file)
        images, labels = batch.get("data"), batch.get("labels", batch.get("fine_labels"))
        if not isinstance(images, np.ndarray) or images.ndim != 2 or images.shape[1] != 3072:
            raise ValueError(f"{path}: no images of 3072 bytes")
        if not isinstance(labels, list) or len(labels) != len(images) or not all(isinstance(i, int) for i in labels):
            raise ValueError(f"{path}: not one label for each of {len(images)} images")
        return images.reshape(-1, 3, 32, 32), labels

    def _load_meta(self) -> None:
        path = os.path.join(self.root, self.base_folder, self.meta["filename"])
        if not check_integrity(path, self.meta["md5"]):
            raise RuntimeError("Dataset metadata file not found or corrupted. You can use download=True to download it")
        with open(path, "rb") as file:
            self.classes = read_batch(file)[self.meta["key"]]
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._transformed(pillow().fromarray(self.data[index]), self.targets[index])

    def __len__(self) -> int:
        return len(self.data)

    def _check_integrity(self) -> bool:
        folder = os.path.join(self.root, self.base_folder)
        return all(check_integrity(os.path.join(folder, name), md5) for name, md5 in self.train_list + self.test_list)

    def download(self) -> None:
        """Downloads and unpacks the files, unless they are there."""
        if not self._check_integrity():
            download_and_extract_archive(self.url, self.root, filename=self.filename, md5=self.tgz_md5)

    def extra_repr(self) -> str:
        return f"Split: {'Train' if self.train is True else 'Test'}"


class CIFAR100(CIFAR10):
    """Photographs of a hundred classes, 32×32."""

    base_folder = "cifar-100-python"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-python.tar.gz"
    filename = "cifar-100-python.tar.gz"
    tgz_md5 = "eb9058c3a382ffc7106e4002c42a8d85"
    train_list = [["train", "16019d7e3df5f24257cddd939b257f8d"]]
    test_list = [["test", "f0ef6b0ae62326f3e7ffdfab6717acfc"]]
    meta = {"filename": "meta", "key": "fine_label_names", "md5": "7973b15100ade9c7d40fb424638fde48"}
