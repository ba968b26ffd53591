"""Runs a program that was written for several GPUs on processes without any: `torchrun --nproc-per-node 2 as_cpus.py PROGRAM …`.

The program stays as it is. What it asks about accelerators is answered with the CPU, device numbers mean the CPU, and NCCL is
gloo; the same on PyTorch and on flambeau, and in processes that the program spawns.
"""

import functools
import os
import runpy
import sys

import torch
import torch.distributed as dist

CPU = torch.device("cpu")


def _is_device(value):
    return type(value) is int or (isinstance(value, str) and value.startswith("cuda"))


def _on_cpu(function):
    """`Module.to(0)`, `Tensor.to(0)` and `torch.load(file, map_location="cuda:0")`."""

    @functools.wraps(function)
    def moved(*args, **kwargs):
        kwargs = {
            name: CPU if name.endswith(("device", "location")) and _is_device(v) else v for name, v in kwargs.items()
        }
        return function(args[0], *[CPU if _is_device(a) else a for a in args[1:]], **kwargs)

    return moved


def _without_devices(wrapper):
    """A wrapper of modules (DistributedDataParallel and its kind) that is not told about devices."""
    begin = wrapper.__init__

    def wrapped(self, module, *args, **options):
        begin(
            self, module, *args, **{name: v for name, v in options.items() if name not in ("device_ids", "device_id")}
        )

    wrapper.__init__ = wrapped


def install():
    """Answers for this process."""
    import torch.distributed.fsdp as fsdp

    count = lambda: int(os.environ.get("LOCAL_WORLD_SIZE", "2"))
    accelerator, cuda = torch.accelerator, torch.cuda
    accelerator.is_available = lambda: True
    accelerator.device_count = cuda.device_count = count
    accelerator.current_accelerator = lambda *args, **options: CPU
    accelerator.set_device_index = accelerator.device_index = cuda.set_device = lambda *args: None
    cuda.current_device = cuda.memory_allocated = cuda.memory_reserved = lambda *args: 0
    torch.nn.Module.to, torch.Tensor.to, torch.load = map(_on_cpu, (torch.nn.Module.to, torch.Tensor.to, torch.load))
    _without_devices(torch.nn.parallel.DistributedDataParallel)
    _without_devices(fsdp.FullyShardedDataParallel)
    start, spawn = dist.init_process_group, torch.multiprocessing.spawn
    dist.init_process_group = lambda backend=None, *args, **options: start(
        "gloo", *args, **{**options, "device_id": None}
    )
    torch.multiprocessing.spawn = lambda fn, args=(), **options: spawn(_spawned, (fn, *args), **options)


def _spawned(rank, function, *args):
    install()
    function.__globals__["init_process_group"] = dist.init_process_group  # where it was imported by its name
    function(rank, *args)


def main(program):
    install()
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    import as_cpus  # by its name, under which spawned processes find it

    sys.argv = sys.argv[1:]
    as_cpus.main(sys.argv[0])
