"""Runs published libraries that are written for PyTorch, from their own tests, on flambeau and on PyTorch.

Makes two virtual environments, one with flambeau from this checkout and one with PyTorch, installs the libraries in both,
runs the same tests in both and prints a table, with every test that passes on PyTorch only.

    python tools/try_clients.py [--only NAME ...] [--directory build/clients] [--markdown FILE]

Where a source package has no tests, or few, there are scripts in `tools/clients`: uses from the library's own
description, whose numbers (`record_property`) must be the same on both. The exit status is 0 if nothing passes on PyTorch only.
"""

from __future__ import annotations

import argparse
import ast
import datetime
import math
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import venv
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TORCH = "torch==2.13.0"
TOLERANCE = 1e-4


@dataclass
class Client:
    """A library: what to install and what to run."""

    name: str
    version: str
    needs: str = ""  # other packages; none of these may depend on torch
    alone: str = ""  # other packages, installed without what they depend on
    tests: str = ""  # in the source package; besides: tools/clients/test_NAME*.py
    source: bool = False  # whether a script looks into the source package, in the folder $CLIENT_SOURCE
    folder: str = "."  # of the source package, where the tests are started
    options: list[str] = field(default_factory=list)  # of pytest
    variables: dict[str, str] = field(default_factory=dict)  # of the processes

    @property
    def scripts(self) -> list[Path]:
        return sorted((ROOT / "tools" / "clients").glob(f"test_{self.name.replace('-', '_')}*.py"))


def without(*names: str) -> list[str]:
    """Options of pytest that leave tests out."""
    return ["-k", " and ".join(f"not {name}" for name in names)]


CLIENTS = [
    Client("einops", "0.8.2", tests="einops/tests", variables={"EINOPS_TEST_BACKENDS": "numpy,torch"}),
    Client(
        "torchmetrics", "1.9.0", "lightning-utilities packaging scipy scikit-learn nltk regex", tests="src/torchmetrics",
        options=["--doctest-modules", "-o", "doctest_optionflags=NUMBER NORMALIZE_WHITESPACE", *without("plot", "__main__"),
                 *(f"--ignore=src/torchmetrics/{part}" for part in ("audio", "image", "multimodal", "video", "detection"))],
    ),
    Client(
        "safetensors", "0.8.0", "packaging huggingface-hub", folder="bindings/python",
        tests="tests/test_pt_comparison.py tests/test_pt_model.py tests/test_simple.py tests/test_handle.py tests/test_threadable.py",
    ),
    Client("torchinfo", "1.8.0"),
    Client(
        "skorch", "1.4.0", "scikit-learn scipy tabulate tqdm pandas flaky safetensors", alone="accelerate",
        tests="skorch/tests", options=[f"--ignore=skorch/tests/{part}" for part in ("llm", "test_hf.py", "test_probabilistic.py")],
    ),
    Client("torchdiffeq", "0.2.5", "scipy"),
    Client("lion-pytorch", "0.2.5"),
    Client("x-transformers", "2.31.10", "einops packaging loguru sympy numpy", alone="einx frozendict torch-einops-utils"),
    Client(
        "transformers", "5.22.2", "huggingface-hub tokenizers safetensors regex pyyaml tqdm packaging typer parameterized",
        alone="accelerate", source=True,
    ),
    Client("lightning", "2.6.6", "fsspec pyyaml tqdm packaging lightning-utilities", alone="torchmetrics pytorch-lightning"),
    Client("ema-pytorch", "0.8.3", tests="tests"),
    Client("torch-optimizer", "0.3.0", alone="pytorch-ranger", tests="tests"),
    Client("pytorch-warmup", "0.2.0", tests="test"),
    Client("linear-operator", "0.6.1", "scipy mpmath", alone="jaxtyping wadler-lindig", tests="test"),
    Client(
        "gpytorch", "1.15.2", "scipy mpmath scikit-learn", alone="linear-operator jaxtyping wadler-lindig",
        tests="test/distributions test/likelihoods test/means test/mlls test/priors test/constraints test/optim",
    ),
    Client(
        "accelerate", "1.15.0", "numpy packaging psutil pyyaml huggingface-hub safetensors parameterized",
        tests="tests/test_accelerator.py tests/test_data_loader.py tests/test_hooks.py tests/test_offload.py "
        "tests/test_optimizer.py tests/test_scheduler.py tests/test_modeling_utils.py tests/test_utils.py",
    ),
    Client(
        "pyro-ppl", "1.9.2", "numpy opt-einsum tqdm pyro-api typing-extensions",
        tests="tests/test_primitives.py tests/test_settings.py tests/test_util.py",
        options=["-W", "ignore::pytest.PytestUnknownMarkWarning"],
    ),
    Client(
        "torch-geometric", "2.8.1", "numpy scipy scikit-learn networkx tqdm psutil pyparsing requests aiohttp fsspec jinja2 xxhash typing-extensions",
    ),
    Client("captum", "0.9.0", "matplotlib numpy packaging tqdm scikit-learn typing-extensions"),
    Client(
        "e3nn", "0.6.0", "sympy scipy opt-einsum", alone="opt-einsum-fx",
        tests="tests/defaults_test.py tests/math tests/nn tests/util tests/o3/irreps_test.py tests/o3/linear_test.py "
        "tests/o3/norm_test.py tests/o3/rotation_test.py tests/o3/wigner_test.py tests/o3/s2_test.py "
        "tests/o3/angular_spherical_harmonics_test.py tests/o3/cartesian_spherical_harmonics_test.py",
        variables={"TORCHDYNAMO_DISABLE": "1"},  # else PyTorch compiles for an hour
    ),
]  # fmt: skip


