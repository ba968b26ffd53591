"""Runs a program that was written for several GPUs on processes without any: `torchrun --nproc-per-node 2 as_cpus.py PROGRAM …`.

The program stays as it is. What it asks about accelerators is answered with the CPU, device numbers mean the CPU, and NCCL is
gloo; the same on PyTorch and on flambeau.
"""

import functools
import os
import runpy
import sys

import torch
import torch.distributed as dist

CPU = torch.device("cpu")


def _on_cpu(function):
    """`Module.to(0)` and `Tensor.to(0)`."""

    @functools.wraps(function)
    def moved(self, *args, **kwargs):
        args = tuple(CPU if type(a) is int or (isinstance(a, str) and a.startswith("cuda")) else a for a in args)
        return function(self, *args, **kwargs)

    return moved


def main(program):
    accelerator = torch.accelerator
    accelerator.is_available = lambda: True
    accelerator.device_count = lambda: int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    accelerator.current_accelerator = lambda *args, **options: CPU
    accelerator.set_device_index = accelerator.device_index = torch.cuda.set_device = lambda *args: None
    torch.nn.Module.to, torch.Tensor.to = _on_cpu(torch.nn.Module.to), _on_cpu(torch.Tensor.to)
    start, wrap = dist.init_process_group, torch.nn.parallel.DistributedDataParallel.__init__
    dist.init_process_group = lambda backend=None, **options: start("gloo", **{**options, "device_id": None})

    def wrapped(self, module, device_ids=None, *args, **options):
        wrap(self, module, None, *args, **options)

    torch.nn.parallel.DistributedDataParallel.__init__ = wrapped
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    main(sys.argv[0])
