"""Compiles the kernels that common programs need, for several CPUs, into archives that a wheel carries (`flambeau/_kernel/shipped`).

    python tools/ship_kernels.py                            # for x86-64 (v2, v3, v4) and ARM, on an ARM machine
    python tools/ship_kernels.py --cpu neoverse-n1          # for one CPU
    python tools/ship_kernels.py --python python3.12 --python python3.10    # for these: a few kernels read an interpreter's objects
    python tools/ship_kernels.py --add --python python3.13    # to what is there
    python tools/ship_kernels.py --programs steps,layers    # what is run to find out which kernels are needed
    python tools/ship_kernels.py --list                     # what the archives hold
    python tools/ship_kernels.py --remove

Each program of `shipped_programs.py` runs in a process of its own, once for each CPU: kernels are rendered for that CPU, and run here
after being compiled for this one. What was compiled once is found in the kernel cache by later runs. The archives are not kept in
git: `pip install .` from a clone brings none, and a wheel that is built after this tool has run brings all. An x86 machine makes those
for x86-64 alone.
"""

from __future__ import annotations

import argparse
import os
import pickle
import platform
import re
import subprocess
import sys
import tempfile
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))
HERE = platform.machine().lower()
FURTHER = ("steps", "demo", "layers", "losses", "optimizers", "other ways")  # what all interpreters run
MACHINES = {"neoverse-n1": "aarch64", "x86-64-v2": "x86_64", "x86-64-v3": "x86_64", "x86-64-v4": "x86_64"}


# -- in a process of its own: what a program needs ------------------------------------------------------------------------------------

_HARMLESS = re.compile(
    r"@llvm\.x86\.(sse\.(st|ld)mxcsr|sse2\.pause)\("
)  # what may be left out where nobody looks at results
_FOREIGN = re.compile(r"@llvm\.x86\.")
_HEAD = re.compile(r"define [^@\n]*?(\w+) @\w+\(.*\{$", re.MULTILINE)


def native(text: str) -> str:
    """The text of a kernel for x86-64 that an ARM machine can run; one that computes nothing, if it is made of such instructions."""
    lines = [line for line in text.split("\n") if not _HARMLESS.search(line)]
    if not any(_FOREIGN.search(line) for line in lines):
        return "\n".join(lines)
    heads = [(found[0], found[1]) for found in _HEAD.finditer(text)]
    return "\n".join([f"{head}\n  ret {kind}{'' if kind == 'void' else ' 0'}\n}}\n" for head, kind in heads])


def work(cpu: str, program: str, file: str) -> None:
    """Runs a program, and writes down which kernels it asked for."""
    platform.machine = lambda: MACHINES[cpu]  # before the renderers ask
    from flambeau._kernel.building import cpus, jit, llvm

    gathered = jit.gather(cpus.named(cpu).target(llvm.host().llvm), str if MACHINES[cpu] == HERE else native)
    import shipped_programs

    shipped_programs.PROGRAMS[program]()
    from flambeau._kernel.building.target import interpreter

    with open(file, "wb") as out:
        pickle.dump((gathered.parts, interpreter(), gathered.index, shipped_programs.failed), out)


# -- here -----------------------------------------------------------------------------------------------------------------------------


def needed(cpu: str, python: str, program: str, folder: str, timeout: float) -> Any:
    """What a program needs on a CPU; nothing if it failed."""
    file, start = tempfile.mkstemp(dir=folder)[1], time.monotonic()
    command = [python, __file__, "--work", cpu, program, file]
    log = Path(f"{file}.log")
    with log.open("w") as out:
        try:
            done = subprocess.run(command, stdout=out, stderr=out, cwd=folder, timeout=timeout, check=False).returncode
        except subprocess.TimeoutExpired:
            done = "out of time"
    if done:
        print(f"  {program}: failed ({done}): {log.read_text().strip()[-300:]}", flush=True)
        return {}, "", {}, []
    with open(file, "rb") as made:
        found = pickle.load(made)
    print(
        f"  {program}: {len(found[0])} kernels, {time.monotonic() - start:.0f} s, {len(found[3])} calls refused",
        flush=True,
    )
    return found


def held(path: Path) -> tuple[dict[str, bytes], dict[str, dict[str, str]]]:
    """The objects and indexes of an archive, if the files as they are have made it."""
    from flambeau._kernel.building import archives

    if not path.exists() or not archives.made_here(str(path)):
        return {}, {}
    start, about = archives._table(str(path))
    data = path.read_bytes()[start:]
    return {
        digest: zlib.decompress(data[at + archives._SUM : at + size]) for digest, (at, size) in about["objects"].items()
    }, about["indexes"]


