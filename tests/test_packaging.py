"""What the archives are made of: the recipe and the notice agree with pyproject.toml, and an sdist follows from its files alone."""

import hashlib
import importlib.util
import os
import runpy
import sys
import tarfile
from pathlib import Path

import pytest

import flambeau

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.skipif(sys.version_info < (3, 11), reason="tools read TOML with Python 3.11")
def test_the_recipe_and_the_notice_name_the_dependencies():
    spec = importlib.util.spec_from_file_location("release", ROOT / "tools" / "release.py")
    release = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(release)
    release.dependencies()
    assert all((ROOT / "tests" / name).exists() for name in release.TESTS)
    assert release.readme_example().startswith("import flambeau as torch")


def test_the_version_is_one():
    assert flambeau.__version__ == flambeau.version.__version__
    assert flambeau.__version__[0].isdigit()


def test_an_archive_follows_from_the_files(tmp_path, monkeypatch):
    setuptools = pytest.importorskip("setuptools")
    monkeypatch.setattr(setuptools, "setup", lambda **options: None)
    archive = runpy.run_path(str(ROOT / "setup.py"))["Sdist"].make_archive
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    sums = []
    for turn, moment in (("first", 1), ("second", 2_000_000_000)):
        folder = tmp_path / turn / "pack-1.0"
        (folder / "inner").mkdir(parents=True)
        for name in ("b.py", "a.py") if turn == "first" else ("a.py", "b.py"):
            (folder / "inner" / name).write_text(name)
            os.utime(folder / "inner" / name, (moment, moment))
        monkeypatch.chdir(tmp_path / turn)
        made = archive(None, "pack-1.0", "gztar", base_dir="pack-1.0")
        sums.append(hashlib.sha256(Path(made).read_bytes()).hexdigest())
    assert sums[0] == sums[1]
    with tarfile.open(made) as packed:
        assert packed.getnames() == ["pack-1.0/inner/a.py", "pack-1.0/inner/b.py"]
        assert {m.mtime for m in packed} == {1700000000}
