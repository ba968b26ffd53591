"""What an import costs: size of the installed package with what it needs, time, memory; of flambeau, and of PyTorch if it is installed.

    python benchmarks/footprint.py [--rounds 5]

Sizes are those of the files that the distributions list, dependencies included, without byte code. Times are the shortest of the rounds,
each in a new process; memory is the peak of the process after the import and a small matrix product.
"""

from __future__ import annotations

import argparse
import importlib.metadata as metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import json, resource, sys, time
start, spent = time.perf_counter(), time.process_time()
import NAME as torch
import_time, import_spent = time.perf_counter() - start, time.process_time() - spent
(torch.ones(4, 4) @ torch.ones(4, 4)).sum().item()
whole, peak = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps([import_time, import_spent, whole, peak / (1024 if sys.platform != "darwin" else 1024**2), len(sys.modules)]))
"""


def needs(name: str, known: set[str]) -> set[str]:
    """A distribution with all that it depends on here."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key in known:
        return known
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return known
    known.add(key)
    for wanted in found.requires or ():
        if "extra ==" not in wanted:
            needs(re.match(r"[\w.-]+", wanted)[0], known)  # type: ignore[index]
    return known


def size(name: str) -> float:
    """MB of the files of a distribution; of the checkout's package where flambeau is not installed."""
    try:
        files = [f.locate() for f in metadata.distribution(name).files or ()]
    except metadata.PackageNotFoundError:
        spec = importlib.util.find_spec(name)
        files = list(Path(spec.submodule_search_locations[0]).rglob("*"))  # type: ignore[union-attr, index]
    return sum(os.path.getsize(f) for f in files if os.path.isfile(f) and not str(f).endswith(".pyc")) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    print(
        "| | own files, MB | with dependencies, MB | import, s | its processor time, s | import and a product, s | memory, MB | modules |"
    )
    print("| --- |" + " ---: |" * 7)
    for name in ("numpy", "torch", "flambeau"):
        if importlib.util.find_spec(name) is None:
            continue
        program = PROGRAM.replace("NAME", name)
        if name == "numpy":
            program = program.replace("torch.ones(4, 4) @ torch.ones(4, 4)", "torch.ones((4, 4)) @ torch.ones((4, 4))")
        runs = [
            json.loads(
                subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
            )
            for _ in range(rounds)
        ]
        figures = [min(column) for column in zip(*runs)]
        together = (
            needs(name, set())
            if name != "flambeau"
            else {"flambeau"} | needs("llvmlite", set()) | needs("ml_dtypes", set())
        )
        print(
            f"| {name} | {size(name):.0f} | {sum(size(n) for n in together):.0f} | {figures[0]:.2f} | {figures[1]:.2f} | "
            f"{figures[2]:.2f} | {figures[3]:.0f} | {figures[4]:.0f} |"
        )


if __name__ == "__main__":
    main()
