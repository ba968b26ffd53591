"""Mistakes in how models are written and initialised."""

from .lesson import ERROR, WARNING, Lesson

LESSONS = (
    Lesson(
        "layers-in-a-list", ERROR, "layers are kept in a plain list or dict",
        "Modules in Python's own containers are not registered: parameters(), to(), state_dict() and train() do not see them.",
        "Use nn.ModuleList or nn.ModuleDict.",
        "self.layers = [nn.Linear(8, 8) for _ in range(3)]", "self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))",
    ),
    Lesson(
        "unregistered-tensor", ERROR, "a plain tensor attribute that should be a Parameter or a buffer",
        "A tensor that is only an attribute is neither trained nor saved, and it stays behind when the model moves to another device.",
        "Use nn.Parameter(...) for what is trained, self.register_buffer(name, ...) for what is not.",
        "self.scale = torch.ones(8)", 'self.register_buffer("scale", torch.ones(8))',
    ),
    Lesson(
        "layer-made-in-forward", ERROR, "a layer with parameters is made inside forward",
        "Every call makes new random weights, which no optimizer knows: the layer never learns.",
        "Make the layer in __init__ and call it in forward.",
        "def forward(self, x):\n    return nn.Linear(8, 2)(x)", "def __init__(self):\n    super().__init__()\n    self.head = nn.Linear(8, 2)",
    ),
    Lesson(
        "missing-super-init", ERROR, "__init__ of a module does not call super().__init__()",
        "nn.Module prepares its tables of parameters there; assigning a layer before raises an error.",
        "Call super().__init__() first.",
        "def __init__(self):\n    self.fc = nn.Linear(8, 2)", "def __init__(self):\n    super().__init__()\n    self.fc = nn.Linear(8, 2)",
    ),
    Lesson(
        "calling-forward", WARNING, "model.forward(x) is called directly",
        "Only the call of the module runs its hooks (and what compilers, parallel wrappers and profilers hang there).",
        "Call the module: model(x).",
        "output = model.forward(x)", "output = model(x)",
    ),
    Lesson(
        "constant-initial-weights", ERROR, "weights are all zero or constant at the first forward",
        "Equal units compute equal values and get equal gradients: they stay equal, and the layer acts as one unit.",
        "Initialise randomly: nn.init.kaiming_uniform_, xavier_uniform_, or leave the default.",
        "nn.init.zeros_(layer.weight)", 'nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")',
    ),
    Lesson(
        "uniform-initial-weights", WARNING, "Parameter(torch.rand(...)): all positive and too large",
        "rand draws from [0, 1): outputs grow with the number of inputs and have one sign.",
        "Use torch.randn(...) scaled by the square root of the inputs, or nn.init.",
        "self.w = nn.Parameter(torch.rand(256, 256))", "self.w = nn.Parameter(torch.randn(256, 256) / 16)",
    ),
    Lesson(
        "batch-first-confusion", ERROR, "batch-major input to a recurrent layer without batch_first",
        "Without batch_first=True the first dimension is time: the layer runs over the samples of the batch as if they followed each other.",
        "Give batch_first=True, or transpose the input to (time, batch, features).",
        "nn.LSTM(8, 16)(x)  # x is (batch, time, 8)", "nn.LSTM(8, 16, batch_first=True)(x)",
    ),
    Lesson(
        "batch-of-one", ERROR, "batch norm meets a batch of one",
        "A single value has no variance: in training mode batch norm raises an error, usually at the last batch of an epoch.",
        "Give the DataLoader drop_last=True, or choose another batch size.",
        "DataLoader(data, batch_size=32, shuffle=True)  # 33 samples", "DataLoader(data, batch_size=32, shuffle=True, drop_last=True)",
    ),
    Lesson(
        "dead-relu", WARNING, "units that are zero for every input",
        "A ReLU that is always off passes no gradient: its unit never learns again.",
        "Lower the learning rate, check the initialisation and the scale of the data, or use LeakyReLU or GELU.",
        "nn.init.constant_(layer.bias, -10.0)", "nn.init.zeros_(layer.bias)",
    ),
)  # fmt: skip
