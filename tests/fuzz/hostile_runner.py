"""Runs the hostile calls in a process of its own and prints what became of each; started by `test_hostile`."""

import copy
import io
import pickle
import resource
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import flambeau as torch

MEMORY = 48 << 30  # so that a machine that promises memory it does not have cannot be brought down


def names(deep: Any) -> dict[str, Any]:
    """What calls may use: `x` is a 4 x 6 float tensor in the middle of a larger buffer, `v` its first row, `i` a 3 x 4
    tensor of int64, `b` three bools; `deep` is a list nested 100,000 times, `cyclic` a list that holds itself."""
    memory, longs = np.arange(256, dtype=np.float32), np.arange(256)
    x = torch.from_numpy(memory[64:88]).view(4, 6)
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    return {
        "T": torch, "F": torch.nn.functional, "np": np, "pickle": pickle, "copy": copy, "io": io, "memory": memory,
        "longs": longs, "x": x, "v": x[0], "i": torch.from_numpy(longs[64:76]).view(3, 4),
        "b": torch.ones(3, dtype=torch.bool), "deep": deep, "cyclic": cyclic,
    }  # fmt: skip


def main() -> None:
    sys.path.insert(0, str(Path(__file__).parent))
    import hostile_shapes
    import hostile_values

    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    deep: Any = 1.0
    for _ in range(100_000):
        deep = [deep]
    for line in (hostile_shapes.CASES + hostile_values.CASES).splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        expected, call = line.split(maxsplit=1)
        print(call, end="\t", flush=True)
        space = names(deep)
        before = space["memory"].copy(), space["longs"].copy()
        start = time.perf_counter()
        try:
            exec(call, space)
            found = "fine"
        except BaseException as error:
            found = type(error).__name__
        if found != "fine":
            for name, old in zip(("memory", "longs"), before):
                if not np.array_equal(space[name], old):
                    found += " after a write"
        if time.perf_counter() - start > 5:
            found += " too late"
        print("ok" if found == expected else f"{found} instead of {expected}", flush=True)
    print("end", flush=True)


if __name__ == "__main__":
    main()
