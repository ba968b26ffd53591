import torch
class Cfg:
    def __init__(self, temperature=2):
        self.t = torch.FloatTensor(temperature)  #!- uninitialised-tensor-constructor
        #+ self.t = torch.FloatTensor([temperature])
c = Cfg()
print(torch.ones(2) / c.t.sum())
