"""transformers' Trainer in processes that torchrun started."""

import json
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

torch.manual_seed(0)
config = BertConfig(
    vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
    max_position_embeddings=16, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
)  # fmt: skip
ids = torch.randint(0, 50, (64, 8), generator=torch.Generator().manual_seed(1))
mask = torch.ones(8, dtype=torch.long)
data = [{"input_ids": row, "attention_mask": mask, "labels": int(row.sum() % 2)} for row in ids]
options = TrainingArguments(
    tempfile.mkdtemp(), use_cpu=True, num_train_epochs=2, per_device_train_batch_size=4, logging_steps=4, report_to=[],
    save_strategy="no", disable_tqdm=True, learning_rate=1e-3,
)  # fmt: skip
trainer = Trainer(BertForSequenceClassification(config), options, train_dataset=data, eval_dataset=data[:16])
losses = trainer.train().training_loss, trainer.evaluate()["eval_loss"]
if trainer.is_world_process_zero():
    print("RESULT", json.dumps([options.world_size, *losses]), flush=True)
