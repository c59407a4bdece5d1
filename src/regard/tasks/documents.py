"""A text laid before a hierarchy: what it said, and how much it looked at every sentence and every word, for people to see."""

from __future__ import annotations

import numpy as np
import torch

from regard.errors import UserError
from regard.families.hierarchical import Hierarchical
from regard.lens.document import Document, Sentence, Word
from regard.model.nested import Nested
from regard.model.probe import probe
from regard.tasks.classifier import Labeller, probabilities
from regard.tasks.rater import Rater
from regard.tasks.task import Answers
from regard.text.sentences import sentences
from regard.text.splitting import word_places
from regard.text.tokenizer import Tokenizer


def reads_documents(answers: Answers) -> bool:
    return isinstance(answers, Labeller | Rater) and isinstance(answers.model.body, Hierarchical)


@torch.no_grad()
def document_of(answers: Labeller | Rater, text: str) -> Document:
    """The sentences of a text as they stand there; those that were cut off have no weight."""
    reader, model = answers.reader, answers.model
    split = sentences(text)
    if not split:
        raise UserError("the text has no sentence; give one that has words.")
    ids, _, cut = reader.encode([(text,)], [repr(text[:40])])
    ids_1L = torch.tensor(ids.flat.tolist(), device=next(model.parameters()).device)[None]
    lengths_1 = torch.tensor([ids_1L.shape[1]], device=ids_1L.device)
    with probe(model) as seen:
        scores_1C = model(ids_1L, lengths_1).double().cpu().numpy()
    found = Nested.of(ids_1L, lengths_1)
    of_words_SM, of_sentences_N = seen["words.query"].weights()[:, 0, 0], seen["sentences.query"].weights()[0, 0, 0]
    word_L, sentence_L = found.word_BL[0], found.sentence_BL[0]
    words_L = (of_words_SM[sentence_L, found.place_BL[0].clamp(max=of_words_SM.shape[1] - 1)] * word_L).tolist()
    sentences_L = (of_sentences_N[sentence_L] * word_L).tolist()
    laid, place = [], 1  # behind the first mark
    for sentence in split:
        length = len(reader.tokenizer.encode(sentence))
        weights = [*words_L[place : place + length], *[0.0] * length][:length]
        laid.append(Sentence(_words(reader.tokenizer, sentence, weights), max(sentences_L[place : place + length], default=0.0)))
        place += length + 1
    note = f"Of this text {ids_1L.shape[1]:,} tokens were read; the rest was cut off." if cut else ""
    return Document(_told(answers, scores_1C), tuple(laid), note)


def _words(tokenizer: Tokenizer, sentence: str, weights: list[float]) -> tuple[Word, ...]:
    """The weights of the pieces of a word, together."""
    (pieces,), places = tokenizer.encode_placed([sentence]), word_places(sentence)
    total = [0.0] * len(places)
    for start, weight in zip(pieces.starts.tolist(), weights):
        word = next((n for n, found in enumerate(places) if start < found.end), len(places) - 1)
        total[word] += weight
    spaced = [n > 0 and places[n].start > places[n - 1].end for n in range(len(places))]
    return tuple(Word(sentence[p.start : p.end], weight, space) for p, weight, space in zip(places, total, spaced))


def _told(answers: Labeller | Rater, scores_1C: np.ndarray) -> str:
    if isinstance(answers, Rater):
        return f"rated {answers.scale.restored(scores_1C[:, 0])[0]:.2f}"
    found_C = probabilities(scores_1C)[0]
    return f"{answers.labels.names[int(found_C.argmax())]} (probability {found_C.max():.3f})"
