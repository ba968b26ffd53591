"""The release, step by step: each step is a function here, and the first that fails ends it.

    python tools/release.py 0.2.0                      # everything but the tag and the upload, whose commands it prints
    python tools/release.py 0.2.0 --only texts build   # some steps
    python tools/release.py --wheel dist/x.whl         # only try a wheel that is there, with every interpreter found

Needs `pip install build twine`. The build is made twice, from two clones of the commit, and must give the same bytes. Every interpreter
from 3.10 to 3.15 that is on the PATH (or given by --python) then gets an environment of its own, in which the wheel is
installed and tried from outside of the checkout: README's example, the commands, a part of the tests.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import tomllib

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "flambeau" / "_kernel" / "shipped"
VERSIONS = ("3.10", "3.11", "3.12", "3.13", "3.14", "3.15")
# Tests that need nothing but the package and pytest: what they import, save, train and refuse.
TESTS = (
    "test_import.py",
    "test_copying.py",
    "test_dlpack.py",
    "optim/test_values.py",
    "serialization/test_formats.py",
    "data/test_collate.py",
    "nn/test_linear.py",
    "compiler/test_compile.py",
)
TRIED = """
import json, os, sys, time
start = time.process_time()
import flambeau as torch
spent = time.process_time() - start
home = os.path.dirname(torch.__file__)
assert home.startswith(sys.prefix), home
x = torch.randn(8, 3)
model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
model(x).pow(2).mean().backward()
assert model[0].weight.grad.shape == (4, 3)
size = sum(os.path.getsize(os.path.join(at, f)) for at, _, names in os.walk(sys.prefix) for f in names)
print(f"{sys.version.split()[0]}: flambeau {torch.__version__}, import {spent:.2f} s of processor time, environment {size / 1e6:.0f} MB")
"""


def run(*command: object, **options: object) -> str:
    """What a command prints; raises, with all it said, if it fails."""
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, **options)  # type: ignore[call-overload]
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return str(done.stdout)


def texts(version: str) -> None:
    """The files that name the version and the dependencies agree with each other."""
    if f"## {version}" not in (ROOT / "CHANGELOG.md").read_text():
        raise SystemExit(f"CHANGELOG.md has no section '## {version}'")
    dependencies()


def dependencies() -> None:
    """The recipe and the notice name what pyproject.toml asks for."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe, notice = (ROOT / "conda" / "recipe.yaml").read_text(), (ROOT / "NOTICE").read_text()
    for wanted in project["dependencies"]:
        name, bound = re.match(r"(\w+)(.*)", wanted).groups()  # type: ignore[union-attr]
        if f"- {name} {bound}\n" not in recipe:
            raise SystemExit(f"conda/recipe.yaml does not ask for {wanted}")
        if not re.search(rf"^{name} ", notice, re.MULTILINE):
            raise SystemExit(f"NOTICE has nothing about {name}")
    if any(f"- {name} = {place}\n" not in recipe for name, place in project["scripts"].items()):
        raise SystemExit("conda/recipe.yaml has another command")
    if f"python {project['requires-python']}" not in recipe:
        raise SystemExit("conda/recipe.yaml asks for another Python")
    rendered(ROOT / "conda" / "recipe.yaml")


def rendered(recipe: Path) -> None:
    """Reads the recipe as rattler-build does, where it is installed."""
    try:
        from rattler_build import RenderConfig, Stage0Recipe, VariantConfig  # an extra tool
    except ImportError:
        print("  the recipe was not read: pip install py-rattler-build")
        return
    (variant,) = Stage0Recipe.from_file(str(recipe)).render(VariantConfig(), RenderConfig())
    print(f"  recipe: {variant.recipe.package.name} {variant.recipe.package.version}, as rattler-build reads it")


def tree() -> None:
    """Nothing is uncommitted: the archives are made from the commit."""
    changed = run("git", "status", "--porcelain", cwd=ROOT)
    if changed:
        raise SystemExit(f"uncommitted:\n{changed}")


def kernels() -> None:
    """The wheel brings kernels that were compiled ahead, made by the files of the commit."""
    said = run(sys.executable, ROOT / "tools" / "ship_kernels.py", "--list")
    if said.count(".kernels ") < 4 or "older files" in said:
        raise SystemExit(f"run tools/ship_kernels.py, which takes its time, on an ARM machine:\n{said}")


