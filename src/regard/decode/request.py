"""The input and the output of a search: a `SearchRequest` goes in, a list of `Hypothesis` comes out for each row.

The caller builds the request once, and the same value goes down to the kernels. Each row of the encoded input becomes one
sentence; when sampling, a row with several seeds becomes several sentences, side by side. Dims: S sentences, P prompt tokens
that are kept, T tokens to write.

`in_batches` puts texts of similar length together, longest first: with little padding, and memory fails early or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.rng import derive_seed
from regard.decode.candidates import NO_TOKEN, Constraints
from regard.decode.config import GREEDY, BeamSettings, DecodeConfig, LengthFormula, Sampling
from regard.model.state.protocol import EncodedInput, RowCompaction, State

if TYPE_CHECKING:
    from regard.decode.algorithm import CapturedGraphs


T = TypeVar("T")
Length = TypeVar("Length", int, Tensor)
Tokens = Sequence[int]
Listener = Callable[[int, list[int]], bool]
"""Called with the number of a sentence and its new tokens; a return value of True ends that sentence there."""


class Hypothesis(NamedTuple):
    """One text that a search has found."""

    ids: list[int]  # without the start and the end token
    score: float  # hypotheses are ranked by it: logprob / length_divisor
    logprob: float  # the sum of token_logprobs
    finished: bool  # False: cut at its limit, stopped by a listener, or no token was allowed to follow
    token_logprobs: list[float]  # one per id and, where finished, one more for the end token

    @classmethod
    def of(
        cls, tokens: list[int], logprobs: list[float], *, finished: bool, length_penalty: float, formula: LengthFormula = "gnmt"
    ) -> Hypothesis:
        """Return the hypothesis of a path, whose last token is the end token if it is finished."""
        logprob = sum(logprobs)
        score = logprob / length_divisor(max(1, len(tokens)), length_penalty, formula)
        return cls(tokens[: len(tokens) - finished], score, logprob, finished, logprobs)


def length_divisor(length: Length, length_penalty: float, formula: LengthFormula = "gnmt") -> Length:
    """Return lp(Y) of Wu et al. 2016, equation 14, or a power of the length.

    Without it every token lowers the score, and searches favour short outputs.
    """
    if formula == "power":
        return length**length_penalty
    return ((5 + length) / 6) ** length_penalty


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchRequest:
    """Everything that one call of `search` needs, checked when it is built."""

    encoded: EncodedInput  # the sources or prompts that the model has encoded, one a row
    sos: int | Tensor  # the first token, one for all rows or one a row
    eos: int  # the end token; NO_TOKEN: this model has none
    limits: Sequence[int]  # the most tokens of each row, the end token counted
    method: Sampling | BeamSettings = GREEDY
    seeds: Tokens = ()  # for sampling: one a row (without: 0, 1, 2 ...), or a multiple, which gives each row several samples
    minimum_length: int = 0  # tokens before the end token
    banned: Tokens = ()  # tokens that are never written
    banned_sequences: Sequence[Tokens] = ()  # sequences whose last token is never written after the others
    more_ends: Tokens = ()  # tokens that end a text as `eos` does
    banned_first: Tokens = ()  # tokens that do not come first, or first after the forced ones
    no_repeat_ngram: int = 0  # sequences of so many tokens occur once in a text, its prompt included
    forced_end: bool = False  # the last token within the limit is the end
    free_forced: bool = False  # forced tokens have log-probability 0
    prompts: Sequence[Tokens] | None = None  # whole prompts, which end with `sos`: banned sequences and repetition begin in them
    forced: Sequence[Tokens] | None = None  # the tokens that each row begins with, even where they are banned
    sessions: CapturedGraphs | None = None  # the model's captured searches; None: every step is run
    listener: Listener | None = None  # hears the tokens of greedy search and sampling as they are written

    @classmethod
    def from_config(
        cls, config: DecodeConfig, encoded: EncodedInput, numbers: Sequence[int] | None = None, **others: Any
    ) -> SearchRequest:
        """Return the request that the `[decode]` section of a recipe describes.

        Sampling counts its seeds from the number of each row among all prompts, so that its samples are the same in any batch;
        without `numbers`, rows are counted from 0.
        """
        method, seeds = config.method, list[int]()
        if isinstance(method, Sampling):
            seeds = sample_seeds(config, range(encoded.rows) if numbers is None else numbers)
        return cls(encoded=encoded, method=method, seeds=seeds, **({"minimum_length": config.minimum_length} | others))

    def __post_init__(self) -> None:
        rows = self.rows
        for what, given in (("limits", self.limits), ("prompts", self.prompts), ("forced prefixes", self.forced)):
            if given is not None and len(given) != rows:
                raise UserError(f"{rows} rows are to be decoded, but {len(given)} {what} were given; give one per row.")
        if rows and min(self.limits) < 1:
            raise UserError(f"A maximum output length is {min(self.limits)}; give 1 or more.")
        if self.seeds and (not rows or len(self.seeds) % rows):
            raise UserError(
                f"{rows} rows are to be sampled, but {len(self.seeds)} seeds were given; give each row one, or several."
            )
        if self.seeds and isinstance(self.method, BeamSettings):
            raise UserError("Seeds were given to a beam search, which draws nothing; leave them out, or sample.")
        if self.prompts is not None:
            first = torch.as_tensor(self.sos).expand(rows).tolist()
            if [list(prompt[-1:]) for prompt in self.prompts] != [[token] for token in first]:
                raise UserError("A prompt does not end with the first token of its row; give the last token of each as `sos`.")
        if not all(self.banned_sequences):
            raise UserError("A banned sequence has no tokens; leave it out.")

    @property
    def rows(self) -> int:
        return self.encoded.rows

    @property
    def copies(self) -> int:
        """Sentences of each row."""
        return max(1, len(self.seeds) // max(self.rows, 1))

    @cached_property
    def constraints(self) -> Constraints:
        sequences = tuple(map(tuple, self.banned_sequences))
        return Constraints(
            self.eos,
            self.minimum_length,
            tuple(self.banned),
            sequences,
            tuple(self.more_ends),
            tuple(self.banned_first),
            self.no_repeat_ngram,
            self.forced_end,
            self.free_forced,
        )

    @property
    def first_free(self) -> int:
        """Return the step behind the forced tokens of all rows."""
        return max(map(len, self.forced or ()), default=0)

    @cached_property
    def text_limits(self) -> list[int]:
        """The limit of each sentence."""
        return self._of_sentences(self.limits)

    @property
    def text_seeds(self) -> Tokens:
        """The seed of each sentence."""
        return self.seeds or range(self.rows)

    @cached_property
    def first_S(self) -> Tensor:
        first_B = torch.as_tensor(self.sos, device=self.encoded.device).expand(self.rows)
        return first_B.repeat_interleave(self.copies)

    @property
    def longest_prompt(self) -> int:
        return max((len(prompt) for prompt in self.prompts or ()), default=1)

    @property
    def reads_text(self) -> bool:
        """Return whether the next token depends on the text before it by more than the model's logits."""
        penalty = self.method.repetition_penalty if isinstance(self.method, Sampling) else 1.0
        return bool(self.banned_sequences) or bool(self.no_repeat_ngram) or penalty != 1

    def load(self, state: State, sentences: int) -> None:
        """Load the encoded rows into a state that has room for this many sentences, then copy each row to all its sentences."""
        state.load(self.encoded, self.limits)
        if self.copies > 1:
            texts = len(self.text_limits)
            rows = [place // self.copies if place < texts else place for place in range(sentences)]
            state.compact(RowCompaction.of(rows, self.encoded.device))

    def write_prompts(self, text_SP: Tensor) -> None:
        """Write the last P tokens of each prompt, aligned at the right; without prompts, the first tokens alone."""
        text_SP.fill_(NO_TOKEN)
        if not (width := text_SP.shape[1]):
            return
        text_SP[: len(self.first_S), -1] = self.first_S
        if self.prompts is not None:
            ends = [list(prompt[-width:]) for prompt in self._of_sentences(self.prompts)]
            padded = [[NO_TOKEN] * (width - len(end)) + end for end in ends]
            text_SP[: len(ends)] = torch.tensor(padded, device=text_SP.device)

    def write_forced(self, forced_ST: Tensor) -> None:
        """Write the forced prefixes, aligned at the left; NO_TOKEN where the search is free."""
        forced_ST.fill_(NO_TOKEN)
        if self.forced is not None and (width := forced_ST.shape[1]):
            begins = [list(tokens[:width]) for tokens in self._of_sentences(self.forced)]
            padded = [begin + [NO_TOKEN] * (width - len(begin)) for begin in begins]
            forced_ST[: len(padded)] = torch.tensor(padded, device=forced_ST.device)

    def _of_sentences(self, items: Sequence[T]) -> list[T]:
        return [item for item in items for _ in range(self.copies)]


def sample_seeds(config: DecodeConfig, numbers: Sequence[int]) -> list[int]:
    """Return the seed of every sample of every prompt; the seeds of a prompt are side by side."""
    return [derive_seed(config.seed, "sample", number, nth) for number in numbers for nth in range(config.samples)]


def in_batches(lengths: Sequence[int], budget: int) -> Iterator[list[int]]:
    """Yield indices into `lengths`, in batches whose padded size (count x longest) stays within `budget`.

    No batch is empty: a text longer than the budget gets a batch of its own.
    """
    if budget < 1:
        raise UserError(f"The token budget of a batch is {budget}; give 1 or more, say 4096.")
    batch: list[int] = []
    for index in sorted(range(len(lengths)), key=lambda i: -lengths[i]):  # stable: equal lengths stay in order
        if batch and (len(batch) + 1) * max(lengths[batch[0]], 1) > budget:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch
