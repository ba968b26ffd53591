"""Timers, their statistics, and tables of them."""

import pytest

import flambeau as torch
from flambeau.utils.benchmark import (
    Compare,
    FuzzedParameter,
    FuzzedTensor,
    Fuzzer,
    Measurement,
    TaskSpec,
    Timer,
    select_unit,
    trim_sigfig,
    unit_to_english,
)


def measured(times, runs=1, **task):
    return Measurement(runs, times, TaskSpec(task.pop("stmt", "f()"), "pass", **task))


def test_timer_runs_its_statement_the_right_number_of_times():
    calls = []
    result = Timer("f()", globals={"f": lambda: calls.append(1)}).timeit(200)
    assert len(calls) == 200 + 2 and result.number_per_run == 200 and len(result.times) == 1


def test_timer_sets_threads_and_gives_torch():
    seen = []
    before = torch.get_num_threads()
    Timer("seen.append(torch.get_num_threads())", globals={"seen": seen}, num_threads=1).timeit(1)
    assert set(seen) == {1} and torch.get_num_threads() == before


def test_autoranges():
    timer = Timer("sum(range(100))")
    result = timer.blocked_autorange(min_run_time=0.02)
    assert sum(result.raw_times) >= 0.02 and result.median > 0
    assert timer.adaptive_autorange(min_run_time=0.01, max_run_time=0.2).iqr >= 0


def test_statistics():
    m = measured([1e-3, 1.1e-3, 5e-3, 1.2e-3], runs=2)
    assert m.median == pytest.approx(0.575e-3) and m.mean == pytest.approx(1.0375e-3)
    assert m.iqr == pytest.approx(0.5375e-3) and m.has_warnings and not m.meets_confidence()
    assert measured([1e-3] * 5).significant_figures == 4 and measured([1e-3, 1.01e-3]).significant_figures == 2


def test_text():
    text = repr(measured([1.23456e-3, 1.3e-3, 1.25e-3, 1.24e-3, 1.24e-3], label="L", sub_label="s", description="d"))
    assert text.splitlines()[1:] == [
        "L: s", "d", "  Median: 1.24 ms", "  IQR:    0.01 ms (1.24 to 1.25)",
        "  5 measurements, 1 runs per measurement, 1 thread",
    ]  # fmt: skip
    assert repr(measured([12.5], num_threads=4)).splitlines()[1:] == [
        "f()",
        "  12.50 s",
        "  1 measurement, 1 runs , 4 threads",
    ]


def test_merge():
    first, second = measured([1.0]), measured([2.0], runs=2)
    (merged,) = Measurement.merge([first, second])
    assert merged.times == [1.0, 1.0] and len(Measurement.merge([first, measured([1.0], stmt="g()")])) == 2


def test_table():
    results = [
        measured([t], label="Ops", sub_label=size, description=name)
        for size, name, t in (
            ("[1]", "add", 3.6e-6),
            ("[1]", "mul", 2e-6),
            ("[64]", "add", 2.3e-6),
            ("[64]", "mul", 1.7e-6),
        )
    ]
    table = Compare(results)
    assert str(table).splitlines() == [
        "[--------- Ops ----------]",
        "            |  add  |  mul",
        "1 threads: ---------------",
        "      [1]   |  3.6  |  2.0",
        "      [64]  |  2.3  |  1.7",
        "",
        "Times are in microseconds (us).",
    ]
    table.colorize()
    assert "\033[92m" in str(table)
    with pytest.raises(ValueError):
        table.extend_results([1])


def test_units_and_rounding():
    assert (
        select_unit(3e-5) == ("us", 1e-6) and select_unit(2.0) == ("s", 1.0) and unit_to_english("ms") == "millisecond"
    )
    assert trim_sigfig(123.456, 3) == 123 and trim_sigfig(0.0123456, 2) == 0.012


def test_refusals():
    with pytest.raises(ValueError):
        Timer(stmt=None)
    with pytest.raises(NotImplementedError):
        Timer("int x;", language="c++")
    with pytest.raises(NotImplementedError):
        Timer("1").collect_callgrind()
    with pytest.raises(SyntaxError):
        Timer("f(").timeit(1)


def test_fuzzer():
    fuzzer = Fuzzer(
        [FuzzedParameter("n", 1, 8, "uniform"), FuzzedParameter("m", 1, 64, "loguniform")],
        [FuzzedTensor("x", size=("n", "m"), max_elements=256)], seed=3,
    )  # fmt: skip
    drawn = list(fuzzer.take(5))
    assert all(t["x"].shape == (p["n"], p["m"]) and t["x"].numel() <= 256 for t, _, p in drawn)
    assert [p for _, _, p in drawn] == [p for _, _, p in fuzzer.take(5)]
