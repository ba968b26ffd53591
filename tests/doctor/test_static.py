"""The reading part on forms that programs of others have: each was a false alarm, a miss or a crash once."""

import textwrap

import pytest

from flambeau.doctor.findings import Findings
from flambeau.doctor.static import read


def found(text, path):
    path.write_text(textwrap.dedent(text))
    kept = Findings()
    for finding in read(str(path)):
        kept.add(finding)
    return [(f.id, f.line) for f in kept.listed()]


ACCELERATED = """\
    import torch
    from accelerate import Accelerator

    accelerator = Accelerator()
    model, opt, loader = accelerator.prepare(make_model(), make_optimizer(), make_loader())
    optimizer = torch.optim.AdamW(model.parameters())
    total = 0
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        loss = loss / 4
        accelerator.backward(loss)
        total += loss.item()
        if step % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_losses_that_are_given_to_backward(tmp_path):
    assert found(ACCELERATED, tmp_path / "a.py") == []
    undivided = ACCELERATED.replace("    loss = loss / 4\n    ", "")
    assert found(undivided, tmp_path / "b.py") == [("undivided-accumulation", 10)]
    kept = ACCELERATED.replace("loss.item()", "loss")
    assert found(kept, tmp_path / "c.py") == [("graph-kept-by-logging", 12)]


def test_a_loss_of_the_same_name_in_the_evaluation(tmp_path):
    program = """\
        import torch
        model = torch.nn.Linear(2, 1)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        for epoch in range(3):
            for x in train:
                opt.zero_grad()
                loss = model(x).mean()
                loss.backward()
                opt.step()
            losses = []
            for x in validation:
                with torch.no_grad():
                    out = model(x)
                loss = out.mean()
                losses.append(loss)
            print(sum(losses))
    """
    assert found(program, tmp_path / "a.py") == []
    wrong = program.replace(
        "        opt.step()\n            losses = []", "        losses.append(loss)\n                opt.step()"
    )
    assert ("graph-kept-by-logging", 9) in found(wrong, tmp_path / "b.py")


def test_arrays_in_files_have_no_device(tmp_path):
    program = """\
        import torch
        data = torch.load("traindata.pt")
        x = torch.from_numpy(data[3:, :-1])
    """
    assert found(program, tmp_path / "a.py") == []
    assert found(program.replace("torch.from_numpy(data[3:, :-1])", "data * 2"), tmp_path / "b.py") == [
        ("load-without-map-location", 2)
    ]


@pytest.mark.parametrize(
    "grow", ["layers = layers + [nn.Linear(3, 3)]", "layers += [nn.Linear(3, 3)]", "layers = list(layers)"]
)
def test_lists_that_are_made_from_themselves(tmp_path, grow):
    program = f"""\
        from torch import nn
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                layers = []
                for _ in range(3):
                    {grow}
                    layers = layers + layers
                self.model = nn.Sequential(*layers)
                self.other = layers
            def forward(self, x):
                return self.model(x)
    """
    assert all(id == "layers-in-a-list" for id, _ in found(program, tmp_path / "a.py"))
