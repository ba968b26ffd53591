import os, tempfile
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
CK = os.path.join(tempfile.mkdtemp(), "last.pth")
def fit(resume=False):
    net = nn.Linear(3, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    start = 0
    if resume:
        st = torch.load(CK, map_location="cpu", weights_only=True)
        net.load_state_dict(st["net"])  #! checkpoint-without-optimizer
        #+ opt.load_state_dict(st["opt"])
        start = st["epoch"]
    for epoch in range(start, start + 3):
        x = torch.randn(8, 3)
        opt.zero_grad()
        F.mse_loss(net(x), x[:, :1]).backward()
        opt.step()
        torch.save(dict(net=net.state_dict(), epoch=epoch + 1), CK)  #-
        #+ torch.save(dict(net=net.state_dict(), opt=opt.state_dict(), epoch=epoch + 1), CK)
fit()
fit(resume=True)
