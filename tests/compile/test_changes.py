"""Ways in which modules, optimizers and the state of the process change between two calls. Each must be seen by guards."""

import types

import pytest
from changes import Block, check_compiled, check_seen, net, x

import flambeau as torch
from flambeau import nn
from flambeau.nn.utils import prune

F = nn.functional
WAYS = {}


def way(make):
    """A change that must be seen: `make` gives (function, arguments, change[, undo])."""
    WAYS[make.__name__] = make
    return make


def changed(change):
    """A way of changing a `Block`."""

    def make():
        model = Block()
        return model, (x(),), lambda: change(model)

    return make


def _set(path, value):
    def change(model):
        *owners, name = path.split(".")
        for owner in owners:
            model = getattr(model, owner)
        setattr(model, name, value)

    return changed(change)


def _run(text):
    return changed(
        lambda model: exec(text, {"model": model, "torch": torch, "nn": nn, "F": F, "types": types, "prune": prune})
    )


MODULE = {
    "training": "model.training = False",
    "eval": "model.eval()",
    "eval_of_a_submodule": "model.lin.eval()",
    "eval_of_an_element": "model.layers[1].eval()",
    "parameter_replaced": "model.lin.weight = nn.Parameter(torch.ones(4, 4))",
    "parameter_none": "model.lin.bias = None",
    "parameter_data": "model.lin.weight.data = torch.ones(4, 4)",
    "parameter_frozen": "model.lin.weight.requires_grad_(False)",
    "module_frozen": "model.requires_grad_(False)",
    "element_of_parameter_list": "model.gains[1] = nn.Parameter(torch.zeros(4))",
    "double": "model.double()",
    "half_of_one": "model.lin.half()",
    "buffer_replaced": "model.mask = torch.zeros(4)",
    "buffer_appears": "model.none = torch.ones(4)",
    "plain_tensor_replaced": "model.plain = torch.zeros(4)",
    "submodule_replaced": "model.lin = nn.Linear(4, 4)",
    "submodule_in_list_replaced": "model.layers[0] = nn.Linear(4, 4)",
    "submodule_appended": "model.layers.append(nn.Linear(4, 4))",
    "submodule_removed": "del model.layers[1]",
    "submodule_in_dict": "model.named['one'] = nn.Linear(4, 4)",
    "identity_in_its_place": "model.layers[1] = nn.Identity()",
    "forward_hook": "model.register_forward_hook(lambda *a: None)",
    "forward_hook_of_a_submodule": "model.lin.register_forward_hook(lambda m, a, out: out * 2)",
    "forward_pre_hook": "model.register_forward_pre_hook(lambda *a: None)",
    "backward_hook": "model.register_full_backward_hook(lambda *a: None)",
    "backward_pre_hook": "model.lin.register_full_backward_pre_hook(lambda *a: None)",
    "integer": "model.count = 4",
    "integer_to_float": "model.count = 3.0",
    "integer_to_bool": "model.flag = 0",
    "float": "model.ratio = 0.25",
    "text": "model.text = 'gelu'",
    "flag": "model.flag = True",
    "list_item": "model.sizes[0] = 5",
    "nested_list_item": "model.sizes[2][0] = 5",
    "list_appended": "model.sizes.append(5)",
    "list_replaced": "model.sizes = [1, 2, [5, 4]]",
    "dict_item": "model.options['bias'] = False",
    "nested_dict_item": "model.options['inner']['depth'] = 3",
    "dict_item_deleted": "del model.options['inner']['depth']",
    "list_in_tuple": "model.fixed[1][0] = 7",
    "set_member": "model.chosen.discard('a')",
    "deque": "model.queue.rotate(1)",
    "namespace": "model.setting.width = 5",
    "function_attribute": "model.activation = torch.tanh",
    "behind_a_property": "model._hidden = 2.0",
    "method_of_the_instance": "model.helper = lambda h: h",
    "forward_of_the_instance": "model.forward = lambda h: h",
    "forward_of_a_submodule": "model.lin.forward = lambda h: h",
    "forward_in_its_dictionary": "model.__dict__['forward'] = lambda h: h",
    "deleted_attribute": "del model.count",
    "class_of_the_instance": "model.__class__ = type('Other', (type(model),), {})",
    "compiled": "model.lin.compile()",
    "swapped_dictionary": "model.__dict__ = {**model.__dict__, 'count': 9}",
    "shadowed_class_attribute": "model.scale = 3.0",
    "parametrized": "nn.utils.parametrize.register_parametrization(model.lin, 'weight', nn.Identity())",
    "pruned": "prune.identity(model.lin, 'weight')",
    "meta": "model.lin.to('meta')",
}
WAYS.update({f"module_{name}": _run(text) for name, text in MODULE.items()})


