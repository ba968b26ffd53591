"""What the site is made with: nothing is loaded from elsewhere, and rows of operations say what their records say."""

import importlib.util
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def _tool(name, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_browser_would_load_from_elsewhere_is_found(tmp_path, monkeypatch):
    found = _tool("build_docs", monkeypatch).loaded_from_elsewhere
    (tmp_path / "good.html").write_text(
        "<a href='https://example.org'>x</a><script src='static/a.js'></script><img src=\"made/a.png\"/><link rel='stylesheet' href='a.css'/>"
    )
    (tmp_path / "good.css").write_text("a { background: url('a.png') }")
    assert found(tmp_path) == []
    (tmp_path / "a.html").write_text(
        "<script async src='https://example.org/a.js'></script><img alt='' src=\"//example.org/a.png\">"
    )
    (tmp_path / "b.css").write_text(
        "@import 'https://example.org/b.css'; a { background: url(https://example.org/b.png) }"
    )
    (tmp_path / "c.html").write_text('<link rel="stylesheet" type="text/css" href="https://example.org/c.css">')
    assert len(found(tmp_path)) == 5


@pytest.mark.slow
def test_rows_and_texts(monkeypatch):
    pages = _tool("reference_pages", monkeypatch)
    rows = {row.path: row for row in pages.support()}
    assert len(rows) > 800
    tanh, conv, argmax = rows["tanh"], rows["nn.functional.conv2d"], rows["argmax"]
    assert (tanh.kind, tanh.derivative, tanh.out, tanh.in_place, tanh.vmap, tanh.onnx) == (
        "body",
        "yes",
        "yes",
        "yes",
        "rule",
        "yes",
    )
    assert (conv.derivative, conv.out, conv.in_place, conv.autocast) == ("yes", "no", "no", "lower")
    assert argmax.derivative == "–"
    assert (conv.dtypes, rows["cumsum"].dtypes, rows["sort"].dtypes) == (
        "integer, floating, complex",
        "all",
        "bool, integer, floating",
    )
    assert rows["special.chebyshev_polynomial_t"].dtypes == "bool, integer, floating without bfloat16, float16"
    text = pages.markdown("Times two, `2 * x`.\n\nArguments:\n    x: a *tensor*\n\n>>> 1 + 1  # doctest: +SKIP\n2\n")
    assert text == "Times two, `2 * x`.\n\nArguments:\nx: a \\*tensor\\*\n\n```python\n>>> 1 + 1\n2\n```\n"
    assert pages.differing().keys().isdisjoint(pages._conformance("ops"))
