import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Trainer:
    def __init__(self, model, train_loader, test_loader):
        self.model = model
        self.train_loader, self.test_loader = train_loader, test_loader
        self.opt = torch.optim.Adam(model.parameters(), lr=1e-3)
        self.loss = nn.CrossEntropyLoss()

    def fit(self, epochs):
        for _ in range(epochs):
            self.model.train()
            for x, y in self.train_loader:
                self.opt.zero_grad()
                self.loss(self.model(x), y).backward()
                self.opt.step()
            self.test()

    def test(self):
        #+ self.model.eval()
        hits = 0
        with torch.inference_mode():
            for x, y in self.test_loader:
                _, guess = torch.max(self.model(x), 1)  #! missing-eval
                hits += (guess == y).sum()
        print(int(hits))


torch.manual_seed(0)
data = TensorDataset(torch.randn(32, 4), torch.randint(0, 2, (32,)))
net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
Trainer(net, DataLoader(data, batch_size=8, shuffle=True), DataLoader(data, batch_size=8)).fit(2)
