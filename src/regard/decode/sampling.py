"""Greedy search and sampling: one text a sentence, one token at a time.

Greedy search takes the most probable token, sampling draws.

Every draw is a function of (seed, step). A generator would be carried from token to token, so a text would depend on its
neighbours in the batch, and a captured step would draw the same number again. Here step t of a text draws output t of
SplitMix64 (Steele et al. 2014) from its seed, alike on any device.

Probabilities become integers before they are summed. Sums of integers are the same in every order, so a text is the same in a
batch of any size, and a token that a filter removed has weight 0 and is never drawn.

Dims: S sentences, T tokens to write, N tokens of prompt and text together, V vocabulary, K tokens that are sorted.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from regard.decode.algorithm import BufferSizes, Progress
from regard.decode.candidates import NO_TOKEN, Candidates, Constraints
from regard.decode.config import GREEDY, Sampling
from regard.decode.request import Hypothesis, SearchRequest
from regard.model.kernels.decode_step import HAS_TRITON
from regard.model.state.protocol import RowCompaction

if HAS_TRITON:
    from regard.model.kernels.argmax import Picked, pick

GAMMA, MIX_1, MIX_2 = (constant - (1 << 64) for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
BITS = 52  # of a draw; adding half a step is still exact in float64, so a draw is never 0 and never 1
UNIT = float(1 << 40)  # weight of the most probable token: 4 million such weights add up exactly in int64
SHORT = 1024  # tokens that top-p sorts first
LOWEST = torch.finfo(torch.float32).min


class SamplingSearch:
    """Greedy search or sampling of one text a sentence."""

    def __init__(self, request: SearchRequest, sizes: BufferSizes) -> None:
        assert isinstance(request.method, Sampling)
        self.sampling, self.constraints, self.prompt = request.method, request.constraints, sizes.prompt
        device = request.encoded.device
        self.state = request.encoded.make_state(sizes.sentences, 1, sizes.tokens, fixed=sizes.fixed)
        self.progress = Progress(sizes.sentences, device)
        self.candidates = Candidates(self.constraints, device, fixed=sizes.fixed)
        self.allocated = self.texts = TextBuffers.allocate(sizes, device, drawn=self.sampling.temperature > 0)
        simple = Constraints(*self.constraints[:3]) == self.constraints  # ends, a minimum length and banned tokens, nothing else
        plain = self.sampling == GREEDY and simple and not sizes.forced
        self.uses_argmax_kernel = plain and sizes.fixed and HAS_TRITON and device.type == "cuda"  # reads the logits once
        self.banned_V: Tensor | None = None
        self.first_free = 0
        self.tail_N = torch.arange(sizes.prompt - self.constraints.context, sizes.prompt, device=device)  # at the first step

    def begin(self, request: SearchRequest) -> None:
        texts = self.texts = self.allocated
        count, device = len(request.text_limits), texts.text_SN.device
        request.load(self.state, len(texts.newest_S1))
        self.first_free = request.first_free
        self.progress.begin(request.text_limits)
        texts.newest_S1[:count] = request.first_S[:, None]
        texts.text_SN.fill_(NO_TOKEN)
        request.write_prompts(texts.text_SN[:, : self.prompt])
        request.write_forced(texts.forced_ST)
        if steps := texts.draws_ST.shape[1]:
            seed_S = torch.tensor(request.text_seeds, dtype=torch.long, device=device)
            texts.draws_ST[:count] = uniform(seed_S[:, None], torch.arange(steps, device=device))

    def advance(self) -> None:
        self.take(self.state.step(self.newest_SW))

    @property
    def newest_SW(self) -> Tensor:
        return self.texts.newest_S1

    def take(self, logits_SWV: Tensor, excluded_SV: Tensor | None = None) -> None:
        """Choose the next token of every sentence, which is none of those excluded."""
        texts, progress, constraints, logits_SV = self.texts, self.progress, self.constraints, logits_SWV[:, 0]
        step_S1 = progress.step_S[:, None]
        compared = constraints.banned_sequences or constraints.no_repeat_ngram
        tail_SN = texts.text_SN.gather(1, self.tail_N + step_S1) if compared else None
        forced_S1 = constraints.forced_now(texts.forced_ST, step_S1, progress.limit_S[: progress.sentences])
        if self.uses_argmax_kernel:
            logprob_S1, token_S1, broken_S = self._pick(logits_SV, progress.step_S[:1])
        else:
            allowed = self.candidates.allowed(logits_SV, step_S1, tail_SN, forced_S1, texts.text_SN, self.first_free)
            if excluded_SV is not None:
                allowed.logprob_BV.masked_fill_(excluded_SV, -torch.inf)
            token_S1, broken_S = self._choose(logits_SV, allowed.logprob_BV), allowed.broken_B
            logprob_S1 = allowed.logprobs_of(token_S1)
        texts.text_SN[:, self.prompt :].scatter_(1, step_S1, token_S1)
        texts.logprobs_ST.scatter_(1, step_S1, logprob_S1)
        texts.newest_S1.copy_(token_S1)
        progress.advance((constraints.is_end(token_S1) | logprob_S1.isneginf())[:, 0], broken_S)

    def _pick(self, logits_SV: Tensor, step_1: Tensor) -> Picked:
        constraints = self.constraints
        if constraints.banned and self.banned_V is None:  # in the first step, which is not captured
            self.banned_V = torch.zeros(logits_SV.shape[1], dtype=torch.bool, device=logits_SV.device)
            self.banned_V[torch.tensor(constraints.banned, device=logits_SV.device)] = True
        return pick(logits_SV, self.banned_V, constraints.eos, constraints.minimum_length, step_1)

    def _choose(self, logits_SV: Tensor, logprob_SV: Tensor) -> Tensor:
        """Return token_S1. Only the repetition penalty needs logits; all else chooses alike from log-probabilities."""
        texts, sampling, scores_SV = self.texts, self.sampling, logprob_SV
        if sampling.repetition_penalty != 1:
            text_SN = torch.where(texts.text_SN < 0, texts.newest_S1, texts.text_SN)
            scores_SV = penalize_repetition(logits_SV.float(), text_SN, sampling.repetition_penalty)
            scores_SV.masked_fill_(logprob_SV.isneginf(), -torch.inf)
        if sampling.temperature == 0:
            return scores_SV.argmax(1, keepdim=True)  # which returns the first of equals
        weight_SV = token_weights(scores_SV, sampling, fixed=self.candidates.fixed)
        return draw(weight_SV, texts.draws_ST.gather(1, self.progress.step_S[:, None]))

    def compact(self, moves: RowCompaction) -> None:
        for buffer_S in self.texts:
            moves.within(buffer_S)
        self.texts = self.allocated.first(moves.stay)
        self.state.compact(moves)
        self.progress.compact(moves)

    def written(self, rows_R: Tensor, since: int) -> list[list[int]]:
        return [tokens[: len(tokens) - finished] for tokens, _, finished in self._read(rows_R, since)]

    def hypotheses(self, rows_R: Tensor) -> list[list[Hypothesis]]:
        """Return one hypothesis a sentence, not normalised by length.

        Log-probabilities are the model's own, before any filter.
        """
        read = self._read(rows_R, 0)
        return [[Hypothesis.of(tokens, logprobs, finished=ended, length_penalty=0.0)] for tokens, logprobs, ended in read]

    def _read(self, rows_R: Tensor, since: int) -> list[tuple[list[int], list[float], bool]]:
        """Return tokens from this step on, the end token included, their log-probabilities, and whether the text has ended."""
        lengths = (self.progress.length_S[rows_R] - since).tolist()
        steps = slice(since, since + max(lengths))
        parts = (self.texts.text_SN[:, self.prompt :], self.texts.logprobs_ST)
        read = []
        for tokens, logprobs, length in zip(*(part[rows_R, steps].tolist() for part in parts), lengths):
            if length and logprobs[length - 1] == -torch.inf:  # no token could follow, so the last one is not a choice
                length -= 1
            read.append((tokens[:length], logprobs[:length], length > 0 and tokens[length - 1] in self.constraints.ends))
        return read


class TextBuffers(NamedTuple):
    """Buffers of each sentence: its tokens, and its flags and counters."""

    newest_S1: Tensor
    text_SN: Tensor  # the end of the prompt, then the tokens written; NO_TOKEN elsewhere
    logprobs_ST: Tensor
    draws_ST: Tensor  # of width 0 in greedy search
    forced_ST: Tensor  # of width 0 where no token is forced

    @classmethod
    def allocate(cls, sizes: BufferSizes, device: torch.device, *, drawn: bool) -> TextBuffers:
        def zeros(width: int, dtype: torch.dtype = torch.long) -> Tensor:
            return torch.zeros(sizes.sentences, width, dtype=dtype, device=device)

        return cls(
            newest_S1=zeros(1),
            text_SN=zeros(sizes.prompt + sizes.tokens),
            logprobs_ST=zeros(sizes.tokens, torch.float32),
            draws_ST=zeros(sizes.tokens if drawn else 0, torch.float64),
            forced_ST=zeros(sizes.tokens if sizes.forced else 0),
        )

    def first(self, sentences: int) -> TextBuffers:
        return TextBuffers(*(buffer_S[:sentences] for buffer_S in self))


def splitmix(seed: Tensor, step: Tensor) -> Tensor:
    """Return output number `step`, from 0, of the generator that `seed` starts: 64 bits as a signed integer."""
    z = seed + (step + 1) * GAMMA
    z = (z ^ _shifted(z, 30)) * MIX_1
    z = (z ^ _shifted(z, 27)) * MIX_2
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """Shift to the right and fill with zeros, where torch's own shift fills with the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def uniform(seed: Tensor, step: Tensor) -> Tensor:
    """Return a number in (0, 1) for each seed and step, in float64."""
    return (_shifted(splitmix(seed, step), 64 - BITS).double() + 0.5) / (1 << BITS)


