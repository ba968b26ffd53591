import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, update_bn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
loader = DataLoader(TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,))), batch_size=8, shuffle=True)
model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
average = AveragedModel(model)
opt = torch.optim.SGD(model.parameters(), lr=0.1)
schedule = SWALR(opt, swa_lr=0.05)
for epoch in range(3):
    for x, y in loader:
        opt.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        opt.step()
    if epoch >= 1:
        average.update_parameters(model)
        schedule.step()
update_bn(loader, average)
average.eval()
with torch.no_grad():
    print(average(torch.randn(2, 4)))
