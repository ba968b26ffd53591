"""Runs on disk: what is written is read again, also after a kill; long runs grow slowly; numbers that are printed are found."""

import json
import math

import pytest

from flambeau.watch.output import Tee, metrics
from flambeau.watch.store import NAME, Writer, lines, new_folder, records, rows, runs_in, series
from flambeau.watch.thinning import Thinner


def test_rows_are_read_again(tmp_path):
    writer = Writer(tmp_path / "a")
    writer.write({"run": {"program": "x.py"}}, rows([1, 2], {"loss": [0.1234567, math.nan], "lr": [None, 1e-7]}))
    writer.write(rows([3], {"loss": [-math.inf]}))
    writer.close()
    found = series(tmp_path / "a" / NAME)
    assert found["lr"] == ([2], [1e-07]) and found["loss"][0] == [1, 2, 3]
    assert found["loss"][1][0] == 0.123457 and math.isnan(found["loss"][1][1]) and found["loss"][1][2] == -math.inf


def test_a_killed_run_is_read_up_to_its_last_whole_line(tmp_path):
    path = tmp_path / NAME
    path.write_bytes(b'{"x":[1],"c":{"loss":[2]}}\nnot json\n[1]\n{"x":[2],"c":{"loss":[1]}}\n{"x":[3],"c":{"lo')
    assert len(list(records(path))) == 2
    assert series(path) == {"loss": ([1, 2], [2.0, 1.0])}


def test_lines_go_on_where_they_ended(tmp_path):
    path = tmp_path / NAME
    path.write_bytes(b"aaaa\nbb\nccc")
    assert lines(path) == (b"aaaa\nbb\n", 8)
    assert lines(path, 0, 6) == (b"aaaa\n", 5)
    assert lines(path, 0, 2) == (b"aaaa\n", 5)  # a line is never cut
    assert lines(path, 8) == (b"", 8) and lines(path, 99) == (b"", 99)


def test_folders_of_runs(tmp_path):
    first, second = (new_folder(tmp_path, "some/train it!.py") for _ in range(2))
    assert first != second and first.name.startswith("train-it-")
    assert runs_in(tmp_path) == []
    for folder in (first, second):
        Writer(folder).close()
    assert set(runs_in(tmp_path)) == {first, second} and runs_in(first) == [first]


def test_long_runs_grow_slowly_and_keep_extremes():
    thin = Thinner(full=64)
    kept = []
    for step in range(1, 10_001):
        value = 1000.0 if step == 7777 else math.nan if step == 5000 else step % 10
        kept += thin.take(step, {"loss": float(value), "time/forward": 2.0})
    kept += thin.rest()
    assert len(kept) < 64 + 32 * 9
    assert [step for step, _ in kept[:64]] == list(range(1, 65)) and kept[-1][0] > 9000
    values = [columns["loss"] for _, columns in kept]
    assert 1000.0 in values and any(math.isnan(v) for v in values)
    assert {columns["time/forward"] for _, columns in kept} == {2.0}
    assert [s for s, _ in kept] == sorted(s for s, _ in kept)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("Train Epoch: 1 [0/60000 (0%)]\tLoss: 2.305", [("train epoch", 1.0), ("loss", 2.305)]),
        ("Average loss: 0.05, Accuracy: 9833/10000 (98%)", [("average loss", 0.05), ("accuracy", 0.9833)]),
        ("{'loss': 0.3, 'lr': 1e-05}", [("loss", 0.3), ("lr", 1e-05)]),
        (" 10%|# | 1/10 [00:01<00:00, 7.1it/s, loss=-.1]", [("loss", -0.1)]),
        ("took: 3.5s", [("took", 3.5)]),
        ("http://127.0.0.1:8000/ at 12:30:01 version: 1.2.3", []),
    ],
)
def test_metrics_of_printed_lines(line, found):
    assert metrics(line) == found


def test_a_tee_passes_everything_on(capsys):
    import sys

    heard = []
    tee = Tee(sys.stdout, heard.append)
    print("a", "b", file=tee)
    tee.writelines(["c\n"])
    tee.flush()
    assert capsys.readouterr().out == "a b\nc\n" and "".join(heard) == "a b\nc\n"
    assert tee.encoding == sys.stdout.encoding and tee.isatty() is sys.stdout.isatty()


def test_lines_are_json(tmp_path):
    assert json.loads(rows([1], {'a "quoted" name': [1.5]})) == {"x": [1], "c": {'a "quoted" name': [1.5]}}
