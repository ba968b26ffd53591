import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = nn.Linear(3, 1).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(enabled=device == "cuda")
for _ in range(4):
    x = torch.randn(4, 3, device=device)
    opt.zero_grad()
    with torch.autocast(device, dtype=torch.float16, enabled=device == "cuda"):
        loss = net(x).pow(2).mean()
    scaler.scale(loss).backward()
    #+ scaler.unscale_(opt)
    nn.utils.clip_grad_norm_(net.parameters(), 1.0)  #! clipping-order
    scaler.step(opt)
    scaler.update()
