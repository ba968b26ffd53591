"""A training program that goes on from its checkpoint, and whose second process is killed once if it is told to."""

import os
import signal
import sys

import torch
import torch.distributed as dist

folder, dies = sys.argv[1], sys.argv[2] == "die" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
dist.init_process_group("gloo")
rank, path = dist.get_rank(), os.path.join(folder, "checkpoint.pt")
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
losses = []
if os.path.exists(path):
    state = torch.load(path)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    losses = state["losses"]
for step in range(len(losses), 6):
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * step + rank))
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    if dies and rank == 1 and step == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    optimizer.step()
    dist.all_reduce(total := loss.detach().clone())
    losses.append(round(total.item(), 6))
    if rank == 0:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "losses": losses}, path)
    dist.barrier()
if rank == 0:
    os.write(1, f"losses {losses}, restarts {os.environ['TORCHELASTIC_RESTART_COUNT']}\n".encode())
dist.destroy_process_group()
