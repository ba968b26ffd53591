"""The page: one text with its style and its program inside, and, for a file, the runs as well."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from pathlib import Path

from .store import NAME, lines

_FOLDER = Path(__file__).parent / "page"
_PROGRAM = ("data.js", "chart.js", "histogram.js", "times.js", "graph.js", "sections.js", "controls.js", "main.js")


def page(live: str | None = None, runs: Sequence[Path] = (), title: str = "flambeau watch") -> str:
    """The page's text; with runs (their folders), one that needs no server."""
    read = lambda name: (_FOLDER / name).read_text(encoding="utf-8")
    setup = {"live": live, "kept": [run.name for run in runs] if runs else None}
    kept = "".join(
        f'<script type="application/x-ndjson" data-run="{html.escape(run.name)}">{_inside(lines(run / NAME)[0].decode())}</script>\n'
        for run in runs
    )
    program = "\n".join(read(name) for name in _PROGRAM)
    text = read("page.html").replace("/*STYLE*/", read("style.css")).replace("<!--TITLE-->", html.escape(title))
    return (
        text.replace("<!--RUNS-->", kept)
        .replace("/*SETUP*/", _inside(json.dumps(setup)))
        .replace("/*PROGRAM*/", program)
    )


def _inside(text: str) -> str:
    """A text of JSON that cannot end the element it stands in."""
    return text.replace("<", "\\u003c")