def build(version: str, target: Path) -> Path:
    """Wheel and sdist, made twice from clones of the commit; the same bytes both times. Gives the wheel."""
    commit, moment = run("git", "log", "-1", "--format=%H %ct", cwd=ROOT).split()
    env = {**os.environ, "SOURCE_DATE_EPOCH": moment, "SETUPTOOLS_SCM_PRETEND_VERSION": version}
    sums = []
    for turn in ("first", "second"):
        with tempfile.TemporaryDirectory() as work:
            run("git", "clone", "--quiet", ROOT, f"{work}/{turn}")
            run(
                "git", "checkout", "--quiet", commit, cwd=f"{work}/{turn}"
            )  # the same, though somebody commits meanwhile
            out = target if turn == "first" else Path(work) / "dist"
            run(sys.executable, "-m", "build", "--sdist", "--outdir", out, f"{work}/{turn}", env=env)
            if SHIPPED.is_dir():  # the wheel alone brings them: who builds from source compiles
                shutil.copytree(SHIPPED, f"{work}/{turn}/{SHIPPED.relative_to(ROOT)}")
            run(sys.executable, "-m", "build", "--wheel", "--outdir", out, f"{work}/{turn}", env=env)
            made = sorted(out.glob(f"flambeau-{version}*"))
            sums.append([(p.name, hashlib.sha256(p.read_bytes()).hexdigest()) for p in made])
    if sums[0] != sums[1] or len(sums[0]) != 2:
        raise SystemExit(f"the second build differs:\n{sums[0]}\n{sums[1]}")
    for name, digest in sums[0]:
        print(f"  {digest}  {name}  {(target / name).stat().st_size / 1e6:.1f} MB")
    archives = [target / name for name, _ in sums[0]]
    run(sys.executable, "-m", "twine", "check", "--strict", *archives)
    return next(p for p in archives if p.suffix == ".whl")


def readme_example() -> str:
    return re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]


def interpreters(given: Sequence[str]) -> list[str]:
    found = list(given) or [path for v in VERSIONS if (path := shutil.which(f"python{v}"))]
    return [p for p in found if subprocess.run([p, "-c", "pass"], capture_output=True).returncode == 0]


def attempt(wheel: Path, python: str, tests: Sequence[str] = TESTS) -> None:
    """The wheel in a fresh environment, tried from a folder that is not the checkout."""
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        run(python, "-m", "venv", work / "env")
        inside = work / "env" / "bin" / "python"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VIRTUAL_ENV", "SETUPTOOLS_SCM"))}
        run(inside, "-m", "pip", "install", "--quiet", wheel, cwd=work)
        print(" ", run(inside, "-W", "error", "-c", TRIED, cwd=work, env=env).strip())
        print("  README's example:", run(inside, "-W", "error", "-c", readme_example(), cwd=work, env=env).strip())
        (work / "program.py").write_text("import torch\nprint(torch.ones(2).sum())\n")
        command = work / "env" / "bin" / "flambeau"
        for line in (["--help"], ["info"], ["run", "program.py"], ["doctor", "--static", "program.py"], ["cache"]):
            run(command, *line, cwd=work, env=env)
        run(inside, "-m", "pip", "install", "--quiet", "tqdm", "matplotlib", cwd=work)  # the extra `demo`
        said = run(command, "demo", "--epochs", "2", cwd=work, env=env).strip().splitlines()
        print("  flambeau demo:", next(line for line in said if "accuracy" in line))
        run(inside, "-m", "pip", "install", "--quiet", "pytest", "pytest-timeout", "hypothesis", cwd=work)
        shutil.copytree(ROOT / "tests", work / "tests")
        shutil.copy(ROOT / "pyproject.toml", work)
        chosen = [f"tests/{test}" for test in tests]
        said = run(inside, "-m", "pytest", "-p", "no:cacheprovider", *chosen, cwd=work, env=env)
        print("  tests of the installed wheel:", said.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("version", nargs="?", help="of the release, as 0.2.0")
    parser.add_argument("--wheel", type=Path, help="try this wheel and do nothing else")
    parser.add_argument(
        "--python", action="append", default=[], help="an interpreter to try the wheel with (again for more)"
    )
    parser.add_argument("--only", nargs="+", choices=["texts", "tree", "kernels", "build", "try"], help="these steps")
    options = parser.parse_args()
    wheel = options.wheel
    if wheel is None:
        if options.version is None or not re.fullmatch(r"\d+\.\d+\.\d+((a|b|rc)\d+)?", options.version):
            parser.error("give the version of the release, or --wheel")
        steps = options.only or ["texts", "tree", "kernels", "build", "try"]
        target = ROOT / "dist"
        for name, step in (("texts", lambda: texts(options.version)), ("tree", tree), ("kernels", kernels)):
            if name in steps:
                print(f"== {name}: {globals()[name].__doc__.splitlines()[0]}")
                step()
        if "build" in steps:
            print(f"== build: {(build.__doc__ or '').splitlines()[0]}")
            wheel = build(options.version, target)
        wheel = wheel or next(target.glob(f"flambeau-{options.version}-*.whl"), None)
        if "try" not in steps:
            return
    for python in interpreters(options.python):
        print(f"== try: {python}")
        attempt(wheel.resolve(), python)
    if options.version:
        print(f"""== by hand
  .ci/run                                  # the whole suite, and the figures beside PyTorch
  git tag -s v{options.version} -m "flambeau {options.version}" && git push origin v{options.version}
  python -m twine upload dist/flambeau-{options.version}*
  FLAMBEAU_VERSION={options.version} rattler-build build --recipe conda""")


if __name__ == "__main__":
    main()
