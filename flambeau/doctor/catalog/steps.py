"""Mistakes in the training loop: gradients, steps, modes, schedulers, clipping, accumulation, mixed precision."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "missing-zero-grad", ERROR, "gradients of earlier steps are still there when the next step adds to them",
        "backward() adds to .grad. Without zero_grad() every step follows the sum of all gradients so far, as if with a momentum of one.",
        "Call optimizer.zero_grad() once per step, before backward().",
        "loss.backward()\noptimizer.step()", "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
    ),
    Lesson(
        "missing-step", ERROR, "backward runs but the parameters never change",
        "Gradients alone change nothing: the optimizer's step() applies them.",
        "Call optimizer.step() after backward().",
        "optimizer.zero_grad()\nloss.backward()", "optimizer.zero_grad()\nloss.backward()\noptimizer.step()",
    ),
    Lesson(
        "missing-eval", ERROR, "dropout or batch norm is in training mode during evaluation",
        "Dropout drops units at random and batch norm uses (and changes) the statistics of the batch, so the measured figures are noisy and wrong.",
        "Call model.eval() before evaluation, and model.train() before training goes on.",
        "with torch.no_grad():\n    output = model(x)", "model.eval()\nwith torch.no_grad():\n    output = model(x)",
    ),
    Lesson(
        "missing-train", ERROR, "training goes on in eval mode after a validation",
        "In eval mode dropout is off and batch norm neither uses nor updates statistics of the batch: the network is trained without them.",
        "Call model.train() at the beginning of every training epoch.",
        "for epoch in range(9):\n    train(model)\n    model.eval()\n    validate(model)",
        "for epoch in range(9):\n    model.train()\n    train(model)\n    model.eval()\n    validate(model)",
    ),
    Lesson(
        "missing-no-grad", WARNING, "evaluation builds graphs that nobody uses",
        "Every forward pass outside of no_grad keeps its intermediate values for a backward pass that never comes: memory and time are wasted.",
        "Wrap evaluation in `with torch.no_grad():` (or torch.inference_mode()).",
        "model.eval()\nfor x, y in loader:\n    output = model(x)", "model.eval()\nwith torch.no_grad():\n    for x, y in loader:\n        output = model(x)",
    ),
    Lesson(
        "clipping-order", ERROR, "gradients are clipped at the wrong moment",
        "Clipping changes the gradients that are there: before backward there are none (or old ones), after step it is too late, and before unscale_ they are still multiplied by the scale.",
        "Clip between backward() (with a GradScaler: scaler.unscale_(optimizer)) and optimizer.step().",
        "clip_grad_norm_(model.parameters(), 1.0)\nloss.backward()\noptimizer.step()",
        "loss.backward()\nclip_grad_norm_(model.parameters(), 1.0)\noptimizer.step()",
    ),
    Lesson(
        "scheduler-cadence", WARNING, "a scheduler is stepped at another pace than it was made for",
        "OneCycleLR counts batches, StepLR and its kind count epochs; at the other pace the learning rate hardly moves, or vanishes within an epoch.",
        "Step OneCycleLR after every batch, and StepLR, MultiStepLR, ExponentialLR and ReduceLROnPlateau after every epoch.",
        "for epoch in range(epochs):\n    for x, y in loader:\n        train_step(x, y)\n        step_lr.step()",
        "for epoch in range(epochs):\n    for x, y in loader:\n        train_step(x, y)\n    step_lr.step()",
    ),
    Lesson(
        "scheduler-before-optimizer", ERROR, "scheduler.step() comes before optimizer.step()",
        "The first value of the schedule is skipped.",
        "Call optimizer.step() first, then scheduler.step().",
        "scheduler.step()\noptimizer.step()", "optimizer.step()\nscheduler.step()",
    ),
    Lesson(
        "plateau-without-metric", ERROR, "ReduceLROnPlateau without its metric, or with the removed `verbose`",
        "ReduceLROnPlateau lowers the rate when a metric stops improving: step() needs that metric. The argument `verbose` exists no more.",
        "Call scheduler.step(validation_loss); read the rate with scheduler.get_last_lr() instead of `verbose`.",
        "scheduler = ReduceLROnPlateau(optimizer)\nscheduler.step()", "scheduler = ReduceLROnPlateau(optimizer)\nscheduler.step(val_loss)",
    ),
    Lesson(
        "adam-weight-decay", WARNING, "weight_decay is given to Adam",
        "Adam adds the decay to the gradient, where it is divided by the gradient's size like the rest: weights with large gradients hardly decay. AdamW decays the weights themselves.",
        "Use torch.optim.AdamW.",
        "torch.optim.Adam(model.parameters(), weight_decay=0.01)", "torch.optim.AdamW(model.parameters(), weight_decay=0.01)",
    ),
    Lesson(
        "undivided-accumulation", WARNING, "accumulated losses are not divided by the number of batches",
        "The gradients of the small batches add up to a multiple of the mean gradient, as if the learning rate were that many times larger.",
        "Divide the loss by the number of accumulated batches before backward().",
        "loss.backward()\nif (i + 1) % 4 == 0:\n    optimizer.step()", "(loss / 4).backward()\nif (i + 1) % 4 == 0:\n    optimizer.step()",
    ),
    Lesson(
        "batchnorm-with-accumulation", WARNING, "batch norm while gradients of tiny batches are accumulated",
        "Accumulation makes the batch of the step larger, but batch norm still normalises with the statistics of each tiny batch.",
        "Use GroupNorm or LayerNorm, or larger batches.",
        "nn.BatchNorm2d(64)  # with batches of 2", "nn.GroupNorm(8, 64)",
    ),
    Lesson(
        "optimizer-misses-parameters", ERROR, "trained parameters are in no optimizer, or frozen ones are inside",
        "Parameters outside of the optimizer never change although their gradients are computed; frozen ones inside only pretend to be trained.",
        "Give the optimizer all parameters that are to be trained and no others: (p for p in model.parameters() if p.requires_grad).",
        "optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1)  # the decoder is trained, too",
        "optimizer = torch.optim.SGD([*encoder.parameters(), *decoder.parameters()], lr=0.1)",
    ),
    Lesson(
        "optimizer-of-old-parameters", ERROR, "the optimizer holds parameters that the model no longer has",
        "It was built before a layer was replaced (or the model converted), so it updates tensors that nobody uses.",
        "Build the optimizer after the model has its final layers.",
        "optimizer = torch.optim.SGD(model.parameters(), lr=0.1)\nmodel.head = nn.Linear(64, 5)",
        "model.head = nn.Linear(64, 5)\noptimizer = torch.optim.SGD(model.parameters(), lr=0.1)",
    ),
    Lesson(
        "unused-parameter", WARNING, "a parameter never gets a gradient",
        "The layer was made but forward does not use it (or the graph is cut before it): it stays as it was initialised.",
        "Use the layer in forward, or remove it.",
        "self.second = nn.Linear(8, 8)  # forward never calls it", "def forward(self, x):\n    return self.second(self.first(x))",
    ),
    Lesson(
        "fp16-without-scaler", ERROR, "float16 autocast without GradScaler, or a GradScaler with bfloat16",
        "Small gradients of float16 become zero unless the loss is scaled. bfloat16 has the range of float32 and needs no scaling.",
        "With float16 use torch.amp.GradScaler; with bfloat16 leave it out.",
        'with torch.autocast("cuda", dtype=torch.float16):\n    loss = criterion(model(x), y)\nloss.backward()\noptimizer.step()',
        'with torch.autocast("cuda", dtype=torch.float16):\n    loss = criterion(model(x), y)\nscaler.scale(loss).backward()\nscaler.step(optimizer)\nscaler.update()',
    ),
    Lesson(
        "mean-of-batch-means", WARNING, "losses of unequal batches are averaged plainly",
        "The last batch is smaller, but its mean counts as much as the others: the reported figure is not the mean over the data.",
        "Sum loss.item() * len(batch) and divide by the number of samples.",
        "total += loss.item()\n...\ntotal / len(loader)", "total += loss.item() * len(x)\n...\ntotal / len(loader.dataset)",
    ),
)  # fmt: skip