def main() -> int:
    """Runs the clients and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="these clients (all)")
    parser.add_argument("--directory", type=Path, default=ROOT / "build" / "clients", help="of environments and logs")
    parser.add_argument("--keep", action="store_true", help="take PyTorch's results from the last time")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    chosen = parser.parse_args()
    known = {client.name for client in CLIENTS}
    if unknown := set(chosen.only) - known:
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(known))}")
    clients = [client for client in CLIENTS if not chosen.only or client.name in chosen.only]
    directory = chosen.directory.resolve()
    pythons = {"flambeau": environment(directory, "flambeau", ["-e", f"{ROOT}[distributed]"])}
    pythons["torch"] = environment(directory, "torch", [TORCH, "numpy"])
    rows, worse = [], 0
    for client in progress(clients):
        source = unpack(client, directory) if client.tests or client.source else ROOT
        results = {}
        for name, python in pythons.items():
            kept = directory / f"{client.name}.{name}.xml"
            if name == "flambeau" or not chosen.keep or not kept.exists():
                install(client, python)
                run(client, name, python, source, kept)
            results[name] = read(kept)
        here, there = results["flambeau"], results["torch"]
        lost = differing(here, there)
        worse += len(lost)
        rows.append((client, here, there, lost))
    table = "\n".join(lines(rows))
    print(table)
    if chosen.markdown:
        chosen.markdown.write_text(table + "\n")
    return 1 if worse else 0


def progress(clients: list[Client]) -> Iterable[Client]:
    """The clients, with a bar where tqdm is installed."""
    try:
        from tqdm import tqdm
    except ImportError:
        return clients
    bar = tqdm(clients)

    def named() -> Iterable[Client]:
        for client in bar:
            bar.set_description(client.name)
            yield client

    return named()


def environment(directory: Path, name: str, packages: list[str]) -> Path:
    """The Python of a virtual environment with these packages, which is made if it is not there."""
    python = directory / f"with_{name}" / "bin" / "python"
    ready = directory / f"with_{name}" / "ready"
    if not ready.exists():
        venv.create(ready.parent, with_pip=True, clear=True)
        pip(python, *packages, "pytest", "pytest-timeout")
        ready.touch()
    return python


def pip(python: Path, *arguments: str) -> None:
    subprocess.run([str(python), "-m", "pip", "install", "-q", *arguments], check=True)


def install(client: Client, python: Path) -> None:
    """The library without what it depends on (torch), then what it needs besides; once."""
    wanted = [f"{client.name}=={client.version}", *client.alone.split()]
    done = python.parent.parent / f"{client.name}.installed"
    if not done.exists() or done.read_text() != str((wanted, client.needs)):
        pip(python, "--no-deps", *wanted)
        if client.needs:
            pip(python, *client.needs.split())
        done.write_text(str((wanted, client.needs)))


def unpack(client: Client, directory: Path) -> Path:
    """The folder of the client's source package, fetched from the package index."""
    target = directory / "sources" / client.name
    if not target.exists():
        index = f"https://pypi.org/simple/{client.name}/"
        with urllib.request.urlopen(index, timeout=120) as answer:
            addresses = re.findall(r'href="([^"#]+)', answer.read().decode())
        ending = rf"{client.name.replace('-', '[-_]')}-{re.escape(client.version)}\.tar\.gz"
        address = next(address for address in addresses if re.search(ending, address))
        archive = directory / f"{client.name}.tar.gz"
        with urllib.request.urlopen(urllib.parse.urljoin(index, address), timeout=300) as answer:
            archive.write_bytes(answer.read())
        unpacked = directory / "sources" / f"{client.name}.unpacked"
        shutil.rmtree(unpacked, ignore_errors=True)
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        next(unpacked.iterdir()).rename(target)
        unpacked.rmdir()
    return target / client.folder


