"""Settings of a search: the `[decode]` section of a recipe, and what it gives to sampling or to beam search.

Top-k: Fan et al. 2018. Top-p, the nucleus: Holtzman et al. 2020. Min-p: Nguyen et al. 2024. Repetition penalty: Keskar et al.
2019, section 4.1. They apply in the order of Hugging Face: penalty, temperature, top-k, top-p, min-p.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal, get_args

from regard.core.errors import UserError, nearest

Search = Literal["greedy", "beam", "sample"]
Cache = Literal["full", "window", "int8"]
Weights = Literal["float32", "bfloat16", "int8"]  # what `model.packed` knows, whose module imports torch

LengthFormula = Literal["gnmt", "power"]
EarlyStopping = Literal["bound", "never", "likely", "full"]
"""When a beam search ends: when no text can still win, or all best continuations end (`bound`); the first of these, with as many
finished texts as the beam is wide (`never`); when the best live text would not win if it ended now (`likely`, transformers'
`early_stopping=False`); when as many texts as the beam is wide have ended (`full`, `early_stopping=True`)."""

WIDEST = 1000  # hypotheses of a beam: the table of ancestors grows with the square of the beam
STRONGEST = 10.0  # length penalty: above it only the length counts, and powers of the length overflow
MOST_PROPOSED = 64  # tokens at a time
COLDEST = 1e-6  # temperature: below it float32 cannot tell the probability of any but the most probable token from 0


@dataclass(frozen=True, kw_only=True)
class Sampling:
    """Settings of sampling: temperature, filters and a penalty. At temperature 0 it is greedy search."""

    temperature: float = 1.0  # divides the logits; 0 always takes the most probable token
    top_k: int = 0  # keep this many of the most probable tokens, and those equal to the last of them; 0: all
    top_p: float = 1.0  # keep the most probable tokens that together reach this probability; 1: all
    min_p: float = 0.0  # keep tokens with this fraction of the highest probability; 0: all
    repetition_penalty: float = 1.0  # divides positive logits of tokens that have occurred, multiplies negative ones; 1: none

    def __post_init__(self) -> None:
        if not (self.temperature == 0 or COLDEST <= self.temperature < float("inf")):
            raise UserError(
                f"decode.temperature is {self.temperature}; give a number above 0, usually between 0.5 and 1.2, or 0 to take "
                "the most probable token always."
            )
        if self.top_k < 0:
            raise UserError(f"decode.top_k is {self.top_k}; it counts tokens to draw from, so give 1 or more, or 0 for all.")
        if not 0 < self.top_p <= 1:
            raise UserError(f"decode.top_p is {self.top_p}; it is a probability, so give more than 0 and at most 1 (all tokens).")
        if not 0 <= self.min_p <= 1:
            raise UserError(f"decode.min_p is {self.min_p}; it is a fraction, so give a number from 0 (all tokens) to 1.")
        if not 0 < self.repetition_penalty < float("inf"):
            raise UserError(
                f"decode.repetition_penalty is {self.repetition_penalty}; give a number above 0: 1 for none, usually up to 1.3."
            )


GREEDY = Sampling(temperature=0.0)


@dataclass(frozen=True, kw_only=True)
class BeamSettings:
    """Settings of beam search; the defaults are those of Vaswani et al. 2017, section 6.1."""

    beam: int = 4
    length_penalty: float = 0.6  # alpha of Wu et al. 2016, equation 14; 0 ranks by plain log-probability
    length_formula: LengthFormula = "gnmt"  # ((5 + length) / 6)^penalty; power: length^penalty, as in transformers
    early_stopping: EarlyStopping = "bound"
    rank_cut: bool = False  # texts cut at their limit compete with those that ended, as in transformers
    n_best: int = 1

    @property
    def kept(self) -> int:
        """Return how many finished texts compete for the n_best."""
        return self.n_best if self.early_stopping == "bound" else self.beam

    def __post_init__(self) -> None:
        if not 1 <= self.beam <= WIDEST:
            raise UserError(f"decode.beam is {self.beam}; it counts hypotheses kept alive, so give 1 (greedy) to {WIDEST:,}.")
        if not 0 <= self.length_penalty <= STRONGEST:
            raise UserError(
                f"decode.length_penalty is {self.length_penalty}; give 0 (none) to {STRONGEST:g}, usually between 0.6 and 1."
            )
        if not 1 <= self.n_best <= self.beam:
            raise UserError(
                f"decode.n_best is {self.n_best}, but decode.beam={self.beam} yields between 1 and {self.beam}; widen the beam."
            )


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
    "draft": ("sample", "greedy"),
    "draft_tokens": ("sample", "greedy"),
    "prompt_lookup": ("sample", "greedy"),
    "length_formula": ("beam",),
    "early_stopping": ("beam",),
    "rank_cut": ("beam",),
}
MARKS = ("start", "first", "end", "end_at_limit", "suppressed", "suppressed_first")
"""Settings that name special tokens: they belong to a vocabulary and to how a model was trained."""

CONTINUES = ("stop", "sliding_window", "share_prefix")
"""Settings for models that continue a prompt. Others have no prompt, or end by themselves."""

CHEAPER = ("draft", "draft_tokens", "prompt_lookup", "cache")
"""Settings that make decoding cheaper, for decoders that keep keys and values."""


@dataclass(frozen=True, kw_only=True)
class DecodeConfig:
    """The `[decode]` section of a recipe. `Sampling` and `BeamSettings` explain what only they use."""

    search: Search = "beam"
    beam: int = 4
    length_penalty: float = 0.6
    length_formula: LengthFormula = "gnmt"
    early_stopping: EarlyStopping = "bound"
    rank_cut: bool = False
    maximum_length: int = 0  # of any output, its end token counted; 0: only the limits that come with the sentences
    minimum_length: int = 0  # its end token not counted
    n_best: int = 1
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int = 0  # the same seed draws the same texts
    samples: int = 1  # texts drawn for each prompt
    stop: tuple[str, ...] = ()  # a text ends where one of these would begin; \\n is a line end
    banned_words: tuple[str, ...] = ()  # words that must not come out
    prefix: str = ""  # what every output must begin with
    start: str = ""  # the special token that every output comes after; empty: the vocabulary's own
    first: str = ""  # the special token that every output begins with, such as a language
    end: tuple[str, ...] = ()  # special tokens that end an output; none: the vocabulary's own
    end_at_limit: bool = False  # an output that reaches its limit ends there
    suppressed: tuple[str, ...] = ()  # tokens that are never written, as the vocabulary spells them
    suppressed_first: tuple[str, ...] = ()  # tokens that do not come first
    no_repeat_ngram: int = 0  # sequences of so many tokens occur once in a text
    sliding_window: bool = False  # beyond what a model sees at once, go on from the last half of it
    batch_tokens: int = 4096
    draft: str = ""  # the run of a smaller model of the same vocabulary, whose tokens are proposed; the text stays the same
    draft_tokens: int = 4  # that a draft proposes at a time
    prompt_lookup: int = 0  # tokens at a time that are proposed from the text itself; 0: none
    share_prefix: bool = False  # what all prompts of a batch begin with is encoded once
    cache: Cache = "full"  # window: keys and values of the last tokens alone, which a window sees; int8: in 8 bits
    weights: Weights = "float32"  # on a CPU; bfloat16 and int8 are faster for a little loss
    compile: bool = False  # on a CPU: a step becomes one function of C++, which takes a minute and serves small models

    def __post_init__(self) -> None:
        if self.search not in get_args(Search):
            raise UserError(f"decode.search is {self.search!r}{nearest(str(self.search), get_args(Search))}")
        BeamSettings(beam=self.beam, length_penalty=self.length_penalty, n_best=self.n_best)
        for name in ("maximum_length", "minimum_length"):
            if getattr(self, name) < 0:
                raise UserError(f"decode.{name} is {getattr(self, name)}; it counts tokens, so give 0 or more.")
        if self.no_repeat_ngram < 0:
            raise UserError(f"decode.no_repeat_ngram is {self.no_repeat_ngram}; it counts tokens, so give 1 or more, or 0.")
        if self.batch_tokens < 1:
            raise UserError(f"decode.batch_tokens is {self.batch_tokens}; give the padded size of a batch, 1 or more.")
        if self.search != "beam" and self.n_best > 1:
            instead = "give decode.samples" if self.search == "sample" else "give decode.search=beam"
            raise UserError(f"decode.n_best is {self.n_best}, but only a beam ranks what it finds; {instead}.")
        self._check_sampling()
        self._check_speculation()
        if self.compile and (self.weights != "float32" or self.speculates or self.share_prefix):
            key = "weights" if self.weights != "float32" else "share_prefix" if self.share_prefix else "draft"
            key = "prompt_lookup" if self.prompt_lookup else key
            raise UserError(f"decode.compile=true compiles plain steps in float32; leave it or decode.{key} out.")
        if 0 < self.maximum_length <= self.minimum_length:
            raise UserError(
                f"decode.minimum_length is {self.minimum_length}, which leaves no room for the end token within "
                f"decode.maximum_length, {self.maximum_length}; lower the one or raise the other."
            )

    def _check_speculation(self) -> None:
        for name in ("draft_tokens", "prompt_lookup"):
            if not int(name == "draft_tokens") <= getattr(self, name) <= MOST_PROPOSED:
                least = "1" if name == "draft_tokens" else "1, or 0 for none,"
                raise UserError(f"decode.{name} is {getattr(self, name)}; it counts tokens: give {least} to {MOST_PROPOSED}.")
        if self.draft and self.prompt_lookup:
            raise UserError("decode.draft and decode.prompt_lookup both propose tokens; leave one of them out.")
        if self.draft_tokens != type(self).draft_tokens and not self.draft:
            raise UserError(f"decode.draft_tokens is {self.draft_tokens}, which is for decode.draft=RUN; give that too.")
        if self.speculates and self.cache != "full":
            raise UserError(f"decode.cache={self.cache} cannot take back what was only proposed; leave it out, or what proposes.")
        if self.cache == "window" and self.search == "beam":
            raise UserError("decode.cache=window keeps one text a sentence; give decode.search=greedy or sample.")

    @property
    def speculates(self) -> bool:
        """Return whether tokens are proposed, to be read several at a time."""
        return bool(self.draft or self.prompt_lookup)

    def must_not_continue(self, what: str) -> None:
        """Refuse settings for models that continue a prompt; `what` is written otherwise."""
        if changed := self.changed(CONTINUES):
            names = " and ".join(f"decode.{name}" for name in changed)
            verb, them = ("is", "it") if len(changed) == 1 else ("are", "them")
            why = "is written from a source that is read whole" if changed == ["share_prefix"] else "ends by itself"
            raise UserError(f"{names} {verb} for language models; {what} {why}. Leave {them} out.")

    def changed(self, names: Sequence[str]) -> list[str]:
        """Return those of these settings that do not have their default."""
        return [name for name in names if getattr(self, name) != getattr(type(self), name)]

    def _check_sampling(self) -> None:
        for field in fields(self):
            searches = ONLY_FOR.get(field.name, get_args(Search))
            if (value := getattr(self, field.name)) != field.default and self.search not in searches:
                choices = " or ".join(f"decode.search={search}" for search in searches)
                raise UserError(f"decode.{field.name} is {value!r}, which {self.search} search does not use; give {choices}.")
        if self.samples < 1:
            raise UserError(f"decode.samples is {self.samples}; it counts the texts of each prompt, so give 1 or more.")
        if self._sampling.temperature == 0 and self.samples > 1:
            raise UserError(f"decode.samples is {self.samples}, but at decode.temperature=0 all are the same; raise the latter.")
        if "" in self.stop:
            raise UserError("decode.stop has an empty text, before which every output would end; leave it out.")

    @property
    def method(self) -> Sampling | BeamSettings:
        """The settings of the search that `search` names; greedy search is sampling at temperature 0."""
        if self.search == "beam":
            names = ("beam", "length_penalty", "length_formula", "early_stopping", "rank_cut", "n_best")
            return BeamSettings(**{name: getattr(self, name) for name in names})
        return self._sampling

    @property
    def _sampling(self) -> Sampling:
        return Sampling(
            temperature=0.0 if self.search == "greedy" else self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            repetition_penalty=self.repetition_penalty,
        )

    def capped(self, limits: Sequence[int]) -> list[int]:
        """Return the limits of the sentences, none above `maximum_length`."""
        return [min(limit, self.maximum_length) if self.maximum_length else limit for limit in limits]
