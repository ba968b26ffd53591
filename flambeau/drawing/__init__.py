"""What people would rather see than read: tables of models, pictures of memory and of models, curves in a terminal.

>>> import flambeau as torch
>>> from flambeau.drawing import draw, summary
>>> print(summary(torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.ReLU()), torch.ones(3, 4)))
module         input   output  parameters
-----------------------------------------
Sequential     [3, 4]  [3, 2]          10
  0: Linear    [3, 4]  [3, 2]          10
  1: ReLU      [3, 2]  [3, 2]           0
-----------------------------------------
10 parameters, 10 trained, 40 bytes
>>> draw(torch.arange(6).view(2, 3).t()).startswith("<svg")
True
"""

from .curves import curve
from .models import Summary, summary
from .pictures import Picture, draw

__all__ = ["Picture", "Summary", "curve", "draw", "summary"]
