"""Starts the programs that attack the package, each in a process of its own with little memory and time.

`FLAMBEAU_FUZZ=20 python -m pytest tests/fuzz` runs twenty times as many cases, with another seed for each day.
"""

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).parent
FACTOR = int(os.environ.get("FLAMBEAU_FUZZ", "1"))
SEED = 1 if FACTOR == 1 else int(time.time() // 86400)
ROOM = 4 << 30  # bytes of address space beyond what the interpreter itself needs


def limit(room=ROOM):
    """Called in the attacked process: memory beyond this is refused by the system, not taken from the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (room, room))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def attack(program, *args, seconds=120, expect=0):
    """The lines that a program printed; fails with the last ones if it did not end as expected."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "ignore", str(HERE / program), *map(str, args)],
        capture_output=True, text=True, timeout=seconds * FACTOR, errors="replace",
        env={**os.environ, "PYTHONPATH": str(HERE.parents[1])},
    )  # fmt: skip
    lines = done.stdout.splitlines()
    assert done.returncode == expect, (
        f"{program} ended with {done.returncode} after\n" + "\n".join(lines[-3:]) + done.stderr[-2000:]
    )
    return lines
