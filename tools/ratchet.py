"""The conformance ratchet: what agreed with PyTorch before must still agree.

    python tools/ratchet.py --conformance DIR            compare with tests/conformance/*.txt, fail on a loss
    python tools/ratchet.py --conformance DIR --update   write what passes now into those lists
    python tools/ratchet.py --conformance DIR --strides  the same for the strides of results (tools/compare_strides.py)
    python tools/ratchet.py --conformance DIR --compiled whether compiled calls give what eager ones give (tools/compare_compiled.py)

A list named after a kind of machine (aarch64.txt) holds what need not agree there, with the reason.
DIR holds the measuring programs (ops.py, modules.py, optims.py); PyTorch must be importable beside flambeau.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import compare_compiled
import compare_strides

LISTS = Path(__file__).resolve().parent.parent / "tests" / "conformance"
PROGRAMS = ("ops", "modules", "optims")


def measure(directory: Path, program: str) -> dict[str, bool]:
    """Runs one program; says for each of its entries whether it passed whole."""
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "report.json"
        command = [sys.executable, f"{program}.py", "--candidate", "flambeau", "--timeout", "60", "--json", str(report)]
        done = subprocess.run(command, cwd=directory, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout.strip().splitlines()[-1], flush=True)
        entries = json.loads(report.read_text())["entries"]
    return {name: bool(entry["checks"]) and not entry["failures"] for name, entry in entries.items()}


def measure_strides(directory: Path, jobs: int) -> dict[str, bool]:
    """Compares strides; says for each op and layout whether all were as PyTorch's."""
    chosen = compare_strides.parser().parse_args(["--conformance", str(directory), "--jobs", str(jobs)])
    return compare_strides.agreed(compare_strides.measure(chosen))


def differing(program: str) -> set[str]:
    """What agrees with PyTorch on other CPUs but not on one of this kind, where PyTorch itself computes otherwise."""
    path = LISTS / f"{platform.machine()}.txt"
    rows = [line.partition("#")[0].split() for line in path.read_text().splitlines()] if path.exists() else []
    return {row[1] for row in rows if row and row[0] == program}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--conformance", type=Path, required=True)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--strides", action="store_true", help="only the strides of results")
    parser.add_argument("--compiled", action="store_true", help="only compiled calls beside eager ones")
    parser.add_argument("--jobs", type=int, default=2, help="worker processes of --strides and --compiled")
    chosen = parser.parse_args()
    if chosen.compiled:  # all must agree: there is no list
        return compare_compiled.main(["--conformance", str(chosen.conformance), "--jobs", str(chosen.jobs)])
    lost = []
    for program in ("strides",) if chosen.strides else PROGRAMS:
        path = LISTS / f"{program}.txt"
        if not path.exists() and not chosen.update:
            continue
        directory = chosen.conformance.resolve()
        passed = measure_strides(directory, chosen.jobs) if chosen.strides else measure(directory, program)
        now = sorted(name for name, ok in passed.items() if ok)
        before = path.read_text().split() if path.exists() else []
        if chosen.update:
            LISTS.mkdir(parents=True, exist_ok=True)
            if now:
                path.write_text("\n".join(now) + "\n")
        missing = sorted(set(before) - set(now) - differing(program))
        gained = len(set(now) - set(before))
        print(f"{program}: {len(now)} pass, {len(missing)} lost, {gained} gained")
        lost += [f"{program}: {name}" for name in missing]
    for line in lost:
        print("LOST", line)
    return 1 if lost and not chosen.update else 0


if __name__ == "__main__":
    sys.exit(main())
