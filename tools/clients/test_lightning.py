"""Lightning: `Trainer.fit` of two epochs, checkpoints, callbacks, precision, manual steps, Fabric."""

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytestmark = pytest.mark.filterwarnings("ignore")


class Classifier(L.LightningModule):
    def __init__(self, hidden=16, rate=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Linear(8, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Dropout(0.1), nn.Linear(hidden, 2)
        )
        self.losses = []

    def training_step(self, batch, index):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        self.losses.append(loss.item())
        return loss

    def validation_step(self, batch, index):
        out = self.net(batch[0])
        self.log("val_loss", nn.functional.cross_entropy(out, batch[1]))
        self.log("val_accuracy", (out.argmax(1) == batch[1]).float().mean())

    test_step = validation_step

    def predict_step(self, batch, index):
        return self.net(batch[0]).argmax(1)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=self.hparams.rate, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class ByHand(Classifier):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, index):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        loss = super().training_step(batch, index)
        self.manual_backward(loss)
        optimizer.step()


class Points(L.LightningDataModule):
    def setup(self, stage):
        generator = torch.Generator().manual_seed(5)
        x = torch.randn(64, 8, generator=generator)
        self.data = TensorDataset(x, (x.sum(1) > 0).long())

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=16, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.data, batch_size=16)

    test_dataloader = predict_dataloader = val_dataloader


def trainer(folder, **options):
    options = {"max_epochs": 2, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False} | options
    return L.Trainer(accelerator="cpu", devices=1, default_root_dir=folder, log_every_n_steps=1, **options)


def metrics(trainer):
    return sorted((name, value.item()) for name, value in trainer.callback_metrics.items())


@pytest.fixture(autouse=True)
def seed():
    L.seed_everything(1)


@pytest.mark.parametrize(
    "options",
    [
        {}, {"gradient_clip_val": 1.0, "accumulate_grad_batches": 2}, {"detect_anomaly": True}, {"overfit_batches": 2},
        {"limit_train_batches": 0.5, "val_check_interval": 0.5}, {"precision": "64-true"}, {"enable_progress_bar": True},
        {"profiler": "simple"}, {"deterministic": True},
    ],
    ids=lambda options: "-".join(options) or "plain",
)  # fmt: skip
def test_fit(options, tmp_path, record_property):
    model, fitter = Classifier(), trainer(tmp_path, **options)
    fitter.fit(model, Points())
    record_property("losses", model.losses)
    record_property("metrics", metrics(fitter))
    assert fitter.current_epoch == 2


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true", "16-true"])
def test_short_precision(precision, tmp_path):
    model = Classifier()
    trainer(tmp_path, precision=precision).fit(model, Points())
    assert len(model.losses) == 8 and model.losses[-1] < model.losses[0]


def test_callbacks_checkpoint_and_going_on(tmp_path, record_property):
    kept = ModelCheckpoint(dirpath=tmp_path, monitor="val_loss", save_top_k=1, save_last=True)
    callbacks = [kept, EarlyStopping("val_loss"), LearningRateMonitor()]
    fitter = trainer(tmp_path, callbacks=callbacks, logger=CSVLogger(tmp_path), enable_checkpointing=True)
    model = Classifier()
    fitter.fit(model, datamodule=Points())
    record_property("test", sorted(fitter.test(model, Points(), verbose=False)[0].items()))
    best = Classifier.load_from_checkpoint(kept.best_model_path)
    assert best.hparams.hidden == 16
    record_property("predicted", torch.cat(fitter.predict(best, Points())).tolist())
    record_property("files", sorted(p.name for p in tmp_path.glob("*.ckpt")))
    on = trainer(tmp_path, max_epochs=3)
    again = Classifier()
    on.fit(again, Points(), ckpt_path=tmp_path / "last.ckpt")
    record_property("continued", again.losses)
    assert on.global_step == 12


def test_averaged_weights(tmp_path, record_property):
    model, fitter = Classifier(), trainer(tmp_path, callbacks=[StochasticWeightAveraging(1e-2)], max_epochs=4)
    fitter.fit(model, Points())
    record_property("losses", model.losses)


def test_by_hand(tmp_path, record_property):
    model = ByHand()
    trainer(tmp_path).fit(model, Points())
    record_property("losses", model.losses)


def test_trial_run(tmp_path):
    L.Trainer(fast_dev_run=True, accelerator="auto", default_root_dir=tmp_path).fit(Classifier(), Points())


def test_fabric(tmp_path, record_property):
    fabric = L.Fabric(accelerator="cpu")
    net = nn.Linear(8, 2)
    net, optimizer = fabric.setup(net, torch.optim.Adam(net.parameters(), lr=0.1))
    points = Points()
    points.setup("fit")
    losses = []
    for x, y in fabric.setup_dataloaders(points.train_dataloader()):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        fabric.backward(loss)
        optimizer.step()
        losses.append(loss.item())
    record_property("losses", losses)
    fabric.save(tmp_path / "state.ckpt", {"net": net, "optimizer": optimizer})
    fabric.load(tmp_path / "state.ckpt", {"net": net, "optimizer": optimizer})
