"""How the next token is chosen where it is drawn: temperature, filters and a penalty, as one value.

Top-k: Fan et al. 2018. Top-p, the nucleus: Holtzman et al. 2020. Min-p: Nguyen et al. 2024. Repetition penalty: Keskar et al.
2019, section 4.1. They apply in the order that Hugging Face gives them: penalty, temperature, top-k, top-p, min-p.

Drawing tokens without a generator: every draw is a function of (seed, step), and whole numbers add up alike everywhere.

A generator would be carried from token to token, so a text would depend on its neighbours, and a recorded step would draw the
same again. Here step t of a text draws output t of SplitMix64 (Steele et al. 2014) from its seed, alike on any device.

Probabilities become whole numbers before they are summed: sums of those are the same in every order, so a text is the same in a
batch of any size, and what a filter took out, which weighs 0, is never drawn.

Dims: S texts, V vocabulary, N tokens of text.
"""

from __future__ import annotations

import torch
from torch import Tensor

from regard.decode.sampling_config import Choice

GAMMA, MIX_1, MIX_2 = (constant - (1 << 64) for constant in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))
BITS = 52  # of a draw; half a step above them is still exact in float64, so a draw is never 0 and never 1
UNIT = float(1 << 40)  # the likeliest token's weight: 4 million of them add up exactly; what is 1 / UNIT as likely weighs 0
SHORT = 1024
LOWEST = torch.finfo(torch.float32).min


def splitmix(seed: Tensor, step: Tensor) -> Tensor:
    """Output number `step`, from 0, of the generator that `seed` starts: 64 bits as a signed integer."""
    z = seed + (step + 1) * GAMMA
    z = (z ^ _shifted(z, 30)) * MIX_1
    z = (z ^ _shifted(z, 27)) * MIX_2
    return z ^ _shifted(z, 31)


def _shifted(z: Tensor, by: int) -> Tensor:
    """To the right, with zeros coming in; torch's own shift brings in the sign."""
    return (z >> by) & ((1 << (64 - by)) - 1)


def uniform(seed: Tensor, step: Tensor) -> Tensor:
    """One number in (0, 1) for each, in float64."""
    return (_shifted(splitmix(seed, step), 64 - BITS).double() + 0.5) / (1 << BITS)


def penalised(logits_SV: Tensor, text_SN: Tensor, penalty: float) -> Tensor:
    """Every token that occurs in the text, once, however often it does."""
    logits_SN = logits_SV.gather(1, text_SN)
    return logits_SV.scatter(1, text_SN, torch.where(logits_SN < 0, logits_SN * penalty, logits_SN / penalty))


def weights(scores_SV: Tensor, choice: Choice, *, fixed: bool) -> Tensor:
    """How likely each token is, as whole numbers; 0 where a filter takes it out. Scores are logits, shifted or not."""
    highest_S1 = scores_SV.amax(1, keepdim=True).clamp_(min=LOWEST)  # where nothing may follow, nothing weighs anything
    scores_SV = (scores_SV - highest_S1).div_(choice.temperature)
    if choice.top_k:
        least_S1 = scores_SV.topk(min(choice.top_k, scores_SV.shape[1])).values[:, -1:]
        scores_SV.masked_fill_(scores_SV < least_S1, -torch.inf)
    likely_SV = scores_SV.exp()
    weight_SV = (likely_SV * UNIT).long()
    if choice.top_p < 1:
        weight_SV = nucleus(weight_SV, scores_SV, choice.top_p, fixed=fixed)
    if choice.min_p:
        weight_SV.masked_fill_(likely_SV < choice.min_p, 0)
    return weight_SV


def nucleus(weight_SV: Tensor, scores_SV: Tensor, top_p: float, *, fixed: bool) -> Tensor:
    """Without the least likely that together weigh at most 1 - p; of equals, lower ids go first. The likeliest always stays."""
    whole_S1 = weight_SV.sum(1, keepdim=True)
    may_go_S1 = ((1 - top_p) * whole_S1.double()).long()
    order_SK = None if fixed else _short_order(weight_SV, scores_SV, may_go_S1)
    if order_SK is None:
        order_SK = scores_SV.argsort(dim=1, stable=True)
    weight_SK = weight_SV.gather(1, order_SK)
    upto_SK = weight_SK.cumsum(1).add_(whole_S1 - weight_SK.sum(1, keepdim=True))
    goes_SK = upto_SK <= may_go_S1
    goes_SK[:, -1].fill_(False)
    return torch.zeros_like(weight_SV).scatter_(1, order_SK, weight_SK.masked_fill_(goes_SK, 0))


def _short_order(weight_SV: Tensor, scores_SV: Tensor, may_go_S1: Tensor) -> Tensor | None:
    """The likeliest few, least likely first, if all others go: a nucleus is mostly small, and sorting a vocabulary is slow.

    For where the host may look (see `offers`), since it must see whether they do.
    """
    if scores_SV.shape[1] <= SHORT:
        return None
    top_SK, index_SK = scores_SV.topk(SHORT, sorted=True)
    others_SV = scores_SV <= top_SK[:, -1:]  # with all that tie with the last
    if ((weight_SV * others_SV).sum(1, keepdim=True) > may_go_S1).any():
        return None
    index_SK = index_SK.sort(dim=1).values  # lower ids first, where scores are equal
    return index_SK.gather(1, scores_SV.gather(1, index_SK).argsort(dim=1, stable=True))


def draw(weight_SV: Tensor, uniform_S1: Tensor) -> Tensor:
    """token_S1: where the sums of the weights, in the order of the vocabulary, first exceed this part of the whole.

    Where nothing weighs anything, token 0; whoever draws must see that it may not come.
    """
    upto_SV = weight_SV.cumsum(1)
    whole_S1 = upto_SV[:, -1:]
    part_S1 = torch.minimum((uniform_S1 * whole_S1).long(), whole_S1 - 1)
    return torch.searchsorted(upto_SV, part_S1, right=True).clamp_(max=weight_SV.shape[1] - 1)
