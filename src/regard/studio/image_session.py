"""An opened captioner as studio needs it: what is laid before it are images, by the names that its gallery knows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn

from regard.core.errors import UserError
from regard.data.sources.captions import CaptionedImages, open_captioned
from regard.decode.beam_trace import SearchTree
from regard.lens.analyses.word_senses import WordUses
from regard.lens.subject import Subject
from regard.model.probe import probe
from regard.runs.recipe import Recipe
from regard.studio.gallery import Gallery
from regard.studio.session import Session, facts_of
from regard.studio.vocabulary import Vocabulary
from regard.tasks.captioning.predict import CaptionGenerator, longest
from regard.tasks.captioning.prepare import read_listed
from regard.tasks.translation.inspect import cells, must_be_pieces, of_image, trace_reading
from regard.text.specials import SOS


@dataclass(frozen=True, eq=False)
class ImageSession(Session):
    writer: CaptionGenerator
    recipe: Recipe
    task: str
    weights: str  # where they come from, for people

    @property
    def model(self) -> nn.Module:
        return self.writer.model

    @property
    def facts(self) -> Mapping[str, str]:
        return facts_of(self.model, self.task, self.weights)

    @property
    def example(self) -> str:
        return self.gallery.examples[0].name

    @cached_property
    def gallery(self) -> Gallery:
        return Gallery(self.writer.model.config.image_size, lambda: self._listed, open_captioned)

    @cached_property
    def _listed(self) -> CaptionedImages:
        """The images of the test set, or of the validation set if there is none."""
        return read_listed(self.recipe)

    def subject(self, text: str, target: str | None) -> Subject:
        return of_image(self.writer, self.gallery.picture(text).read_YXC, text, target)

    def answer(self, text: str) -> str:
        return self.writer.write(self.gallery.picture(text).read_YXC[None])[0][0].text

    def search(self, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
        (maximum,) = self.writer.decode.capped([longest(self.writer.model.config)])
        if len(forced) >= maximum:
            raise UserError(f"that is more than the {maximum} tokens a caption may have; force fewer.")
        reading = self.writer.model.start(self._image(text))
        return trace_reading(reading, self.writer.tokenizer, self.writer.decode, maximum, beam, forced)

    @torch.no_grad()
    def alignment(self, text: str, tokens: Sequence[int]) -> tuple[Sequence[str], Sequence[float]]:
        must_be_pieces(tokens, self.writer.tokenizer, set())
        *before, _ = tokens
        if len(before) >= longest(self.writer.model.config):
            raise UserError("that is more than a caption may have; give fewer tokens.")
        with probe(self.model) as seen:
            self.model(self._image(text), torch.tensor([[SOS, *before]], device=self.writer.device))
        last = seen[[name for name in seen if name.endswith(".cross")][-1]]
        weights_M = last.weights(rows=[len(before)])[0].mean(0)[0]
        return cells(self.writer.model.config.side).tokens, weights_M.tolist()

    def encode_word(self, word: str) -> list[int]:
        return self.writer.tokenizer.encode(word)

    def piece_of(self, token: int) -> str:
        return self.writer.tokenizer.tokens([token])[0]

    def decode_text(self, tokens: Sequence[int]) -> str:
        return self.writer.tokenizer.decode(tokens)

    def vocabulary(self) -> Vocabulary:
        tokenizer, target = self.writer.tokenizer, self.writer.model.writer.target
        config = self.writer.model.config
        return Vocabulary(
            encode=tokenizer.encode,
            piece=lambda i: tokenizer.tokens([i])[0],
            unknown=tokenizer.roles.unk,
            size=len(tokenizer),
            vectors_VD=target.tokens.weight,
            positions=target.positions,
            furthest=config.maximum_length if config.position == "learned" else None,
        )

    def uses(self, word: str, sentences: Sequence[str]) -> WordUses:
        raise UserError("this model reads images, so there are no sentences in which it could meet a word; it only writes them.")

    def _image(self, text: str) -> torch.Tensor:
        return torch.from_numpy(self.gallery.picture(text).read_YXC[None]).to(self.writer.device)
