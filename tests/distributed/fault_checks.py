"""What processes see when one of them is late, gives something else or dies; `test_faults.py` runs it. Every process prints one line for each."""

import os
import signal
import sys
import time
from datetime import timedelta

import flambeau as torch
import flambeau.distributed as dist


def seen(what, call):
    start = time.monotonic()
    try:
        call()
        error = "no error"
    except RuntimeError as found:
        error = f"{type(found).__name__}: {found}"
    print(f"{what} | rank {dist.get_rank()} | {time.monotonic() - start:.1f} | {error}", flush=True)


def main(victim):
    dist.init_process_group("gloo", timeout=timedelta(seconds=120))
    rank = dist.get_rank()
    with open("/proc/self/maps") as maps:
        named = [line for line in maps if "/dev/shm/mpich" in line and "(deleted)" not in line]
    print(f"memory | rank {rank} | 0 | {named}", flush=True)
    store = dist.distributed_c10d._get_default_store()
    dist.barrier()
    if rank == 1:  # comes late
        store.get("others are through")
        dist.all_reduce(torch.ones(4))
    else:
        work = dist.all_reduce(torch.ones(4), async_op=True)
        seen("late", lambda: work.wait(timedelta(seconds=1)))
        if store.add("through", 1) == dist.get_world_size() - 1:
            store.set("others are through", "yes")
    dist.barrier()
    seen("sizes", lambda: dist.all_reduce(torch.ones(3 if rank == 1 else 2)))
    seen("pieces", lambda: dist.all_gather_into_tensor(torch.ones(12 if rank else 9), torch.ones(4 if rank else 3)))
    seen("kinds", lambda: dist.all_reduce(torch.ones(2, dtype=torch.int32 if rank == 2 else torch.float32)))
    seen(
        "calls",
        lambda: dist.all_reduce(torch.ones(6)) if rank else dist.reduce_scatter_tensor(torch.ones(2), torch.ones(6)),
    )
    size, odd = dist.get_world_size(), torch.ones(3 if rank == 1 else 2)
    seen("broadcast", lambda: dist.broadcast(odd, 0))
    seen("reduce", lambda: dist.reduce(odd, 0))
    seen("gather", lambda: dist.gather(odd, [torch.ones(2)] * size if rank == 0 else None, 0))
    seen("scatter", lambda: dist.scatter(odd, [torch.ones(2)] * size if rank == 0 else None, 0))
    seen("exchange", lambda: dist.all_to_all_single(torch.ones(size, len(odd)), torch.ones(size, len(odd))))
    work = (dist.broadcast if rank == 2 else dist.all_reduce)(
        torch.ones(2), **({"src": 2} if rank == 2 else {}), async_op=True
    )
    seen("others", lambda: work.wait(timedelta(seconds=1)))
    after = torch.ones(2)
    dist.all_reduce(after)  # the group goes on
    print(f"whole | rank {rank} | 0 | {after.tolist()}", flush=True)
    dist.barrier()
    if rank == victim:
        time.sleep(0.3)
        os.kill(os.getpid(), signal.SIGKILL)
    seen("dead", lambda: dist.all_reduce(torch.ones(1 << 20)))
    seen("after", lambda: dist.barrier())


if __name__ == "__main__":
    main(int(sys.argv[1]))
