"""Worlds of several processes for the tests: functions of a test file run in all of them, one after the other."""

import contextlib
import importlib.metadata
import importlib.util
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile

import pytest

import flambeau

SECONDS = 240  # on a busy machine; a world takes two
_INSTALLED = {found.name for found in importlib.metadata.distributions()}
needs_mpi = pytest.mark.skipif(  # another MPI, such as the system's, would not find its world
    not {"mpi4py", "mpich"} <= _INSTALLED, reason='needs mpi4py and mpich: pip install "flambeau[distributed]"'
)


def free_port():
    """One that the system does not give to other programs meanwhile, as it might those that it finds itself."""
    for port in random.SystemRandom().sample(range(20_000, 32_000), 100):
        with socket.socket() as found, contextlib.suppress(OSError):
            found.bind(("", port))
            return port
    raise OSError("no port is free")


def environment(**more):
    """That of this process, in which flambeau is found."""
    root = str(pathlib.Path(flambeau.__file__).parent.parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]), **more}


def run(path, names, size):
    """Calls functions of a file, by their names, as f(rank, size) in `size` processes of one world.

    The first that raises ends the world; the error shows what all processes wrote.
    """
    shared = {"WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, __file__, str(path), *names]
    with tempfile.TemporaryFile("w+") as out:
        processes = [
            subprocess.Popen(command, env=environment(RANK=str(rank), **shared), stdout=out, stderr=subprocess.STDOUT)
            for rank in range(size)
        ]
        try:
            codes = [process.wait(SECONDS) for process in processes]
        finally:
            for process in processes:
                process.kill()
                process.wait()
        out.seek(0)
        assert codes == [0] * size, f"exit codes {codes}\n{out.read()}"


if __name__ == "__main__":
    import flambeau.distributed as dist

    spec = importlib.util.spec_from_file_location("worlds", sys.argv[1])
    functions = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(pathlib.Path(__file__).parent))
    spec.loader.exec_module(functions)
    dist.init_process_group("gloo")
    for name in sys.argv[2:]:
        getattr(functions, name)(dist.get_rank(), dist.get_world_size())
        dist.barrier()
    dist.destroy_process_group()
