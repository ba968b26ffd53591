"""Writes a table of flambeau beside PyTorch from the JSON reports of the bench program.

    python benchmarks/compare.py report.json [more.json …] >> benchmarks/RESULTS.md

A report is what `bench.py --candidate flambeau --json report.json` wrote. Of several reports of the same work the
middle ratio is shown.
"""

from __future__ import annotations

import json
import statistics
import sys


def main(paths: list[str]) -> int:
    runs: dict[str, list[dict]] = {}
    for path in paths:
        with open(path) as file:
            for name, result in json.load(file).items():
                runs.setdefault(name, []).append(result)
    print("| workload | PyTorch | flambeau | ratio | peak memory, MiB |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, results in runs.items():
        good = sorted((r for r in results if "error" not in r), key=lambda r: r["ratio"])
        if not good:
            print(f"| {name} | | | {results[0]['error']} | |")
            continue
        middle = good[len(good) // 2]
        memory = "–".join(f"{m:.0f}" for m in middle.get("peak_mib", ())) or ""
        ratio = statistics.median(r["ratio"] for r in good)
        print(
            f"| {name} | {show(middle['reference_s'])} | {show(middle['candidate_s'])} | {ratio:.2f} | "
            f"{memory.replace('–', ' → ')} |"
        )
    return 0


def show(seconds: float) -> str:
    """A time with the unit that suits it."""
    for unit, factor in (("s", 1), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.2f} {unit}"
    return f"{seconds * 1e6:.1f} µs"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
