"""Drawing pixels that are one token each, colour after colour: a state whose steps are colours.

The Transformer takes one step a pixel and gives the numbers of a coupled mixture. From these come the probabilities of red, then
of green given the red that was drawn, then of blue given both, which draws exactly what the mixture describes; so a search over
single levels serves these models too. Which colour comes next the host counts, so steps are not captured as CUDA graphs.

Dims: S sentences (images), W lanes, V levels, C colours, P numbers of a mixture.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard.model.state.decoder import DecoderState, EncodedPrompt, WrappedPrompt
from regard.model.state.protocol import RowCompaction
from regard.model.vision.logistic import COLOURS, next_colour


class ColourByColour(WrappedPrompt):
    """Encoded prompts of a model with coupled colours."""

    @property
    def session_key(self) -> Hashable:
        return "colours", self.read.session_key

    def make_state(self, sentences: int, lanes: int, tokens: int, *, fixed: bool) -> ColourState:
        return ColourState(self.read, sentences, lanes, tokens, fixed)


class ColourState:
    """The state of the Transformer, and the pixel that is being drawn."""

    def __init__(self, read: EncodedPrompt, sentences: int, lanes: int, tokens: int, fixed: bool) -> None:
        self.inner = DecoderState(read, sentences, lanes, -(-tokens // COLOURS), fixed)
        model: Any = read.model
        self.order, self.sentences = model.order, sentences
        self.level_SWC = torch.zeros(sentences, lanes, COLOURS, dtype=torch.long, device=read.device)
        self.numbers_SWP = torch.zeros(sentences, lanes, model.config.outputs, device=read.device)
        self.steps = 0

    @property
    def shape(self) -> Hashable:
        return self.inner.shape, self.steps % COLOURS

    def load(self, encoded: ColourByColour, limits: Sequence[int]) -> None:
        self.inner.load(encoded.read, [-(-limit // COLOURS) for limit in limits])
        self.steps, self.sentences = 0, len(self.level_SWC)

    def grow(self, tokens: int) -> None:
        done, wanted = (-(-steps // COLOURS) for steps in (self.steps, self.steps + tokens))
        if wanted > done:
            self.inner.grow(wanted - done)

    @torch.no_grad()
    def step(self, ids_SW: Tensor) -> Tensor:
        """Take the newest level, or at the beginning the token that drawing starts from; return the next one's scores_SWV."""
        colour = self.steps % COLOURS
        level_SWC, numbers_SWP = self.level_SWC[: self.sentences], self.numbers_SWP[: self.sentences]
        if self.steps:
            level_SWC[..., colour - 1] = ids_SW
        if colour == 0:
            ids_SW = self.order.joined(level_SWC.flatten(1)) if self.steps else ids_SW
            numbers_SWP.copy_(self.inner.step(ids_SW))
        self.steps += 1
        return next_colour(numbers_SWP, level_SWC, colour, self.order.levels)

    def select(self, parents_SW: Tensor) -> None:
        self.inner.select(parents_SW)
        for buffer_SW in (self.level_SWC[: self.sentences], self.numbers_SWP[: self.sentences]):
            buffer_SW.copy_(buffer_SW.gather(1, parents_SW[..., None].expand_as(buffer_SW)))

    def compact(self, moves: RowCompaction) -> None:
        self.inner.compact(moves)
        for buffer_S in (self.level_SWC, self.numbers_SWP):
            moves.within(buffer_S)
        self.sentences = moves.stay
