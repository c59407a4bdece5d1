"""One optimizer step: sum the gradients of micro-batches, clip, update, without waiting for the device.

A device runs behind the host, and every number that the host reads makes the host wait. So the loss stays on the device until it
is logged, and so does the check whether it is finite: from the first step whose gradient is not finite, the optimizer skips all
updates, and the host finds the weights of the step before.

Where memory runs out, the step is repeated in twice as many micro-batches: the same examples, the same gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from regard.core.errors import UserError
from regard.core.rng import seed_dropout
from regard.data.loader import AnyBatch, Loader, Work
from regard.objectives.base import Objective
from regard.training.compile import CaptureError, StepGraphs
from regard.training.config import TrainConfig
from regard.training.data_parallel import ParallelModel, full
from regard.training.optimizers import rate_on_device, set_learning_rate

WITHOUT_PLANS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
CUDNN_FIRST = [SDPBackend.CUDNN_ATTENTION, *WITHOUT_PLANS]


class StepStats(NamedTuple):
    """Statistics that are read from the device."""

    loss: float  # of a token, since the last `begin`
    norm: float  # of the last step's gradient
    first_bad_step: int  # the first step whose gradient was not finite; 0 where all were


class Stepper:
    """Takes the optimizer steps of a training, as CUDA graphs where possible."""

    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        loader: Loader,
        optimizer: torch.optim.Optimizer,
        config: TrainConfig,
        say: Callable[[str], None],
        parallel: ParallelModel | None = None,
    ) -> None:
        self.objective, self.loader, self.optimizer = objective, loader, optimizer
        self.config, self.say, self.parallel = config, say, parallel or ParallelModel(model)
        self.device = next(model.parameters()).device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.first_bad_step, self.norm, self.loss_sum = (torch.zeros((), device=self.device) for _ in range(3))
        self.tokens = 0
        self.memory = getattr(model, "segment_memory", None)  # of a model that reads streams, or none
        # Numbers of a step, on the device: a captured step can read no others.
        self.number, self.count, self.rate = (torch.zeros((), device=self.device) for _ in range(3))
        one_gpu = self.device.type == "cuda" and self.parallel.world.size == 1
        self.graphs = StepGraphs(self.device) if one_gpu and not self.config.activation_checkpointing else None

    def __call__(self, step: int, work: Work, rate: float) -> None:
        self.number.fill_(step)
        self.count.fill_(work.tokens)
        set_learning_rate(self.optimizer, rate)
        if self.graphs is None or self.loader.accumulate > 1 or len(work.batches) > 1:
            self._learn(self._gradients(step, work))
        else:
            self._replay(step, work, rate, self.graphs)
        self.tokens += work.tokens

    def _replay(self, step: int, work: Work, rate: float, recordings: StepGraphs) -> None:
        """Take a step as one launch, if its shapes are known."""

        def learn(batch: AnyBatch) -> None:
            self._learn(self._pass([batch], 0))

        self.rate.fill_(rate)
        seed_dropout(self.config.seed, step, 0, self.loader.rank)
        try:
            with self._kernels(), rate_on_device(self.optimizer, self.rate):
                recordings.learn(work.batches[0], learn)
            return
        except torch.OutOfMemoryError:
            work = self._split_further(step, 1)
        except CaptureError as error:
            self.say(
                f"steps cannot be captured as CUDA graphs ({error}); continuing without them, which is slower for small models"
            )
            self.optimizer.zero_grad(set_to_none=True)
        self.graphs = None
        self._learn(self._gradients(step, work))

    def _learn(self, loss: Tensor) -> None:
        """Clip and update from the gradients in the parameters."""
        self.norm.copy_(full(nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])))
        if self.config.clip:
            nn.utils.clip_grads_with_norm_(self.parameters, self.config.clip, self.norm)
        broken = ~(torch.isfinite(self.norm) & torch.isfinite(loss))
        self.first_bad_step.copy_(torch.where((self.first_bad_step == 0) & broken, self.number, self.first_bad_step))
        self.optimizer.found_inf = (self.first_bad_step > 0).float()  # type: ignore[attr-defined]  # fused optimizers skip where it is 1
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss_sum += loss * self.count
        if self.memory is not None:
            self.memory.commit()

    def read_stats(self) -> StepStats:
        """Return loss, gradient norm and the first step that was not finite; waits for the device."""
        loss_sum, norm, first_bad_step = torch.stack([self.loss_sum, self.norm, self.first_bad_step]).tolist()
        return StepStats(loss_sum / max(1, self.tokens), norm, int(first_bad_step))

    def begin(self) -> None:
        """Reset the sum of the loss."""
        self.loss_sum.zero_()
        self.tokens = 0

    def _gradients(self, step: int, work: Work) -> Tensor:
        """Return the loss of the step per token and leave its gradient in the parameters."""
        if len(work.batches) < self.loader.accumulate:
            work = self.loader.work(step - 1)  # prepared before memory ran out
        while True:
            try:
                with self._kernels():
                    return self._pass(work.batches, work.idle, step)
            except torch.OutOfMemoryError:
                work = self._split_further(step, len(work.batches))

    def _pass(self, batches: Sequence[AnyBatch], idle: int, step: int | None = None) -> Tensor:
        """Return the loss of these micro-batches, after backward. Dropout is seeded for each of them if `step` is given."""
        loss, world = torch.zeros((), device=self.device), self.parallel.world
        if self.memory is not None:
            self.memory.discard()  # of a step that is taken again
        for left, batch in zip(reversed(range(len(batches))), batches):
            if step is not None:
                seed_dropout(self.config.seed, step, len(batches) - left - 1, self.loader.rank)
            with self.parallel.no_sync(last=not left):
                with self._autocast():
                    total = self.parallel(self.objective, batch.to(self.device))
                total = total * (0.0 if left < idle else world.size / self.count)
                total.backward()
            loss += total.detach()
        return world.all_reduce(loss) / world.size

    def _autocast(self) -> torch.autocast:
        """Return the autocast context, without its weight cache on CUDA, since captured graphs must not read cached casts."""
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled, cache_enabled=self.device.type != "cuda")

    def _kernels(self) -> AbstractContextManager[object]:
        """Choose attention kernels: on Hopper cuDNN's is fastest, but plans for half a second for each new length."""
        if self.device.type != "cuda" or torch.cuda.get_device_capability(self.device)[0] != 9:
            return nullcontext()
        return sdpa_kernel(CUDNN_FIRST if self.loader.source.fixed_shapes else WITHOUT_PLANS, set_priority=True)

    def _split_further(self, step: int, parts: int) -> Work:
        if self.parallel.world.size > 1:  # the other processes wait for gradients and cannot repeat the step
            raise UserError(
                f"step {step} does not fit into the memory of {self.device}; run the same command again with "
                f"train.accumulate={2 * self.loader.accumulate}, which changes no sum, or with more processes."
            )
        self.optimizer.zero_grad(set_to_none=True)
        torch.cuda.empty_cache()
        self.loader.accumulate *= 2
        work = self.loader.work(step - 1)
        if len(work.batches) == parts:
            raise UserError(
                f"step {step} does not fit into the memory of {self.device}, not even one example at a time; set "
                "train.activation_checkpointing=true, lower data.maximum_tokens, or take a smaller model."
            )
        self.say(f"out of memory in step {step}: from now on {self.loader.accumulate} micro-batches a step, the same batches")
        return work
