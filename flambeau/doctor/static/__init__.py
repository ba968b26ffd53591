"""The part of the doctor that reads: it parses source files and never runs them, so it serves programs on any framework."""

from __future__ import annotations

from ..findings import Finding
from . import check_data, check_devices, check_files, check_losses, check_models, check_tensors, check_training
from .source import Source

_CHECKS = (check_losses, check_models, check_training, check_data, check_devices, check_files, check_tensors)


def read(path: str, text: str | None = None) -> list[Finding]:
    """What the source of a file shows; nothing if it cannot be parsed or has nothing to do with torch."""
    if text is None:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    if "torch" not in text and "flambeau" not in text:
        return []
    try:
        source = Source(path, text)
    except SyntaxError:
        return []
    for part in _CHECKS:
        part.check(source)
    return source.findings
