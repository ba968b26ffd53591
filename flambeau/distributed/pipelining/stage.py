"""One stage of a pipeline in this process: it computes forward and backward for parts of a batch."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ..._autograd.modes import no_grad
from ..._ops.registry import ops
from ..._tensor import Tensor
from ...autograd import backward, grad
from ...nn.modules.module import Module
from ...nn.parallel.distributed import DistributedDataParallel
from .._collectives import all_reduce
from .._groups import current
from .._kinds import ReduceOp
from ._mail import Mail
from ._pipe import PipeInfo, tensors

__all__ = ["PipelineStage", "build_stage"]


class _Run:
    """What a stage keeps of one part of the batch between its forward and its backward."""

    def __init__(self, inputs: list[Tensor], output: Any):
        self.inputs, self.output, self.outputs = inputs, output, tensors(output)
        self.loss: Tensor | None = None
        self.roots: tuple[list[Tensor], list[Tensor | None]] | None = (
            None  # for the gradients of weights, if these wait
        )


class _PipelineStageBase:
    """A stage and its links: `sources[i]` is (stage, which of its results) for the i-th input."""

    def __init__(self, submodule: Module, stage_index: int, num_stages: int, device: Any, group: Any = None):
        if stage_index >= num_stages:
            raise ValueError(f"Stage index {stage_index} is out of range of {num_stages}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.device, self.group = device, current(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        if self.group_size > num_stages:
            raise RuntimeError(
                f"Pipeline group size {self.group_size} cannot be larger than number of stages {num_stages}"
            )
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        self.sources: list[tuple[int, int]] | None = None  # None: all results of the stage before
        self.users: dict[int, list[tuple[int, int]]] = {}  # result -> (stage, which of its inputs)
        self.runs: dict[int, _Run] = {}
        self.has_backward = False

    @property
    def is_first(self) -> bool:
        """Whether the batch comes to this stage."""
        return self.stage_index == 0

    @property
    def is_last(self) -> bool:
        """Whether this stage gives the results."""
        return self.stage_index == self.num_stages - 1

    # -- forward ---------------------------------------------------------------------------------------------------

    def forward_one_chunk(self, mail: Mail, microbatch: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Computes a part of the batch and sends it on."""
        inputs: list[Tensor] = []
        if not self.is_first:
            inputs = self._received(mail, microbatch)
            args = tuple(inputs)
        with self._without_sync():
            output = self.submod(*args, **kwargs)
        run = self.runs[microbatch] = _Run(inputs, output)
        if not self.is_last:
            count = self._links(mail, microbatch, len(run.outputs))
            for i in range(count):
                out = run.outputs[i]
                wants = self.has_backward and out.requires_grad
                for target, place in self._targets(i):
                    way = (self.stage_index, target, place, microbatch, False)
                    mail.send(self._rank(target), way, out.detach(), wants)
        return output

    def _rank(self, stage: int) -> int:
        return self.stage_index_to_group_rank[stage]

    def _targets(self, result: int) -> list[tuple[int, int]]:
        return [(self.stage_index + 1, result)] if self.sources is None else self.users.get(result, [])

    def _links(self, mail: Mail, microbatch: int, count: int) -> int:
        """How many results there are for others; a stage that was not cut by `pipeline` tells the next one."""
        if self.sources is None:
            way = (self.stage_index, self.stage_index + 1, _COUNT, microbatch, False)
            mail.send(self._rank(self.stage_index + 1), way, ops.tensor([count]))
        return count

    def _received(self, mail: Mail, microbatch: int) -> list[Tensor]:
        sources = self.sources
        if sources is None:
            before = self.stage_index - 1
            told, _ = mail.receive(self._rank(before), (before, self.stage_index, _COUNT, microbatch, False), "cpu")
            sources = [(before, i) for i in range(int(told))]  # type: ignore[arg-type]
        found = []
        for place, (source, _) in enumerate(sources):
            way = (source, self.stage_index, place, microbatch, False)
            x, wants = mail.receive(self._rank(source), way, self.device)
            assert x is not None
            found.append(x.detach().requires_grad_() if wants else x)
        return found

    # -- backward --------------------------------------------------------------------------------------------------

    def _roots(self, mail: Mail, microbatch: int, run: _Run) -> tuple[list[Tensor], list[Tensor | None]]:
        """Where the backward pass of a part begins, with the gradients that came from later stages."""
        if self.is_last:
            if run.loss is None:
                raise RuntimeError(
                    "pipelining: the last stage has no loss; give the schedule a loss_fn, and step a target"
                )
            return [run.loss], [None]
        roots, gradients = list[Tensor](), list[Tensor | None]()
        for i, out in enumerate(run.outputs):
            if not out.requires_grad:
                continue
            total = None
            for target, place in self._targets(i):
                way = (target, self.stage_index, place, microbatch, True)
                g, _ = mail.receive(self._rank(target), way, self.device)
                total = g if total is None or g is None else total + g
            if total is not None:
                roots.append(out)
                gradients.append(total)
        return roots, gradients

    def _give_back(self, mail: Mail, microbatch: int, run: _Run, gradients: list[Tensor | None]) -> None:
        """Sends the gradients of a part's inputs to the stages that they came from."""
        given = iter(gradients)
        for place, x in enumerate(run.inputs):
            if x.requires_grad:
                source = self.stage_index - 1 if self.sources is None else self.sources[place][0]
                mail.send(self._rank(source), (self.stage_index, source, place, microbatch, True), next(given))

    def backward_one_chunk(self, mail: Mail, microbatch: int, last: bool = False) -> None:
        """The gradients of a part of the batch, of inputs and of weights."""
        run = self.runs.pop(microbatch)
        roots, gradients = self._roots(mail, microbatch, run)
        self._synchronize(last)
        if roots:
            backward(roots, gradients)
        self._give_back(mail, microbatch, run, [x.grad for x in run.inputs if x.requires_grad])

    def backward_input_one_chunk(self, mail: Mail, microbatch: int) -> None:
        """The gradients of inputs alone, which earlier stages wait for; those of weights come later."""
        run = self.runs[microbatch]
        roots, gradients = run.roots = self._roots(mail, microbatch, run)
        wanted = [x for x in run.inputs if x.requires_grad]
        if roots and wanted:
            found = grad(roots, wanted, gradients, retain_graph=True, allow_unused=True)
            self._give_back(mail, microbatch, run, list(found))

    def backward_weight_one_chunk(self, microbatch: int, last: bool = False) -> None:
        """The gradients of weights, whose inputs' gradients are there."""
        run = self.runs.pop(microbatch)
        assert run.roots is not None
        roots, gradients = run.roots
        weights = [p for p in self.submod.parameters() if p.requires_grad]
        self._synchronize(last)
        if roots and weights:
            backward(roots, gradients, inputs=weights)

    # -- beside other ways of training -----------------------------------------------------------------------------

    def _without_sync(self) -> Any:
        """Gradients of replicas are averaged once, after the last part."""
        replica = isinstance(self.submod, DistributedDataParallel) and self.has_backward
        return self.submod.no_sync() if replica else nullcontext()

    def _synchronize(self, last: bool) -> None:
        """Has divided modules reduce their gradients with the last part only."""
        if hasattr(self.submod, "set_requires_gradient_sync"):
            self.submod.set_requires_gradient_sync(last)
            self.submod.set_is_last_backward(last)

    def end(self, parts: int, scale: bool) -> None:
        """After the last part: gradients become means over parts (if wanted) and replicas."""
        with no_grad():
            for p in self.submod.parameters():
                if p.grad is None:
                    continue
                if scale:
                    p.grad.div_(parts)
                if isinstance(self.submod, DistributedDataParallel):
                    all_reduce(p.grad, ReduceOp.AVG, self.submod.process_group)

    def clear(self) -> None:
        """Forgets what was kept of parts."""
        self.runs.clear()

    clear_runtime_states = clear


