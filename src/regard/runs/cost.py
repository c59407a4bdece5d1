"""The cost of a recipe, before it runs and after: parameters, operations, memory, time, energy, CO2, and a comparison for that.

CO2 is energy times what a kilowatt-hour emits: 445 g, the world's average in 2024 (IEA, Electricity 2025), unless
REGARD_GRAMS_CO2_PER_KWH says otherwise. MFU (model FLOPs utilisation, Chowdhery et al. 2022) is the part of the device's peak
that went into the model's own operations, and is stated only where that peak is known.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from math import log
from typing import TYPE_CHECKING, Any, cast

import torch

from regard.core.errors import UserError
from regard.data.loader import Source, bounded
from regard.families import family_of, two_tower
from regard.families.base import Heads, Sizes
from regard.families.flops import Part, on_meta
from regard.objectives.chunked_cross_entropy import CHUNK_BYTES
from regard.runs.recipe import Recipe
from regard.text.kinds import BYTE_SIZE
from regard.training.energy import JOULES_PER_KWH, planned
from regard.training.logging import clock, duration
from regard.training.lora import Counts, adapt, counted
from regard.training.optimizers import make_optimizer
from regard.training.progress import Progress

if TYPE_CHECKING:  # a model is opened without what trains one
    from regard.runs.prepared import Prepared

GRAMS_VARIABLE = "REGARD_GRAMS_CO2_PER_KWH"
WORLD_GRAMS_PER_KWH = 445.0
GRAMS_PER_POUND = 453.59237

POUNDS = {  # of CO2 equivalent; Strubell et al. 2019, table 1, as the lectures show it
    "a return flight New York-San Francisco for one": 1_984,
    "an average human life, one year": 11_023,
    "an average American life, one year": 36_156,
    "a US car, its whole life with fuel": 126_000,
    "a 213M Transformer with architecture search": 626_155,
}

PEAKS = {  # dense operations a second, by words of the device's name: with bf16 (0 where it has none), with fp32
    "H200": (989e12, 67e12),
    "H100": (989e12, 67e12),
    "H100 PCIe": (756e12, 51e12),
    "A100": (312e12, 19.5e12),
    "A10": (125e12, 31.2e12),
    "L40S": (362e12, 91.6e12),
    "L4": (121e12, 30.3e12),
    "RTX 4090": (165e12, 82.6e12),
    "RTX 3090": (71e12, 35.6e12),
    "V100 SXM2": (0, 15.7e12),
    "T4": (0, 8.1e12),
}
OTHER_CHIPS = {"Laptop", "MIG", "NVL", "Ti", "D"}  # of a like name, with another peak


@dataclass(frozen=True)
class CostReport:
    """The cost of a training that was run or is planned. `metered` says how energy was measured; empty: it was not."""

    steps: int
    tokens: int
    seconds: float
    flops: float
    joules: float
    metered: str
    grams_per_kwh: float
    peak: float | None  # operations a second
    unit: str = "target tokens"

    @property
    def watt_hours(self) -> float:
        return self.joules / JOULES_PER_KWH * 1e3

    @property
    def grams(self) -> float:
        return self.joules / JOULES_PER_KWH * self.grams_per_kwh

    @property
    def flops_per_second(self) -> float:
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def mfu(self) -> float | None:
        return self.flops_per_second / self.peak if self.peak else None

    def figures(self) -> dict[str, int | float | str | None]:
        """All of it as plain numbers, for machines."""
        return vars(self) | {
            "flops_per_second": self.flops_per_second,
            "mfu": self.mfu,
            "watt_hours": self.watt_hours,
            "grams_co2": self.grams,
        }

    def lines(self) -> list[str]:
        """All of it for people."""
        return [self.work(), self.speed(), self.energy()]

    def work(self) -> str:
        return f"{self.steps:,} steps, {self.tokens:,} {self.unit}, {clock(self.seconds)} of training"

    def speed(self) -> str:
        operations = f"{self.flops:.2e}".replace("e+", "e")
        average = f"{amount(self.flops_per_second / 1e9, 'GFLOP/s', 'TFLOP/s', 'PFLOP/s')} on average"
        share = f", {self.mfu:.1%} of the device's peak (MFU)" if self.mfu is not None else ""
        return f"{operations} floating-point operations (counted), {average}{share}"

    def energy(self) -> str:
        if not self.metered:
            return "energy was not metered"
        co2 = f"{amount(1e3 * self.grams, 'mg', 'g', 'kg', 't')} CO2 at {self.grams_per_kwh:g} g/kWh"
        return f"{amount(1e3 * self.watt_hours, 'mWh', 'Wh', 'kWh', 'MWh')} ({self.metered}), {co2}{compared(self.grams)}"


def grams_per_kwh() -> float:
    """Return the grams of CO2 a kilowatt-hour, from the environment. Read before a run, so that a wrong value costs nothing."""
    given = os.environ.get(GRAMS_VARIABLE, "").strip() or str(WORLD_GRAMS_PER_KWH)
    try:
        grams = float(given)
    except ValueError:
        grams = -1.0
    if not 0 <= grams < float("inf"):
        raise UserError(
            f"{GRAMS_VARIABLE}={given} is not a number of grams of CO2 a kilowatt-hour; unset it for the world's average, "
            f"{WORLD_GRAMS_PER_KWH:g}, or give your grid's."
        )
    return grams


def peak_flops(device: torch.device, precision: str) -> float | None:
    """Return the operations a second that a GPU's maker states; None for a GPU that is not in the table, and for every CPU."""
    return known_peak(torch.cuda.get_device_name(device), precision) if device.type == "cuda" else None