def _patched(owner, name, value):
    def make():
        before = owner.__dict__.get(name)
        model = Block()
        undo = (lambda: delattr(owner, name)) if name not in owner.__dict__ else (lambda: setattr(owner, name, before))
        return model, (x(),), lambda: setattr(owner, name, value), undo

    return make


WAYS["class_attribute"] = _patched(Block, "scale", 3.0)
WAYS["method_of_the_class"] = _patched(Block, "helper", lambda self, h: h)
WAYS["property_of_the_class"] = _patched(Block, "hidden", property(lambda self: 3.0))
WAYS["forward_of_our_class"] = _patched(nn.Linear, "forward", lambda self, h: h)
WAYS["call_of_our_class"] = _patched(nn.Linear, "__call__", lambda self, h: h)
WAYS["new_getattribute"] = _patched(Block, "__getattribute__", object.__getattribute__)
WAYS["function_of_the_package"] = _patched(torch.nn.functional, "linear", lambda *a: a[0])


@way
def dictionary_of_the_class():
    return Block(), (x(),), lambda: Block.table.update(a=2), lambda: Block.table.update(a=1)


@way
def global_forward_hook():
    handles = []
    add = nn.modules.module.register_module_forward_hook
    return net(), (x(),), lambda: handles.append(add(lambda *a: None)), lambda: handles[0].remove()


@way
def global_forward_pre_hook():
    handles = []
    add = nn.modules.module.register_module_forward_pre_hook
    return net(), (x(),), lambda: handles.append(add(lambda *a: None)), lambda: handles[0].remove()


# -- optimizers ------------------------------------------------------------------------------------------------------


def _step(change):
    def make():
        model = nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(h):
            optimizer.zero_grad()
            model(h).sum().backward()
            optimizer.step()

        step(x())
        return step, (x(),), lambda: change(model, optimizer)

    return make


WAYS["learning_rate"] = _step(lambda model, optimizer: optimizer.param_groups[0].update(lr=0.01))
WAYS["momentum"] = _step(lambda model, optimizer: optimizer.param_groups[0].update(momentum=0.5))
WAYS["another_group"] = _step(
    lambda model, optimizer: optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
)
WAYS["state_forgotten"] = _step(lambda model, optimizer: optimizer.state.clear())
WAYS["state_replaced"] = _step(
    lambda model, optimizer: optimizer.state[model.weight].update(momentum_buffer=torch.zeros(3, 4))
)
WAYS["step_hook"] = _step(lambda model, optimizer: optimizer.register_step_pre_hook(lambda *a: None))
WAYS["gradient_gone"] = _step(lambda model, optimizer: setattr(model.weight, "grad", None))
WAYS["hook_of_a_parameter"] = _step(lambda model, optimizer: model.weight.register_hook(lambda g: g * 2))
WAYS["hook_after_accumulation"] = _step(
    lambda model, optimizer: model.weight.register_post_accumulate_grad_hook(lambda p: None)
)


# -- the state of the process ----------------------------------------------------------------------------------------


def _switch(change, undo):
    return lambda: (net(), (x(),), change, undo)


WAYS["default_dtype"] = _switch(
    lambda: torch.set_default_dtype(torch.float64), lambda: torch.set_default_dtype(torch.float32)
)
WAYS["default_device"] = _switch(lambda: torch.set_default_device("meta"), lambda: torch.set_default_device(None))
WAYS["grad_mode"] = _switch(lambda: torch.set_grad_enabled(False), lambda: torch.set_grad_enabled(True))
WAYS["deterministic"] = _switch(
    lambda: torch.use_deterministic_algorithms(True), lambda: torch.use_deterministic_algorithms(False)
)
WAYS["precision_of_products"] = _switch(
    lambda: torch.set_float32_matmul_precision("high"), lambda: torch.set_float32_matmul_precision("highest")
)


def _block(make):
    entered = []

    def change():
        entered.append(make())
        entered[0].__enter__()

    return _switch(change, lambda: entered.pop().__exit__(None, None, None))


WAYS["autocast"] = _block(lambda: torch.autocast("cpu", dtype=torch.bfloat16))
WAYS["inference_mode"] = _block(lambda: torch.inference_mode())
WAYS["anomaly_detection"] = _block(lambda: torch.autograd.detect_anomaly(check_nan=False))
WAYS["saved_tensors_hooks"] = _block(lambda: torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
WAYS["function_mode"] = _block(lambda: torch.overrides.TorchFunctionMode())


@way
def number_of_threads():
    before = torch.get_num_threads()
    return net(), (x(),), lambda: torch.set_num_threads(before + 1), lambda: torch.set_num_threads(before)


@pytest.mark.filterwarnings("ignore:Anomaly")
@pytest.mark.parametrize("name", WAYS)
def test_a_change_is_seen(name, compared):
    check_seen(WAYS[name])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", WAYS)
def test_a_compiled_function_gives_what_the_function_gives_now(name):
    check_compiled(WAYS[name])
