"""Denoising: write what noise has taken from a text (Raffel et al. 2020; Lewis et al. 2020).

    L = mean over target tokens of -log p(token | what is read, the target before it)

The kinds of noise are in `data/batching/noise.py`; each makes pairs, and the loss of a pair is that of sequence to sequence.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from regard.core.config import Bounds, Fraction, check_bounds
from regard.core.errors import UserError
from regard.data.batching.noise import parse_noise
from regard.objectives.seq2seq import Seq2SeqConfig, Seq2SeqLoss


@dataclass(frozen=True, kw_only=True)
class DenoisingConfig:
    name: Literal["denoising"] = "denoising"
    noise: str = "span_corruption"  # or another kind; those of BART may be joined, as in permutation+infilling
    noise_rate: Annotated[float, Bounds(0, 1, above=True, below=True, example="0.15")] = (
        0.15  # of the tokens, if noise has a rate
    )
    mean_span: Annotated[float, Bounds(1)] = 3.0  # tokens of a span, on average
    mask_random: Fraction = 0.0  # of the masks, a random word instead (BART: 0.1)
    smoothing: Fraction = 0.0
    passes = 1

    def __post_init__(self) -> None:
        check_bounds(self, "objective.")
        kinds = parse_noise(self.noise)
        if self.mask_random and not {"masking", "infilling"} & set(kinds):
            raise UserError(
                f"objective.mask_random={self.mask_random:g} puts words in place of masks, and objective.noise={self.noise} has "
                "none; leave it out, or add masking or infilling."
            )


def denoising_loss(config: DenoisingConfig) -> Seq2SeqLoss:
    """Return the cross-entropy of targets."""
    return Seq2SeqLoss(Seq2SeqConfig(smoothing=config.smoothing))
