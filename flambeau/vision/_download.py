"""Files from the network: downloaded beside their place, checked, and only then put there."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.request
from pathlib import Path
from typing import Any, BinaryIO

_CHUNK = 1 << 16


def file_hash(path: str | Path, name: str = "md5") -> str:
    """The hash of a file, in hexadecimal digits."""
    digest = hashlib.new(name, usedforsecurity=False) if name == "md5" else hashlib.new(name)
    with open(path, "rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest()


def download(
    url: str, path: str | Path, *, md5: str | None = None, sha256: str | None = None, progress: bool = True
) -> None:
    """Downloads a file and checks its hash (of sha256, the first digits may be given)."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    request = urllib.request.Request(url, headers={"User-Agent": "flambeau"})
    with urllib.request.urlopen(request) as response:
        handle, partial = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                _copy(response, file, progress)
            for name, wanted in (("md5", md5), ("sha256", sha256)):
                if wanted and not file_hash(partial, name).startswith(wanted):
                    raise RuntimeError(f"File not found or corrupted: {url} does not have the {name} {wanted}")
            os.replace(partial, path)
        except BaseException:
            os.unlink(partial)
            raise


def _copy(response: Any, file: BinaryIO, progress: bool) -> None:
    length = response.headers.get("Content-Length")
    with _bar(int(length) if length else None, progress) as bar:
        while chunk := response.read(_CHUNK):
            file.write(chunk)
            bar.update(len(chunk))


class _Silent:
    """A progress bar that shows nothing."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *details: object) -> None:
        pass

    def update(self, amount: int) -> None:
        pass


def _bar(total: int | None, progress: bool) -> Any:
    if progress:
        try:
            from tqdm import tqdm
        except ModuleNotFoundError:
            return _Silent()
        return tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024)
    return _Silent()
