"""Writes what PyTorch gives for the calls in tests/recorded that have no outcome yet (--again: for all of them).

python tools/record.py                 # where PyTorch is installed
python tools/record.py --again losses
python tools/record.py --compare       # what this package gives that is not as recorded, without writing anything
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "recorded")]
import calls  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files of tests/recorded, without .txt (default: all)")
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--compare", action="store_true")
    chosen = parser.parse_args()
    torch = importlib.import_module("flambeau" if chosen.compare else "torch")
    for name in chosen.names or sorted(path.stem for path in calls.HERE.glob("*.txt")):
        lines = []
        for call, known in calls.recorded(name):
            if chosen.compare:
                for difference in calls.differences(call, known, calls.outcome(torch, call)):
                    print(f"{name}: {call}\n    {difference}", flush=True)
            elif known is None or chosen.again:
                known = calls.outcome(torch, call)
            lines.append(f"{call}\t{json.dumps(known, separators=(',', ':'))}\n")
        if not chosen.compare:
            (calls.HERE / f"{name}.txt").write_text("".join(lines))


if __name__ == "__main__":
    main()