def known_peak(name: str, precision: str) -> float | None:
    """Return the peak of the longest key whose words are all in the name: `NVIDIA H100 PCIe` differs from other H100s."""
    words = set(name.replace("-", " ").split())
    found = max((key for key in PEAKS if words.issuperset(key.split())), key=len, default=None)
    if found is None or words & OTHER_CHIPS:
        return None
    return PEAKS[found][0 if precision == "bf16" else 1] or None


def amount(value: float, *units: str) -> str:
    """Three digits in the unit that suits; `value` is in the first one, and each is a thousand of the one before."""
    larger = 0
    while value >= 999.5 and larger < len(units) - 1:
        value, larger = value / 1000, larger + 1
    return f"{value:,.{2 if value < 9.995 else 1 if value < 99.95 else 0}f} {units[larger]}"


def compared(grams: float) -> str:
    """The nearest of the lectures' benchmarks in proportion; nothing compares with nothing."""
    if not grams:
        return ""
    shares = {name: grams / (pounds * GRAMS_PER_POUND) for name, pounds in POUNDS.items()}
    name, share = min(shares.items(), key=lambda item: abs(log(item[1])))
    if share >= 0.1:
        return f": {share:.2g} x {name}"
    return f": 1 / {float(f'{1 / share:.2g}'):,.0f} of {name}"


BYTES_TO_TRAIN = 16  # a parameter, its gradient and two moments, four bytes each
BYTES_TO_KEEP = 4  # a parameter that does not learn
TYPICAL = 25  # tokens in a sentence, where no data says otherwise


def typical(recipe: Recipe) -> int:
    """Return the tokens of a text to count operations for: a sentence; a window, where a model reads those; the most it reads."""
    if family_of(recipe.model).has_any("seq2seq", "word_vectors", "captioning"):
        return TYPICAL
    most = getattr(recipe.data, "maximum_tokens", 0) if recipe.task.name == "classification" else 0
    return getattr(recipe.data, "window", 0) or recipe.model.context or most or TYPICAL


