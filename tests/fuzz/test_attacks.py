"""Programs that attack files, caches, memory and threads, in processes of their own (see `attack`)."""

import random
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from attack import FACTOR, SEED, attack


@pytest.mark.slow
def test_confused_pickles():
    """Files whose values have wrong types load as errors or as tensors that are whole."""
    *_, outcomes = attack("confused_pickles.py", 1500 * FACTOR, SEED)
    assert "refused" in outcomes


def _damage(files, rng):
    for file in files:
        content = bytearray(file.read_bytes())
        at = rng.randrange(len(content))
        kind = rng.randrange(7)
        if kind == 0:
            for _ in range(rng.choice([1, 1, 8, 100])):
                content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
        elif kind == 1:
            del content[at:]
        elif kind == 2:
            content = bytearray(rng.choice(files).read_bytes())
        elif kind == 3:
            content[at : at + 64] = rng.randbytes(rng.choice([0, 64]))
        elif kind == 4:
            content += rng.randbytes(16)
        elif kind == 5:
            content = bytearray(rng.randbytes(len(content)))
        else:
            content[at:] = bytes(len(content) - at)
        file.write_bytes(content)


@pytest.mark.slow
def test_damaged_caches(tmp_path, monkeypatch):
    """A program runs, with the same results, whatever became of the kernels that it kept."""
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path / "cache"))
    right = attack("kernel_program.py")
    shutil.copytree(tmp_path / "cache", tmp_path / "whole")
    rng = random.Random(SEED)
    for _ in range(2 * FACTOR):
        shutil.rmtree(tmp_path / "cache")
        shutil.copytree(tmp_path / "whole", tmp_path / "cache")
        files = sorted((tmp_path / "cache" / "kernels").iterdir())
        assert len(files) > 5
        _damage(rng.sample(files, rng.randrange(1, len(files))), rng)
        assert attack("kernel_program.py") == right


@pytest.mark.slow
def test_extreme_numbers():
    """Sample calls with integers at the edges of 8 to 64 bits raise or return."""
    assert attack("extreme_numbers.py", FACTOR, SEED)[-1].startswith("end")


@pytest.mark.slow
def test_bombs():
    """Small archives and short programs that ask for much memory are refused."""
    *cases, end = attack("bombs.py")
    assert end == "end" and len(cases) > 20 and all("refused" in case for case in cases)


@pytest.mark.slow
def test_confused_archives():
    """Files of all formats with operations, types and names exchanged load as errors or as sound objects."""
    assert attack("confused_archives.py", 600 * FACTOR, SEED)[-1].startswith("end")


@pytest.mark.slow
def test_guarded_memory():
    """No kernel reads or writes beyond operands that end or begin at a page without rights."""
    assert attack("guarded.py", FACTOR, SEED)[-1].startswith("end")


@pytest.mark.slow
def test_crowds_of_threads():
    """Threads that train, add gradients, compile, save, fork and change the number of threads do not disturb each other."""
    assert attack("crowded.py", 12 * FACTOR, SEED)[-1].startswith("end")


@pytest.mark.slow
def test_processes_that_compile_the_same_kernels(tmp_path, monkeypatch):
    monkeypatch.setenv("FLAMBEAU_CACHE_DIR", str(tmp_path))
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(attack, ["kernel_program.py"] * 3))
    assert results[0] == results[1] == results[2]
    assert not [f for f in (tmp_path / "kernels").iterdir() if f.suffix != ".kernel"]
