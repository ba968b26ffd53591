"""Weights from the web, under the older name; see `hub`."""

from typing import Any

from .. import hub as _hub
from ..hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]


def __getattr__(name: str) -> Any:
    """`tqdm`, which programs take from here."""
    if name == "tqdm":
        return _hub.tqdm
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
