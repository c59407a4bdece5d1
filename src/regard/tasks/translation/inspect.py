"""Models that write, as subjects: each place of the text that is written is scored on what stands there.

                     reads (encoder)      reads (decoder)     writes, and is scored on
    translator       source <eos>         <sos> target        target <eos>
    captioner        cells of an image    <sos> caption       caption <eos>
    language model                        text                the text from its second token on

What a translator or a captioner is given as its target, or what it finds best itself, is passed at once: training and decoding
give the same numbers, so this is what was attended to when it was written, token by token. A language model that is given a
target goes on with it, and is scored on that alone; after the last token stands what it would write next, which nothing is
scored on. A cell is called by its row and column, both from 1. Its own vector, before its place is added, is to it what a word's
is to a word, so that cells can be taken away and gradients arrive at them (`lens/analyses/gradients.py`).

And their searches as trees, with all candidates kept: for those who want to see what was dropped, or lead a search elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.decode.beam_trace import SearchTree, trace_beam
from regard.decode.config import BeamSettings, DecodeConfig
from regard.decode.request import SearchRequest
from regard.lens.image_subject import cell_row
from regard.lens.subject import ImageTokens, Subject, TokenRow
from regard.model.block import Stack
from regard.model.state.protocol import EncodedInput
from regard.tasks.generated_text import ROOM, GeneratedText
from regard.tasks.language_model.generate import BatchGenerator
from regard.tasks.language_model.predict import LOOKED_AT, TextGenerator
from regard.tasks.output_marks import OutputMarks
from regard.tasks.translation.predict import Translator, longest
from regard.text.specials import EOS, SOS
from regard.text.tokenizer import Tokenizer

if TYPE_CHECKING:  # a captioner imports what reads images
    from regard.tasks.captioning.predict import CaptionGenerator

STORY = 24  # tokens that a language model's search writes


def _framed(translator: Translator, text: str) -> TokenRow:
    """Return a text as the encoder reads it, with the special tokens around it."""
    tokenizer, (ids,) = translator.tokenizers.source, translator.sources([text])
    words = TokenRow.typed(tokenizer, text)
    count = len(words.ids)
    at = next((n for n in range(len(ids)) if list(ids[n : n + count]) == list(words.ids)), 0)
    return TokenRow.mark(tokenizer, *ids[:at]) + words + TokenRow.mark(tokenizer, *ids[at + count :])


def of_translator(translator: Translator, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """Return the subject of a translation: the given one, or number `hypothesis` of a search, the best if None."""
    aim = translator.tokenizers.target
    if target is not None:
        side, told, finished = TokenRow.typed(aim, target), target, True
    else:
        found = _found(translator, text, hypothesis)
        side, told, finished = TokenRow.written(aim, found.ids), found.text, found.finished
    room = longest(translator.model.config)
    encoder = _framed(translator, text)
    for what, length in (("text", len(encoder)), ("translation", 1 + len(side))):
        if length > room and (what == "text" or target is not None):
            raise UserError(f"the {what} is {length:,} tokens long, but this model has {room:,} positions; give less.")
    decoder, outputs, targets_L = _laid(aim, side, finished, room, translator.marks.start, translator.marks.ends[:1])
    source_M, target_L = (torch.tensor(given.ids, device=translator.device) for given in (encoder, decoder))

    def hidden(copies: int) -> Tensor:
        lengths_B = torch.full((copies,), len(source_M), device=source_M.device)
        return translator.model.hidden(source_M.expand(copies, -1), lengths_B, target_L.expand(copies, -1))

    model = translator.model
    return Subject(
        model=model,
        title=f"{text} → {told}",
        sides={"encoder": encoder, "decoder": decoder},
        forward=lambda copies: model.head(hidden(copies)),
        targets_L=targets_L,
        outputs=outputs,
        choices=lambda i: aim.tokens([i])[0],
        head=words_of(model.decoder, model.head) if isinstance(model.decoder, Stack) else None,
        hidden=hidden,
        output_text=told,
    )


def of_writer(writer: TextGenerator, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """Return the subject of a text with a continuation: the given one, number `hypothesis` of a search, or none."""
    tokenizer, model = writer.tokenizer, writer.model
    begun = TokenRow.typed(tokenizer, text)
    begun = begun if len(begun) else TokenRow.mark(tokenizer, writer.start)
    side, told = begun, text
    if target is not None:
        more = target if text[-1:].isspace() or target[:1].isspace() else f" {target}"
        side, told = begun + TokenRow.typed(tokenizer, more), f"{text}|{target}"
    elif hypothesis is not None:
        ids, wrote = _written(writer, text, hypothesis)
        side, told = begun + TokenRow.written(tokenizer, ids), f"{text}|{wrote}"
    if len(side) > writer.window:
        raise UserError(f"the text is {len(side):,} tokens long, but this model sees {writer.window:,} at a time; give less.")
    ids_L = torch.tensor(side.ids, device=writer.device)

    def hidden(copies: int) -> Tensor:
        return model.hidden(ids_L.expand(copies, -1))

    with torch.no_grad():
        following = int(model.head(hidden(1)[:, -1:])[0, 0, : len(tokenizer)].argmax())
    targets_L = torch.tensor([*side.ids[1:], IGNORED])
    if len(side) > len(begun):
        targets_L[: len(begun) - 1] = IGNORED
    return Subject(
        model=model,
        title=told,
        sides={"decoder": side},
        forward=lambda copies: model.head(hidden(copies)),
        targets_L=targets_L,
        outputs=side[1:] + TokenRow.given(tokenizer, [following], [0]),
        choices=lambda i: tokenizer.tokens([i])[0] if i < len(tokenizer) else f"<{i}>",
        head=words_of(model.decoder, model.head),
        hidden=hidden,
    )


def words_of(stack: Stack, head: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Return the function from a block's output to logits: a pre-norm stack's final norm comes before the head."""
    norm = stack.norm
    return head if norm is None else lambda x_BLD: head(norm(x_BLD))


