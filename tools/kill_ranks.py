"""Kills a random process of a small world at a random moment, again and again, and looks at what the others say.

    python tools/kill_ranks.py [--tries 200] [--processes 3] [--seed 0] [--timeout 20]

Every other process must end in time, and its error must name the one that died. A death while the program ends may be noticed
or not. Prints a line for each try that went wrong and a table of phases; the exit status is 0 if none did.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import faulthandler
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PHASES = ["init", "store", "collective", "p2p", "backward", "checkpoint", "exit"]
SPARE = 60.0  # seconds that processes may need besides the timeout, on a busy machine


def die(phase: str) -> None:
    """In the victim: has this process killed after the given time, when its phase begins."""
    if os.environ.get("VICTIM") == os.environ["RANK"] and os.environ["PHASE"] == phase:
        wait = float(os.environ["DELAY"])
        kill = lambda: (time.sleep(wait), os.kill(os.getpid(), signal.SIGKILL))
        threading.Thread(target=kill, daemon=True).start()


def process(timeout: float) -> None:
    """One process of the world: it goes through the phases, and says how it ended."""
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    import flambeau as torch
    import flambeau.distributed as dist
    import flambeau.distributed.checkpoint as dcp

    rank, size, chosen = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"]), os.environ["PHASE"]
    rounds = lambda phase: range(100000 if chosen == phase else 2)
    Path(os.environ["FOLDER"], f"ready{rank}").touch()  # imports take long on a busy machine, and are no part of a try
    while len(list(Path(os.environ["FOLDER"]).glob("ready*"))) < size:
        time.sleep(0.01)
    try:
        die("init")
        dist.init_process_group("gloo", timeout=timedelta(seconds=timeout))
        store = dist.distributed_c10d._get_default_store()
        store.set_timeout(timedelta(seconds=timeout))
        die("store")
        for i in rounds("store"):
            store.set(f"{i}/{rank}", "here")
            for other in range(size):
                store.get(f"{i}/{other}")
            if i > 2:
                store.delete_key(f"{i - 3}/{rank}")
        die("collective")
        for i in rounds("collective"):
            dist.all_reduce(torch.ones(1 << (i % 17)))
        die("p2p")
        for i in rounds("p2p"):
            sent = dist.isend(torch.ones(1 << (i % 17)), (rank + 1) % size)
            dist.recv(torch.ones(1 << (i % 17)), (rank - 1) % size)
            sent.wait()
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.Linear(32, 64), torch.nn.ReLU(), torch.nn.Linear(64, 8))
        model = torch.nn.parallel.DistributedDataParallel(net)
        die("backward")
        for _ in rounds("backward"):
            model(torch.randn(4, 32)).sum().backward()
        die("checkpoint")
        for _ in rounds("checkpoint"):
            dcp.save({"model": net.state_dict()}, checkpoint_id=os.environ["FOLDER"] + "/checkpoint")
        die("exit")
        if random.random() < 0.5:
            dist.destroy_process_group()
        if os.environ["VICTIM"] == str(rank):
            time.sleep(random.random() * 0.05)
    except Exception as error:
        print(f"ERROR {type(error).__name__}: {' '.join(str(error).split())}", flush=True)
        sys.exit(3)
    print("DONE", flush=True)


def _free_port() -> int:
    """One that the system does not give to other programs meanwhile, as it might those that it finds itself."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("", port))
            return port
    raise OSError("no port is free")


def attempt(number: int, phase: str, victim: int, delay: float, size: int, timeout: float) -> list[str]:
    """One world; what went wrong in it."""
    port = _free_port()
    with tempfile.TemporaryDirectory() as folder:
        shared = {"WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "PHASE": phase, "VICTIM": victim,
                  "DELAY": delay, "FOLDER": folder, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}  # fmt: skip
        command = [sys.executable, __file__, "--process", "--timeout", str(timeout)]
        started = [
            subprocess.Popen(
                command, env={**os.environ, **{k: str(v) for k, v in shared.items()}, "RANK": str(r)},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            )
            for r in range(size)
        ]  # fmt: skip
        wrong = []
        for rank, each in enumerate(started):
            try:
                out, errors = each.communicate(timeout=timeout + SPARE)
            except subprocess.TimeoutExpired:
                each.send_signal(signal.SIGUSR1)  # where is it?
                time.sleep(1.0)
                each.kill()
                wrong.append(
                    f"try {number}, {phase}, victim {victim}: rank {rank} hangs: {each.communicate()[1][-3000:]}"
                )
                continue
            text = next((line for line in out.splitlines() if line.startswith(("ERROR", "DONE"))), "")
            where = f"try {number}, {phase}, victim {victim}, rank {rank}: "
            if each.returncode < 0 and not (rank == victim and each.returncode == -signal.SIGKILL):
                wrong.append(f"{where}signal {-each.returncode}: {errors[-500:]}")
            elif (
                rank != victim and phase != "exit" and f"rank {victim}" not in text and f"ranks {victim}" not in text
            ) or (rank != victim and phase == "exit" and text != "DONE" and f"rank {victim}" not in text):
                wrong.append(f"{where}{text or errors[-500:]}")
        return wrong


def main() -> int:
    """Runs the tries and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--timeout", type=float, default=20.0, help="of the calls, in seconds")
    parser.add_argument("--phases", nargs="*", default=PHASES, choices=PHASES)
    parser.add_argument("--process", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.process:
        process(chosen.timeout)
        return 0
    chance = random.Random(chosen.seed)
    counts: Any = collections.Counter()
    failed: Any = collections.Counter()
    for number in range(chosen.tries):
        phase, victim = chance.choice(chosen.phases), chance.randrange(chosen.processes)
        delay = chance.choice([0.0, chance.random() * 0.01, chance.random() * 0.3])
        wrong = attempt(number, phase, victim, delay, chosen.processes, chosen.timeout)
        counts[phase] += 1
        failed[phase] += bool(wrong)
        for line in wrong:
            print(line, flush=True)
    print("phase       tries  wrong")
    for phase in chosen.phases:
        print(f"{phase:12}{counts[phase]:5}{failed[phase]:7}")
    return 1 if sum(failed.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
