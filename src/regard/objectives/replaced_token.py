"""Replaced tokens: one network fills in masked words, the other finds those that it got wrong (Clark et al. 2020, section 2).

    L = mean over masked words of -log p_G(word | masked passage) + weight * mean over all words of -log p_D(replaced, or not)

What the generator puts in is drawn from its distribution; where it draws the very word that was there, that word is not replaced.
No gradient passes from the second network back into the first. Draws are counted: the batch brings a number for each masked word,
so that what is drawn is the same after a resume, and in a part of the batch.

Differs from the paper in: marks such as [CLS] are not judged, and the second mean is over words times share, not over masked
words, which passages of odd lengths round, so that parts of a batch add up to the whole.

Dims: M masked words, T words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError
from regard.data.batching.masked import MaskedBatch
from regard.families.electra import ELECTRA
from regard.model.heads import VocabularyHead
from regard.model.layers import product
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import chunks, cross_entropy, vocabulary_loss
from regard.objectives.masked_lm import check_share


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig:
    name: Literal["replaced"] = "replaced"
    mask_rate: float = 0.15  # of the words is masked
    whole_words: bool = False  # all pieces of a word together
    weight: float = 50.0  # of finding what was replaced, beside filling in
    next_sentence = False
    passes = 1

    def __post_init__(self) -> None:
        check_share(self.mask_rate)
        if not 0 < self.weight < float("inf"):
            raise UserError(f"objective.weight={self.weight} must be above 0, such as 50.")


class ReplacedTokenLoss:
    """A model that is not in training is told by `parts` too: judged words, the right judgements, replaced words, found ones."""

    def __init__(self, config: ReplacedTokenConfig) -> None:
        self.weight, self.mask_rate = config.weight, config.mask_rate

    def __call__(self, model: ELECTRA, batch: MaskedBatch) -> Loss:
        generator, head = model.generator, model.generator.head
        x_MD = generator.hidden(batch.ids_BL, batch.words).flatten(0, 1)[batch.masked_M]
        nll = vocabulary_loss(cross_entropy, head, x_MD, batch.targets_M, fill=True)
        filled_BL, replaced_T = self._filled(batch, draw(head, x_MD.detach(), batch.chance_M))
        logits_T = model.head(model.hidden(filled_BL, batch.words).flatten(0, 1)[batch.judged_T]).float()
        wrong = F.binary_cross_entropy_with_logits(logits_T, replaced_T.float(), reduction="sum")
        parts = {"nll": nll, "judged_nll": wrong}
        if not model.training:
            parts |= _judged(logits_T > 0, replaced_T)
        return Loss(nll + self.weight * self.mask_rate * wrong, parts, batch.tokens)

    @staticmethod
    def _filled(batch: MaskedBatch, drawn_M: Tensor) -> tuple[Tensor, Tensor]:
        """The passages with what was drawn in them, and which of the judged words are not the passages' own."""
        own_BL = batch.ids_BL.flatten().scatter(0, batch.masked_M, batch.targets_M)
        filled_BL = own_BL.scatter(0, batch.masked_M, drawn_M)
        return filled_BL.view_as(batch.ids_BL), (filled_BL != own_BL)[batch.judged_T]


@torch.no_grad()
def draw(head: VocabularyHead, x_MD: Tensor, chance_M: Tensor) -> Tensor:
    """A word for each vector, as likely as the head finds it: where probabilities, word by word, sum up to the chance."""
    x_MD = head.ready(x_MD)
    weight_VD, bias_V = (None if part is None else part.to(x_MD.dtype) for part in (head.project.weight, head.project.bias))
    drawn_M = torch.zeros_like(chance_M, dtype=torch.long)
    for begin, end in chunks(x_MD, len(weight_VD)):
        upto_MV = product(x_MD[begin:end], weight_VD, bias_V).float().softmax(-1).cumsum(-1)
        part_M1 = chance_M[begin:end, None] * upto_MV[:, -1:]
        drawn_M[begin:end] = torch.searchsorted(upto_MV, part_M1, right=True).squeeze(1).clamp_(max=upto_MV.shape[1] - 1)
    return drawn_M


def _judged(said_T: Tensor, replaced_T: Tensor) -> dict[str, Tensor]:
    judged = torch.tensor(len(said_T), device=said_T.device)
    right, found = (said_T == replaced_T).sum(), (said_T & replaced_T).sum()
    return {"judged": judged, "right": right, "replaced": replaced_T.sum(), "found": found, "said": said_T.sum()}
