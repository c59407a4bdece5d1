"""The needs of a model of any size: bytes of its weights, of training and of decoding, and operations a token.

Bytes and operations are counted, never measured, so GPT-3 is answered as fast as a toy. A backward pass costs two forward ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from regard.core.config import build, override
from regard.families import family_of
from regard.families.flops import Part, constant_state, keys_and_values
from regard.families.published_sizes import PETAFLOP_DAY, SIZES, Size
from regard.runs.cost import amount
from regard.text.config import TextConfig

BYTES = ("B", "kB", "MB", "GB", "TB", "PB")
WEIGHT_BYTES = {"fp32": 4, "bf16": 2, "int8": 1}
CACHE_BYTES = {"fp32": 4, "bf16": 2}
TRAINING_BYTES = {
    "fp32": 16,  # weight, gradient and Adam's two moments, four bytes each
    "bf16": 18,  # all of these, and the weight once more in bf16, as autocast keeps it for the products
}
OPERATIONS_PER_PARAMETER = 6  # forward 2, backward 4: the rule of Brown et al. 2020, appendix D, which leaves attention out


def sized(name: str, settings: Sequence[str] = ()) -> tuple[Size, bool]:
    """A published size, with `model.key=value` and `text.size=N` on top; and whether it is still as published."""
    size = SIZES[name]
    tables: dict[str, dict[str, Any]] = {"model": asdict(size.config)}
    if size.vocabulary:
        tables["text"] = {"size": size.vocabulary}
    override(tables, list(settings))
    config = build(type(size.config), tables["model"], "model")
    vocabulary = build(TextConfig, tables["text"], "text").size if size.vocabulary else 0
    return replace(size, config=config, vocabulary=vocabulary), not settings


@dataclass(frozen=True)
class Footprint:
    """`tree` counts one text of `tokens`: for a decoder best its full window."""

    config: Any  # of a family with blocks or with cells
    tree: Part
    tokens: int
    published: Size | None = None

    @property
    def parameters(self) -> int:
        return self.tree.parameters

    @property
    def flops_per_token(self) -> float:
        """Forward, attention to all other tokens of the text included."""
        return self.tree.flops / self.tokens

    @property
    def _images(self) -> bool:
        kinds = ("image_classification", "masked_image_modeling", "pixel_lm")
        return family_of(self.config).has_any(*kinds) and getattr(self.config, "reads", "image") == "image"

    @property
    def _blocks(self) -> bool:
        return family_of(self.config).has("blocks")

    @property
    def cached_per_token(self) -> int:
        """Return the numbers that decoding keeps of each token, and of each source token where there is a source."""
        if not self._blocks:
            return int(getattr(self.config, "kept_of_source", 0))
        readers, writers = self.config.depth
        return keys_and_values(self.config, writers, source=bool(readers))

    @property
    def kept_always(self) -> int:
        """Return the numbers that decoding keeps whatever the length: sums of linear attention, states of cells."""
        if not self._blocks:
            return int(getattr(self.config, "carried", 0))
        readers, writers = self.config.depth
        return constant_state(self.config, writers, source=bool(readers))

    def petaflop_days(self, tokens: float, by_rule: bool = False) -> float:
        """Return the compute of training on this many tokens."""
        flops = OPERATIONS_PER_PARAMETER * self.parameters if by_rule else 3 * self.flops_per_token
        return flops * tokens / PETAFLOP_DAY

    def figures(self) -> dict[str, Any]:
        """Return every figure as a plain number, for machines."""
        c, window, cached = self.config, self.config.context, self.cached_per_token
        heads = getattr(getattr(c, "blocks", c), "heads", 1)
        found: dict[str, Any] = {
            "blocks": sum(c.depth),
            "heads": heads,
            "head_width": c.width // heads,
            "width": c.width,
            **({"feedforward": c.feedforward} if self._blocks else {"cell": c.cell} if hasattr(c, "cell") else {}),
            "parameters": self.parameters,
            "context": window,
            "weight_bytes": {kind: size * self.parameters for kind, size in WEIGHT_BYTES.items()},
            "training_bytes": {kind: size * self.parameters for kind, size in TRAINING_BYTES.items()},
            "flops_per_token": {"forward": self.flops_per_token, "training": 3 * self.flops_per_token},
        }
        if cached:
            found["cache_bytes_per_token"] = {kind: size * cached for kind, size in CACHE_BYTES.items()}
        if self.kept_always:
            found["state_bytes"] = 4 * self.kept_always  # sums are kept in fp32
        if cached and window:
            found["cache_bytes_per_window"] = {kind: size * cached * window for kind, size in CACHE_BYTES.items()}
        return found | ({"published": self._published(self.published)} if self.published else {})

    def _published(self, size: Size) -> dict[str, Any]:
        found: dict[str, Any] = {"name": size.name, "paper": size.paper, "parameters": size.stated, "tokens": size.tokens}
        if size.tokens:
            counted, by_rule = self.petaflop_days(size.tokens), self.petaflop_days(size.tokens, by_rule=True)
            found["petaflop_days"] = {"counted": counted, "by_rule": by_rule, "paper": size.petaflop_days}
        return found | ({"note": size.note} if size.note else {})

    def lines(self) -> list[str]:
        """Return every figure as lines of text."""
        size = self.published
        rows = [("blocks", self._shape()), ("parameters", self._parameters()), ("context", self._context())]
        rows += [("weights", self._kinds(WEIGHT_BYTES, self.parameters)), ("to train", self._training())]
        if self.cached_per_token:
            rows += [("KV cache", self._cache())]
        if self.kept_always:
            rows += [("state", f"{amount(4 * self.kept_always, *BYTES)}, whatever the length; for each text of a batch")]
        rows += [("operations", self._operations())]
        if size and size.tokens:
            rows += [("compute", self._compute(size, size.tokens))]
        if size and size.note:
            rows += [("note", size.note)]
        return [f"{name:<12}{text}" for name, text in rows]

    def _shape(self) -> str:
        c, (readers, writers) = self.config, self.config.depth
        blocks = f"{readers} + {writers}" if readers and writers else f"{readers + writers}"
        if not self._blocks:
            if not hasattr(c, "cell"):
                return str(c.summary)
            return f"{blocks} layers of {c.cell}{'' if self._images else ' cells'}; width {c.width:,}"
        return f"{blocks}, of {c.heads} heads of {c.width // c.heads}; width {c.width:,}, feed-forward {c.feedforward:,}"

    def _parameters(self) -> str:
        size = self.published
        return f"{self.parameters:,}" + (f" (published: {_rounded(size.stated)})" if size else "")

    def _context(self) -> str:
        window = self.config.context
        if not self._blocks:
            return "images of any size" if self._images else "of any length"
        return f"{window:,} tokens" if window else f"of any length ({self.config.position} positions)"

    def _training(self) -> str:
        each = " and ".join(map(str, TRAINING_BYTES.values()))
        return f"{self._kinds(TRAINING_BYTES, self.parameters)} with Adam, {each} bytes a parameter; and the activations"

    @staticmethod
    def _kinds(sizes: dict[str, int], numbers: int) -> str:
        return ", ".join(f"{amount(size * numbers, *BYTES)} in {kind}" for kind, size in sizes.items())

    def _cache(self) -> str:
        window, cached = self.config.context, self.cached_per_token
        full = f"; {self._kinds(CACHE_BYTES, cached * window)} for a full window" if window else ""
        of_source = not self._blocks or self.config.mixer == "conv"
        alone = "alone" if of_source else "as of the target"
        source = f", of the source {alone}" if all(self.config.depth) else ""
        return f"{self._kinds(CACHE_BYTES, cached)} a token{source}{full}; for each text of a batch"

    def _operations(self) -> str:
        forward, training = (amount(n * self.flops_per_token / 1e6, "MFLOP", "GFLOP", "TFLOP") for n in (1, 3))
        if self._images and not self._blocks:
            forward, training = (amount(n * self.tree.flops / 1e6, "MFLOP", "GFLOP", "TFLOP") for n in (1, 3))
            return f"{forward} an image of {self.config.image_size} pixels forward, {training} in training"
        one = "an image" if self._images else "a text"
        text = f"a pair of {self.tokens:,} + {self.tokens:,}" if all(self.config.depth) else f"{one} of {self.tokens:,}"
        return f"{forward} a token forward, {training} in training, in {text} tokens"

    def _compute(self, size: Size, tokens: float) -> str:
        counted, by_rule = (_digits(self.petaflop_days(tokens, rule)) for rule in (False, True))
        paper = f"; the paper: {_digits(size.petaflop_days)}" if size.petaflop_days else ""
        rule = f"{OPERATIONS_PER_PARAMETER} a parameter, attention aside: {by_rule}"
        return f"{_rounded(tokens)} tokens, as in the paper: {counted} petaflop/s-days ({rule}{paper})"


def _rounded(number: float) -> str:
    """175B: at most four digits in millions or billions, as papers write them."""
    return f"{number / 1e9:.4g}B" if number >= 999.5e6 else f"{number / 1e6:.4g}M"


def _digits(number: float) -> str:
    return f"{number:,.0f}" if number >= 999.5 else f"{number:.3g}"
