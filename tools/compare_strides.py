"""Compares the strides of results with PyTorch's: every op of PyTorch's own database, on four layouts of its inputs.

    python tools/compare_strides.py --conformance DIR [--ops 'sum,index_*'] [--layouts permuted] [--verbose] [--json FILE]

DIR holds the measuring programs, whose conversion and worker processes serve here too; PyTorch must be importable beside
flambeau. The layouts are contiguous, permuted (rows and columns exchanged, or all dimensions reversed, by turns), expanded
(one dimension of stride 0) and channels_last; by turns, only the first tensor is laid out so. The database has mostly
matrices: some samples are taken again with more leading dimensions, where PyTorch accepts them so. As in `ops.py`, strides
of empty tensors and of dimensions of extent 1 do not count, as nothing can be seen of them; "to the letter" counts those
as well.
"""

from __future__ import annotations

import argparse
import collections
import itertools
import json
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

LAYOUTS = ("contiguous", "permuted", "expanded", "channels_last")
LARGE = 20_000  # elements of a sample that is taken


def laid_out(torch: Any, t: Any, layout: str, turn: int) -> Any:
    """A tensor of the same shape in another layout; the very tensor if it has no such layout."""
    if t.layout is not torch.strided:
        return t
    t = t.detach()
    if layout == "contiguous":
        return t.contiguous()
    if layout == "permuted" and t.ndim > 1:
        order = list(range(t.ndim))
        order = order[::-1] if turn % 2 else [*order[:-2], order[-1], order[-2]]
        back = [order.index(d) for d in range(t.ndim)]
        return t.permute(order).contiguous().permute(back)
    if layout == "expanded" and t.ndim:
        long = [d for d in range(t.ndim) if t.shape[d] > 1]
        if long:
            dim = long[-1 if turn % 2 else 0]
            return t.narrow(dim, 0, 1).contiguous().expand(t.shape)
    if layout == "channels_last" and t.ndim in (4, 5):
        return t.contiguous(memory_format=torch.channels_last if t.ndim == 4 else torch.channels_last_3d)
    return t