def penalize_repetition(logits_SV: Tensor, text_SN: Tensor, penalty: float) -> Tensor:
    """Return logits with the penalty applied once to every token that occurs in the text."""
    logits_SN = logits_SV.gather(1, text_SN)
    return logits_SV.scatter(1, text_SN, torch.where(logits_SN < 0, logits_SN * penalty, logits_SN / penalty))


def token_weights(scores_SV: Tensor, sampling: Sampling, *, fixed: bool) -> Tensor:
    """Return integer weights proportional to probability, 0 where a filter removes a token. Scores are logits, shifted or not."""
    highest_S1 = scores_SV.amax(1, keepdim=True).clamp_(min=LOWEST)  # where no token may follow, all weights are 0
    scores_SV = (scores_SV - highest_S1).div_(sampling.temperature)
    if sampling.top_k:
        least_S1 = scores_SV.topk(min(sampling.top_k, scores_SV.shape[1])).values[:, -1:]
        scores_SV.masked_fill_(scores_SV < least_S1, -torch.inf)
    likely_SV = scores_SV.exp()
    weight_SV = (likely_SV * UNIT).long()
    if sampling.top_p < 1:
        weight_SV = top_p_filter(weight_SV, scores_SV, sampling.top_p, fixed=fixed)
    if sampling.min_p:
        weight_SV.masked_fill_(likely_SV < sampling.min_p, 0)
    return weight_SV


