import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
net = nn.Linear(3, 1).to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
scaler = torch.amp.GradScaler(device)  #!- fp16-without-scaler
for _ in range(2):
    x = torch.randn(4, 3, device=device)
    opt.zero_grad()
    with torch.autocast(device_type=device, dtype=torch.bfloat16):
        loss = net(x).pow(2).mean()
    #+ loss.backward()
    #+ opt.step()
    scaler.scale(loss).backward()  #-
    scaler.step(opt)  #-
    scaler.update()  #-
