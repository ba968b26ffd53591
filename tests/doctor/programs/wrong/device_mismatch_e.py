import torch
import torch.nn as nn
import torch.nn.functional as F
def train(model, batches, device):
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in batches:
        inputs = inputs.to(device)
        #+ labels = labels.to(device)
        opt.zero_grad()
        loss = F.cross_entropy(model(inputs), labels)  #! device-mismatch
        loss.backward()
        opt.step()
def main():
    dev = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    m = nn.Linear(3, 2)
    m.to(dev)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(16, 3), torch.randint(0, 2, (16,))), 4, shuffle=True)
    train(m, loader, dev)
main()