def raised(torch: Any, sample: Any, rank: int) -> Any:
    """A sample whose tensors of the highest rank (of 1 to 3) have leading dimensions, `rank` in all; None if none can."""
    tensors = [t for t in tensors_of(torch, sample) if t.layout is torch.strided]
    top = max((t.ndim for t in tensors), default=0)
    if not 0 < top < rank:
        return None
    lead = (2, 3, 2, 3)[: rank - top]

    def more(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or t.layout is not torch.strided or t.ndim != top:
            return t
        return t.detach().expand(*lead, *t.shape).contiguous()

    return sample.transform(more)


def tensors_of(torch: Any, sample: Any) -> list[Any]:
    from convert import leaves

    return [x for x in leaves([sample.input, sample.args, sample.kwargs]) if isinstance(x, torch.Tensor)]


def visible(t: Any) -> list[int]:
    """The strides that matter."""
    return [s for s, n in zip(t.stride(), t.shape) if n > 1] if t.numel() else []


class Comparison:
    """All comparisons of one op."""

    def __init__(self, op: Any, reference: Any, candidate: Any, chosen: Any):
        from ops import path_of

        self.op, self.reference, self.candidate, self.chosen = op, reference, candidate, chosen
        self.torch = reference.module
        self.function = reference.function(op.op, path_of(op)), candidate.function(op.op, path_of(op))

    def samples(self) -> list[Any]:
        from checks import spread

        torch, op = self.torch, self.op
        supported = op.supported_dtypes("cpu")
        dtype = next((d for d in (torch.float32, torch.int64, torch.bool) if d in supported), None)
        dtype = dtype or min(supported, key=str, default=torch.float32)
        random.seed(0)
        self.reference.seed()
        found = list(op.sample_inputs("cpu", dtype, requires_grad=False, set_seed=False))
        found = [s for s in found if sum(t.numel() for t in tensors_of(torch, s)) <= LARGE]
        found = spread(found, self.chosen.samples)
        few = spread(found, self.chosen.raised)
        more = [raised(torch, s, rank) for rank in (3, 4) for s in few]
        return found + [s for s in more if s is not None]

    def checks(self) -> Iterator[Any]:
        from checks import describe

        for turn, sample in enumerate(self.samples()):
            tried = set()
            for layout in self.chosen.layouts:
                seen = itertools.count()

                def place(x: Any, layout: str = layout, turn: int = turn, seen: Any = seen) -> Any:
                    if not isinstance(x, self.torch.Tensor):
                        return x
                    alone = turn % 3 == 2 and next(seen) > 0
                    return laid_out(self.torch, x, "contiguous" if alone else layout, turn)

                other = sample.transform(place)
                key = tuple(t.stride() if t.layout is self.torch.strided else () for t in tensors_of(self.torch, other))
                if key in tried:
                    continue
                tried.add(key)
                text = describe(self.op.name, (other.input, *other.args), other.kwargs)
                yield f"{layout}: {text}"
                yield self.check(layout, text, other)

    def call(self, side: Any, sample: Any) -> Any:
        from checks import Call

        function = self.function[side is self.candidate]
        made = Call(side, function, side.adopt((sample.input, *sample.args)), side.adopt(sample.kwargs)).output
        return side.tensors(made)

    def check(self, layout: str, text: str, sample: Any) -> Any:
        from checks import Check
        from convert import short

        try:
            expected = [t for t in self.call(self.reference, sample) if t.layout is self.torch.strided]
        except Exception:  # not a call that PyTorch knows
            return None
        if not expected:
            return None
        try:
            actual = [
                t for t in self.call(self.candidate, sample) if short(getattr(t, "layout", "strided")) == "strided"
            ]
            letter = [tuple(t.stride()) for t in actual] == [tuple(t.stride()) for t in expected]
            wrong = [i for i, (a, e) in enumerate(zip(actual, expected, strict=True)) if visible(a) != visible(e)]
        except Exception as problem:
            return Check(layout, text, "raised", f"{type(problem).__name__}: {problem}"[:200], {"letter": False})
        if not wrong:
            return Check(layout, text, notes={"letter": letter})
        first = wrong[0]
        given = [t.stride() for t in tensors_of(self.torch, sample)]
        detail = (
            f"result {first} {tuple(expected[first].shape)} has strides {tuple(actual[first].stride())}, "
            f"PyTorch's {tuple(expected[first].stride())}; inputs {given}"
        )
        return Check(layout, text, "strides", detail, {"letter": letter})


def measure(chosen: argparse.Namespace) -> dict[str, dict[str, list[Any]]]:
    """Runs all comparisons and prints them; checks by op and layout."""
    sys.path.insert(0, str(chosen.conformance.resolve()))
    import ops as programs
    import runner

    chosen.candidate = "flambeau"
    found = {
        op.full_name: op
        for op in programs.op_db
        if runner.chosen(op.full_name, chosen.ops) and (chosen.ops or not programs.exclusion(op))
    }

    def prepare() -> Any:  # in the worker
        import importlib

        sides = runner.Side(runner.torch), runner.Side(importlib.import_module(chosen.candidate))
        return lambda task: Comparison(found[task[0]], *sides, chosen).checks()

    results: dict[str, dict[str, list[Any]]] = {}
    for (name,), checks, seconds in runner.guarded([(name,) for name in found], prepare, chosen.jobs, chosen.timeout):
        by_layout = results[name] = collections.defaultdict(list)
        for check in checks:
            by_layout[check.kind].append(check)
        if chosen.verbose and seconds > 3:
            print(f"      {name}: {seconds:.1f} s")
        for layout, made in by_layout.items():
            failed = [c for c in made if c.reason]
            if failed:
                print(f"FAIL  {name} {layout} {len(made) - len(failed)}/{len(made)}", flush=True)
                for c in failed if chosen.verbose else failed[:1]:
                    print(f"      {c.call}\n          {c.detail}", flush=True)
    return results


def agreed(results: dict[str, dict[str, list[Any]]]) -> dict[str, bool]:
    """For each `op:layout` that was compared whether every result had PyTorch's strides."""
    return {
        f"{name}:{layout}": not any(c.reason for c in checks)
        for name, by_layout in results.items()
        for layout, checks in by_layout.items()
        if layout in LAYOUTS and checks
    }


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--conformance", type=Path, required=True, help="the folder of the measuring programs")
    made.add_argument("--ops", help="names or wildcards, separated by commas")
    made.add_argument("--layouts", type=lambda text: text.split(","), default=list(LAYOUTS))
    made.add_argument("--samples", type=int, default=8, help="samples of an op (8)")
    made.add_argument("--raised", type=int, default=3, help="of these, samples that get more dimensions (3)")
    made.add_argument("--jobs", type=int, default=2)
    made.add_argument("--timeout", type=float, default=60)
    made.add_argument("--verbose", action="store_true", help="every difference, not only the first")
    made.add_argument("--json", type=Path, help="write the differences there")
    return made


def ratio(part: int, whole: int) -> str:
    return f"{part}/{whole} ({100 * part / whole if whole else 0:.2f}%)"


def main() -> int:
    chosen, began = parser().parse_args(), time.monotonic()
    results = measure(chosen)
    print()
    for layout in (*LAYOUTS, "crash", "timeout", "harness"):
        made = [c for by_layout in results.values() for c in by_layout.get(layout, ())]
        if not made:
            continue
        ops = [by_layout[layout] for by_layout in results.values() if by_layout.get(layout)]
        whole = sum(not any(c.reason for c in checks) for checks in ops)
        good = sum(not c.reason for c in made)
        letter = sum(c.notes.get("letter", False) for c in made)
        print(
            f"{layout:<14} ops {ratio(whole, len(ops))}  calls {ratio(good, len(made))}  "
            f"to the letter {ratio(letter, len(made))}"
        )
    every = [c for by_layout in results.values() for checks in by_layout.values() for c in checks]
    whole = [name for name, by in results.items() if not any(c.reason for checks in by.values() for c in checks)]
    good = sum(not c.reason for c in every)
    print(f"time: {time.monotonic() - began:.0f} s")
    print(f"ops with all strides equal: {ratio(len(whole), len(results))}  calls: {ratio(good, len(every))}")
    if chosen.json:
        wrong = {
            name: [(c.kind, c.call, c.detail) for checks in by.values() for c in checks if c.reason]
            for name, by in results.items()
        }
        chosen.json.write_text(json.dumps({name: found for name, found in wrong.items() if found}, indent=1))
    return 0 if good == len(every) else 1


if __name__ == "__main__":
    sys.exit(main())
