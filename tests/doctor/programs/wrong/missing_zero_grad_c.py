import torch

torch.manual_seed(0)
w = torch.zeros(3, requires_grad=True)
x = torch.randn(16, 3)
y = x @ torch.tensor([1.0, 2.0, 3.0])
for _ in range(5):
    loss = ((x @ w - y) ** 2).mean()
    loss.backward()  #! missing-zero-grad
    with torch.no_grad():
        w -= 0.1 * w.grad
        #+ w.grad = None
