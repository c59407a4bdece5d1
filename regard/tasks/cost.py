"""What a recipe costs, before it runs and after: parameters, operations, memory, time, energy."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import numpy as np
import torch

from regard.data.batches import make_batch, plan
from regard.errors import UserError
from regard.families.transformer import count
from regard.model.count import Part
from regard.objective.translation import TranslationLoss
from regard.objective.vocabulary import CHUNK_BYTES
from regard.recipe import Recipe
from regard.tasks.ledger import Ledger, grams_per_kwh, peak_flops
from regard.tasks.translate import Prepared
from regard.tasks.translator import Tokenizers, build_model
from regard.train.energy import planned
from regard.train.loop import Progress
from regard.train.optimizer import make_optimizer

BYTES_TO_TRAIN = 16  # a parameter, its gradient and two moments, four bytes each
TYPICAL = 25  # tokens in a sentence, where no data says otherwise


def model_tree(recipe: Recipe, tokenizers: Tokenizers | None = None, source: int = TYPICAL, target: int = TYPICAL) -> Part:
    """The model as a tree; without tokenizers their planned size is taken."""
    sizes = (len(tokenizers.source), len(tokenizers.target)) if tokenizers else (recipe.text.size, recipe.text.size)
    return count(recipe.model, *sizes, source, target)


def training_flops(recipe: Recipe, prepared: Prepared, target_tokens: int) -> float:
    """A backward pass costs twice a forward one; an objective may pass every batch more than once."""
    source, target = prepared.train.source.lengths.mean() + 1, prepared.train.target.lengths.mean() + 1
    tree = model_tree(recipe, prepared.tokenizers, round(source), round(target))
    return 3 * recipe.objective.passes * tree.flops * target_tokens / round(target)


def must_fit_memory(recipe: Recipe, prepared: Prepared, device: torch.device) -> None:
    """Refuse what could never be: weights, gradients and both Adam moments alone fill more than the whole memory."""
    parameters = model_tree(recipe, prepared.tokenizers).parameters
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = BYTES_TO_TRAIN * parameters
    if needed > memory:
        raise UserError(
            f"this model has {parameters:,} parameters, and training it needs at least {needed / 2**30:,.0f} GiB, but {device} "
            f"has {memory / 2**30:,.0f}; lower model.width, model.feedforward, model.layers or text.size."
        )


def spent(recipe: Recipe, prepared: Prepared, progress: Progress, device: torch.device) -> Ledger:
    """What a run has cost so far, in all its parts; the peak is that of the device it is on now."""
    return Ledger(
        steps=progress.step,
        tokens=progress.tokens,
        seconds=progress.seconds,
        flops=training_flops(recipe, prepared, progress.tokens),
        joules=progress.joules,
        metered=progress.metered,
        grams_per_kwh=grams_per_kwh(),
        peak=peak_flops(device, recipe.train.precision),
    )


@dataclass(frozen=True)
class Estimate:
    parameters: int
    bytes: int
    batches_per_epoch: int
    ledger: Ledger

    def lines(self) -> list[str]:
        ledger, epochs = self.ledger, self.ledger.steps / self.batches_per_epoch
        return [
            f"parameters        {self.parameters:,}",
            f"training memory   about {self.bytes / 2**20:,.0f} MiB (weights, gradients, Adam, activations of one micro-batch)",
            f"batches an epoch  {self.batches_per_epoch:,}; {ledger.steps:,} steps are {epochs:.1f} epochs",
            f"target tokens     about {ledger.tokens:,}",
            f"operations        about {ledger.speed()}",
            f"time              about {ledger.seconds / 60:.1f} min, from a measured part of a step on this machine",
            f"energy            about {ledger.energy()}",
        ]


def estimate(recipe: Recipe, prepared: Prepared, device: torch.device) -> Estimate:
    """Closed forms for size; for time, two real optimizer steps on at most 1,024 tokens, scaled up by the token count."""
    batches = plan(prepared.train, recipe.train.tokens_per_batch, recipe.train.seed, 0)
    per_batch = sum(int(prepared.train.target.lengths[rows].sum()) + len(rows) for rows in batches) / len(batches)
    tokens = round(recipe.train.steps * per_batch)
    parameters = model_tree(recipe, prepared.tokenizers).parameters
    seconds = tokens * _seconds_per_token(recipe, prepared, max(batches, key=len), device)
    watts, how = planned(device)
    return Estimate(
        parameters=parameters,
        bytes=BYTES_TO_TRAIN * parameters + _activations(recipe, len(prepared.tokenizers.target), device),
        batches_per_epoch=len(batches),
        ledger=Ledger(
            steps=recipe.train.steps,
            tokens=tokens,
            seconds=seconds,
            flops=training_flops(recipe, prepared, tokens),
            joules=watts * seconds,
            metered=how,
            grams_per_kwh=grams_per_kwh(),
            peak=peak_flops(device, recipe.train.precision),
        ),
    )


def _seconds_per_token(recipe: Recipe, prepared: Prepared, rows: np.ndarray, device: torch.device) -> float:
    longest = int(max(prepared.train.source.lengths[rows].max(), prepared.train.target.lengths[rows].max())) + 1
    batch = make_batch(prepared.train, rows[: max(1, 1024 // longest)]).to(device)
    model = build_model(recipe, prepared.tokenizers).to(device)
    objective, optimizer = TranslationLoss(recipe.objective), make_optimizer(model, recipe.train)
    for _ in range(2):  # the first warms up
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.train.precision == "bf16"):
            total = objective(model, batch).total
        total.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return seconds / batch.tokens


def _activations(recipe: Recipe, vocabulary: int, device: torch.device) -> int:
    """Bytes kept for the backward pass: about 10 vectors of width D and 2 of F a sublayer pair, or a block's input alone where
    the rest is computed again; and a chunk of logits three times.
    """
    model, tokens = recipe.model, recipe.objective.passes * recipe.train.tokens_per_batch // recipe.train.accumulate
    encoder, decoder = model.depth
    per_token = encoder * (10 * model.width + 2 * model.feedforward) + decoder * (16 * model.width + 2 * model.feedforward)
    if recipe.train.recompute:
        per_token = (encoder + decoder) * model.width
    size = 2 if recipe.train.precision == "bf16" else 4
    return tokens * per_token * size + 3 * min(tokens * vocabulary * 4, CHUNK_BYTES[device.type])
