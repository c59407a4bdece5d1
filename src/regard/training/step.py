"""One optimizer step: sum the micro-batches' gradients, clip, update; and never wait for the device.

A device runs behind the host, and every number the host asks for makes it wait. So the loss stays on the device until somebody
logs it, and so does the question whether it is a number: the first step whose gradient is not finite closes a gate there, the
optimizer lets nothing through any more, and the host finds the weights as they were when it looks.

Where memory runs out, the step is taken again in twice as many micro-batches: the same examples, the same sum.
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
from regard.training.config import TrainConfig
from regard.training.cuda_graphs import CannotRecord, Recordings
from regard.training.data_parallel import ParallelModel, full
from regard.training.optimizers import numbers_on_device, set_learning_rate

WITHOUT_PLANS = [SDPBackend.FLASH_ATTENTION, SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
CUDNN_FIRST = [SDPBackend.CUDNN_ATTENTION, *WITHOUT_PLANS]


class Measured(NamedTuple):
    """What the device saw."""

    loss: float  # a token, since the sums began
    norm: float  # of the last step's gradient
    burst: int  # the first step whose gradient was not finite; 0 where all were


class Stepper:
    def __init__(
        self,
        model: nn.Module,
        objective: Objective,
        loader: Loader,
        optimizer: torch.optim.Optimizer,
        config: TrainConfig,
        say: Callable[[str], None],
        spread: ParallelModel | None = None,
    ) -> None:
        self.objective, self.loader, self.optimizer = objective, loader, optimizer
        self.config, self.say, self.spread = config, say, spread or ParallelModel(model)
        self.device = next(model.parameters()).device
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.burst, self.norm, self.loss_sum = (torch.zeros((), device=self.device) for _ in range(3))
        self.tokens = 0
        # Numbers of a step, where the device finds them: a step that is recorded keeps no others.
        self.number, self.count, self.rate = (torch.zeros((), device=self.device) for _ in range(3))
        self.recordings = Recordings(self.device) if self._may_record() else None

    def _may_record(self) -> bool:
        """One process alone, and nothing that asks the host in the middle of a step."""
        return self.device.type == "cuda" and self.spread.world.size == 1 and not self.config.activation_checkpointing

    def __call__(self, step: int, work: Work, rate: float) -> None:
        self.number.fill_(step)
        self.count.fill_(work.tokens)
        set_learning_rate(self.optimizer, rate)
        if self.recordings is None or self.loader.accumulate > 1 or len(work.batches) > 1:
            self._learn(self._gradients(step, work))
        else:
            self._recorded(step, work, rate, self.recordings)
        self.tokens += work.tokens

    def _recorded(self, step: int, work: Work, rate: float, recordings: Recordings) -> None:
        """As one launch, where its shapes are known."""

        def learn(batch: AnyBatch) -> None:
            self._learn(self._pass([batch], 0))

        self.rate.fill_(rate)
        seed_dropout(self.config.seed, step, 0, self.loader.rank)
        try:
            with self._kernels(), numbers_on_device(self.optimizer, self.rate):
                recordings.learn(work.batches[0], learn)
            return
        except torch.OutOfMemoryError:
            work = self._smaller(step, 1)
        except CannotRecord as error:
            self.say(f"steps cannot be recorded as CUDA graphs ({error}); going on without, which is slower for small models")
            self.optimizer.zero_grad(set_to_none=True)
        self.recordings = None
        self._learn(self._gradients(step, work))

    def _learn(self, loss: Tensor) -> None:
        """From the gradients in the parameters."""
        self.norm.copy_(full(nn.utils.get_total_norm([p.grad for p in self.parameters if p.grad is not None])))
        if self.config.clip:
            nn.utils.clip_grads_with_norm_(self.parameters, self.config.clip, self.norm)
        broken = ~(torch.isfinite(self.norm) & torch.isfinite(loss))
        self.burst.copy_(torch.where((self.burst == 0) & broken, self.number, self.burst))
        self.optimizer.found_inf = (self.burst > 0).float()  # type: ignore[attr-defined]  # fused optimizers skip where it is 1
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.loss_sum += loss * self.count

    def measured(self) -> Measured:
        """Waits for the device."""
        loss_sum, norm, burst = torch.stack([self.loss_sum, self.norm, self.burst]).tolist()
        return Measured(loss_sum / max(1, self.tokens), norm, int(burst))

    def begin(self) -> None:
        """Sum the loss anew."""
        self.loss_sum.zero_()
        self.tokens = 0

    def _gradients(self, step: int, work: Work) -> Tensor:
        """The loss of the step a token, with its gradient in the parameters."""
        if len(work.batches) < self.loader.accumulate:
            work = self.loader.work(step - 1)  # prepared before memory ran out
        while True:
            try:
                with self._kernels():
                    return self._pass(work.batches, work.idle, step)
            except torch.OutOfMemoryError:
                work = self._smaller(step, len(work.batches))

    def _pass(self, batches: Sequence[AnyBatch], idle: int, step: int | None = None) -> Tensor:
        """Dropout is drawn anew for every micro-batch of a step; where none is named, that has been seen to."""
        loss, world = torch.zeros((), device=self.device), self.spread.world
        for left, batch in zip(reversed(range(len(batches))), batches):
            if step is not None:
                seed_dropout(self.config.seed, step, len(batches) - left - 1, self.loader.rank)
            with self.spread.alone(last=not left):
                with self._autocast():
                    total = self.spread(self.objective, batch.to(self.device))
                total = total * (0.0 if left < idle else world.size / self.count)
                total.backward()
            loss += total.detach()
        return world.total(loss) / world.size

    def _autocast(self) -> torch.autocast:
        """As steps are recorded: graphs must not read converted weights that were kept, and what is compiled has seen to it."""
        enabled = self.config.precision == "bf16"
        return torch.autocast(self.device.type, torch.bfloat16, enabled, cache_enabled=self.device.type != "cuda")

    def _kernels(self) -> AbstractContextManager[object]:
        """On Hopper cuDNN's attention beats the others, but plans for half a second whenever it meets another length."""
        if self.device.type != "cuda" or torch.cuda.get_device_capability(self.device)[0] != 9:
            return nullcontext()
        return sdpa_kernel(CUDNN_FIRST if self.loader.source.fixed_shapes else WITHOUT_PLANS, set_priority=True)

    def _smaller(self, step: int, parts: int) -> Work:
        if self.spread.world.size > 1:  # the others are waiting for gradients, and cannot be asked to begin again
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
