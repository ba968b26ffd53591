import torch, torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(42)


def get(n=60):
    x = torch.randn(n, 5)
    y = (x @ torch.randn(5) > 0).float()
    return TensorDataset(x, y)


ds = get()
tr, va, te = random_split(ds, [40, 10, 10], generator=torch.Generator().manual_seed(42))
dls = {k: DataLoader(d, batch_size=10, shuffle=(k == "train")) for k, d in zip(("train", "val", "test"), (tr, va, te))}
m = nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Dropout(0.1), nn.Linear(10, 1))
o = torch.optim.AdamW(m.parameters(), lr=1e-2)
crit = nn.BCEWithLogitsLoss()
for e in range(3):
    for phase in ("train", "val"):
        m.train() if phase == "train" else m.eval()
        tot = n = 0
        for x, y in dls[phase]:
            o.zero_grad()
            with torch.set_grad_enabled(phase == "train"):
                out = m(x).squeeze(-1)
                loss = crit(out, y)
                if phase == "train":
                    loss.backward()
                    o.step()
            tot += loss.item() * x.size(0)
            n += x.size(0)
        print(phase, tot / n)
