import torch, torch.nn as nn

torch.manual_seed(0)
# cycle gan-ish with shared optimizer via chain and detach
import itertools

A, B = nn.Linear(3, 3), nn.Linear(3, 3)
DA, DB = nn.Linear(3, 1), nn.Linear(3, 1)
og = torch.optim.Adam(itertools.chain(A.parameters(), B.parameters()), lr=1e-3)
od = torch.optim.Adam(itertools.chain(DA.parameters(), DB.parameters()), lr=1e-3)
mse = nn.MSELoss()
for _ in range(5):
    a, b = torch.randn(4, 3), torch.randn(4, 3)
    fb, fa = A(a), B(b)
    for p in itertools.chain(DA.parameters(), DB.parameters()):
        p.requires_grad_(False)
    og.zero_grad()
    g = (
        mse(DB(fb), torch.ones(4, 1))
        + mse(DA(fa), torch.ones(4, 1))
        + nn.functional.l1_loss(B(fb), a)
        + nn.functional.l1_loss(A(fa), b)
    )
    g.backward()
    og.step()
    for p in itertools.chain(DA.parameters(), DB.parameters()):
        p.requires_grad_(True)
    od.zero_grad()
    d = (
        mse(DA(a), torch.ones(4, 1))
        + mse(DA(fa.detach()), torch.zeros(4, 1))
        + mse(DB(b), torch.ones(4, 1))
        + mse(DB(fb.detach()), torch.zeros(4, 1))
    )
    d.backward()
    od.step()
