"""Mistakes that type checkers find, one in every line with a comment. It is checked, not run."""

# ruff: noqa: B018

import flambeau as torch
import flambeau.nn as nn
import flambeau.nn.functional as F
from flambeau import optim

x = torch.randn(3, 4)
torch.sofmax(x, dim=1)  # misspelt function
x.sqeeze(0)  # misspelt method
x.sum(dims=1)  # misspelt argument
torch.cat(x, y=0)  # wrong keyword
x + "one"  # wrong type of an operand
F.cross_entropyy(x, x)  # misspelt functional
nn.Liner(3, 4)  # misspelt layer
torch.zeros(3, dtype="float32")  # wrong type
nn.Linear(3, out=4)  # misspelt argument of a layer
optim.Adam(nn.Linear(3, 4).parameters(), learning_rate=0.1)  # misspelt argument of an optimizer
x.view("a", 3)  # wrong arguments
torch.matmul(x)  # missing argument
x.transpose(0)  # wrong arguments
y: str = x.mean()  # wrong use of result
torch.linalg.svdd(x)  # misspelt function of a module
x.shap  # misspelt property
torch.arange(10, device=3.5)  # wrong arguments
torch.max(x, dim=0).value  # misspelt field
F.relu(x, in_place=True)  # wrong arguments
nn.functional.softmax(x, axis_=1)  # wrong arguments
x.to("cpu", dtyp=torch.float32)  # wrong arguments
torch.floot32  # misspelt dtype
