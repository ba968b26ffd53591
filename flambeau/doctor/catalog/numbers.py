"""Mistakes with dtypes, devices, shapes and values."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "device-mismatch", ERROR, "a tensor is on another device than the model",
        "Operations take operands of one device. Moving the model does not move batches, labels or tensors that are made on the fly.",
        "Move them: x, y = x.to(device), y.to(device); make tensors with device=x.device.",
        "model.to(device)\nfor x, y in loader:\n    output = model(x)", "for x, y in loader:\n    x, y = x.to(device), y.to(device)\n    output = model(x)",
    ),
    Lesson(
        "hard-coded-cuda", WARNING, "CUDA is asked for without a fallback",
        "The program fails on every machine without a GPU.",
        'Choose once: device = torch.device("cuda" if torch.cuda.is_available() else "cpu"), then use .to(device).',
        "model = Net().cuda()", 'device = "cuda" if torch.cuda.is_available() else "cpu"\nmodel = Net().to(device)',
    ),
    Lesson(
        "float64-data", ERROR, "float64 data go into a float32 model",
        "NumPy's floats are float64; layers of float32 refuse them, and where everything is promoted it is slow.",
        "Convert once: torch.from_numpy(a).float(), or a.astype(np.float32).",
        "x = torch.from_numpy(np.random.randn(8, 4))", "x = torch.from_numpy(np.random.randn(8, 4)).float()",
    ),
    Lesson(
        "star-for-matmul", WARNING, "`*` where a matrix product was meant",
        "`*` multiplies element by element; with square or broadcastable shapes it runs and is wrong.",
        "Use @ or torch.matmul.",
        "output = x * weight", "output = x @ weight",
    ),
    Lesson(
        "uninitialised-tensor-constructor", ERROR, "torch.Tensor(3) for a value",
        "torch.Tensor with a number makes that many uninitialised elements.",
        "Use torch.tensor(3.0) for a value, torch.empty(3) for memory.",
        "threshold = torch.Tensor(3)", "threshold = torch.tensor(3.0)",
    ),
    Lesson(
        "first-nan", ERROR, "NaN or infinity appeared",
        "From the first such value on every weight that it touches is lost.",
        "Guard the operation: clamp or add a small number before log, sqrt and divisions; lower the learning rate; clip gradients.",
        "torch.log(p)", "torch.log(p.clamp_min(1e-8))",
    ),
    Lesson(
        "exploding-gradients", WARNING, "gradients explode or vanish",
        "Steps that grow without bound destroy what was learnt; gradients near zero teach nothing.",
        "Lower the learning rate, clip gradients (clip_grad_norm_), check the initialisation, add normalisation.",
        "torch.optim.SGD(model.parameters(), lr=100.0)", "torch.optim.SGD(model.parameters(), lr=0.1)",
    ),
    Lesson(
        "python-element-loop", WARNING, "thousands of elements are read or written one by one",
        "Every indexing is a call of its own; an operation on the whole tensor is hundreds of times faster.",
        "Use operations on whole tensors (sum, cumsum, where, comparison, indexing with tensors).",
        "for i in range(len(x)):\n    total += x[i]", "total = x.sum()",
    ),
    Lesson(
        "float32-long-sum", WARNING, "a float32 running sum of millions of terms",
        "A float32 has 24 bits: beyond 16.7 million, adding 1 changes nothing any more, and small terms are lost much earlier.",
        "Add in float64 (x.sum(dtype=torch.float64)) or in a Python float.",
        "total += x.sum()  # for millions of terms", "total += x.double().sum().item()",
    ),
    Lesson(
        "benchmark-with-changing-shapes", WARNING, "cudnn.benchmark with input shapes that change",
        "Every new shape is measured again: that costs more than it wins.",
        "Set torch.backends.cudnn.benchmark = False, or pad inputs to few shapes.",
        "torch.backends.cudnn.benchmark = True", "torch.backends.cudnn.benchmark = False",
    ),
)  # fmt: skip
