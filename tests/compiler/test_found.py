"""`flambeau run --compile`: unmodified programs print what they print eagerly, and what was compiled is said."""

import ast
import subprocess
import sys
import textwrap

import pytest

from flambeau.compiler._outline import outlined

MLP = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
criterion = nn.CrossEntropyLoss()
data = [(torch.randn(16, 8), torch.randint(0, 4, (16,))) for _ in range(10)]
for epoch in range(4):
    total = 0.0
    for i, (x, y) in enumerate(data):
        optimizer.zero_grad()
        out = model(x)
        loss = criterion(out, y)
        loss.backward()
        optimizer.step()
        total += loss.item()
        if i % 5 == 0:
            print(epoch, i, loss.item(), out.argmax(1).tolist())
    print(epoch, total)
"""
CNN = """
import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Linear(36, 3)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.norm(self.conv(x))), 2)
        self.last = x
        return self.fc(x.flatten(1))

def train(model, device, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.cross_entropy(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % 4 == 0:
            print("Train", epoch, batch_idx, loss.item(), model.last.sum().item())

@torch.no_grad()
def test(model, loader):
    model.eval()
    print("Test", sum(F.cross_entropy(model(x), y).item() for x, y in loader), [(model(x).argmax(1) == y).sum().item() for x, y in loader])

def main():
    torch.manual_seed(1)
    model = Net()
    loader = [(torch.randn(n, 1, 8, 8), torch.randint(0, 3, (n,))) for n in (8, 8, 8, 8, 8, 5)]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.7)
    for epoch in range(4):
        train(model, "cpu", loader, optimizer, epoch)
        test(model, loader)
        scheduler.step()

if __name__ == "__main__":
    main()
"""
GAN = """
import torch
from torch import nn
torch.manual_seed(2)
G = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 6))
D = nn.Sequential(nn.utils.spectral_norm(nn.Linear(6, 8)), nn.LeakyReLU(0.2), nn.Linear(8, 1))
d_optimizer = torch.optim.Adam(D.parameters(), lr=1e-3)
g_optimizer = torch.optim.Adam(G.parameters(), lr=1e-3)
bce = nn.BCEWithLogitsLoss()
ones, zeros = torch.ones(16, 1), torch.zeros(16, 1)
for step in range(40):
    real = torch.randn(16, 6) + 2
    fake = G(torch.randn(16, 4))
    d_loss = bce(D(real), ones) + bce(D(fake.detach()), zeros)
    d_optimizer.zero_grad()
    d_loss.backward()
    d_optimizer.step()
    g_loss = bce(D(fake), ones)
    g_optimizer.zero_grad()
    g_loss.backward()
    g_optimizer.step()
    if step % 10 == 9:
        print(step, d_loss.item(), g_loss.item())
x = torch.randn(16, 6, requires_grad=True)
(slope,) = torch.autograd.grad(D(x).sum(), x, create_graph=True)
(slope.norm() + D(x).square().sum()).backward()
print(slope.norm().item(), x.grad.norm().item())
"""
LSTM = """
import torch
from torch import nn

class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.lstm, self.head = nn.Embedding(9, 6), nn.LSTM(6, 8, batch_first=True), nn.Linear(8, 9)

    def forward(self, x, state):
        out, state = self.lstm(self.embedding(x), state)
        return self.head(out), state

class Trainer:
    def __init__(self):
        self.model = Tagger()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.__seen = 0

    def step(self, x, y, state):
        self.optimizer.zero_grad()
        out, state = self.model(x, state)
        loss = nn.functional.cross_entropy(out.flatten(0, 1), y.flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optimizer.step()
        return loss, tuple(s.detach() for s in state)

torch.manual_seed(3)
trainer = Trainer()
text = torch.randint(0, 9, (4, 41))
for epoch in range(6):
    state = (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8))
    for i in range(0, 40, 8):
        loss, state = trainer.step(text[:, i : i + 8], text[:, i + 1 : i + 9], state)
    print(epoch, loss.item(), state[0].sum().item())
