"""The `[train]` section of a recipe, and the shorter one of a recipe for word vectors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.core.config import Bounds, Count, Fraction, check_bounds
from regard.core.errors import UserError, nearest

MAY_CHANGE = ("steps", "epochs", "minimum_steps", "warmup_limit", "accumulate", "fsdp", "snapshot_every", "threads")
"""Settings that may change when a run is resumed; all others decide its weights."""
AUTO = "auto"
"""A setting that a run chooses when it begins, by its task or its device (`runs/init_recipe.py`)."""
MOST_EPOCHS = 20
"""The most epochs that `minimum_steps` may cause."""
WarmupLimit = Annotated[float, Bounds(0, 1, above=True)]
ADAPTABLE = ("query", "key", "value", "out", "expand", "gate", "contract")
"""The matrices that `lora_targets` may name: the projections of attention, and those of the feed-forward."""
EVERY = ("validate_every", "checkpoint_every", "snapshot_every")


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """The `[train]` section of a recipe."""

    steps: int = 0  # 0: as many as train.epochs are
    epochs: float = 0.0  # times through the training data, where steps are not counted
    minimum_steps: int = 0  # on small data, repeat it more often than `epochs`, up to 20 times, to reach this many steps
    tokens_per_batch: Count = 4096  # on the longer side of a batch, padding counted
    examples_per_batch: int = 0  # at most; 0: no limit but the tokens
    accumulate: Count = 1  # micro-batches of each batch, to save memory; the gradient is the same
    optimizer: Literal["adam", "adamw", "muon"] = "adam"
    learning_rate: float = 7e-4  # at its highest
    schedule: Literal["inverse_sqrt", "cosine", "linear", "constant"] = "inverse_sqrt"
    warmup: float = 4000  # steps; below 1, this share of all
    warmup_limit: WarmupLimit = 0.25  # a warm-up in steps is at most this share of them, if a decay follows; 1 if it was typed
    beta1: Fraction = 0.9
    beta2: Fraction = 0.98
    epsilon: float = 1e-9
    weight_decay: float = 0.0  # adamw and muon; matrices, not biases and norms
    clip: float = 0.0  # largest gradient norm; 0 is off
    precision: Literal["fp32", "bf16", "auto"] = "fp32"  # auto: bf16 where the device has instructions for it
    compile: bool = False  # the blocks, into fused kernels: minutes at the start, faster for hours
    fsdp: bool = False  # of several processes each holds a part of the model and its moments (FSDP2), not a copy (DDP)
    activation_checkpointing: bool = False  # a block's activations in the backward pass: far less memory, a third more time
    lora: int = 0  # rank of adapters, which learn while the weights of `task.init_from` stay as they are; 0: all weights learn
    lora_alpha: float = 16.0  # what an adapter adds is multiplied by lora_alpha / lora
    lora_dropout: Fraction = 0.0  # of what an adapter reads
    lora_targets: tuple[str, ...] = ADAPTABLE[:4]
    seed: int = 1
    log_every: Count = 20
    validate_every: int = 500  # steps; 0: once an epoch
    checkpoint_every: int = 500  # the same
    snapshot_every: int = 0  # steps between weights in half precision, for studio to look at; 0: none
    keep: Count = 5  # checkpoints
    average: Count = 1  # average the weights of this many last checkpoints; 1 takes the best one instead
    best: Literal["auto", "nll", "accuracy", "mcc", "f1", "macro_f1", "exact", "pearson", "rouge_l"] = "auto"
    """The validation metric that chooses the best weights, the loss where it is equal; auto: the metric of the task."""
    patience: int = 0  # stop after this many validations without a better one; 0 is off

    def __post_init__(self) -> None:
        check_bounds(self, "train.")
        if self.steps < (0 if self.epochs else 1):
            raise UserError(f"train.steps={self.steps} must be at least 1, or give train.epochs.")
        for key in ("epochs", "warmup", "weight_decay", "clip", "patience", "minimum_steps", "examples_per_batch", *EVERY):
            if not 0 <= getattr(self, key) < float("inf"):
                raise UserError(f"train.{key}={getattr(self, key)} must be 0 or more, and finite.")
        for key in ("learning_rate", "epsilon"):
            if not 0 < getattr(self, key) < float("inf"):
                raise UserError(f"train.{key}={getattr(self, key)} must be a number above 0.")
        if self.weight_decay and self.optimizer == "adam":
            raise UserError(f"train.weight_decay={self.weight_decay} needs train.optimizer=adamw.")
        if self.fsdp and self.optimizer == "muon":
            raise UserError(
                "train.optimizer=muon needs whole matrices, which train.fsdp=true cuts up; set one of them otherwise."
            )
        self._check_lora()
        if self.average > self.keep:
            raise UserError(f"train.average={self.average} needs as many checkpoints kept; set train.keep={self.average}.")
        if self.decays and self.warmup_limit == 1 and self.steps and self.warmup_steps >= self.steps:
            raise UserError(
                f"train.warmup={self.warmup:g} leaves nothing of train.steps={self.steps} for the {self.schedule} decay; "
                f"set train.warmup below {self.steps}, or to a share of all steps, such as 0.1."
            )

    def _check_lora(self) -> None:
        if self.lora < 0:
            raise UserError(f"train.lora={self.lora} is the rank of adapters: give 1 or more, such as 8, or 0 for none.")
        for key in ("lora_alpha", "lora_dropout", "lora_targets"):
            if not self.lora and (value := getattr(self, key)) != getattr(type(self), key):
                shown = ",".join(value) if isinstance(value, tuple) else value
                raise UserError(f"train.{key}={shown} is for adapters; give train.lora=8 too, or leave it out.")
        if not 0 < self.lora_alpha < float("inf"):
            raise UserError(f"train.lora_alpha={self.lora_alpha} must be a number above 0, such as 16.")
        if unknown := [name for name in self.lora_targets if name not in ADAPTABLE]:
            raise UserError(f"train.lora_targets={unknown[0]} is no matrix of a block{nearest(unknown[0], ADAPTABLE)}")
        if not self.lora_targets:
            raise UserError(f"train.lora_targets names no matrix; give some of: {', '.join(ADAPTABLE)}.")
        if self.lora and self.optimizer == "muon":
            raise UserError(
                f"train.optimizer=muon is for whole matrices, and with train.lora={self.lora} only thin ones learn; give "
                "train.optimizer=adamw."
            )

    @property
    def lora_scale(self) -> float:
        """Return what the product of an adapter's matrices is multiplied by; 0 without adapters."""
        return self.lora_alpha / self.lora if self.lora else 0.0

    def steps_of(self, batches: int) -> int:
        """Return the steps of all epochs, of this many batches each; at least `minimum_steps`, in up to 20 epochs.

        Mosbach et al. 2021, On the stability of fine-tuning BERT: on small sets three epochs are too few steps, and 20 are not.
        """
        return max(1, round(self.epochs * batches), min(self.minimum_steps, MOST_EPOCHS * batches))

    @property
    def decays(self) -> bool:
        """Return whether the learning rate falls to zero at the last step, so that a warm-up must leave steps for the decay."""
        return self.schedule in ("cosine", "linear")

    @property
    def warmup_steps(self) -> int:
        """Steps until the learning rate is at its highest."""
        if self.warmup < 1:
            return round(self.warmup * self.steps)
        return round(min(self.warmup, self.warmup_limit * self.steps) if self.decays else self.warmup)


@dataclass(frozen=True, kw_only=True)
class WordVectorTrainConfig:
    """The `[train]` section of a recipe for word vectors."""

    epochs: Count = 5  # times through the text, or through the counts
    learning_rate: float = 0.025  # at the beginning
    schedule: Literal["linear", "constant"] = "linear"  # falls to zero, or stays; AdaGrad lowers its steps by itself
    batch: Count = 1024  # words, or co-occurrence counts, of one step
    threads: int = 0  # 0: as many as there are cores; the result is the same with any number
    seed: int = 1
    log_every: Count = 200  # steps
    checkpoint_every: Count = 5000  # steps
    keep: Count = 2  # checkpoints

    # Settings of other trainings, fixed here.
    precision, fsdp, average, best = "fp32", False, 1, "nll"

    def __post_init__(self) -> None:
        check_bounds(self, "train.")
        if not 0 <= self.threads <= 1024:
            raise UserError(f"train.threads={self.threads} must be from 0 (as many as there are cores) to 1,024.")
        if not 0 < self.learning_rate < float("inf"):
            raise UserError(f"train.learning_rate={self.learning_rate} must be a number above 0.")
