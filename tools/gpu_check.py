"""Runs every operation on a GPU and on the CPU with the same inputs, forward and backward, and compares.

    python tools/gpu_check.py [--jobs N] [--only NAME] [--verbose]

Pointwise records get operands from their dtype rule; everything else comes from the sample calls in `tests/samples.py`.
Prints what passed, what failed and which records no call reached; fails if anything failed.
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests"), str(ROOT)]

import numpy as np  # noqa: E402
from samples import SAMPLES, domain_of, operands, params_of  # noqa: E402

import flambeau as torch  # noqa: E402
from flambeau._core.state import CUDA  # noqa: E402
from flambeau._ops.records.pointwise_op import Pointwise  # noqa: E402
from flambeau._ops.registry import records  # noqa: E402

DTYPES = ("float32", "float64", "int64", "bool", "complex64", "bfloat16")
# relative error allowed, and the part of the largest result that counts as zero
TOLERANCE = {
    "float32": 2e-5,
    "float64": 1e-11,
    "complex64": 2e-5,
    "complex128": 1e-11,
    "bfloat16": 4e-2,
    "float16": 2e-3,
}
Result = tuple[str, str, str]  # name, "passed" | "failed" | "skipped", why


# -- comparison --------------------------------------------------------------------------------------------------------


def flat(value: Any) -> Iterator[Any]:
    if isinstance(value, (tuple, list)) and not isinstance(value, torch.Size):
        for part in value:
            yield from flat(part)
    elif value is not None:
        yield value


def close(expected: Any, got: Any, factor: float) -> str:
    """What is wrong with `got`; empty if nothing is."""
    if not isinstance(expected, torch.Tensor):
        if isinstance(expected, float):
            return (
                ""
                if np.isclose(expected, got, rtol=1e-2 if abs(expected) < 1e-3 else 1e-4)
                else f"expected {expected}, got {got}"
            )
        if isinstance(expected, str):
            expected, got = (
                "".join(expected.split()),
                "".join(got.replace("device='cuda:0', ", "").replace(", device='cuda:0'", "").split()),
            )
        return "" if expected == got else f"expected {expected!r}, got {got!r}"
    if expected.dtype is not got.dtype:
        return f"expected {expected.dtype}, got {got.dtype}"
    if expected.shape != got.shape:
        return f"expected shape {tuple(expected.shape)}, got {tuple(got.shape)}"
    wide = torch.complex128 if expected.dtype.is_complex else torch.float64
    a, b = expected.detach().to(wide).numpy(), got.detach().cpu().to(wide).numpy()
    tolerance = factor * TOLERANCE.get(expected.dtype.name, 0.0)
    finite = np.abs(a[np.isfinite(a)])
    slack = tolerance * min(finite.max(), 10.0) if finite.size else 0.0
    good = np.isclose(a, b, rtol=tolerance, atol=slack, equal_nan=True)
    if good.all():
        return ""
    where = tuple(np.argwhere(~good)[0])
    return f"{int((~good).sum())} of {good.size} differ, at {where} expected {a[where]}, got {b[where]}"


def compare(expected: Any, got: Any, factor: float = 1.0) -> str:
    a, b = list(flat(expected)), list(flat(got))
    if len(a) != len(b):
        return f"expected {len(a)} results, got {len(b)}"
    for one, other in zip(a, b):
        problem = close(one, other, factor)
        if problem:
            return problem
    return ""


def gradients(result: Any, leaves: list[Any]) -> list[Any]:
    """Gradients of a weighted sum of all differentiable results."""
    outs = [r for r in flat(result) if isinstance(r, torch.Tensor) and r.requires_grad]
    if not outs:
        return []
    weights = [np.linspace(0.5, 1.5, r.numel()).reshape(tuple(r.shape)) for r in outs]
    given = [torch.from_numpy(w).to(r.dtype).to(r.device) for w, r in zip(weights, outs)]
    return list(torch.autograd.grad(outs, leaves, given, allow_unused=True))


def both(name: str, run: Any, inputs: dict[str, Any]) -> Result:
    """Runs on both devices and compares values and gradients."""
    try:
        expected = run("cpu", inputs)
        leaves = [t for t in inputs.values() if t.requires_grad]
        slopes = gradients(expected, leaves)
    except Exception as error:  # the CPU is the reference: what it refuses is not compared
        return name, "skipped", f"CPU: {type(error).__name__}: {str(error)[:150]}"
    try:
        there = {n: t.detach().cuda().requires_grad_(t.requires_grad) for n, t in inputs.items()}
        got = run("cuda", there)
        for t in flat(got):
            if isinstance(t, torch.Tensor) and not t.is_cuda and ".cpu()" not in name:
                return name, "failed", f"the result is on {t.device}"
        # the CPU rounds the statistics of 16-bit rows, as PyTorch does there
        factor = 4.0 if "_norm(" in name else 1.0
        problem = compare(expected, got, factor)
        if not problem:
            found = gradients(got, [t for t in there.values() if t.requires_grad])
            problem = compare([s for s in slopes if s is not None], [f for f in found if f is not None], factor)
            problem = problem and "gradient: " + problem
    except Exception as error:
        steps = traceback.extract_tb(error.__traceback__)
        place = next((f"{Path(s.filename).name}:{s.lineno}" for s in reversed(steps) if "flambeau" in s.filename), "")
        problem = f"{type(error).__name__}: {str(error)[:300]} ({place})"
    return name, "failed" if problem else "passed", problem


# -- cases -------------------------------------------------------------------------------------------------------------


def sample(name: str, dtype: str, shape: tuple[int, ...], random: Any) -> Any:
    low, high = domain_of(records[name], 0)
    d = getattr(torch, dtype)
    if dtype == "bool":
        return torch.from_numpy(random.integers(0, 2, shape).astype(bool))
    if dtype == "int64":
        return torch.from_numpy(random.integers(1 if low > 0 else -4, 5, shape))
    values = random.uniform(low, high, shape)
    if d.is_complex:
        values = values + 1j * random.uniform(low, high, shape)
    elif not name.startswith("special") and low < 0:
        values.reshape(-1)[:4] = [0.0, 1.0, -1.0, 0.5]
    return torch.from_numpy(values).to(d).requires_grad_()


def pointwise_cases(op: Pointwise) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    random = np.random.default_rng(len(op.name))
    numbers = params_of(op)
    for dtype in DTYPES:
        try:
            op.rule(op.name, getattr(torch, dtype))
        except (RuntimeError, TypeError):
            continue
        kinds = ["bool" if k in op.masks else dtype for k in range(op.arity)]
        full = {n: sample(op.name, kind, (5, 7), random) for n, kind in zip(op.names, kinds)}
        fixed = [n for n, slope in zip(op.names, op.grads) if slope is None]

        def run(device: str, given: dict[str, Any]) -> Any:
            return op(*given.values(), *numbers)

        yield f"{op.name}[{dtype}]", run, {n: t.detach() if n in fixed else t for n, t in full.items()}
        if dtype == "float32":  # other layouts: turned, repeated, cut
            shapes = [(6, 4, 3), (4, 1), (6, 1, 3)]
            odd = {n: sample(op.name, kind, shapes[k % 3], random) for k, (n, kind) in enumerate(zip(op.names, kinds))}

            def run_odd(device: str, given: dict[str, Any]) -> Any:
                first, *rest = given.values()
                return op(
                    first.transpose(0, 2)[:, ::2],
                    *[r.transpose(0, -1)[..., ::2, :] if r.ndim == 3 else r[::2] for r in rest],
                    *numbers,
                )

            yield f"{op.name}[strided]", run_odd, {n: t.detach() if n in fixed else t for n, t in odd.items()}


def sample_case(expression: str, floats: str) -> tuple[str, Any, dict[str, Any]]:
    inputs = operands(torch, floats)
    used = compile(expression, "sample", "exec").co_names
    given = {n: t for n, t in inputs.items() if n in used}

    def run(device: str, there: dict[str, Any]) -> Any:
        def ones(*shape: int) -> Any:
            return torch.ones(*shape, dtype=getattr(torch, floats), device=device)

        scope = {"torch": torch, "dev": device, "ones": ones, **there}
        if ";" in expression:
            exec(expression, scope)
            return scope["out"]
        return eval(expression, scope)

    return f"{expression} [{floats}]", run, given


def refusals() -> list[Result]:
    """What must raise, and what the properties of a GPU tensor must be."""
    x, y = torch.ones(3), torch.ones(3, device="cuda")
    found: list[Result] = []

    def raises(name: str, kind: type, action: Any) -> None:
        try:
            action()
            found.append((name, "failed", "nothing was raised"))
        except kind:
            found.append((name, "passed", ""))
        except Exception as error:
            found.append((name, "failed", f"{type(error).__name__}: {error}"))

    def holds(name: str, check: Any) -> None:
        try:
            found.append((name, "passed", "") if check() else (name, "failed", "does not hold"))
        except Exception as error:
            found.append((name, "failed", f"{type(error).__name__}: {error}"))

    raises("cpu + cuda", RuntimeError, lambda: x + y)
    raises("cuda @ cpu", RuntimeError, lambda: y @ x)
    raises("cat of two devices", RuntimeError, lambda: torch.cat([x, y]))
    raises("add_ across devices", RuntimeError, lambda: x.add_(y))
    raises("numpy of a cuda tensor", TypeError, lambda: y.numpy())
    raises("numpy.asarray of a cuda tensor", TypeError, lambda: np.asarray(y))
    raises("out= on another device", RuntimeError, lambda: torch.add(y, y, out=torch.empty(3)))
    raises("a gradient of another device", RuntimeError, lambda: setattr(y.clone().requires_grad_(), "grad", x))
    raises("shapes that do not broadcast", RuntimeError, lambda: y + torch.ones(2, device="cuda"))
    holds("device", lambda: y.device == torch.device("cuda:0") and y.is_cuda and y.get_device() == 0)
    holds(
        "to and back", lambda: y.to("cpu").device.type == "cpu" and x.to("cuda:0").is_cuda and x.cuda().cpu().equal(x)
    )
    holds("to itself", lambda: y.to("cuda") is y and y.cuda() is y)
    holds("gradient across devices", _gradient_across)
    holds(
        "strides travel",
        lambda: torch.ones(2, 3).t().cuda().stride() == (1, 3) == torch.ones(2, 3, device="cuda").t().cpu().stride(),
    )
    holds("repr", lambda: repr(y) == "tensor([1., 1., 1.], device='cuda:0')")
    holds("numpy(force=True)", lambda: y.numpy(force=True).sum() == 3.0)
    holds("memory figures", lambda: 0 < torch.cuda.memory_allocated() <= torch.cuda.max_memory_allocated())
    holds(
        "names",
        lambda: (
            bool(torch.cuda.get_device_name()) and torch.cuda.device_count() >= 1 and torch.cuda.current_device() == 0
        ),
    )
    holds("streams and events", _timed)
    holds("cuda.manual_seed_all", _seeded)
    torch.cuda.empty_cache()
    return found


def _timed() -> bool:
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        z = torch.ones(3, device="cuda") * 2
    torch.cuda.current_stream().wait_stream(stream)
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) >= 0 and z.sum().item() == 6.0


def _seeded() -> bool:
    torch.cuda.manual_seed_all(3)
    first = torch.rand(5, device="cuda")
    torch.cuda.manual_seed_all(3)
    return first.equal(torch.rand(5, device="cuda"))


def _gradient_across() -> bool:
    x = torch.ones(3, requires_grad=True)
    (x.cuda() * 2).sum().backward()
    return x.grad is not None and x.grad.device.type == "cpu" and x.grad.tolist() == [2.0, 2.0, 2.0]


# -- the run -----------------------------------------------------------------------------------------------------------

reached: dict[str, set[str]] = {"forward": set(), "backward": set()}


def watch() -> None:
    """Notes which records compute on a GPU, and which of them are differentiated there."""

    def watched(op: Any) -> None:
        compute, backward = op.compute, op.backward

        def noted_compute(args: Any, k: int) -> Any:
            if k & CUDA:
                reached["forward"].add(op.name)
            return compute(args, k)

        def noted_backward(node: Any, g: Any, create_graph: bool) -> Any:
            reached["backward"].add(op.name)
            return backward(node, g, create_graph)

        op.compute, op.backward = noted_compute, noted_backward

    for op in records.values():
        watched(op)


def work(part: tuple[int, int, str]) -> tuple[list[Result], dict[str, set[str]]]:
    """Every `count`-th case, from number `first` on."""
    first, count, only = part
    warnings.simplefilter("ignore")
    watch()
    results: list[Result] = []
    tasks: list[Any] = [r for r in records.values() if isinstance(r, Pointwise)] + [
        e for family in SAMPLES.values() for e in family
    ]
    for task in tasks[first::count]:
        if only and only not in (task if isinstance(task, str) else task.name):
            continue
        if isinstance(task, str):
            results += [both(*sample_case(task, floats)) for floats in ("float32", "bfloat16")]
        else:
            results += [both(*case) for case in pointwise_cases(task)]
    if not first and not only:
        results += refusals()
    return results, reached


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=1, help="processes that share the GPU")
    parser.add_argument("--only", default="", help="records and expressions that contain this")
    parser.add_argument("--verbose", action="store_true", help="list what was skipped and not reached")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        print("gpu_check: no GPU is available")
        return 2
    start = time.perf_counter()
    parts = [(i, options.jobs, options.only) for i in range(options.jobs)]
    if options.jobs == 1:
        answers = [work(parts[0])]
    else:
        with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
            answers = pool.map(work, parts, chunksize=1)
    results = [r for answer in answers for r in answer[0]]
    forward = set().union(*(answer[1]["forward"] for answer in answers))
    backward = set().union(*(answer[1]["backward"] for answer in answers))
    return report(results, forward, backward, options, time.perf_counter() - start)


def report(results: list[Result], forward: set[str], backward: set[str], options: Any, seconds: float) -> int:
    by_state: dict[str, list[Result]] = {"passed": [], "failed": [], "skipped": []}
    for result in results:
        by_state[result[1]].append(result)
    for name, _, why in by_state["failed"]:
        print(f"FAILED  {name}: {why}")
    missing = sorted(n for n in records if n not in forward)
    unslope = sorted(n for n, r in records.items() if n in forward and r.differentiable and n not in backward)
    if options.verbose:
        for name, _, why in by_state["skipped"]:
            print(f"skipped {name}: {why}")
        print("not reached:", ", ".join(missing))
        print("not differentiated:", ", ".join(unslope))
    print(", ".join(f"{len(part)} {state}" for state, part in by_state.items()), f"in {seconds:.0f} s")
    print(
        f"records: {len(records)}, not reached on the GPU: {len(missing)}, reached but not differentiated: {len(unslope)}"
    )
    return 1 if by_state["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
