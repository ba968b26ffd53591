"""Models from elsewhere: `load` runs a repository's `hubconf.py`, `load_state_dict_from_url` fetches weights."""

from __future__ import annotations

import glob
import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import uuid
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

from . import serialization

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # model-0123abcd.pth names the start of its hash
READ_DATA_CHUNK = 128 * 1024
ENV_TORCH_HOME, ENV_XDG_CACHE_HOME, ENV_GITHUB_TOKEN = "TORCH_HOME", "XDG_CACHE_HOME", "GITHUB_TOKEN"
DEFAULT_CACHE_DIR = "~/.cache"
MODULE_HUBCONF, VAR_DEPENDENCY = "hubconf.py", "dependencies"
_TRUSTED_LIST = "trusted_list"
_TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")  # those that PyTorch trusts
_chosen: dict[str, str] = {}


# -- places ----------------------------------------------------------------------------------------------------------


def _get_torch_home() -> str:
    cache = os.getenv(ENV_XDG_CACHE_HOME, "")
    if not os.path.isabs(cache):  # not a valid value, by the rules of XDG
        cache = DEFAULT_CACHE_DIR
    return os.path.expanduser(os.getenv(ENV_TORCH_HOME) or os.path.join(cache, "torch"))


def get_dir() -> str:
    """Where downloaded models and repositories are kept: `$TORCH_HOME/hub` unless `set_dir` says otherwise."""
    return _chosen.get("dir") or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Chooses where downloads are kept.

    >>> import flambeau as torch
    >>> torch.hub.set_dir("/tmp/models"); torch.hub.get_dir()
    '/tmp/models'
    >>> torch.hub.set_dir("")
    """
    _chosen["dir"] = os.path.expanduser(d)


# -- repositories ----------------------------------------------------------------------------------------------------


def _repository(github: str) -> tuple[str, str, str]:
    """Owner, name and branch of "owner/name:branch"."""
    repo, _, branch = github.partition(":")
    owner, slash, name = repo.partition("/")
    if not slash or not owner or not name or "/" in name:
        raise ValueError(f"a repository is named 'owner/name' or 'owner/name:branch', got {github!r}")
    return owner, name, branch or "main"


def _fetched(github: str, force_reload: bool, verbose: bool = True) -> Path:
    """The folder of a repository, downloaded unless it is there already."""
    owner, name, branch = _repository(github)
    home = Path(get_dir())
    folder = home / f"{owner}_{name}_{branch.replace('/', '_')}"
    if not force_reload:
        for kept in (folder, home / f"{owner}_{name}_master"):
            if kept.exists() and (kept is folder or ":" not in github):
                if verbose:
                    sys.stderr.write(f"Using cache found in {kept}\n")
                return kept
    home.mkdir(parents=True, exist_ok=True)
    archive = home / f"{branch.replace('/', '_')}.zip"
    url = f"https://github.com/{owner}/{name}/zipball/{branch}"
    try:
        if verbose:
            sys.stderr.write(f'Downloading: "{url}" to {archive}\n')
        download_url_to_file(url, str(archive), progress=False)
    except HTTPError as error:
        raise RuntimeError(f"the repository {github} could not be downloaded from GitHub: {error}") from error
    except URLError as error:
        raise RuntimeError(
            "It looks like there is no internet connection and the repo could not be found in the cache "
            f"({home}); load a local copy with source='local' instead"
        ) from error
    with zipfile.ZipFile(archive) as packed:
        top = packed.infolist()[0].filename.split("/")[0]
        for entry in packed.namelist():
            if os.path.isabs(entry) or ".." in Path(entry).parts:
                raise RuntimeError(f"the archive of {github} holds a file outside of its folder: {entry}")
        packed.extractall(home)
    archive.unlink()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.move(str(home / top), folder)
    return folder


def _check_trust(github: str, trust_repo: bool | str | None) -> None:
    """Asks before code of a stranger is fetched and run; what users agree to is kept in a list beside the repositories."""
    if trust_repo not in (True, False, None, "check"):
        raise ValueError(f"trust_repo must be True, False, None or 'check', got {trust_repo!r}")
    owner, name, _ = _repository(github)
    home, known = Path(get_dir()), f"{owner}_{name}"
    home.mkdir(parents=True, exist_ok=True)
    listed = home / _TRUSTED_LIST
    listed.touch()
    trusted = known in listed.read_text().split() or owner in _TRUSTED_OWNERS
    # what was fetched before was agreed to then
    trusted = trusted or any(kept.is_dir() for kept in home.glob(f"{glob.escape(known)}_*"))
    if trust_repo is False or (trust_repo == "check" and not trusted):
        try:
            answer = input(
                f"The repository {known} does not belong to the list of trusted repositories and as such cannot be downloaded. "
                "Do you trust this repository and wish to add it to the trusted list of repositories (y/N)?"
            ).lower()
        except EOFError:  # nobody is there to be asked
            answer = ""
        if answer in ("n", "no", ""):
            raise Exception("Untrusted repository. If you trust its code, pass trust_repo=True")
        if answer not in ("y", "yes"):
            raise ValueError(f"Unrecognized response {answer}.")
        if trusted:
            print("The repository is already trusted.")
    if not trusted:
        with listed.open("a") as file:
            file.write(known + "\n")


def _folder(repo: str, source: str, force_reload: bool, trust_repo: bool | str | None, verbose: bool = True) -> Path:
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "local":
        return Path(repo).expanduser()
    _check_trust(repo, trust_repo)
    return _fetched(repo, force_reload, verbose)


@contextmanager
def _first_on_path(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def _configuration(folder: Path) -> ModuleType:
    """The module `hubconf.py` of a repository."""
    path = folder / MODULE_HUBCONF
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    spec = importlib.util.spec_from_file_location(MODULE_HUBCONF, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _first_on_path(folder):
        spec.loader.exec_module(module)
    return module


def _entry(module: ModuleType, name: str) -> Any:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    missing = [d for d in getattr(module, VAR_DEPENDENCY, ()) if importlib.util.find_spec(d) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(
    repo_or_dir: str,
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: bool | str | None = "check",
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """Calls the function `model` of a repository's `hubconf.py`. It runs the repository's code: load only what you trust.

    `repo_or_dir` is "owner/name[:branch]" on GitHub, or a folder with source="local". A repository that was never loaded
    is asked about on the terminal; `trust_repo=True` agrees, and False asks always.
    """
    folder = _folder(repo_or_dir, source.lower(), force_reload, trust_repo, verbose)
    with _first_on_path(folder):
        return _entry(_configuration(folder), model)(*args, **kwargs)


def list(
    github: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    verbose: bool = True,
    *,
    source: str = "github",
) -> Any:
    """The names of the models in a repository."""
    module = _configuration(_folder(github, source, force_reload, trust_repo, verbose))
    return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str,
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: bool | str | None = "check",
    *,
    source: str = "github",
) -> str | None:
    """What a repository says of one of its models."""
    return _entry(_configuration(_folder(github, source, force_reload, trust_repo)), model).__doc__


# -- files -----------------------------------------------------------------------------------------------------------


def __getattr__(name: str) -> Any:
    """`tqdm`, which programs take from here."""
    if name == "tqdm":
        from tqdm import tqdm  # optional

        return tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _progress_bar(total: int | None, wanted: bool) -> Any:
    """A bar of tqdm where it is installed, otherwise something that shows nothing."""
    if wanted:
        try:
            from tqdm import tqdm  # optional
        except ImportError:
            pass
        else:
            return tqdm(total=total, unit="B", unit_scale=True, unit_divisor=1024)
    return _NoBar()


class _NoBar:
    def __enter__(self) -> _NoBar:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def update(self, n: int) -> None:
        """Nothing is shown."""


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetches a file; it appears under its name only when it is complete and its SHA-256 starts as it should."""
    request = Request(url, headers={"User-Agent": "torch.hub"})
    token = os.environ.get(ENV_GITHUB_TOKEN)
    if token and urlparse(url).hostname in ("github.com", "api.github.com"):
        request.add_header("Authorization", f"token {token}")
    target = os.path.expanduser(dst)
    partial = f"{target}.{uuid.uuid4().hex}.partial"
    digest = hashlib.sha256() if hash_prefix else None
    try:
        with urlopen(request) as source, open(partial, "wb") as file:
            length = source.headers.get("Content-Length")
            with _progress_bar(int(length) if length else None, progress) as bar:
                while block := source.read(READ_DATA_CHUNK):
                    file.write(block)
                    if digest is not None:
                        digest.update(block)
                    bar.update(len(block))
        if digest is not None and not digest.hexdigest().startswith(hash_prefix or ""):
            raise RuntimeError(f'invalid hash value (expected "{hash_prefix}", got "{digest.hexdigest()}")')
        os.replace(partial, target)
    finally:
        if os.path.exists(partial):
            os.remove(partial)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """Loads weights from an address; they are downloaded once and kept in `model_dir` (default: `get_dir()/checkpoints`).

    With `check_hash` the name must carry the start of the file's hash, as in `model-0123abcd.pth`.
    """
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    kept = folder / name
    if not kept.exists():
        sys.stderr.write(f'Downloading: "{url}" to {kept}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, str(kept), found.group(1) if found else None, progress)
    if zipfile.is_zipfile(kept) and _holds_one_file(kept):
        return _from_zip(kept, folder, map_location, weights_only)
    return serialization.load(kept, map_location=map_location, weights_only=weights_only)


def _holds_one_file(path: Path) -> bool:
    """Whether a zip file holds just one checkpoint, as old releases did; checkpoints themselves hold many records."""
    with zipfile.ZipFile(path) as packed:
        files = [entry for entry in packed.infolist() if not entry.is_dir()]
        return len(files) == 1 and not files[0].filename.endswith("data.pkl")


def _from_zip(path: Path, folder: Path, map_location: Any, weights_only: bool) -> dict[str, Any]:
    with zipfile.ZipFile(path) as packed, tempfile.TemporaryDirectory(dir=folder) as place:
        inside = packed.extract(packed.infolist()[0], place)
        return serialization.load(inside, map_location=map_location, weights_only=weights_only)
