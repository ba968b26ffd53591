"""Compares compiled calls with eager ones: every op of PyTorch's own database, forward and backward, bit for bit.

    python tools/compare_compiled.py --conformance DIR [--ops 'sum,index_*'] [--dtypes float32] [--samples 4] [--verbose]

DIR holds the measuring programs, whose samples and worker processes serve here too; PyTorch must be importable beside flambeau, but only
makes the samples. Each call is made eagerly and three times through `torch.compile`: recorded, when its program is made, and by the program.
Results that differ in their last bits alone, where sums may be made in another order, are counted by themselves.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from compare_strides import LARGE, ratio, tensors_of


def same_bits(torch: Any, a: Any, b: Any) -> bool:
    """Whether tensors have the same dtype, shape and bits; one NaN is as good as another."""
    if a.dtype is not b.dtype or a.shape != b.shape or a.layout is not b.layout:
        return False
    if a.layout is not torch.strided or a.is_quantized:
        return True
    return bool(torch.equal(a, b)) or bool(torch.allclose(a, b, rtol=0, atol=0, equal_nan=True))


def close(torch: Any, a: Any, b: Any) -> bool:
    if a.dtype is not b.dtype or a.shape != b.shape:
        return False
    try:
        torch.testing.assert_close(a, b, equal_nan=True, check_stride=False)
    except AssertionError:
        return False
    return True


class Comparison:
    """All comparisons of one op in one dtype."""

    def __init__(self, op: Any, dtype: str, reference: Any, candidate: Any, chosen: Any):
        from ops import path_of

        self.op, self.reference, self.candidate, self.chosen = op, reference, candidate, chosen
        self.dtype = getattr(reference.module, dtype)
        self.torch = candidate.module
        self.function = candidate.function(op.op, path_of(op))
        self.differentiable = self.dtype.is_floating_point and op.supports_autograd

    def samples(self) -> list[Any]:
        from checks import spread

        random.seed(0)
        self.reference.seed()
        found = list(self.op.sample_inputs("cpu", self.dtype, requires_grad=False, set_seed=False))
        found = [s for s in found if sum(t.numel() for t in tensors_of(self.reference.module, s)) <= LARGE]
        return spread(found, self.chosen.samples)  # type: ignore[no-any-return]

    def checks(self) -> Iterator[Any]:
        from checks import describe

        for sample in self.samples():
            text = describe(self.op.name, (sample.input, *sample.args), sample.kwargs)
            yield text
            yield self.check(text, sample)

    def outcome(self, function: Any, sample: Any) -> list[Any]:
        """Results, and gradients of what can have one, of a call on fresh arguments."""
        side, torch = self.candidate, self.torch
        args, named = side.adopt((sample.input, *sample.args)), side.adopt(sample.kwargs)
        given = [t for t in side.tensors((args, named)) if t.is_floating_point() and t.layout is torch.strided]
        for t in given if self.differentiable else ():
            t.requires_grad_()
        torch.manual_seed(0)
        out = [t for t in side.tensors(function(*args, **named)) if isinstance(t, torch.Tensor)]
        ends = [t for t in out if t.requires_grad and t.is_floating_point() and t.layout is torch.strided]
        if ends:
            found = torch.autograd.grad([t.sum() for t in ends], given, allow_unused=True)
            out += [g for g in found if g is not None]
        return [t.detach() for t in out]

    def check(self, text: str, sample: Any) -> Any:
        from checks import Check

        kind = str(self.dtype).removeprefix("torch.")
        try:
            expected = self.outcome(self.function, sample)
        except Exception:  # no call that can be made eagerly
            return None
        function, notes = self.function, {"bits": True}
        compiled = self.torch.compile(lambda *args, **named: function(*args, **named))
        for number in range(3):
            try:
                found = self.outcome(compiled, sample)
            except Exception as problem:
                return Check(kind, text, "raised", f"call {number}: {type(problem).__name__}: {problem}"[:200], notes)
            if len(found) != len(expected):
                return Check(kind, text, "results", f"call {number}: {len(found)} instead of {len(expected)}", notes)
            for i, (a, b) in enumerate(zip(found, expected)):
                if same_bits(self.torch, a, b):
                    continue
                notes["bits"] = False
                if not close(self.torch, a, b):
                    return Check(kind, text, "values", f"call {number}, result {i}: {a} instead of {b}"[:300], notes)
        return Check(kind, text, notes=notes)


def measure(chosen: argparse.Namespace) -> dict[str, list[Any]]:
    """Runs all comparisons and prints what differs; checks by op and dtype."""
    sys.path.insert(0, str(chosen.conformance.resolve()))
    import ops as programs
    import runner

    chosen.candidate = "flambeau"
    found = {
        op.full_name: op
        for op in programs.op_db
        if runner.chosen(op.full_name, chosen.ops) and (chosen.ops or not programs.exclusion(op))
    }
    tasks = [(name, d) for name, op in found.items() for d in programs.dtypes_of(op, chosen.dtypes)]

    def prepare() -> Any:  # in the worker
        import importlib

        sides = runner.Side(runner.torch), runner.Side(importlib.import_module(chosen.candidate))
        return lambda task: Comparison(found[task[0]], task[1], *sides, chosen).checks()

    results: dict[str, list[Any]] = {}
    for task, checks, _ in runner.guarded(tasks, prepare, chosen.jobs, chosen.timeout):
        made = results[":".join(task)] = list(checks)
        failed = [c for c in made if c.reason]
        if failed:
            print(f"FAIL  {' '.join(task)} {len(made) - len(failed)}/{len(made)}", flush=True)
            for c in failed if chosen.verbose else failed[:1]:
                print(f"      {c.call}\n          {c.reason}: {c.detail}", flush=True)
    return results


def agreed(results: dict[str, list[Any]]) -> dict[str, bool]:
    """For each `op:dtype` that was compared whether compiled calls gave what eager ones give."""
    return {name: not any(c.reason for c in checks) for name, checks in results.items() if checks}


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--conformance", type=Path, required=True, help="the folder of the measuring programs")
    made.add_argument("--ops", help="names or wildcards, separated by commas")
    made.add_argument("--dtypes", default="float32", help="separated by commas (float32)")
    made.add_argument("--samples", type=int, default=4, help="samples of an op (4)")
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--timeout", type=float, default=60)
    made.add_argument("--verbose", action="store_true", help="every difference, not only the first")
    return made


def main(words: list[str] | None = None) -> int:
    chosen, began = parser().parse_args(words), time.monotonic()
    results = measure(chosen)
    every = [c for checks in results.values() for c in checks]
    good, exact = sum(not c.reason for c in every), sum(not c.reason and c.notes["bits"] for c in every)
    whole = agreed(results)
    print(f"time: {time.monotonic() - began:.0f} s")
    print(
        f"ops and dtypes: {ratio(sum(whole.values()), len(whole))}  calls: {ratio(good, len(every))}  to the bit: {ratio(exact, len(every))}"
    )
    return 0 if good == len(every) else 1


if __name__ == "__main__":
    sys.exit(main())
