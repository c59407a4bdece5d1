"""How to search: the `[decode]` section of a recipe, checked before hours are spent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from regard.core.errors import UserError, nearest
from regard.decode.sampling_config import Choice

Search = Literal["greedy", "beam", "sample"]
Weights = Literal["float32", "bfloat16", "int8"]  # what `model.packed` knows, whose module imports torch

WIDEST = 1000  # hypotheses of a beam: the table of who descends from whom grows with the square of them
STRONGEST = 10.0  # length penalty: beyond it, nothing but the length counts, and powers of it overflow

ONLY_FOR: dict[str, tuple[Search, ...]] = {  # elsewhere these would do nothing, or cannot be done
    "temperature": ("sample",),
    "top_k": ("sample",),
    "top_p": ("sample",),
    "min_p": ("sample",),
    "seed": ("sample",),
    "samples": ("sample",),
    "repetition_penalty": ("sample", "greedy"),
    "stop": ("sample", "greedy"),
    "sliding_window": ("sample", "greedy"),
}


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """Defaults are those of Vaswani et al. 2017, section 6.1: a beam of 4 with a length penalty of 0.6.

    What only sampling knows is explained in `choice`.
    """

    search: Search = "beam"
    beam: int = 4
    length_penalty: float = 0.6  # alpha of Wu et al. 2016, equation 14; 0 ranks by plain log-probability
    maximum_length: int = 0  # of any output, its end token counted; 0: only the limits that come with the sentences
    minimum_length: int = 0  # its end token not counted
    n_best: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0  # the same seed draws the same texts
    samples: int = 1  # texts of each prompt
    stop: tuple[str, ...] = ()  # a text ends where one of these would begin; \\n is a line end
    banned_words: tuple[str, ...] = ()  # words that must not come out
    prefix: str = ""  # what every output must begin with
    sliding_window: bool = False  # beyond what a model sees at once, go on from the last half of it
    batch_tokens: int = 4096
    weights: Weights = "float32"  # on a CPU; bfloat16 and int8 are faster for a little loss

    def __post_init__(self) -> None:
        if self.search not in get_args(Search):
            raise UserError(f"decode.search is {self.search!r}{nearest(str(self.search), get_args(Search))}")
        check_beam(self.beam, self.length_penalty, self.n_best)
        for name in ("maximum_length", "minimum_length"):
            if getattr(self, name) < 0:
                raise UserError(f"decode.{name} is {getattr(self, name)}; it counts tokens, so give 0 or more.")
        if self.batch_tokens < 1:
            raise UserError(f"decode.batch_tokens is {self.batch_tokens}; give the padded size of a batch, 1 or more.")
        if self.search != "beam" and self.n_best > 1:
            instead = "give decode.samples" if self.search == "sample" else "give decode.search=beam"
            raise UserError(f"decode.n_best is {self.n_best}, but only a beam ranks what it finds; {instead}.")
        self._check_sampling()
        if 0 < self.maximum_length <= self.minimum_length:
            raise UserError(
                f"decode.minimum_length is {self.minimum_length}, which leaves no room for the end token within "
                f"decode.maximum_length, {self.maximum_length}; lower the one or raise the other."
            )

    def _check_sampling(self) -> None:
        for field in fields(self):
            searches = ONLY_FOR.get(field.name, get_args(Search))
            if (value := getattr(self, field.name)) != field.default and self.search not in searches:
                choices = " or ".join(f"decode.search={search}" for search in searches)
                raise UserError(f"decode.{field.name} is {value!r}, which {self.search} search cannot heed; give {choices}.")
        if self.samples < 1:
            raise UserError(f"decode.samples is {self.samples}; it counts the texts of each prompt, so give 1 or more.")
        if self.choice.temperature == 0 and self.samples > 1:
            raise UserError(f"decode.samples is {self.samples}, but at decode.temperature=0 all are the same; raise the latter.")
        if "" in self.stop:
            raise UserError("decode.stop has an empty text, before which every output would end; leave it out.")

    @property
    def choice(self) -> Choice:
        """How single tokens are chosen: drawn, or in greedy search always the most probable."""
        return Choice(
            temperature=0.0 if self.search == "greedy" else self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
        )

    def capped(self, limits: Sequence[int]) -> list[int]:
        """The sentences' own limits, none above `maximum_length`."""
        return [min(limit, self.maximum_length) if self.maximum_length else limit for limit in limits]


def check_beam(beam: int, length_penalty: float, n_best: int) -> None:
    """What the config and the search itself both insist on."""
    if not 1 <= beam <= WIDEST:
        raise UserError(f"decode.beam is {beam}; it counts hypotheses kept alive, so give 1 (greedy) to {WIDEST:,}.")
    if not 0 <= length_penalty <= STRONGEST:
        raise UserError(f"decode.length_penalty is {length_penalty}; give 0 (none) to {STRONGEST:g}, usually between 0.6 and 1.")
    if not 1 <= n_best <= beam:
        raise UserError(f"decode.n_best is {n_best}, but decode.beam={beam} yields between 1 and {beam}; widen the beam.")
