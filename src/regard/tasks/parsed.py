"""Sentences of a treebank before a model: which of its tokens belong to which of the tree's words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from regard.data.conllu import Parsed
from regard.errors import UserError
from regard.lens.relations import Tree
from regard.tasks.subject import subject_of
from regard.tasks.task import Answers
from regard.tasks.translator import Translator
from regard.tasks.unknown import must_read_pieces


def trees(answers: Answers, sentences: Sequence[Parsed]) -> Iterator[Tree]:
    """Of a translator the source is looked at, so it is not asked to translate. Sentences that it cannot read are left out."""
    tokenizer, some, why = must_read_pieces(answers), False, "it reads other pieces than those of the text"
    for sentence in sentences:
        target = "." if isinstance(answers, Translator) else None
        try:
            subject = subject_of(answers, sentence.text, target)
        except UserError as refused:
            why = str(refused)
            continue
        stack = "encoder" if "encoder" in subject.sides else "decoder"
        side = subject.sides[stack]
        (placed,) = tokenizer.encode_placed([sentence.text])
        text = [n for n, special in enumerate(side.special) if not special]
        if [side.ids[n] for n in text] != placed.ids:
            continue  # its model reads other pieces than the sentence's own
        words = np.full(len(side), -1)
        words[text] = _words(sentence, placed.starts, placed.ends)
        some = True
        heads, relations = zip(*((word.head, word.relation) for word in sentence.words))
        yield Tree(subject, stack, tuple(words.tolist()), heads, relations)
    if not some:
        raise UserError(f"{sentences[0].place}: this model can read none of the {len(sentences)} sentences: {why}")


def _words(sentence: Parsed, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """For each piece the word that its first letter stands in; of words that share letters, the first. -1 where there is none."""
    found = np.full(len(starts), -1)
    for n, word in reversed(list(enumerate(sentence.words))):
        found[(starts >= word.start) & (starts < word.end) & (starts < ends)] = n
    return found
