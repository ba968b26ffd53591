import torch
import torch.nn.functional as F


class Trainer:
    def __init__(self, model):
        self.model = model
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.opt.zero_grad()

    def fit(self, batches):
        for x, y in batches:
            out = self.model(x)
            loss = F.cross_entropy(out, y)
            #+ self.opt.zero_grad(set_to_none=True)
            loss.backward()  #! missing-zero-grad
            self.opt.step()


def main():
    torch.manual_seed(1)
    net = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
    Trainer(net).fit([(torch.randn(8, 5), torch.randint(0, 3, (8,))) for _ in range(8)])


if __name__ == "__main__":
    main()
