"""Writes the models of tests/export as `.pt2` archives here and with PyTorch, reads each where the other wrote it, and compares
what the programs give, and what they write into buffers. Needs PyTorch: python tools/compare_exports.py [names] [--decompose]."""

from __future__ import annotations

import copy
import importlib
import io
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "export")]


def leaves(tree: Any, library: Any) -> list[Any]:
    """Tensors as arrays, other leaves as they are."""
    pytree = importlib.import_module(f"{library.__name__}.utils._pytree")
    found = [
        t.detach().float() if isinstance(t, library.Tensor) and t.dtype == library.bfloat16 else t
        for t in pytree.tree_leaves(tree)
    ]
    return [t.detach().numpy() if isinstance(t, library.Tensor) else t for t in found]


def compare(model: Any, args: Any, kwargs: Any, writer: Any, reader: Any, decompose: bool) -> None:
    """Raises unless a program does the same where it was written and where it is read."""
    reference = copy.deepcopy(model)
    ep = writer.export.export(model, copy.deepcopy(args), copy.deepcopy(kwargs))
    held = io.BytesIO()
    writer.export.save(ep.run_decompositions() if decompose else ep, held)
    read = reader.export.load(io.BytesIO(held.getvalue()))
    given, named = read.example_inputs
    module = read.module()
    for _ in range(2):
        wanted = leaves(reference(*copy.deepcopy(args), **copy.deepcopy(kwargs)), writer)
        got = leaves(module(*copy.deepcopy(given), **copy.deepcopy(named)), reader)
        for a, b in zip(got, wanted, strict=True):
            if isinstance(b, np.ndarray):
                np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-5)
            elif a != b:
                raise AssertionError(f"{a!r} instead of {b!r}")
    for name, t in reference.state_dict().items():
        np.testing.assert_allclose(read.state_dict[name].detach().numpy(), t.detach().numpy(), rtol=1e-4, atol=1e-5)


def main() -> None:
    import torch
    from models import zoo

    import flambeau

    warnings.simplefilter("ignore")
    wanted = [a for a in sys.argv[1:] if not a.startswith("-")]
    for writer, reader in ((flambeau, flambeau), (flambeau, torch), (torch, flambeau)):
        done, failed = 0, []
        for name, (model, args, kwargs) in zoo(writer).items():
            if wanted and name not in wanted:
                continue
            try:
                compare(model, args, kwargs, writer, reader, "--decompose" in sys.argv)
                done += 1
            except Exception as error:
                failed.append(f"  {name}: {type(error).__name__}: {str(error)[:300]}")
        print(f"{writer.__name__} to {reader.__name__}: {done} of {done + len(failed)}", *failed, sep="\n")


if __name__ == "__main__":
    main()