def model_tree(recipe: Recipe, *sizes: int) -> Part:
    """Return the model of a recipe as a tree; without the sizes of its vocabularies, with their planned size."""
    family, sizes = family_of(recipe.model), sizes or (recipe.text.size or BYTE_SIZE,)
    if recipe.task.name == "retrieval":
        return two_tower.count(recipe.model, sizes[0], TYPICAL, TYPICAL)
    found = Sizes(vocabulary=sizes[0], target_vocabulary=sizes[-1])
    if family.has("forecasting"):
        data = recipe.data
        known, statics = len(data.known) + 2 * len(data.calendar), len(data.static)  # a category more is a vector more
        heads = Heads(words=False, channels=len(data.columns), covariates=known, statics=statics, **recipe.objective.heads)
        return family.count(recipe.model, replace(found, heads=heads), 1)
    if family.has("word_vectors"):
        found = replace(found, word_biases=recipe.objective.name == "glove")
        return family.count(recipe.model, found, round(recipe.objective.products))
    return family.count(recipe.model, found, typical(recipe))


def training_flops(prepared: Prepared, tokens: int) -> float:
    """A backward pass costs twice a forward one; an objective may pass every batch more than once."""
    tree, counted_tokens = prepared.example()
    return 3 * prepared.recipe.objective.passes * tree.flops * tokens / counted_tokens


def parameter_counts(prepared: Prepared) -> Counts:
    """Return the number of parameters, adapters included, and of those that learn."""
    train, parameters = prepared.recipe.train, prepared.example()[0].parameters
    if not getattr(train, "lora", 0):
        return Counts(parameters, parameters)
    return counted(on_meta(lambda: adapt(cast(Any, prepared).build(train.seed), train)))


def bytes_to_train(counts: Counts) -> int:
    return BYTES_TO_KEEP * (counts.all - counts.trained) + BYTES_TO_TRAIN * counts.trained


def must_fit_memory(prepared: Prepared, device: torch.device) -> None:
    """Refuse what could never be: weights, gradients and both Adam moments alone fill more than the whole memory."""
    counts = parameter_counts(prepared)
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
    else:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    needed = bytes_to_train(counts)
    if needed > memory:
        raise UserError(
            f"this model has {counts.all:,} parameters, and training it needs at least {needed / 2**30:,.0f} GiB, but {device} "
            f"has {memory / 2**30:,.0f}; lower model.width, model.feedforward, model.layers or text.size."
        )


def spent(prepared: Prepared, progress: Progress, device: torch.device) -> CostReport:
    """Return the cost of a run so far, over all restarts; the peak speed is that of the present device."""
    return CostReport(
        steps=progress.step,
        tokens=progress.tokens,
        seconds=progress.seconds,
        unit=prepared.unit,
        flops=training_flops(prepared, progress.tokens),
        joules=progress.joules,
        metered=progress.metered,
        grams_per_kwh=grams_per_kwh(),
        peak=peak_flops(device, prepared.recipe.train.precision),
    )


@dataclass(frozen=True)
class Estimate:
    parameters: Counts
    lora: int
    activations: int  # bytes
    precision: str
    batches_per_epoch: int
    ledger: CostReport

    def lines(self) -> list[str]:
        ledger, epochs = self.ledger, self.ledger.steps / self.batches_per_epoch
        every, learn = self.parameters
        return [
            f"parameters        {every:,}"
            + (f"; train.lora={self.lora} trains {learn:,} of them ({learn / every:.2%})" if self.lora else ""),
            f"training memory   about {self.mebibytes(self.parameters):,.0f} MiB (weights, gradients, Adam, activations of one "
            "micro-batch)" + (f"; {self.mebibytes(Counts(every, every)):,.0f} MiB if all learned" if self.lora else ""),
            f"batches an epoch  {self.batches_per_epoch:,}; {ledger.steps:,} steps are {epochs:.1f} epochs",
            f"{ledger.unit:<17} about {ledger.tokens:,}",
            f"operations        about {ledger.speed()}",
            f"time              about {duration(ledger.seconds)} in {self.precision}, from a part of a step, measured here",
            f"energy            about {ledger.energy()}",
        ]

    def mebibytes(self, parameters: Counts) -> float:
        return (bytes_to_train(parameters) + self.activations) / 2**20


