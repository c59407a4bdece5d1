"""The ids that are not text but say something about it: the four every vocabulary made here begins with, and other people's.

A model of ours never has to ask which number means "stop": it is EOS. Public vocabularies number and name such pieces
their own way, and few have all of them; `Roles` says which id plays which part.
"""

from __future__ import annotations

from typing import NamedTuple

SPECIALS = ("<pad>", "<sos>", "<eos>", "<unk>")
PAD, SOS, EOS, UNK = range(len(SPECIALS))
SENTINEL = "<extra_id_{}>"  # stands for span number 0, 1, ... of a corrupted text (T5)
SENTINELS = 100  # as many as T5 has
TURN_END = "__eou__"  # between the turns of a dialogue: as its files write it, a piece of its own (`Tokenizer.with_turns`)


class Roles(NamedTuple):
    """The id that plays each part, None where a vocabulary has none for it."""

    pad: int | None = None  # fills up short rows of a batch
    sos: int | None = None  # starts a text
    eos: int | None = None  # ends it
    unk: int | None = None  # stands for what the vocabulary cannot spell
    mask: int | None = None  # hides a piece to be guessed (BERT)
    cls: int | None = None  # starts a text and gathers what it is about (BERT)
    sep: int | None = None  # ends each of two sentences (BERT)


class PairMarks(NamedTuple):
    """The ids around what a model reads and writes in training; the defaults are those of a vocabulary made here.

    What is written is read shifted: after `start`, and without its last id.
    """

    pad: int = PAD  # fills up short rows, and is never predicted
    start: int = SOS
    before_source: tuple[int, ...] = ()
    after_source: tuple[int, ...] = (EOS,)
    before_target: tuple[int, ...] = ()
    after_target: tuple[int, ...] = (EOS,)

    @property
    def around_source(self) -> int:
        """Return how many ids are added to a source."""
        return len(self.before_source) + len(self.after_source)

    @property
    def around_target(self) -> int:
        """Return how many ids are added to a target."""
        return len(self.before_target) + len(self.after_target)


OWN_MARKS = PairMarks()


# What vocabularies call each part, ours first; of several that are there, the first is meant. GPT-2 has one piece that
# ends a document and, being the end of the one before, starts the next.
NAMES: dict[str, tuple[str, ...]] = {
    "pad": ("<pad>", "[PAD]", "<|pad|>"),
    "sos": ("<sos>", "<s>", "<|startoftext|>", "<|endoftext|>"),
    "eos": ("<eos>", "</s>", "<|endoftext|>"),
    "unk": ("<unk>", "[UNK]"),
    "mask": ("<mask>", "[MASK]"),
    "cls": ("[CLS]",),
    "sep": ("[SEP]",),
}
