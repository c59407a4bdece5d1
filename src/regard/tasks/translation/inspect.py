"""Models that write, as subjects: each place of the text that is written is scored on what stands there.

                     reads (encoder)      reads (decoder)     writes, and is scored on
    translator       source <eos>         <sos> target        target <eos>
    language model                        text                the text from its second token on

What a translator is given as its target, or what it finds best itself, is passed at once: training and decoding give the same
numbers, so this is what was attended to when it was written, token by token. A language model that is given a target goes on with
it, and is scored on that alone; after the last token stands what it would write next, which nothing is scored on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from regard.core.errors import UserError
from regard.core.packing import IGNORED
from regard.lens import token_rows
from regard.lens.subject import Subject
from regard.model.block import Stack
from regard.tasks.generated_text import GeneratedText
from regard.tasks.language_model.predict import LOOKED_AT, TextGenerator
from regard.tasks.translation.predict import Translator, longest


def _framed(translator: Translator, text: str) -> token_rows.TokenRow:
    """Return a text as the encoder reads it, with the special tokens around it."""
    (ids,), words = translator.sources([text]), token_rows.typed(translator.tokenizers.source, text)
    count = len(words.ids)
    at = next((n for n in range(len(ids)) if list(ids[n : n + count]) == list(words.ids)), 0)
    tokenizer = translator.tokenizers.source
    return token_rows.mark(tokenizer, *ids[:at]) + words + token_rows.mark(tokenizer, *ids[at + count :])


def of_translator(translator: Translator, text: str, target: str | None, hypothesis: int | None) -> Subject:
    """Return the subject of a translation: the given one, or number `hypothesis` of a search, the best if None."""
    aim = translator.tokenizers.target
    if target is not None:
        side, told, finished = token_rows.typed(aim, target), target, True
    else:
        found = _found(translator, text, hypothesis)
        side, told, finished = token_rows.written(aim, found.ids), found.text, found.finished
    room = longest(translator.model.config)
    encoder = _framed(translator, text)
    start, end = token_rows.mark(aim, translator.marks.start), token_rows.mark(aim, *translator.marks.ends[:1])
    decoder, outputs = start + side, side + end
    for what, given in (("text", encoder), ("translation", decoder)):
        if len(given) > room and (what == "text" or target is not None):
            raise UserError(f"the {what} is {len(given):,} tokens long, but this model has {room:,} positions; give less.")
    decoder, outputs = decoder[:room], outputs[:room]
    targets_L = torch.tensor(outputs.ids)
    if not finished and len(outputs) > len(side):
        targets_L[-1] = IGNORED  # it was cut off, and wrote no end
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


def of_writer(writer: TextGenerator, text: str, target: str | None, hypothesis: int | None) -> Subject:
    """Return the subject of a text with a continuation: the given one, number `hypothesis` of a search, or none."""
    tokenizer, model = writer.tokenizer, writer.model
    begun = token_rows.typed(tokenizer, text)
    begun = begun if len(begun) else token_rows.mark(tokenizer, writer.start)
    side, told = begun, text
    if target is not None:
        more = target if text[-1:].isspace() or target[:1].isspace() else f" {target}"
        side, told = begun + token_rows.typed(tokenizer, more), f"{text}|{target}"
    elif hypothesis is not None:
        ids, wrote = _written(writer, text, hypothesis)
        side, told = begun + token_rows.written(tokenizer, ids), f"{text}|{wrote}"
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
        outputs=side[1:] + token_rows.given(tokenizer, [following], [0]),
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
