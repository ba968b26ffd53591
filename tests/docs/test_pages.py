"""What documentation pages show is executed, each page in a process and folder of its own (`tools/run_pages.py`)."""

import importlib.util
from pathlib import Path

import pytest

import flambeau as torch
from flambeau._kernel.native import site

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("run_pages", ROOT / "tools" / "run_pages.py")
run_pages = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(run_pages)

PAGES = [page for page in run_pages.pages() if run_pages.shows_something(page)]
# Pages that train or start many processes; the site's build runs them, too.
LONG = {
    "coming_from_pytorch",
    "compile",
    "deploy",
    "distributed",
    "engine",
    "start",
    *(p.stem for p in PAGES if p.parent.name == "guides"),
}
ENTRY = {"architecture"}  # tells how the native entry works


@pytest.mark.parametrize(
    "page", [pytest.param(p, marks=[pytest.mark.slow] if p.stem in LONG else [], id=p.stem) for p in PAGES]
)
def test_the_page_tells_what_happens(page):
    if page.stem in ENTRY and not isinstance(getattr(torch.exp, "__self__", None), site.Site):
        pytest.skip("without the native entry")
    if "matplotlib" in page.read_text():
        pytest.importorskip("matplotlib")
    done = run_pages.run(page)
    assert done.returncode == 0, done.stdout + done.stderr


def _ran(tmp_path, text):
    page = tmp_path / "page.md"
    page.write_text(text)
    return run_pages.run(page, tmp_path / "made")


def test_blocks_share_names_and_are_compared(tmp_path):
    text = "```python\nx = 2\nprint(x, 1 / 3)\n```\n\n```text\n2 0.33...\n```\n\n```python\n>>> x + 1\n3\n```\n"
    done = _ran(tmp_path, text)
    assert done.returncode == 0, done.stdout + done.stderr
    for wrong, said in ((text.replace("2 0.33", "3 0.33"), "page.md:7"), (text.replace("\n3\n", "\n4\n"), "Got:")):
        done = _ran(tmp_path, wrong)
        assert done.returncode == 1 and said in done.stdout


def test_an_error_of_a_block_fails_the_page(tmp_path):
    done = _ran(tmp_path, "```python\nx = 1\nnothing_of_that_name\n```\n")
    assert done.returncode == 1 and 'page.md:2", line 2' in done.stderr


def test_files_commands_and_pictures(tmp_path):
    text = (
        "<!-- file: one.py -->\n```python\nprint('hello')\n```\n\n<!-- not run: it cannot -->\n```python\n1 / 0\n```\n"
        "```console\n$ python one.py\nhello\n$ echo a \\\n    b\na b\n```\n\n```python\nopen('made/x.png', 'w').close()\n```\n"
    )
    done = _ran(tmp_path, text)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "made" / "x.png").exists()
    assert _ran(tmp_path, text.replace("hello\n$", "good day\n$")).returncode == 1


def test_programs_for_type_checkers(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "```python\nx = 1\n```\n\n```python\n>>> x + 1\n2\n```\n\n<!-- file: a.py -->\n```python\nother\n```\n"
    )
    assert run_pages.program(page) == "x = 1\n\n\nx + 1\n"


def test_differences_are_listed_once_each():
    lines = (ROOT / "docs" / "op_differences.txt").read_text().splitlines()
    named = [line.partition(": ")[0] for line in lines if not line.startswith("#")]
    assert len(named) == len(set(named)) and all(": " in line for line in lines if not line.startswith("#"))
