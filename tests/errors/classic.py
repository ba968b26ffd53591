"""Classic mistakes, each as a small program that raises. `tools/compare_errors.py` asks PyTorch, too, and writes the page about them."""

SETUP = """
import torch
import torch.nn as nn
import torch.nn.functional as F
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2))
        self.classifier = nn.Linear(width, 2)
    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))
"""

CASES = {
    "the input of a linear layer has the wrong width": "model = nn.Linear(5, 2)\nmodel(torch.ones(3, 3))",
    "the classifier behind convolutions has the wrong width": "model = Net()\nmodel(torch.ones(1, 3, 8, 8))",
    "images with channels last": "model = nn.Conv2d(3, 8, 3)\nmodel(torch.ones(2, 8, 8, 3))",
    "gray images for a layer of three channels": "model = nn.Conv2d(3, 8, 3)\nmodel(torch.ones(2, 1, 8, 8))",
    "an image smaller than the kernel": "nn.Conv2d(1, 1, 5)(torch.ones(1, 1, 3, 3))",
    "too many poolings": "F.max_pool2d(torch.ones(1, 1, 1, 1), 2)",
    "shapes that do not broadcast": "torch.ones(3, 4) + torch.ones(5, 4)",
    "matrices that cannot be multiplied": "torch.ones(3, 4) @ torch.ones(3, 4)",
    "batches of matrices that cannot be multiplied": "torch.bmm(torch.ones(2, 3, 4), torch.ones(2, 3, 4))",
    "a vector for a matrix product": "torch.mm(torch.ones(3, 4), torch.ones(4))",
    "tensors of different sizes in cat": "torch.cat([torch.ones(2, 3), torch.ones(2, 4)])",
    "tensors of different sizes in stack": "torch.stack([torch.ones(3), torch.ones(4)])",
    "a view that the strides do not allow": "torch.ones(3, 4).t().view(12)",
    "a shape with a different number of elements": "torch.ones(6).view(4, 2)",
    "expanding a dimension that is not 1": "torch.ones(3, 2).expand(3, 4)",
    "a dimension that does not exist": "torch.ones(3).sum(1)",
    "an index that is too large": "torch.ones(3)[5]",
    "one index too many": "torch.ones(3)[0, 0]",
    "a mask with a different shape": "torch.ones(3, 4)[torch.ones(4, 3, dtype=torch.bool)]",
    "an index with the wrong number of dimensions in gather": "torch.gather(torch.ones(3, 4), 1, torch.zeros(3, dtype=torch.long))",
    "rows of unequal length": "torch.tensor([[1, 2], [3]])",
    "float32 times float64": "torch.ones(3, 3) @ torch.ones(3, 3, dtype=torch.float64)",
    "float64 data in a float32 layer": "nn.Linear(3, 2)(torch.ones(2, 3, dtype=torch.float64))",
    "integers in a linear layer": "nn.Linear(3, 2)(torch.ones(2, 3, dtype=torch.long))",
    "the mean of integers": "torch.ones(3, dtype=torch.long).mean()",
    "a gradient of integers": "torch.ones(3, dtype=torch.long, requires_grad=True)",
    "an in-place write of floats into integers": "x = torch.ones(3, dtype=torch.long)\nx += 0.5",
    "softmax of integers": "F.softmax(torch.ones(3, dtype=torch.long), 0)",
    "class targets with one dimension too many": "nn.CrossEntropyLoss()(torch.ones(3, 4), torch.ones(3, 1).long())",
    "class targets that are floats": "nn.CrossEntropyLoss()(torch.ones(3, 4), torch.ones(3))",
    "class targets out of range": "nn.CrossEntropyLoss()(torch.ones(3, 4), torch.tensor([0, 4, 1]))",
    "more or fewer targets than rows": "nn.CrossEntropyLoss()(torch.ones(3, 4), torch.zeros(5).long())",
    "binary cross entropy of scores": "F.binary_cross_entropy(torch.tensor([2.0]), torch.tensor([1.0]))",
    "binary targets with a different shape": "nn.BCEWithLogitsLoss()(torch.ones(4, 1), torch.ones(4))",
    "a word that the embedding does not have": "nn.Embedding(4, 2)(torch.tensor([5]))",
    "floats as indices of an embedding": "nn.Embedding(4, 2)(torch.tensor([1.0]))",
    "batch norm of a single example": "nn.BatchNorm1d(3)(torch.ones(1, 3))",
    "batch norm with a different number of features": "nn.BatchNorm1d(4)(torch.ones(2, 3))",
    "layer norm with a different width": "nn.LayerNorm(4)(torch.ones(2, 3))",
    "the wrong width into an LSTM": "nn.LSTM(4, 8)(torch.ones(5, 2, 3))",
    "a hidden state for a different batch size": "nn.LSTM(3, 8)(torch.ones(5, 2, 3), (torch.zeros(1, 4, 8), torch.zeros(1, 4, 8)))",
    "heads that do not divide the width": "nn.MultiheadAttention(10, 3)",
    "backward of a tensor without a graph": "torch.ones(3).sum().backward()",
    "backward of a vector": "(torch.ones(3, requires_grad=True) * 2).backward()",
    "backward twice": "x = torch.ones(3, requires_grad=True)\ny = (x * x).sum()\ny.backward()\ny.backward()",
    "a result that was changed in place": "x = torch.ones(3, requires_grad=True)\ny = x.exp()\ny += 1\ny.sum().backward()",
    "a leaf that is changed in place": "w = torch.ones(3, requires_grad=True)\nw -= 0.1",
    "a gradient by a tensor that was not used": "a = torch.ones(1, requires_grad=True)\nb = torch.ones(1, requires_grad=True)\ntorch.autograd.grad(a.sum(), b)",
    "a NumPy array of a tensor that needs a gradient": "torch.ones(3, requires_grad=True).numpy()",
    "a deep copy of a tensor that needs a gradient": "import copy\ncopy.deepcopy(torch.ones(3, requires_grad=True) * 2)",
    "calling item() on several elements": "torch.ones(3).item()",
    "the truth value of several elements": "if torch.ones(3) > 0:\n    pass",
    "an optimizer without parameters": "torch.optim.SGD([], lr=0.1)",
    "an optimizer of a model, not of its parameters": "torch.optim.SGD(nn.Linear(2, 2), lr=0.1)",
    "a learning rate below zero": "torch.optim.Adam([torch.ones(1, requires_grad=True)], lr=-1)",
    "a checkpoint with other names": "nn.Linear(2, 2).load_state_dict({'weigth': torch.ones(2, 2), 'bias': torch.ones(2)})",
    "a checkpoint with other shapes": "nn.Linear(2, 2).load_state_dict({'weight': torch.ones(3, 2), 'bias': torch.ones(3)})",
    "a checkpoint of a parallel model": "nn.Linear(2, 2).load_state_dict({'module.weight': torch.ones(2, 2), 'module.bias': torch.ones(2)})",
    "a module before super().__init__()": "class M(nn.Module):\n    def __init__(self):\n        self.l = nn.Linear(1, 1)\nM()",
    "a layer that does not exist": "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.fc1 = nn.Linear(1, 1)\nM().fc2",
    "a module without forward": "nn.Module()(torch.ones(1))",
    "a misspelt argument": "nn.Linear(3, 2, biass=False)",
    "a misspelt method": "torch.ones(3).reshpae(3)",
    "a matrix that has no inverse": "torch.linalg.inv(torch.zeros(2, 2))",
    "a matrix that is not positive": "torch.linalg.cholesky(-torch.eye(2))",
    "an empty dataset that is shuffled": "torch.utils.data.DataLoader([], shuffle=True)",
    "a probability that is out of range": "nn.Dropout(1.5)",
    "a list where a tensor is needed": "torch.relu([1.0, 2.0])",
    "a device that is misspelt": "torch.device('gpu')",
    "a dtype as text": "torch.ones(3, dtype='float32')",
}  # fmt: skip