_COUNT = 63  # the place of the message that says how many results there are


class PipelineStage(_PipelineStageBase):
    """A stage: one of `num_stages` modules, each of which takes the results of the one before.

    Shapes are found while it runs, so `input_args` and `output_args` are not needed. In a world of one process:

    >>> import flambeau as torch, flambeau.distributed as dist
    >>> from flambeau.distributed.pipelining import PipelineStage, ScheduleGPipe
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stage = PipelineStage(torch.nn.Linear(3, 1), 0, 1, torch.device("cpu"))
    >>> losses = []
    >>> out = ScheduleGPipe(stage, 2, torch.nn.MSELoss()).step(torch.ones(4, 3), target=torch.zeros(4, 1), losses=losses)
    >>> out.shape, len(losses)
    (torch.Size([4, 1]), 2)
    >>> dist.destroy_process_group()
    """

    def __init__(
        self,
        submodule: Module,
        stage_index: int,
        num_stages: int,
        device: Any,
        input_args: Any = None,
        output_args: Any = None,
        output_grads: Any = None,
        input_grads: Any = None,
        group: Any = None,
        dw_builder: Any = None,
        get_mesh: Any = None,
    ):
        super().__init__(submodule, stage_index, num_stages, device, group)
        if dw_builder is not None:
            raise NotImplementedError(
                "PipelineStage: dw_builder would delay gradients of weights; schedules do that themselves"
            )


class _PipelineStage(_PipelineStageBase):
    """A stage of a model that `pipeline` has cut: its inputs may come from any earlier stage."""

    def __init__(self, stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None):
        super().__init__(stage_module, stage_index, pipe_info.num_stages, device, group)
        self.pipe_info = pipe_info
        self.sources = list(pipe_info.links[stage_index])
        for target, sources in enumerate(pipe_info.links):
            for place, (source, result) in enumerate(sources):
                if source == stage_index:
                    self.users.setdefault(result, []).append((target, place))


def build_stage(
    stage_module: Module, stage_index: int, pipe_info: PipeInfo, device: Any, group: Any = None
) -> _PipelineStage:
    """A stage of a `Pipe`, whose module may have been changed since (wrapped, compiled)."""
    stage_module.to(device)
    return _PipelineStage(stage_module, stage_index, pipe_info, device, group)