def estimate(prepared: Prepared, device: torch.device) -> Estimate:
    """Estimate a training: size and operations are counted; time is that of a real step on about 1,024 tokens, scaled up."""
    recipe = prepared.recipe
    source = bounded(prepared.source(packed=False), recipe.train.examples_per_batch)
    batches = source.plan(0)
    tokens = round(recipe.train.steps * sum(source.count(rows) for rows in batches) / len(batches))
    seconds = tokens * _seconds_per_token(prepared, source, device)
    vocabulary = max((len(tokenizer) for tokenizer in prepared.vocabularies.values()), default=0)
    watts, how = planned(device)
    return Estimate(
        parameters=parameter_counts(prepared),
        lora=recipe.train.lora,
        activations=_activations(recipe, vocabulary, device, max(map(len, batches))),
        precision=recipe.train.precision,
        batches_per_epoch=len(batches),
        ledger=CostReport(
            steps=recipe.train.steps,
            tokens=tokens,
            unit=prepared.unit,
            seconds=seconds,
            flops=training_flops(prepared, tokens),
            joules=watts * seconds,
            metered=how,
            grams_per_kwh=grams_per_kwh(),
            peak=peak_flops(device, recipe.train.precision),
        ),
    )


def _seconds_per_token(prepared: Prepared, source: Source, device: torch.device) -> float:
    train, rows = prepared.recipe.train, max(source.plan(0), key=len)
    batch = source.batch(rows[: max(1, 1024 * len(rows) // source.count(rows))], 0).to(device)
    model, objective = prepared.model().to(device), prepared.objective()
    optimizer = make_optimizer(model, train)
    for _ in range(2):  # the first warms up
        began = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=train.precision == "bf16"):
            total = objective(model, batch).total
        total.backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - began
    return seconds / batch.tokens


def _activations(recipe: Recipe, vocabulary: int, device: torch.device, examples: int) -> int:
    """Bytes kept for the backward pass: about 10 vectors of width D and 2 of F a sublayer pair, or a block's input alone where
    the rest is computed again; and a chunk of logits three times.
    """
    model, tokens = recipe.model, recipe.objective.passes * recipe.train.tokens_per_batch // recipe.train.accumulate
    logits = 3 * min(tokens * vocabulary * 4, CHUNK_BYTES[device.type])
    family = family_of(model)
    if family.has("image_classification"):  # those of as many images as a batch has
        per_token = model.depth[0] * (10 * model.width + 2 * getattr(model, "feedforward", 0))
        images, kept = (
            -(-examples // recipe.train.accumulate),
            getattr(model, "kept_of_an_image", 0) or per_token * (model.context or TYPICAL),
        )
        return images * kept * (2 if recipe.train.precision == "bf16" else 4)
    if family.has("captioning"):  # those of words, and of as many images as have captions of a typical length
        numbers = tokens * (26 * model.width + 2 * model.feedforward) + tokens // TYPICAL * model.kept_of_an_image
        return 4 * numbers + logits
    if family.has("word_vectors"):  # of contexts and of replies
        return 4 * 2 * tokens * model.width
    encoder, decoder = model.depth
    if not family.has("blocks"):  # gates and what is carried; of an additive score, tangents for each source word
        tangents = TYPICAL if "additive" in model.attends else 0
        return 4 * tokens * model.width * (20 * model.layers + tangents) + logits
    per_token = encoder * (10 * model.width + 2 * model.feedforward) + decoder * (16 * model.width + 2 * model.feedforward)
    if recipe.train.activation_checkpointing:
        per_token = (encoder + decoder) * model.width
    size = 2 if recipe.train.precision == "bf16" else 4
    return tokens * per_token * size + logits
