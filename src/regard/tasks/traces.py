"""The search that a run does, with all its candidates kept: for those who want to see what it dropped, or lead it elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from regard.core.errors import UserError
from regard.decode.beam_trace import SearchTree, trace_beam
from regard.decode.config import BeamSettings, DecodeConfig
from regard.decode.request import SearchRequest
from regard.model.state.protocol import EncodedInput
from regard.tasks.language_model.generate import BatchGenerator
from regard.tasks.language_model.predict import TextGenerator
from regard.tasks.output_marks import OutputMarks
from regard.tasks.translation.predict import ROOM, Translator, longest
from regard.text.tokenizer import Tokenizer

STORY = 24  # tokens that a language model's search writes


def of_translator(translator: Translator, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
    (source,) = translator.sources([text])
    (maximum,) = translator.decode.capped([min(len(source) + ROOM, longest(translator.model.config))])
    if len(forced) >= maximum or len(source) > longest(translator.model.config):
        raise UserError(f"that is more than the {maximum} tokens a translation of this text may have; give less.")
    ids_1M = torch.tensor([source], device=translator.device)
    reading = translator.model.start(ids_1M, torch.tensor([len(source)], device=translator.device))
    return of_reading(reading, translator.tokenizers.target, translator.decode, maximum, beam, forced)


def of_reading(
    reading: EncodedInput, tokenizer: Tokenizer, config: DecodeConfig, maximum: int, beam: int, forced: Sequence[int]
) -> SearchTree:
    """Return the search tree of a decoder that has read its input and writes a text that ends by itself."""
    marks = OutputMarks.of(config, tokenizer)
    must_be_pieces(forced, tokenizer, {marks.start, *marks.ends, *marks.banned})
    request = SearchRequest(
        encoded=reading,
        limits=[maximum],
        method=ranked(config, beam),
        minimum_length=config.minimum_length,
        banned_sequences=[ids for word in config.banned_words if (ids := tokenizer.encode(word))],
        **marks.request(config, len(tokenizer), tokenizer, forced, 1) | {"forced": [[*marks.first, *forced]]},
    )
    return trace_beam(request)


def of_writer(writer: TextGenerator, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
    pen = BatchGenerator(writer.model, writer.tokenizer, writer.decode, writer.window, None)
    prompt = writer.tokenizer.encode(text) or [writer.start]
    must_be_pieces(forced, writer.tokenizer, set(pen.banned) | {pen.end})
    maximum = min(len(forced) + STORY, writer.window + 1 - len(prompt))
    if maximum <= len(forced):
        raise UserError(f"there is no room for more: this model sees {writer.window:,} tokens at a time; give less.")
    *read, last = prompt
    read_1L = torch.tensor([read], dtype=torch.long, device=writer.device)
    reading = writer.model.start(read_1L, torch.tensor([len(read)], device=writer.device))
    request = SearchRequest(
        encoded=reading,
        sos=last,
        eos=pen.end,
        limits=[maximum],
        method=ranked(writer.decode, beam),
        banned=pen.banned,
        banned_sequences=pen.banned_words,
        forced=[forced],
    )
    return trace_beam(request)


def ranked(config: DecodeConfig, beam: int) -> BeamSettings:
    """Return the settings of a beam that keeps as many texts as it is wide."""
    names = ("length_penalty", "length_formula", "early_stopping", "rank_cut")
    return BeamSettings(beam=beam, n_best=beam, **{name: getattr(config, name) for name in names})


def must_be_pieces(forced: Sequence[int], tokenizer: Tokenizer, never: set[int]) -> None:
    for token in forced:
        if token >= len(tokenizer) or token in never:
            raise UserError(f"{token} is not a piece that could be written; force one that the tree shows.")
