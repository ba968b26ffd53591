"""Runs PyTorch's own test files on flambeau and on PyTorch, and prints the difference test by test.

    python tools/pytorch_tests.py CHECKOUT [FILE ...] [--only flambeau] [-k WORDS] [--group | --verbose]

CHECKOUT is a folder with the `test/` and `torch/testing/` of the installed PyTorch's version; it is brought for the run
and nothing of it is kept. FILE is relative to `test/`; without one, the files below are run. Results are kept under
--results, one file for each framework and test file: PyTorch's are used again, flambeau's are made anew (or only
printed again with --again). A test that ends the interpreter or exceeds --timeout counts as `crashed`, and the run goes
on behind it.

Counted are the tests that pass on PyTorch. Those that look only at PyTorch's insides are named with their reasons in
`pytorch_insides.txt` and left out. For each file the table says how many of the others pass here as well.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = """
    test_torch.py test_indexing.py test_view_ops.py test_type_promotion.py test_autograd.py
    autograd/test_complex.py autograd/test_functional.py
    nn/test_convolution.py nn/test_dropout.py nn/test_embedding.py nn/test_init.py nn/test_lazy_modules.py
    nn/test_load_state_dict.py nn/test_module_hooks.py nn/test_multihead_attention.py nn/test_packed_sequence.py
    nn/test_parametrization.py nn/test_pooling.py nn/test_pruning.py test_nn.py
    optim/test_optim.py optim/test_lrscheduler.py optim/test_swa_utils.py test_optim.py
    distributions/test_constraints.py distributions/test_distributions.py distributions/test_transforms.py
    distributions/test_utils.py functorch/test_vmap.py functorch/test_eager_transforms.py functorch/test_ops.py
""".split()  # noqa: SIM905
Outcomes = dict[str, dict[str, Any]]


# --- inside the process that runs the tests: a plugin of pytest (`-p pytorch_tests`) ---------------------------------

_log = os.environ.get("PYTORCH_TESTS_LOG")
if _log:
    import pytorch_imports

    if os.environ["PYTORCH_TESTS_ON"] == "flambeau":
        import flambeau

        flambeau.install_as_torch()
        import pytorch_insides

        pytorch_insides.install(Path(os.environ["PYTORCH_TESTS_CHECKOUT"]))
    pytorch_imports.install(Path(os.environ["PYTORCH_TESTS_CHECKOUT"]))
    given = " ".join(sys.argv)
    if any(f"test{os.sep}{name}" in given or name in sys.argv[-1] for name in ("dynamo", "inductor", "export")):
        import pytorch_dynamo

        pytorch_dynamo.install()
    _file = open(_log, "a", buffering=1)  # noqa: SIM115 - open until the process ends

    def _write(**line: Any) -> None:
        _file.write(json.dumps(line) + "\n")

    def _name(node: str) -> str:
        return node.split("::", 1)[1]

    def pytest_collection_modifyitems(items: list[Any]) -> None:
        pytorch_imports.collected()
        done = outcomes(Path(_log))
        theirs = outcomes(Path(os.environ["PYTORCH_TESTS_THEIRS"]))
        passed = {test for test, line in theirs.items() if line["outcome"] == "passed"}
        wanted = passed or {_name(item.nodeid) for item in items}
        items[:] = [item for item in items if _name(item.nodeid) in wanted and _name(item.nodeid) not in done]

    def pytest_runtest_logstart(nodeid: str) -> None:
        _write(test=_name(nodeid), outcome="started")

    def pytest_runtest_logreport(report: Any) -> None:
        if report.when != "call" and report.outcome == "passed":
            return
        reason = ""
        if report.outcome != "passed":
            lines = str(report.longrepr).strip().splitlines() or [""]
            errors = [line[1:].strip() for line in lines if line.startswith("E  ")]
            skipped = isinstance(report.longrepr, tuple)
            reason = report.longrepr[2] if skipped else (errors or lines[-1:])[0][:300] + " @ " + lines[-1][-120:]
        outcome = "xfailed" if hasattr(report, "wasxfail") else report.outcome
        _write(test=_name(report.nodeid), outcome=outcome, reason=reason, seconds=round(report.duration, 2))

    def pytest_collectreport(report: Any) -> None:
        if report.failed:
            _write(collection=str(report.longrepr)[-3000:])


# --- the driver -----------------------------------------------------------------------------------------------------


def outcomes(log: Path) -> Outcomes:
    """The last word on each test; one that was only started has crashed."""
    found: Outcomes = {}
    for text in log.read_text().splitlines() if log.is_file() else ():
        line = json.loads(text)
        if "test" in line:
            found[line["test"]] = line
    for line in found.values():
        if line["outcome"] == "started":
            line["outcome"] = "crashed"
    return found


def run(framework: str, file: str, chosen: argparse.Namespace) -> Outcomes:
    """Runs one file, again and again behind a test that ended the interpreter."""
    log = chosen.results / framework / (file.replace("/", ".") + (".part" if chosen.words else "") + ".jsonl")
    complete = chosen.results / framework / (file.replace("/", ".") + ".complete")
    if framework == "torch" and complete.exists():
        return outcomes(complete.with_suffix(".jsonl"))
    if chosen.again:
        return outcomes(log)
    if chosen.only not in (None, framework):
        return {}
    whole = chosen.results / "torch" / (file.replace("/", ".") + ".jsonl")
    theirs = whole if whole.is_file() else chosen.results / "torch" / log.name
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text("")
    variables = {
        **os.environ,
        "PYTORCH_TESTS_LOG": str(log.resolve()),
        "PYTORCH_TESTS_ON": framework,
        # Of what PyTorch has run, only the tests that it passes are run here.
        "PYTORCH_TESTS_THEIRS": str(theirs.resolve()) if framework == "flambeau" else "",
        "PYTORCH_TESTS_CHECKOUT": str(chosen.checkout.resolve()),
        "PYTHONPATH": os.pathsep.join([str(HERE), *([str(HERE.parent)] if framework == "flambeau" else [])]),
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "cpu",
        "OMP_NUM_THREADS": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    tests = (chosen.checkout / "test").resolve()
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytorch_tests", "-p", "no:cacheprovider", "--tb=short"]
    command += ["--noconftest", "-W", "ignore", f"--timeout={chosen.timeout}", "--rootdir", str(tests), file]
    if chosen.words:
        command += ["-k", chosen.words]
    for _ in range(200):
        before = len(outcomes(log))
        done = subprocess.run(command, cwd=tests, env=variables, capture_output=True, text=True, check=False)
        after = len(outcomes(log))
        if after == before and done.returncode not in (0, 5):  # nothing was run
            print(f"{framework} {file}: stopped\n{done.stdout[-3000:]}{done.stderr[-1000:]}")
        if after == before or done.returncode in (0, 1):
            break
    if not chosen.words:
        complete.touch()
    return outcomes(log)


def insides() -> dict[str, list[str]]:
    """The patterns of `file::Class::test` that are left out, by file."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in (HERE / "pytorch_insides.txt").read_text().splitlines():
        pattern = line.partition("#")[0].strip()
        if pattern:
            file, _, test = pattern.partition("::")
            found[file].append(test)
    return found


