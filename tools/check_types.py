"""mypy and pyright on what users write: the examples, and the programs of the guides (`python tools/check_types.py`).

Both must find one planted mistake, which shows that they found the package, and nothing else. Programs that say `import torch` are checked through the link that `flambeau typings` makes. Without
`--installed` the package is found in this checkout; with it, only where pip has put it, as an editable install or a wheel.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

import run_pages  # noqa: E402

INSIDES = {"architecture", "engine", "recipes"}  # tell of insides, are written without types, need other libraries
MISTAKE = "import torch\n\n(torch.ones(2) + 1).no_such_method()\n"
MYPY = """[mypy]
follow_imports = silent
ignore_missing_imports = true
check_untyped_defs = true
disable_error_code = import-untyped, no-redef
"""


def programs(folder: Path) -> list[Path]:
    """The examples, and the programs of pages written to a folder."""
    found = [Path(shutil.copy(p, folder)) for p in sorted((ROOT / "examples").glob("*.py"))]
    for page in run_pages.pages():
        text = "" if page.stem in INSIDES else run_pages.program(page)
        if text:
            path = folder / f"page_{page.stem}.py"
            path.write_text(text)
            found.append(path)
    return found


def run(command: list[str], folder: Path, installed: bool) -> int:
    env = {k: v for k, v in os.environ.items() if k not in ("MYPYPATH", "PYTHONPATH")}
    if not installed:
        env["PYTHONPATH"] = str(ROOT)
    if command[2] == "mypy":
        env["MYPYPATH"] = os.pathsep.join([str(folder / "typings"), *([] if installed else [str(ROOT)])])
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True)
    said = (done.stdout + done.stderr).strip()
    good = "no_such_method" in said and re.search(r"\b1 error\b", said) is not None
    print(f"{command[2]}:", "the planted mistake and nothing else" if good else said)
    return not good


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--installed", action="store_true", help="find the package where it is installed, not here")
    installed = parser.parse_args().installed
    status = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "mistake.py").write_text(MISTAKE)
        found = [str(p) for p in (*programs(folder), folder / "mistake.py")]
        paths = {} if installed else {"PYTHONPATH": str(ROOT)}
        subprocess.run(
            [sys.executable, "-m", "flambeau", "typings", "typings"],
            cwd=folder, env={**os.environ, **paths}, check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        (folder / "mypy.ini").write_text(MYPY)
        settings = {
            "pythonVersion": "3.12", "stubPath": "typings", "reportMissingImports": "none", "reportMissingModuleSource": "none",
            "reportUnusedExpression": "none", "reportPossiblyUnboundVariable": "none", "include": [Path(p).name for p in found], "extraPaths": [] if installed else [str(ROOT)],
        }  # fmt: skip
        (folder / "pyrightconfig.json").write_text(json.dumps(settings))
        for checker, command in (
            ("mypy", [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", *found]),
            ("pyright", [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "-p", str(folder)]),
        ):
            if importlib.util.find_spec(checker):
                status |= run(command, folder, installed)
            else:
                print(f"{checker} is not installed")
    return status


if __name__ == "__main__":
    sys.exit(main())
