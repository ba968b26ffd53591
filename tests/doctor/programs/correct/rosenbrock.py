import torch
torch.manual_seed(0)
p = torch.tensor([-1.0, 1.5], requires_grad=True)
opt = torch.optim.LBFGS([p], lr=0.5, max_iter=10)
def closure():
    opt.zero_grad()
    loss = (1 - p[0]) ** 2 + 100 * (p[1] - p[0] ** 2) ** 2
    loss.backward()
    return loss
for _ in range(8):
    opt.step(closure)
print(p)