def cause(reason: str) -> str:
    """A reason without what differs from test to test: values, addresses, names of variants."""
    return re.sub(r"0x\w+|\d[\d.e+-]*", "N", reason.partition(" @ ")[0])[:160]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path, help="a folder with PyTorch's test/ and torch/testing/")
    parser.add_argument("files", nargs="*", default=FILES, help="test files, relative to test/")
    parser.add_argument("--only", choices=("torch", "flambeau"), help="run on this framework alone")
    parser.add_argument("-k", dest="words", help="only tests that match, as pytest's -k")
    parser.add_argument(
        "--results", type=Path, default=HERE.parent / "build" / "pytorch_tests", help="where results are kept"
    )
    parser.add_argument("--again", action="store_true", help="run nothing: print what is kept in --results")
    parser.add_argument("--timeout", type=int, default=120, help="seconds that one test may take")
    parser.add_argument("--jobs", type=int, default=1, help="how many files run at a time")
    parser.add_argument("--group", action="store_true", help="print the causes of failures, the most frequent first")
    parser.add_argument(
        "--verbose", action="store_true", help="print each test that passes on PyTorch only, with the reason"
    )
    chosen = parser.parse_args()
    left_out = insides()
    total: Counter[str] = Counter()
    causes: dict[str, list[str]] = defaultdict(list)
    print(f"{'file':42} {'passes here':>11} {'of':>6} {'%':>6} {'left out':>8}")
    with ThreadPoolExecutor(chosen.jobs) as pool:
        pairs = pool.map(lambda file: (run("torch", file, chosen), run("flambeau", file, chosen)), chosen.files)
        for file, (theirs, ours) in zip(chosen.files, pairs, strict=True):
            passed = [t for t in theirs if theirs[t]["outcome"] == "passed" and (not chosen.words or t in ours)]
            counted = [t for t in passed if not any(fnmatch.fnmatchcase(t, pattern) for pattern in left_out[file])]
            lost = [t for t in counted if ours.get(t, {}).get("outcome") != "passed"]
            kept = len(counted) - len(lost)
            total.update(here=kept, there=len(counted), out=len(passed) - len(counted))
            share = 100 * kept / max(len(counted), 1)
            print(f"{file:42} {kept:11} {len(counted):6} {share:6.1f} {len(passed) - len(counted):8}", flush=True)
            for test in lost:
                line = ours.get(test, {"outcome": "missing"})
                reason = line.get("reason", "")
                causes[f"{line['outcome']}: {cause(reason)}"].append(f"{file}::{test}")
                if chosen.verbose:
                    print(f"  {line['outcome']} {test}: {reason}")
    share = 100 * total["here"] / max(total["there"], 1)
    print(f"{'all':42} {total['here']:11} {total['there']:6} {share:6.1f} {total['out']:8}")
    if chosen.group:
        for text, tests in sorted(causes.items(), key=lambda item: -len(item[1])):
            print(f"{len(tests):5} {text}\n      e.g. {tests[0]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
