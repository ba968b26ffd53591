"""Files of datasets: hashes, downloads and archives. What an archive holds never leaves the folder it is meant for."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
import os
import shutil
import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError

from ...hub import download_url_to_file

_COMPRESSIONS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
_ALIASES = {".tgz": (".tar", ".gz"), ".tbz": (".tar", ".bz2"), ".tbz2": (".tar", ".bz2")}


def calculate_md5(fpath: str | Path, chunk_size: int = 1024 * 1024) -> str:
    """The md5 of a file, in hexadecimal digits."""
    digest = hashlib.md5(usedforsecurity=False)
    with open(fpath, "rb") as file:
        while chunk := file.read(chunk_size):
            digest.update(chunk)
    return digest.hexdigest()


def check_md5(fpath: str | Path, md5: str, **kwargs: Any) -> bool:
    """Whether a file has this md5."""
    return md5 == calculate_md5(fpath)


def check_integrity(fpath: str | Path, md5: str | None = None) -> bool:
    """Whether a file is there, and has this md5 if one is given."""
    return os.path.isfile(fpath) and (md5 is None or check_md5(fpath, md5))


def download_url(
    url: str, root: str | Path, filename: str | Path | None = None, md5: str | None = None, max_redirect_hops: int = 3
) -> None:
    """Downloads a file into a folder, unless it is there already."""
    root = os.path.expanduser(root)
    path = os.path.join(root, filename or os.path.basename(url))
    if check_integrity(path, md5):
        return
    os.makedirs(root, exist_ok=True)
    try:
        download_url_to_file(url, path)
    except HTTPError:
        raise
    except URLError as error:
        raise URLError(f"{url} cannot be downloaded ({error.reason}); put the file at {path} by hand") from error
    if not check_integrity(path, md5):
        os.remove(path)
        raise RuntimeError(f"File not found or corrupted: what came from {url} does not have the md5 {md5}")


def extract_archive(
    from_path: str | Path, to_path: str | Path | None = None, remove_finished: bool = False
) -> str | Path:
    """Unpacks a tar or zip archive, or one compressed file; gives the folder or the file."""
    source = Path(from_path)
    target = Path(to_path) if to_path is not None else source.parent
    suffixes = [s for suffix in source.suffixes[-2:] for s in _ALIASES.get(suffix, (suffix,))]
    if ".tar" in suffixes:
        _extract_tar(source, target)
    elif suffixes[-1:] == [".zip"]:
        with zipfile.ZipFile(source) as archive:
            archive.extractall(target)  # its names are made harmless by the library
    elif suffixes and suffixes[-1] in _COMPRESSIONS:
        if target.is_dir() or to_path is None:
            target = target / source.stem
        with _COMPRESSIONS[suffixes[-1]](source, "rb") as packed, open(target, "wb") as file:
            shutil.copyfileobj(packed, file)
    else:
        raise RuntimeError(f"File '{from_path}' has no suffixes of a known archive type or compression")
    if remove_finished:
        source.unlink()
    return str(target) if isinstance(from_path, str) else target


def _extract_tar(source: Path, target: Path) -> None:
    """Plain files and folders only, and only below the target: no links, devices or paths that climb out."""
    target = target.resolve()
    with tarfile.open(source) as archive:
        for member in archive:
            place = (target / member.name).resolve()
            if not place.is_relative_to(target):
                raise RuntimeError(f"{source}: the member {member.name!r} would be written outside of {target}")
            if member.isdir():
                place.mkdir(parents=True, exist_ok=True)
            elif member.isreg():
                place.parent.mkdir(parents=True, exist_ok=True)
                packed = archive.extractfile(member)
                assert packed is not None
                with packed, open(place, "wb") as file:
                    shutil.copyfileobj(packed, file)
            else:
                raise RuntimeError(f"{source}: the member {member.name!r} is neither a file nor a folder")


def download_and_extract_archive(
    url: str,
    download_root: str | Path,
    extract_root: str | Path | None = None,
    filename: str | Path | None = None,
    md5: str | None = None,
    remove_finished: bool = False,
) -> None:
    """`download_url`, then `extract_archive`."""
    root = os.path.expanduser(download_root)
    filename = filename or os.path.basename(url)
    download_url(url, root, filename, md5)
    extract_archive(os.path.join(root, filename), extract_root or root, remove_finished)


def list_dir(root: str | Path, prefix: bool = False) -> list[str]:
    """The names (or paths) of the folders in a folder."""
    return [e.path if prefix else e.name for e in os.scandir(os.path.expanduser(root)) if e.is_dir()]


def list_files(root: str | Path, suffix: str | tuple[str, ...], prefix: bool = False) -> list[str]:
    """The names (or paths) of the files in a folder that end with a suffix."""
    found = [e for e in os.scandir(os.path.expanduser(root)) if e.is_file() and e.name.endswith(suffix)]
    return [e.path if prefix else e.name for e in found]


def verify_str_arg(
    value: Any, arg: str | None = None, valid_values: Iterable[str] | None = None, custom_msg: str | None = None
) -> str:
    """The value, if it is a string and among the permitted ones."""
    if not isinstance(value, str):
        name = f" for argument {arg}" if arg else ""
        raise ValueError(f"Expected type str{name}, but got type {type(value)}.")
    if valid_values is not None and value not in valid_values:
        known = "{" + ", ".join(f"'{v}'" for v in valid_values) + "}"
        raise ValueError(custom_msg or f"Unknown value '{value}' for argument {arg}. Valid values are {known}.")
    return value
