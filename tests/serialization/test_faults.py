"""Damage and interruptions: nothing crashes, and the old file stays until the new one is complete."""

import errno
import io
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import flambeau as torch
from flambeau._serialization import files
from flambeau._serialization.archive import Reader, Writer

HERE = Path(__file__).parent
linux = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@pytest.mark.slow
@linux
def test_a_thousand_damaged_files():
    run = subprocess.run([sys.executable, HERE / "mutations.py", "1000"], capture_output=True, text=True, timeout=120, cwd=HERE.parents[1],
                         env={**os.environ, "PYTHONPATH": str(Path(torch.__file__).parents[1])})  # fmt: skip
    assert run.returncode == 0, run.stderr[-2000:]


def content(obj):
    file = io.BytesIO()
    torch.save(obj, file)
    return file.getvalue()


def test_every_flipped_bit_of_data_is_noticed():
    good = content(torch.arange(4.0))
    at = good.index(np.arange(4, dtype=np.float32).tobytes())
    for bit in range(128):
        bad = bytearray(good)
        bad[at + bit // 8] ^= 1 << bit % 8
        with pytest.raises(RuntimeError, match="checksum"):
            torch.load(io.BytesIO(bad))


def test_every_truncation_is_noticed():
    good = content({"a": torch.arange(4.0)})
    for length in range(len(good)):
        with pytest.raises((RuntimeError, EOFError, pickle.UnpicklingError)):
            torch.load(io.BytesIO(good[:length]))


def test_large_records_are_checked(monkeypatch):
    x = torch.arange(100_000)
    good = content(x)
    assert torch.equal(torch.load(io.BytesIO(good)), x)
    bad = bytearray(good)
    bad[len(bad) // 2] ^= 1
    with pytest.raises(RuntimeError, match="checksum"):
        torch.load(io.BytesIO(bad))


def test_compressed_and_overlapping_records_are_refused():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\x80\x02N.")
        archive.writestr("archive/data/0", bytes(10_000_000))
    file.seek(0)
    with pytest.raises(RuntimeError, match="compressed"):
        torch.load(file)
    made = bytearray(content([torch.zeros(4), torch.ones(4)]))
    table = made.index(b"PK\1\2")
    entries = [made.index(b"archive/data/%d" % i, table) for i in (0, 1)]
    first, second = (slice(at - 4, at) for at in entries)  # where each record begins
    made[second] = made[first]
    with pytest.raises(RuntimeError, match="does not lie"):
        torch.load(io.BytesIO(made))


def test_large_archives(tmp_path):
    """Sizes beyond 32 bits: a sparse file with a record of more than 4 GiB and one behind it."""
    path = tmp_path / "large"
    size = (1 << 32) + 5

    class Zeros:
        def __len__(self):
            return size

    with open(path, "wb", buffering=0) as file:

        def write(data):
            if isinstance(data, Zeros):
                file.seek(size, os.SEEK_CUR)
            else:
                file.write(data)

        writer = Writer(write, "archive")
        writer.record("data/0", Zeros(), checked=False)
        writer.record("data/1", b"behind")
        writer.finish()
    with open(path, "rb") as file:
        reader = Reader(files.FileSource(file))
        assert reader.size("data/0") == size and reader.read("data/1") == b"behind"
        assert reader.place("data/1") % 64 == 0
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("archive/data/0").file_size == size and archive.read("archive/data/1") == b"behind"


# -- interruptions -----------------------------------------------------------------------------------------------


@pytest.fixture
def old(tmp_path):
    path = tmp_path / "model.pt"
    torch.save("old", path)
    return path


def rubbish(path):
    return [name for name in os.listdir(path.parent) if name != path.name]


def test_full_disk(old, monkeypatch):
    def writer_of(file):
        def write(data):
            file.write(data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        return write

    monkeypatch.setattr(files, "writer_of", writer_of)
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        with pytest.raises(OSError, match="space"):
            torch.save(torch.zeros(1000), old, **options)
    assert torch.load(old) == "old" and not rubbish(old)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_full_device():
    with pytest.raises(OSError, match="space"):
        torch.save(torch.zeros(10), "/dev/full")


class Unpicklable:
    def __reduce__(self):
        raise ValueError("no")


def test_objects_that_cannot_be_saved(old):
    for options in ({}, {"_use_new_zipfile_serialization": False}):
        with pytest.raises(ValueError, match="no"):
            torch.save([torch.zeros(3), Unpicklable()], old, **options)
    assert torch.load(old) == "old" and not rubbish(old)


@pytest.mark.slow
@linux
def test_killed_while_saving(old):
    code = """
import os, signal, sys
import flambeau as torch
from flambeau._serialization import files
original = files.writer_of
def writer_of(file):
    write, state = original(file), {"left": 3}
    def counted(data):
        write(data)
        state["left"] -= 1
        if not state["left"]:
            os.kill(os.getpid(), signal.SIGKILL)
    return counted
files.writer_of = writer_of
torch.save([torch.zeros(300_000) for _ in range(8)], sys.argv[1])
"""
    run = subprocess.run([sys.executable, "-c", code, str(old)], capture_output=True, timeout=60,
                         env={**os.environ, "PYTHONPATH": str(Path(torch.__file__).parents[1])})  # fmt: skip
    assert run.returncode == -signal.SIGKILL, run.stderr
    assert torch.load(old) == "old" and not rubbish(old)


def test_without_nameless_files(old, monkeypatch):
    monkeypatch.delattr(os, "O_TMPFILE", raising=False)
    torch.save("new", old)
    assert torch.load(old) == "new" and not rubbish(old)


@linux
def test_where_nameless_files_get_no_name(old, monkeypatch):
    def link(*args, **named):
        raise OSError(errno.EOPNOTSUPP, "no links")

    monkeypatch.setattr(os, "link", link)
    old.chmod(0o640)
    torch.save("new", old)
    assert torch.load(old) == "new" and not rubbish(old) and stat.S_IMODE(old.stat().st_mode) == 0o640


def test_modes_and_links(old, tmp_path):
    old.chmod(0o600)
    link = tmp_path / "link.pt"
    link.symlink_to(old.name)
    torch.save("new", link)
    assert link.is_symlink() and torch.load(old) == "new" and stat.S_IMODE(old.stat().st_mode) == 0o600
    mask = os.umask(0o027)
    try:
        torch.save(1, tmp_path / "fresh.pt")
    finally:
        os.umask(mask)
    assert stat.S_IMODE((tmp_path / "fresh.pt").stat().st_mode) == 0o640


def test_files_that_may_not_be_written(old, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # the superuser who runs tests may write everything
    with pytest.raises(PermissionError):
        torch.save("new", old)
    assert torch.load(old) == "old"


def test_folders_that_take_no_other_file(old, monkeypatch):
    def refused(*args):
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(os, "open", refused)
    torch.save("new", old)
    monkeypatch.undo()
    assert torch.load(old) == "new"


def test_devices_and_pipes(tmp_path):
    torch.save(torch.zeros(10), "/dev/null")
    pipe, got = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    torch.save(torch.arange(3), pipe)
    reader.join()
    assert stat.S_ISFIFO(pipe.stat().st_mode) and torch.load(io.BytesIO(got[0])).tolist() == [0, 1, 2]


def test_savers_do_not_disturb_each_other(tmp_path):
    """Whoever reads finds one complete file or the other."""
    path, stop, wrong = tmp_path / "shared.pt", time.monotonic() + 0.5, []
    torch.save(torch.zeros(50_000), path)

    def saves(value):
        while time.monotonic() < stop:
            torch.save(torch.full((50_000,), float(value)), path)

    def loads():
        while time.monotonic() < stop:
            try:
                made = torch.load(path)
                assert (made == made[0]).all()
            except Exception as error:
                wrong.append(error)

    threads = [threading.Thread(target=saves, args=(i,)) for i in (1, 2)] + [threading.Thread(target=loads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and not rubbish(path)


def ends(file):
    """Where the numbers of an archive's end lie, (place, bytes) each: size and place of the table; of the comment the length."""
    end = file.rindex(b"PK\5\6")
    wide = file.rfind(b"PK\6\6")
    return {"size": (wide + 40, 8), "place": (wide + 48, 8)} if wide >= 0 else {
        "size": (end + 12, 4), "place": (end + 16, 4), "comment": (end + 20, 2)
    }  # fmt: skip


@pytest.mark.parametrize("wide", [True, False])
def test_tables_that_lie_outside_of_the_file(wide):
    """Each number alone says that the table, or what follows it, lies where there is nothing."""
    file = io.BytesIO()
    if wide:
        file = io.BytesIO(content(torch.arange(4.0)))
    else:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", b"some bytes")
    good = file.getvalue()
    assert "data.pkl" in Reader(files.FileSource(io.BytesIO(good))).names()
    for at, count in ends(good).values():
        bad = bytearray(good)
        bad[at : at + count] = (len(good) + 1).to_bytes(count, "little")
        with pytest.raises(RuntimeError, match="lies outside of the file"):
            Reader(files.FileSource(io.BytesIO(bad)))


def test_old_files_whose_list_of_storages_is_another():
    file = io.BytesIO()
    torch.save([torch.arange(3.0), torch.arange(2)], file, _use_new_zipfile_serialization=False)
    good = file.getvalue()
    at = good.rindex(b"\x80\x02]")
    keys = pickle.loads(good[at:])
    rest = good[at + len(pickle.dumps(keys, 2)) :]
    assert len(keys) == 2 and torch.load(io.BytesIO(good[:at] + pickle.dumps(keys, 2) + rest))[1].tolist() == [0, 1]
    for wrong in (tuple(keys), [*keys, keys[0]], keys[:1], ["1", "2"], [], None, dict.fromkeys(keys)):
        with pytest.raises(pickle.UnpicklingError, match="list of storages"):
            torch.load(io.BytesIO(good[:at] + pickle.dumps(wrong, 2) + rest))
