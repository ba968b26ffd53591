"""Published weights: from the cache of downloaded files, or from the network into it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlparse

from ...serialization import load
from .._download import download


def _folder() -> Path:
    """Where the ecosystem's tools keep downloaded weights."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "torch"
    return Path(os.environ.get("TORCH_HOME", cache)).expanduser() / "hub" / "checkpoints"


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Mapping[str, Any]:
    """The weights in the cached file of this address; downloads it first if it is not there."""
    name = file_name or Path(urlparse(url).path).name
    path = (Path(model_dir) if model_dir else _folder()) / name
    if not path.exists():
        found = re.search(r"-([0-9a-f]{8,})\.", name) if check_hash else None
        try:
            download(url, path, sha256=found[1] if found else None, progress=progress)
        except (URLError, OSError) as error:
            raise RuntimeError(f"no weights: {path} does not exist and {url} cannot be downloaded ({error})") from error
    return load(path, map_location=map_location, weights_only=weights_only)