def _found(translator: Translator, text: str, hypothesis: int | None) -> GeneratedText:
    decode = translator.decode
    if hypothesis is None:
        return translator.translate([text])[0][0]
    if decode.search != "beam":
        raise UserError(f"--hypothesis {hypothesis} is for a beam, but this run searches by {decode.search}; leave it out.")
    found = replace(translator, decode=replace(decode, n_best=decode.beam)).translate([text])[0]
    return found[_rank(hypothesis, len(found))]


def _written(writer: TextGenerator, text: str, hypothesis: int) -> tuple[list[int], str]:
    decode, length = writer.decode, min(LOOKED_AT, max(1, writer.window - len(writer.tokenizer.encode(text))))
    several = decode.beam if decode.search == "beam" else 1
    short = replace(decode, maximum_length=length, minimum_length=0, stop=(), n_best=several)
    found = replace(writer, decode=short).write([text])[0]
    best = found[_rank(hypothesis, len(found))]
    return best.ids, best.text


def _rank(hypothesis: int, found: int) -> int:
    if not 0 <= hypothesis < found:
        raise UserError(f"--hypothesis {hypothesis} was not found: the search kept {found}, numbered from 0 to {found - 1}.")
    return hypothesis


def of_image(writer: CaptionGenerator, image_YXC: np.ndarray, name: str, target: str | None) -> Subject:
    """Return the subject of an image with a caption: the given one, or the model's own."""
    model, tokenizer = writer.model, writer.tokenizer
    if target is not None:
        side, told, finished = TokenRow.typed(tokenizer, target), target, True
    else:
        best = writer.write(image_YXC[None])[0][0]
        side, told, finished = TokenRow.written(tokenizer, best.ids), best.text, best.finished
    if 1 + len(side) > writer.room and target is not None:
        raise UserError(
            f"the caption is {1 + len(side):,} tokens long, but this model writes {writer.room:,} at most; give less."
        )
    decoder, outputs, targets_L = _laid(tokenizer, side, finished, writer.room)
    image = torch.from_numpy(image_YXC).to(writer.device)
    target_L = torch.tensor(decoder.ids, device=writer.device)

    def hidden(copies: int) -> Tensor:
        return model.hidden(image.expand(copies, -1, -1, -1), target_L.expand(copies, -1))

    stack = model.writer.decoder
    return Subject(
        model=model,
        title=f"{name} → {told}",
        sides={"encoder": cell_row(model.config.side, model.config.side), "decoder": decoder},
        forward=lambda copies: model.head(hidden(copies)),
        targets_L=targets_L,
        outputs=outputs,
        choices=lambda i: tokenizer.tokens([i])[0],
        head=words_of(stack, model.head) if isinstance(stack, Stack) else None,
        hidden=hidden,
        image=ImageTokens(image_YXC, model.config.side, model.config.side),
    )


def _laid(
    tokenizer: Tokenizer, side: TokenRow, finished: bool, room: int, start: int = SOS, ends: Sequence[int] = (EOS,)
) -> tuple[TokenRow, TokenRow, Tensor]:
    """Return what a decoder reads and writes, cut where its positions end, and its targets."""
    decoder, outputs = TokenRow.mark(tokenizer, start) + side, (side + TokenRow.mark(tokenizer, *ends))[:room]
    targets_L = torch.tensor(outputs.ids)
    if not finished and len(outputs) > len(side):
        targets_L[-1] = IGNORED  # it was cut off, and wrote no end
    return decoder[:room], outputs, targets_L


def trace_translator(translator: Translator, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
    (source,) = translator.sources([text])
    (maximum,) = translator.decode.capped([min(len(source) + ROOM, longest(translator.model.config))])
    if len(forced) >= maximum or len(source) > longest(translator.model.config):
        raise UserError(f"that is more than the {maximum} tokens a translation of this text may have; give less.")
    ids_1M = torch.tensor([source], device=translator.device)
    reading = translator.model.start(ids_1M, torch.tensor([len(source)], device=translator.device))
    return trace_reading(reading, translator.tokenizers.target, translator.decode, maximum, beam, forced)


def trace_reading(
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


def trace_writer(writer: TextGenerator, text: str, beam: int, forced: Sequence[int]) -> SearchTree:
    pen = BatchGenerator(writer.model, writer.tokenizer, writer.decode, writer.window, None)
    prompt = writer.encode(text)
    must_be_pieces(forced, writer.tokenizer, {*pen.banned, *pen.ends})
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
        more_ends=pen.ends[1:],
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
