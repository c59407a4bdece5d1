"""The special tokens around what a model reads and writes: those of the vocabulary, or those that the [decode] section names.

A vocabulary made here begins every output after <sos> and ends it with <eos>. A public checkpoint has its own habits: T5 begins
after the padding token, BART after </s>, a translator into many languages after the name of one, and several tokens may be an
end. `[decode]` names such tokens as the vocabulary spells them, so `decode.first=fr_XX` chooses another language.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from regard.core.errors import UserError, nearest
from regard.decode.candidates import NO_TOKEN
from regard.decode.config import MARKS, DecodeConfig
from regard.text.specials import EOS, OWN_MARKS, PAD, SOS, SPECIALS, PairMarks
from regard.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class OutputMarks:
    start: int  # an output comes after it
    ends: tuple[int, ...]  # empty: none is known
    first: tuple[int, ...]  # every output begins with it
    banned: tuple[int, ...]
    banned_first: tuple[int, ...]

    @classmethod
    def of(cls, config: DecodeConfig, tokenizer: Tokenizer) -> OutputMarks:
        roles, own = tokenizer.roles, is_own(tokenizer)
        usual = (roles.sos, roles.cls, roles.eos, roles.pad, 0)
        start = SOS if own else next(i for i in usual if i is not None)
        end = EOS if own else next((i for i in (roles.eos, roles.sep) if i is not None), NO_TOKEN)
        return cls(
            _ids(tokenizer, [config.start], "start")[0] if config.start else start,
            _ids(tokenizer, config.end, "end") or ((end,) if end != NO_TOKEN else ()),
            _ids(tokenizer, [config.first] if config.first else [], "first"),
            ((PAD, SOS) if own else ()) + _ids(tokenizer, config.suppressed, "suppressed"),
            _ids(tokenizer, config.suppressed_first, "suppressed_first"),
        )

    @property
    def end(self) -> int:
        return self.ends[0] if self.ends else NO_TOKEN

    def request(
        self, config: DecodeConfig, vocabulary: int, tokenizer: Tokenizer, prefix: Sequence[int], rows: int
    ) -> dict[str, Any]:
        """Return what a `SearchRequest` takes of these; ids beyond the tokenizer, which cannot be read, are banned."""
        begin = [*self.first, *prefix]
        return {
            "sos": self.start,
            "eos": self.end,
            "more_ends": self.ends[1:],
            "banned": (*self.banned, *range(len(tokenizer), vocabulary)),
            "banned_first": self.banned_first,
            "forced": [begin] * rows if begin else None,
            **counted(config),
        }


def counted(config: DecodeConfig) -> dict[str, Any]:
    """Return what a `SearchRequest` takes from the settings as it is."""
    return {
        "no_repeat_ngram": config.no_repeat_ngram,
        "forced_end": config.end_at_limit,
        "free_forced": bool(config.first) or config.end_at_limit,  # as transformers scores what it forces
    }


def is_own(tokenizer: Tokenizer) -> bool:
    """Return whether the vocabulary was made here."""
    return all(tokenizer.raw.token_to_id(special) == i for i, special in enumerate(SPECIALS))


def pair_marks(tokenizer: Tokenizer, config: DecodeConfig, source: Tokenizer | None = None) -> PairMarks:
    """Return what training puts around sources and targets, as transformers does for its `labels`.

    A target has what the vocabulary's template puts around any text, but for the language: `decode.first` names it where it comes
    first, `decode.start` where the template has it behind the end (mBART). Give the tokenizer of the source where it is another.
    """
    marks = OutputMarks.of(config, tokenizer)
    if source is not None and source is not tokenizer:
        read = pair_marks(source, source_settings(config, source))
        return pair_marks(tokenizer, config)._replace(before_source=read.before_source, after_source=read.after_source)
    if is_own(tokenizer):
        return OWN_MARKS._replace(start=marks.start)
    if (pad := tokenizer.roles.pad) is None:
        raise UserError("this vocabulary has no padding token, without which pairs cannot be trained on; start from another.")
    before, after = _template(tokenizer)
    if not before and not after and marks.ends:
        after = marks.ends[:1]
    written = (*after[:1], marks.start) if len(after) == 2 and after[0] in marks.ends else after
    if not written:
        raise UserError("this vocabulary has no token that ends a text; name one in decode.end.")
    return PairMarks(pad, marks.start, before, after, marks.first or before, written)


def _template(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the vocabulary's own template puts before and after a text."""
    if tokenizer.raw.post_processor is None:
        return (), ()
    framed, plain = (tokenizer.raw.encode("a", add_special_tokens=add).ids for add in (True, False))
    begin = next((n for n in range(len(framed)) if framed[n : n + len(plain)] == plain), 0)
    return tuple(framed[:begin]), tuple(framed[begin + len(plain) :])


def source_settings(config: DecodeConfig, source: Tokenizer) -> DecodeConfig:
    """Return settings with the ends of these alone, for a tokenizer that writes nothing."""
    return DecodeConfig(end=() if is_own(source) else config.end)


def greedy_as(config: DecodeConfig, maximum_length: int = 0) -> DecodeConfig:
    """Return a greedy search with the special tokens of these settings, for reports."""
    return DecodeConfig(search="greedy", maximum_length=maximum_length, **{name: getattr(config, name) for name in MARKS})


def frame_sources(tokenizer: Tokenizer, texts: Sequence[str], marks: OutputMarks) -> list[list[int]]:
    """Return the ids of texts to read, each with its end, or with what the vocabulary's own template puts around it."""
    if tokenizer.raw.post_processor is not None and not is_own(tokenizer):
        framed = [encoding.ids for encoding in tokenizer.raw.encode_batch_fast(list(texts), add_special_tokens=True)]
        if any(len(ids) > len(plain) for ids, plain in zip(framed, tokenizer.encode_batch(texts))):
            return framed
    return [[*ids, *([marks.end] if marks.end != NO_TOKEN else [])] for ids in tokenizer.encode_batch(texts)]


def _ids(tokenizer: Tokenizer, names: Sequence[str], key: str) -> tuple[int, ...]:
    found = list[int]()
    for name in names:
        if (i := tokenizer.raw.token_to_id(name)) is None:
            specials = [str(tokenizer.raw.id_to_token(i)) for i in sorted(tokenizer.specials)]
            raise UserError(f"decode.{key}={name!r} is no token of this vocabulary{nearest(name, specials)}")
        found.append(i)
    return tuple(found)
