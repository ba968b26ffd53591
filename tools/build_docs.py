"""Builds the documentation site into build/site: `python tools/build_docs.py` (needs `pip install ".[docs]"`).

Every page runs first (`tools/run_pages.py`), which makes the pictures; then the pages that come from the package are written
(`tools/reference_pages.py`), and Sphinx puts all together. A page that fails, a warning, and anything that a
browser would load from elsewhere end the build. `--unrun` leaves out the first step, when pages are written.

Look at it with `python -m http.server -d build/site`, or open build/site/index.html.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import run_pages  # noqa: E402

DOCS, SITE = ROOT / "docs", ROOT / "build" / "site"
# What a browser fetches by itself: sources, style sheets and scripts; links that a reader follows are not meant.
_LOADED = re.compile(
    r"""<(?:script|img|iframe|source)[^>]+src=["'](?:https?:)?//[^"']+|<link[^>]+rel=["'](?:stylesheet|icon|preconnect|preload)["'][^>]+"""
    r"""href=["'](?:https?:)?//[^"']+|@import\s+["'(]+(?:https?:)?//[^"')]+|url\(["']?(?:https?:)?//[^"')]+"""
)


def run_all(made: Path) -> int:
    """All pages, as many at once as there are cores. How many failed."""
    pages = [p for p in run_pages.pages() if run_pages.shows_something(p)]
    with ThreadPoolExecutor(os.cpu_count()) as threads:
        done = list(threads.map(lambda page: run_pages.run(page, made), pages))
    for page, one in zip(pages, done):
        if one.returncode:
            print(f"{page.relative_to(ROOT)} failed\n{one.stdout}{one.stderr}")
    return sum(bool(one.returncode) for one in done)


def loaded_from_elsewhere(site: Path) -> list[str]:
    found = []
    for path in site.rglob("*"):
        if path.suffix in (".html", ".css", ".js"):
            found += [f"{path.relative_to(site)}: {m[0]}" for m in _LOADED.finditer(path.read_text(errors="replace"))]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--unrun", action="store_true", help="do not run the pages; pictures of the last time stand")
    parser.add_argument("--site", type=Path, default=SITE)
    options = parser.parse_args()
    if not options.unrun and run_all(DOCS / "made"):
        return 1
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT), os.environ.get("PYTHONPATH", ""))))}
    for command in (
        [sys.executable, ROOT / "tools" / "reference_pages.py", DOCS],
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-j", "auto", "-b", "html", DOCS, options.site],
    ):
        status = subprocess.run([str(part) for part in command], env=env).returncode
        if status:
            return status
    found = loaded_from_elsewhere(options.site)
    if found:
        print("loaded from elsewhere:", *found, sep="\n")
        return 1
    size = sum(p.stat().st_size for p in options.site.rglob("*") if p.is_file())
    print(f"{options.site}: {len(list(options.site.rglob('*.html')))} pages, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
