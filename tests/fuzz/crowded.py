"""Threads that do at once what programs do one after the other: `python crowded.py ROUNDS SEED`.

Some train models of their own, some add gradients to a shared one, some read batches, save and load, sort, compile kernels of
dtypes not seen before, start and end inference mode; one changes the number of threads, one forks. Results must be exact.
"""

import io
import os
import random
import signal
import sys
import threading

from attack import limit

import flambeau as torch

F = torch.nn.functional


def train(rng, shared):
    model = torch.nn.Linear(20, 3).double()
    with torch.no_grad():
        model.weight.fill_(0.1), model.bias.zero_()
    optimizer = rng.choice([torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop])(model.parameters(), lr=0.01)
    x = torch.linspace(-1, 1, 1000, dtype=torch.float64).view(50, 20)
    first = last = None
    for _ in range(10):
        loss = (model(x) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        first, last = (float(loss) if first is None else first), float(loss)
    assert last < first


def add(rng, shared):
    for _ in range(10):
        (shared * 1.0).sum().backward()
    with count_lock:
        counts[0] += 10


def large(rng, shared):
    n = rng.choice([200_000, 300_001, 1 << 18])
    x = torch.arange(n, dtype=torch.float64)
    assert float((x * 2 + 1).sum()) == float(n) * n
    assert float((torch.ones(200, 300) @ torch.ones(300, 100)).sum()) == 200 * 300 * 100
    assert torch.equal(x.flip(0).sort()[0], x)


def read(rng, shared):
    data = torch.utils.data.TensorDataset(torch.arange(100.0))
    total = sum(float(batch[0].sum()) for batch in torch.utils.data.DataLoader(data, 7, shuffle=True))
    assert total == 4950


def store(rng, shared):
    x = torch.randn(rng.randrange(1, 1000))
    file = io.BytesIO()
    torch.save({"x": x}, file)
    file.seek(0)
    assert torch.equal(torch.load(file)["x"], x)


def compile_kernels(rng, shared):
    dtype = rng.choice(
        [torch.int8, torch.uint8, torch.int16, torch.float16, torch.bfloat16, torch.int32, torch.complex64]
    )
    x = torch.ones(17).to(dtype)
    name = rng.choice(["add", "mul", "sub", "eq", "maximum", "pow"])
    if not (dtype is torch.complex64 and name == "maximum"):
        made = getattr(torch, name)(x, x)
        assert made.shape == (17,) and complex(made[0]) in (0, 1, 2)


def infer(rng, shared):
    with torch.inference_mode():
        x = torch.ones(100) * 3
        assert x.is_inference() and float(x.sum()) == 300
    with torch.no_grad():
        assert not (shared[:10] * 2).requires_grad
    y = (shared[:10] * 2).sum()
    assert y.requires_grad


def resize(rng, shared):
    torch.set_num_threads(rng.choice([1, 2, 3, 4, 8, 300]))


def fork(rng, shared):
    child = os.fork()
    if not child:
        signal.alarm(60)
        try:
            large(rng, shared)
            leaf = torch.ones(100_000, requires_grad=True)
            (leaf * 2).sum().backward()
            os._exit(0 if float(leaf.grad.sum()) == 200_000 else 3)
        finally:
            os._exit(4)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


JOBS = [train, add, add, large, large, read, store, compile_kernels, infer, resize]
counts, count_lock, errors = [0], threading.Lock(), []


def work(seed, rounds, shared):
    rng = random.Random(seed)
    for _ in range(rounds):
        job = rng.choice(JOBS)
        try:
            job(rng, shared)
        except BaseException as error:
            errors.append((job.__name__, repr(error)[:300]))


def main(rounds, seed):
    limit(8 << 30)
    shared = torch.zeros(50_000, requires_grad=True)
    threads = [threading.Thread(target=work, args=(f"{seed} {n}", rounds, shared)) for n in range(8)]
    for thread in threads:
        thread.start()
    rng = random.Random(seed)
    for _ in range(3):
        fork(rng, shared)
    for thread in threads:
        thread.join()
    assert not errors, errors[:5]
    if counts[0]:
        assert float(shared.grad.min()) == float(shared.grad.max()) == counts[0], (shared.grad.min(), counts)
    print("end", 8 * rounds)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
