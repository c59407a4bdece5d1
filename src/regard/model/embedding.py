"""Tokens become vectors: an embedding scaled by sqrt(D), joined with the position, then dropout.

Vaswani et al. 2017, sections 3.4, 3.5 and 5.4. Joined by `add` as in the paper, or by `concat`, which gives positions their own P
of the D dimensions. GPT and BERT do not scale; BERT adds the segment a token belongs to, and normalises the sum. ELECTRA's words
(Clark et al. 2020) may be narrower than its body: a projection widens them. Where text is scarce, whole words may be dropped
(Gal & Ghahramani 2016), lest a rare one tells all that follows it.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from regard.model.linear import Linear
from regard.model.norm import Norm
from regard.model.position.absolute import InputPositions

Join = Literal["add", "concat"]


class Embed(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        width: int,
        *,
        position: str,
        maximum_length: int,
        dropout: float,
        join: Join = "add",
        position_width: int = 0,
        scaled: bool = True,
        segments: int = 0,
        norm_epsilon: float = 0.0,
        first_position: int = 0,
        body_width: int = 0,
        word_dropout: float = 0.0,
        columns: int = 0,
    ) -> None:
        """A `body_width` of 0 is that of the words; `word_dropout` is of whole words, wherever in the batch they stand.

        Tokens with `columns` are the pixels of an image, row by row."""
        super().__init__()
        self.concat = join == "concat"
        self.tokens = nn.Embedding(vocabulary, width - position_width if self.concat else width)
        self.positions = InputPositions(
            position, position_width if self.concat else width, maximum_length, first_position, columns
        )
        self.scale = self.tokens.embedding_dim**0.5 if scaled else 1.0
        self.segments = nn.Embedding(segments, width) if segments else None
        self.norm = Norm(width, eps=norm_epsilon) if norm_epsilon else None
        self.dropout, self.word_dropout = nn.Dropout(dropout), word_dropout
        self.widen = Linear(width, body_width) if body_width not in (0, width) else None

    def forward(self, ids_BL: Tensor, positions_L: Tensor | None = None, segments_BL: Tensor | None = None) -> Tensor:
        """Tokens at these positions, at 0, 1, 2, ... where none are given; of these segments, the first where none are given."""
        if positions_L is None:
            self.positions.check(ids_BL.shape[1])
            positions_L = torch.arange(ids_BL.shape[1], device=ids_BL.device)
        x_BLD = self.tokens(ids_BL) * self.scale
        if self.training and self.word_dropout:
            kept_V = torch.rand(self.tokens.num_embeddings, device=ids_BL.device) >= self.word_dropout
            x_BLD = x_BLD * (kept_V[ids_BL] / (1 - self.word_dropout))[..., None]
        if (where_LD := self.positions.embed(positions_L)) is not None:
            if self.concat:
                x_BLD = torch.cat([x_BLD, where_LD.to(x_BLD).expand(ids_BL.shape[0], -1, -1)], -1)
            else:
                x_BLD = x_BLD + where_LD.to(x_BLD.dtype)
        if self.segments is not None:
            x_BLD = x_BLD + (self.segments.weight[0] if segments_BL is None else self.segments(segments_BL))
        if self.norm is not None:
            x_BLD = self.norm(x_BLD)
        # Residuals add to these vectors all the way up, so their type is the whole stream's.
        if torch.is_autocast_enabled(x_BLD.device.type):
            x_BLD = x_BLD.to(torch.get_autocast_dtype(x_BLD.device.type))
        x_BLD = self.dropout(x_BLD)
        return x_BLD if self.widen is None else self.widen(x_BLD)