"""
HARD = """
import torch
from torch import nn
torch.manual_seed(4)
model = nn.Sequential(nn.Linear(5, 5), nn.Tanh(), nn.Linear(5, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
history = []
try:
    for i in range(30):
        x = torch.randn(7 + i % 2, 5)
        loss = model(x).square().mean()
        if loss.item() > 0.2:
            loss = loss * 2
        loss.backward()
        print(loss)
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
        history.append(loss.detach())
except ValueError:
    pass
print(torch.stack(history).sum().item(), sorted(name for name in dir(model[0]) if "compiled" in name))
"""
DRIVER = """
import contextlib, io, re, sys
from flambeau.compiler import _found
from flambeau._command.main import main
_found._SECONDS, _found._LOSS = 0.001, 9.0
texts, file = [], sys.argv[1]
for more in ([], ["--compile"]):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        main(["run", *more, file])
    texts.append(re.sub(r"\\d+\\.\\d+", lambda n: f"{float(n[0]):.5g}", out.getvalue()))  # fused losses add in another order
assert texts[0] and texts[0] == texts[1], texts
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "program, said",
    [(MLP, "prog.py:12: training step: compiled"), (CNN, "prog.py:19: training step: compiled"), (GAN, "prog.py:13: training step: compiled"),
     (LSTM, "prog.py:21: training step: compiled"), (HARD, "training step not compiled as a whole")],
    ids=["mlp", "cnn", "gan", "lstm", "hard"],
)  # fmt: skip
def test_programs_print_the_same(program, said, tmp_path):
    file = tmp_path / "prog.py"
    file.write_text(program)
    ran = subprocess.run(
        [sys.executable, "-c", DRIVER, str(file)], capture_output=True, text=True, env=_environment(), timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert said in ran.stderr, ran.stderr


def _environment():
    import os

    import flambeau

    root = os.path.dirname(os.path.dirname(os.path.abspath(flambeau.__file__)))
    return {**os.environ, "PYTHONPATH": root}


def steps(text):
    """The program with its steps taken out, and why others were not."""
    tree = ast.parse(textwrap.dedent(text))
    found = outlined(tree, "tried")
    return ast.unparse(tree), [step.refused for step in found]


def test_a_step_takes_what_it_reads_and_gives_what_is_read_later():
    text, refused = steps(
        """
        for x, y in data:
            optimizer.zero_grad()
            out = model(x)
            loss = f(out, y)
            loss.backward()
            optimizer.step()
            print(loss)
        """
    )
    assert refused == [""]
    assert "def __step_3__(x, y):" in text and "return (loss,)" in text and "loss, = __step_3__(x, y)" in text


def test_names_of_functions_are_handed_over():
    text, refused = steps(
        """
        def train(model, loader):
            total = 0
            for x, in loader:
                total = total + model(x)
                total.backward()
            return total
        """
    )
    assert refused == [""] and "total, = __step_5__(model, total, x)" in text


@pytest.mark.parametrize(
    "body, reason",
    [
        ("loss = f(x)\n    loss.backward()\n    if loss > 1: late = 2", ""),  # the step ends before it
        ("if x: z = 1\n    loss = f(x, z)\n    loss.backward()", "z may not be bound"),
        ("loss = (lambda: f(x))()\n    loss.backward()", "Lambda"),
        ("loss = f(x)\n    loss.backward() or print(1)", "reads elements"),
        ("loss = f(x, locals())\n    loss.backward()", "depends on where it stands"),
        ("loss = yield x\n    loss.backward()", "Yield"),
    ],
)
def test_what_must_stay_where_it_is(body, reason):
    _, refused = steps(f"def g(x):\n    {body}\n")
    assert len(refused) == 1 and (reason in refused[0] if reason else not refused[0])
    text, refused = steps(
        "try:\n    for x in d:\n        loss = f(x)\n        loss.backward()\nexcept ValueError:\n    print(loss)"
    )
    assert "caught" in refused[0] and "__step" not in text