def ship(cpu: str, pythons: list[str], programs: list[str], jobs: int, timeout: float, add: bool) -> Path:
    """Makes the archive of a CPU: the first interpreter runs all programs, further ones those that ask for kernels which read their
    objects, or are known by code of theirs."""
    from flambeau._kernel.building import archives, cpus, llvm
    from flambeau._kernel.building.cache import Cache
    from flambeau._kernel.building.jit import _digest

    print(cpu, flush=True)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        runs = [
            (python, program) for i, python in enumerate(pythons) for program in programs if program in FURTHER or not i
        ]
        found = list(pool.map(lambda run: needed(cpu, *run, folder, timeout), runs))
    path = Path(archives.FOLDER, f"{cpu}.kernels")
    before, indexes = held(path) if add else ({}, {})
    parts: dict[str, Any] = {}
    for own, interpreter, index, _ in found:
        parts.update(own)
        indexes.setdefault(interpreter, {}).update(index)
    kind = cpus.named(cpu, MACHINES[cpu])
    target, cache, objects = kind.target(llvm.host().llvm), Cache.open(), before
    if cache is not None:
        objects |= {d: data for d in parts if (data := cache.read(_digest(target.key, d))) is not None}
    missing = [part for digest, part in parts.items() if digest not in objects]
    start = time.monotonic()
    for at in range(0, len(missing), 64):
        made = llvm.objects_of(target, missing[at : at + 64])
        objects.update(made)
        for digest, data in made.items() if cache is not None else ():
            cache.write(_digest(target.key, digest), data)
    if archives.contents.__wrapped__() != archives.contents():
        raise SystemExit("files of the package have changed meanwhile: run this again")
    archives.write(
        str(path), kind, MACHINES[cpu], target.llvm, objects, {name: index for name, index in indexes.items() if name}
    )
    size = sum(map(len, objects.values()))
    print(
        f"  {path.relative_to(ROOT)}: {len(objects)} objects, {size / 1e6:.1f} MB, {path.stat().st_size / 1e6:.2f} MB in the file; "
        f"{len(missing)} compiled in {time.monotonic() - start:.0f} s",
        flush=True,
    )
    return path


def list_families() -> None:
    """Writes down which operations are whose, so that a first import need not find out."""
    from flambeau._kernel.building import archives

    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "FLAMBEAU_CACHE_DIR": folder, "FLAMBEAU_SHIPPED": "0", "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", "import flambeau"], env=env, check=True)
        (found,) = Path(folder).glob("families-*")
        lines = found.read_text().split("\n")[1:]
    os.makedirs(archives.FOLDER, exist_ok=True)
    Path(archives.FOLDER, "families").write_text("\n".join([archives.contents(), *lines]))


def main() -> None:
    if sys.argv[1:2] == ["--work"]:
        sys.path.insert(0, str(Path(__file__).parent))
        return work(*sys.argv[2:5])
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cpu", action="append", choices=list(MACHINES), help="only this one; may be repeated")
    parser.add_argument("--programs", help="names of programs, with commas between them (all)")
    parser.add_argument(
        "--python", action="append", help="an interpreter to run programs with; may be repeated (this one)"
    )
    parser.add_argument("--add", action="store_true", help="to the kernels of archives that these files have made")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="programs that run side by side")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a program")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--remove", action="store_true")
    options = parser.parse_args()
    from flambeau._kernel.building import archives

    if options.list or options.remove:
        for path in sorted(Path(archives.FOLDER).glob("*")):
            state = (
                "removed" if options.remove else "by these files" if archives.made_here(str(path)) else "by older files"
            )
            print(f"{path.name:24} {path.stat().st_size / 1e6:.2f} MB, {state}")
            if options.remove:
                path.unlink()
        return None
    list_families()
    import shipped_programs

    # what is added is for another interpreter, unless it is named
    usual = FURTHER if options.add else shipped_programs.PROGRAMS
    programs = options.programs.split(",") if options.programs else list(usual)
    if unknown := set(programs) - set(shipped_programs.PROGRAMS):
        parser.error(f"no such programs: {', '.join(sorted(unknown))}")
    wanted = options.cpu or [cpu for cpu, machine in MACHINES.items() if HERE in ("aarch64", machine)]
    for cpu in wanted:
        ship(cpu, options.python or [sys.executable], programs, options.jobs, options.timeout, options.add)
    return None


if __name__ == "__main__":
    main()
