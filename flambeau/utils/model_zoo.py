"""Weights from the web, under the older name; see `hub`."""

from __future__ import annotations

from typing import Any

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    """`tqdm`, which programs take from here."""
    from .. import hub

    if name == "tqdm":
        return hub.tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> dict[str, Any]:
    """The weights in a file on the web, kept in a folder of the user's; the same as `hub.load_state_dict_from_url`."""
    from ..hub import load_state_dict_from_url  # a module that few programs need

    return load_state_dict_from_url(url, model_dir, map_location, progress, check_hash, file_name, weights_only)
