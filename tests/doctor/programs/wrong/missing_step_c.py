import torch
import torch.nn as nn
import torch.nn.functional as F
class Fit:
    def __init__(self):
        self.net = nn.Linear(3, 1)
        self.opt = torch.optim.Adam(self.net.parameters())
    def run(self):
        for _ in range(6):
            x = torch.randn(4, 3)
            self.opt.zero_grad()
            loss = F.mse_loss(self.net(x), x[:, :1])
            loss.backward()  #! missing-step
            self.opt.step  #-
            #+ self.opt.step()
torch.manual_seed(0)
Fit().run()