def run(client: Client, name: str, python: Path, source: Path, result: Path) -> None:
    """Runs the tests in one of the environments; the outcome goes to `result`, what is printed to a log beside it."""
    start = (
        [str(python), "-m", "flambeau", "run", "-m", "pytest"] if name == "flambeau" else [str(python), "-m", "pytest"]
    )
    tests = client.tests.split() or ["-c", os.devnull]
    tests += [str(script) for script in client.scripts]
    fixed = ["-q", "-p", "no:cacheprovider", "-p", "seeded", "-o", "addopts=", "-o", "junit_family=xunit1"]
    fixed += ["--timeout=600", "--tb=short", f"--junitxml={result}"]
    own = {"PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT / "tools" / "clients"),
           "CLIENT_SOURCE": str(source)}  # fmt: skip
    quiet = {"HF_HUB_OFFLINE": "1", "MPLBACKEND": "agg", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}
    result.unlink(missing_ok=True)
    with open(result.with_suffix(".log"), "w") as log:
        subprocess.run(
            [*start, *fixed, *client.options, *tests],
            cwd=source if client.tests else result.parent, env=os.environ | own | quiet | client.variables, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip


def read(result: Path) -> dict[str, tuple[str, dict[str, Any]]]:
    """Outcome and recorded numbers of every test."""
    found: dict[str, tuple[str, dict[str, Any]]] = {}
    if not result.exists():
        return found
    for case in ElementTree.parse(result).iter("testcase"):
        kinds = {child.tag for child in case}
        outcome = next((kind for kind in ("error", "failure", "skipped") if kind in kinds), "passed")
        values = {p.get("name", ""): value(p.get("value", "")) for p in case.iter("property")}
        found[f"{case.get('classname')}::{case.get('name')}"] = (outcome, values)
    return found


def value(text: str) -> Any:
    """A recorded value: a number, a list of them, or a text."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def same(first: Any, second: Any) -> bool:
    """Whether two recorded values agree: numbers to the tolerance, everything else exactly."""
    if isinstance(first, (list, tuple)) and isinstance(second, (list, tuple)):
        return len(first) == len(second) and all(map(same, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=TOLERANCE, abs_tol=TOLERANCE) or (
            first != first and second != second
        )
    return bool(first == second)


def differing(here: dict[str, Any], there: dict[str, Any]) -> dict[str, str]:
    """Tests that pass on PyTorch and do not here, or whose numbers differ; with what happens here."""
    lost = {}
    for test, (outcome, values) in there.items():
        mine, numbers = here.get(test, ("missing", {}))
        if outcome == "passed" and mine != "passed":
            lost[test] = mine
        elif outcome == mine == "passed" and not all(same(numbers.get(key), values[key]) for key in values):
            lost[test] = "other numbers"
    return lost


def lines(rows: list[Any]) -> Iterable[str]:
    """The table, in Markdown."""
    yield f"{datetime.date.today()}, {TORCH}"
    yield ""
    yield "| library | what is run | passed here | passed on PyTorch | passed there only |"
    yield "| --- | --- | --- | --- | --- |"
    for client, here, there, lost in rows:
        own = "its examples (doctest)" if "--doctest-modules" in client.options else "its own tests"
        scripts = [f"`tools/clients/{script.name}`" for script in client.scripts]
        what = ", ".join([own, *scripts] if client.tests else scripts)
        counts = [f"{sum(o == 'passed' for o, _ in result.values())} of {len(result)}" for result in (here, there)]
        yield f"| {client.name} {client.version} | {what} | {counts[0]} | {counts[1]} | {len(lost)} |"
    for client, _, _, lost in rows:
        if lost:
            yield ""
            yield f"{client.name}:"
            yield from (f"- `{test}`: {outcome}" for test, outcome in sorted(lost.items()))


if __name__ == "__main__":
    sys.exit(main())
