import torch
import torch.nn as nn
torch.manual_seed(0)
net = nn.Linear(4, 1)
opt = torch.optim.SGD(net.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cpu")
for _ in range(5):
    x = torch.randn(6, 4)
    opt.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = net(x).float().pow(2).mean()
    scaler.scale(loss).backward()
    #+ scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  #! clipping-order
    scaler.step(opt)
    scaler.update()
