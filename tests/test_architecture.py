"""What docs/architecture.md shows is executed, in an interpreter of its own: it begins with the first call."""

import subprocess
import sys
from pathlib import Path

import pytest

import flambeau as torch
from flambeau._kernel.native import site

PAGE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"
PROGRAM = """
import doctest, sys
failed, tried = doctest.testfile(sys.argv[1], module_relative=False, optionflags=doctest.ELLIPSIS)
assert tried > 20, tried
sys.exit(failed)
"""


@pytest.mark.skipif(not isinstance(getattr(torch.exp, "__self__", None), site.Site), reason="without the native entry")
def test_the_page_tells_what_happens():
    command = [sys.executable, "-c", PROGRAM, str(PAGE)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=PAGE.parent.parent)
    assert done.returncode == 0, done.stdout + done.stderr
