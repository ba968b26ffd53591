import torch
import torch.nn.functional as F


def loss_of(logits, labels):
    return F.cross_entropy(logits, labels)  #! float-class-targets


torch.manual_seed(0)
labels = torch.tensor([0, 1, 1])
#+ print(loss_of(torch.randn(3, 2), labels))
print(loss_of(torch.randn(3, 2), labels.float()))  #-
