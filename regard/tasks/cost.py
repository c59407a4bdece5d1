"""What a recipe costs, before it runs and after: parameters, operations, memory, time."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

import torch

from regard.data.batches import make_batch, plan
from regard.errors import UserError
from regard.families.transformer import count
from regard.model.count import Part
from regard.objective.translation import TranslationLoss
from regard.recipe import Recipe
from regard.tasks.translate import Prepared
from regard.tasks.translator import Tokenizers, build_model
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


@dataclass(frozen=True)
class Estimate:
    parameters: int
    bytes: int
    seconds: float
    flops: float
    batches_per_epoch: int

    def lines(self, recipe: Recipe) -> list[str]:
        steps = recipe.train.steps
        return [
            f"parameters        {self.parameters:,}",
            f"training memory   about {self.bytes / 2**20:,.0f} MiB (weights, gradients, Adam, activations of one micro-batch)",
            f"batches an epoch  {self.batches_per_epoch:,}; {steps:,} steps are {steps / self.batches_per_epoch:.1f} epochs",
            f"operations        about {self.flops:.2e}",
            f"time              about {self.seconds / 60:.1f} min, from a measured part of a step on this machine",
        ]


def estimate(recipe: Recipe, prepared: Prepared, device: torch.device) -> Estimate:
    """Closed forms for size; for time, two real optimizer steps on at most 1,024 tokens, scaled up by the token count."""
    batches = plan(prepared.train, recipe.train.tokens_per_batch, recipe.train.seed, 0)
    per_batch = sum(int(prepared.train.target.lengths[rows].sum()) + len(rows) for rows in batches) / len(batches)
    tree = model_tree(recipe, prepared.tokenizers)
    rows = max(batches, key=len)
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
    tokens = recipe.train.steps * per_batch
    return Estimate(
        parameters=tree.parameters,
        bytes=BYTES_TO_TRAIN * tree.parameters + _activations(recipe, len(prepared.tokenizers.target)),
        seconds=tokens * seconds / batch.tokens,
        flops=training_flops(recipe, prepared, round(tokens)),
        batches_per_epoch=len(batches),
    )


def _activations(recipe: Recipe, vocabulary: int) -> int:
    """Bytes kept for the backward pass: about 10 vectors of width D and 2 of F a sublayer pair, and the logits three times."""
    model, tokens = recipe.model, recipe.objective.passes * recipe.train.tokens_per_batch // recipe.train.accumulate
    encoder, decoder = model.depth
    per_token = encoder * (10 * model.width + 2 * model.feedforward) + decoder * (16 * model.width + 2 * model.feedforward)
    size = 2 if recipe.train.precision == "bf16" else 4
    return tokens * (per_token * size + 3 * vocabulary * 4)
