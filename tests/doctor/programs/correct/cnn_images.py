import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Shapes(Dataset):
    def __init__(self, n, augment=False):
        generator = torch.Generator().manual_seed(n)
        self.images = torch.rand(n, 1, 8, 8, generator=generator)
        self.labels = (self.images.mean((1, 2, 3)) > 0.5).long()
        self.augment = augment

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i]
        if self.augment and torch.rand(1) < 0.5:
            image = image.flip(-1)
        return image, self.labels[i]


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, padding=1)
        self.bn = nn.BatchNorm2d(8)
        self.fc = nn.Linear(8 * 4, 2)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.bn(self.conv2(x))), 2)
        return self.fc(torch.flatten(x, 1))


def run_epoch(model, loader, criterion, optimizer=None):
    training = optimizer is not None
    model.train(training)
    total, correct = 0.0, 0
    with torch.set_grad_enabled(training):
        for images, labels in loader:
            outputs = model(images)
            loss = criterion(outputs, labels)
            if training:
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            total += loss.item() * images.size(0)
            correct += (outputs.argmax(1) == labels).sum().item()
    return total / len(loader.dataset), correct / len(loader.dataset)


def main():
    torch.manual_seed(0)
    train_loader = DataLoader(Shapes(50, augment=True), batch_size=16, shuffle=True)
    val_loader = DataLoader(Shapes(20), batch_size=16, shuffle=False)
    model, criterion = CNN(), nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        print(epoch, run_epoch(model, train_loader, criterion, optimizer), run_epoch(model, val_loader, criterion))


if __name__ == "__main__":
    main()
