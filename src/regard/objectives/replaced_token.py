"""Replaced token detection: a generator fills in masked tokens, and a discriminator finds those that are wrong.

L = mean over masked words of -log p_G(word | masked passage) + weight * mean over all words of -log p_D(replaced, or not)

Clark et al. 2020, section 2. Tokens are drawn from the generator's distribution; where the original token is drawn, it does not
count as replaced. No gradient flows from the discriminator into the generator. Draws are counted: the batch brings a random
number for each masked token, so that draws are the same after a resume and in any micro-batch.

Differs from the paper in: special tokens such as [CLS] are not classified, and the second mean is over tokens times the rate, not
over masked tokens, whose number is rounded in each passage, so that micro-batches add up to the batch.

Dims: M masked words, T words.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.config import Bounds, check_bounds
from regard.data.batching.masked import MaskedBatch
from regard.families.electra import ELECTRA
from regard.model.embedding import VocabularyHead
from regard.model.layers import product
from regard.objectives.base import Loss
from regard.objectives.chunked_cross_entropy import chunked_loss, chunks, cross_entropy
from regard.objectives.masked_lm import MaskRate


@dataclass(frozen=True, kw_only=True)
class ReplacedTokenConfig:
    name: Literal["replaced_token"] = "replaced_token"
    mask_rate: MaskRate = 0.15  # of the tokens is masked
    whole_words: bool = False  # mask all tokens of a word together
    weight: Annotated[float, Bounds(0, above=True, example="50")] = 50.0  # of the discriminator's loss
    next_sentence = False
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")


class ReplacedTokenLoss:
    """Generator loss + weighted discriminator loss; outside training, `parts` also counts what the discriminator classified."""

    def __init__(self, config: ReplacedTokenConfig) -> None:
        self.weight, self.mask_rate = config.weight, config.mask_rate

    def __call__(self, model: ELECTRA, batch: MaskedBatch) -> Loss:
        generator, head = model.generator, model.generator.head
        x_MD = generator.hidden(batch.ids_BL, batch.words).flatten(0, 1)[batch.masked_M]
        nll = chunked_loss(cross_entropy, head, x_MD, batch.targets_M, fill=True)
        filled_BL, replaced_T = self._fill_in(batch, sample_tokens(head, x_MD.detach(), batch.chance_M))
        logits_T = model.head(model.hidden(filled_BL, batch.words).flatten(0, 1)[batch.judged_T]).float()
        wrong = F.binary_cross_entropy_with_logits(logits_T, replaced_T.float(), reduction="sum")
        parts = {"nll": nll, "judged_nll": wrong}
        if not model.training:
            parts |= _detection_counts(logits_T > 0, replaced_T)
        return Loss(nll + self.weight * self.mask_rate * wrong, parts, batch.tokens)

    @staticmethod
    def _fill_in(batch: MaskedBatch, drawn_M: Tensor) -> tuple[Tensor, Tensor]:
        """Return the passages with drawn tokens in the masked places, and which of the classified tokens were replaced."""
        own_BL = batch.ids_BL.flatten().scatter(0, batch.masked_M, batch.targets_M)
        filled_BL = own_BL.scatter(0, batch.masked_M, drawn_M)
        return filled_BL.view_as(batch.ids_BL), (filled_BL != own_BL)[batch.judged_T]


@torch.no_grad()
def sample_tokens(head: VocabularyHead, x_MD: Tensor, chance_M: Tensor) -> Tensor:
    """Return a token for each vector, drawn from the head's distribution by inverting its cumulative sum at `chance_M`."""
    x_MD = head.ready(x_MD)
    weight_VD, bias_V = (None if part is None else part.to(x_MD.dtype) for part in (head.project.weight, head.project.bias))
    drawn_M = torch.zeros_like(chance_M, dtype=torch.long)
    for begin, end in chunks(x_MD, len(weight_VD)):
        upto_MV = product(x_MD[begin:end], weight_VD, bias_V).float().softmax(-1).cumsum(-1)
        part_M1 = chance_M[begin:end, None] * upto_MV[:, -1:]
        drawn_M[begin:end] = torch.searchsorted(upto_MV, part_M1, right=True).squeeze(1).clamp_(max=upto_MV.shape[1] - 1)
    return drawn_M


def _detection_counts(said_T: Tensor, replaced_T: Tensor) -> dict[str, Tensor]:
    judged = torch.tensor(len(said_T), device=said_T.device)
    right, found = (said_T == replaced_T).sum(), (said_T & replaced_T).sum()
    return {"judged": judged, "right": right, "replaced": replaced_T.sum(), "found": found, "said": said_T.sum()}
