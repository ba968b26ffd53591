"""A program for the launcher: a PyTorch program, which runs through the alias."""

import os
import signal
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.elastic.multiprocessing.errors import record


@record
def main():
    what, first = sys.argv[-1], os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
    if what == "sleep":
        signal.signal(signal.SIGTERM, lambda *_: (os.write(1, b"told to end\n"), os._exit(3)))
        os.write(1, b"ready\n")
        time.sleep(100)
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    x = torch.tensor([rank + 1.0])
    dist.all_reduce(x)
    if what == "unwaited":  # the program ends while calls are under way
        main.kept = [dist.all_reduce(torch.ones(1 << 20), async_op=True) for _ in range(8)]
        return
    if rank == 1 and what == "fail":
        raise ValueError("something is wrong here")
    if rank == 1 and what == "die" and first:
        os.kill(os.getpid(), signal.SIGKILL)
    dist.barrier()
    count = os.environ["TORCHELASTIC_RESTART_COUNT"]
    line = f"rank {rank} of {dist.get_world_size()}, local {os.environ['LOCAL_RANK']}: {x.item():g}, restarts {count}\n"
    os.write(1, line.encode())
    dist.destroy_process_group()


main()
