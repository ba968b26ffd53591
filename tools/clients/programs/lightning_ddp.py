"""Lightning's Trainer with `strategy="ddp"`, which starts the second process itself."""

import json

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))

    def training_step(self, batch, index):
        loss = nn.functional.mse_loss(self.net(batch[0]), batch[1])
        self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch, index):
        self.log("val", nn.functional.mse_loss(self.net(batch[0]), batch[1]), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    L.seed_everything(1)
    x = torch.randn(64, 8)
    data = TensorDataset(x, x.sum(1, keepdim=True))
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    trainer = L.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=2, log_every_n_steps=1, **quiet)
    trainer.fit(Net(), DataLoader(data, batch_size=8), DataLoader(data, batch_size=8))
    if trainer.is_global_zero:
        print("RESULT", json.dumps([2, *(float(v) for v in trainer.callback_metrics.values())]), flush=True)