def top_p_filter(weight_SV: Tensor, scores_SV: Tensor, top_p: float, *, fixed: bool) -> Tensor:
    """Set to 0 the least probable tokens that together weigh at most 1 - p, lower ids first.

    The most probable one always stays.
    """
    total_S1 = weight_SV.sum(1, keepdim=True)
    removable_S1 = ((1 - top_p) * total_S1.double()).long()
    order_SK = None if fixed else _short_order(weight_SV, scores_SV, removable_S1)
    if order_SK is None:
        order_SK = scores_SV.argsort(dim=1, stable=True)
    weight_SK = weight_SV.gather(1, order_SK)
    sum_SK = weight_SK.cumsum(1).add_(total_S1 - weight_SK.sum(1, keepdim=True))
    removed_SK = sum_SK <= removable_S1
    removed_SK[:, -1].fill_(False)
    return torch.zeros_like(weight_SV).scatter_(1, order_SK, weight_SK.masked_fill_(removed_SK, 0))


def _short_order(weight_SV: Tensor, scores_SV: Tensor, removable_S1: Tensor) -> Tensor | None:
    """Return the most probable SHORT tokens, least probable first, or None where top-p keeps others as well.

    A nucleus is mostly small, and sorting a whole vocabulary is slow. The host must read whether all others are removed, so
    this is for searches that are not `fixed`.
    """
    if scores_SV.shape[1] <= SHORT:
        return None
    top_SK, index_SK = scores_SV.topk(SHORT, sorted=True)
    others_SV = scores_SV <= top_SK[:, -1:]  # with all that tie with the last
    if ((weight_SV * others_SV).sum(1, keepdim=True) > removable_S1).any():
        return None
    index_SK = index_SK.sort(dim=1).values  # lower ids first, where scores are equal
    return index_SK.gather(1, scores_SV.gather(1, index_SK).argsort(dim=1, stable=True))


def draw(weight_SV: Tensor, uniform_S1: Tensor) -> Tensor:
    """Return token_S1: the first token, in vocabulary order, where the running sum of weights exceeds this fraction of the total.

    Returns token 0 where all weights are 0; the caller sees by its log-probability that it is not allowed.
    """
    sum_SV = weight_SV.cumsum(1)
    total_S1 = sum_SV[:, -1:]
    part_S1 = torch.minimum((uniform_S1 * total_S1).long(), total_S1 - 1)
    return torch.searchsorted(sum_SV, part_S1, right=True).clamp_(max=weight_SV.shape[1] - 1)
