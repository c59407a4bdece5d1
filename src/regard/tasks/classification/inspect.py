"""Models that say something of a whole text, as subjects: its label, its number, where an answer stands in it, its vector.

                 says, and is scored on
labeller         a label: the one that is given, or the one it finds
rater            a number, as a choice among STEPS steps of its scale: a step's logit falls with the square of how far it is
                 from the score, as a normal distribution around it does
answerer         the token where the answer starts, and the token where it ends
embedder         that its vector is like another text's, or like the one that the whole model gives it: logits are the cosine
                 and its opposite. At its own vector the cosine is greatest, so gradients there are zero: give another text

A text laid before a hierarchy: what it said, and how much it looked at every sentence and every word, for people to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from regard.core.errors import UserError, nearest
from regard.data.batching.labelled import LabelledTexts, make_batch
from regard.data.batching.pairs import Ragged
from regard.data.batching.qa import make_batch as span_batch
from regard.families.bert import BERT
from regard.families.classifier import Classifier
from regard.lens.analyses.document import Document, Sentence, Word
from regard.lens.subject import Subject, TokenRow
from regard.model.heads import text_vectors
from regard.model.hierarchy import Nested
from regard.model.probe import probe
from regard.objectives.span import NEVER
from regard.tasks.classification.predict import Regressor, TextClassifier, probabilities
from regard.tasks.classification.reader import Parts, Reader, as_typed, in_parts
from regard.tasks.embedding.predict import Embedder
from regard.tasks.masked_lm.inspect import reads, subject_of
from regard.tasks.question_answering.predict import QuestionAnswerer
from regard.tasks.question_answering.predict import as_typed as question_and_context
from regard.text.offsets import sentences, word_places
from regard.text.tokenizer import Tokenizer

STEPS = 21


def of_labeller(labeller: TextClassifier, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    names, parts = labeller.labels.names, in_parts([as_typed(text, labeller.labels.texts)], labeller.labels.texts)[0]
    if target is not None and target not in names:
        raise UserError(f"the label {target!r} is not one that this model knows{nearest(target, names)}")
    side, hidden, says = _classified(labeller.model, labeller.reader, parts)
    with torch.no_grad():
        label = int(says(hidden(1))[0].argmax()) if target is None else names.index(target)
    told = f"{' | '.join(parts)} → {names[label]}"
    return subject_of(labeller.model.body, told, side, hidden, says, [label], names.__getitem__)


def of_rater(rater: Regressor, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    scale, parts = rater.labels, in_parts([as_typed(text, rater.texts)], rater.texts)[0]
    side, hidden, scores = _classified(rater.model, rater.reader, parts)
    steps = np.linspace(scale.lowest, scale.highest, STEPS)
    steps_C = torch.tensor((steps - scale.mean) / scale.deviation, dtype=torch.float32, device=_device(rater.model))

    def says(x_BLD: Tensor) -> Tensor:
        return -((scores(x_BLD) - steps_C) ** 2) / 2

    with torch.no_grad():
        number = int(says(hidden(1))[0].argmax()) if target is None else _step(steps, target)
    told = f"{' | '.join(parts)} → {steps[number]:g}"
    return subject_of(rater.model.body, told, side, hidden, says, [number], lambda n: f"{steps[n]:g}")


def of_answerer(answerer: QuestionAnswerer, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    """Return the subject of QUESTION<TAB>CONTEXT; `target` is an answer that the context contains."""
    question, context = question_and_context(text)
    best = answerer(question, context) if target is None else None
    span = (best.start, best.end) if best is not None else _span(context, target or "")
    read = answerer.reader.read([(question, context)], [repr(question[:40])], [span if span[1] else None])
    if len(read.windows) > 1:
        raise UserError(f"the context is more than the {answerer.reader.layout.window:,} tokens seen together; give less of it.")
    batch = span_batch(read.windows, np.array([0])).to(_device(answerer.model))
    ids, begin, tokenizer = batch.ids_BL[0].tolist(), int(read.windows.contexts[0]), answerer.reader.tokenizer
    asked, between = TokenRow.typed(tokenizer, question), len(answerer.reader.layout.between)
    side = (
        TokenRow.mark(tokenizer, ids[0]) + asked[: begin - 1 - between] + TokenRow.mark(tokenizer, *ids[begin - between : begin])
    )
    side = side + TokenRow.typed(tokenizer, context)[: len(ids) - begin - 1] + TokenRow.mark(tokenizer, ids[-1])
    model = answerer.model

    def hidden(copies: int) -> Tensor:
        segments_BL = batch.segments_BL.expand(copies, -1) if model.config.segments > 1 else None
        return model.hidden(
            batch.ids_BL.expand(copies, -1), torch.full((copies,), len(ids), device=batch.ids_BL.device), segments_BL
        )

    def says(x_BLD: Tensor) -> Tensor:
        return model.span(x_BLD).masked_fill(~batch.choosable_BL[..., None], NEVER).mT

    told = f"{question} | {context} → {context[slice(*span)] or 'no answer'}"
    return subject_of(model, told, side, hidden, says, batch.targets_N2[0].tolist(), side.tokens.__getitem__)


def of_embedder(embedder: Embedder, text: str, target: str | None = None, hypothesis: int | None = None) -> Subject:
    model, around = cast(BERT, embedder.model), embedder.reader  # an ELMo has no attention, and does not come here
    ids, _, _ = around.encode([(text,)], [repr(text[:40])])
    side = _laid(around, (text,), ids, len(ids.flat))
    like_D = torch.from_numpy(embedder(text if target is None else target)).to(_device(model))

    def says(x_BLD: Tensor) -> Tensor:
        x_BD = text_vectors(x_BLD, torch.full((len(x_BLD),), len(side), device=x_BLD.device), embedder.vectors)
        cosine_B = F.cosine_similarity(x_BD.float(), like_D, dim=-1)
        return torch.stack([cosine_B, -cosine_B], -1)

    told = text if target is None else f"{text} ~ {target}"
    return subject_of(model, told, side, reads(model, side), says, [0], ("alike", "unlike").__getitem__)


Reads = tuple[TokenRow, Callable[[int], Tensor], Callable[[Tensor], Tensor]]


def _classified(model: Classifier, reader: Reader, parts: Parts) -> Reads:
    """Return the tokens of a text, its hidden vectors for a number of copies, and their scores."""
    if reader.marks.apart and len(parts) > 1:
        raise UserError("this model reads the texts of a pair apart, where neither sees the other; lens looks into one text.")
    ids, seconds, _ = reader.encode([parts], [repr(parts[0][:40])])
    batch = make_batch(LabelledTexts(ids, seconds, np.zeros(1, np.int64)), np.array([0])).to(_device(model))

    def lengths(copies: int) -> Tensor:
        return torch.full((copies,), batch.ids_BL.shape[1], device=batch.ids_BL.device)

    def hidden(copies: int) -> Tensor:
        return model.hidden(batch.ids_BL.expand(copies, -1), lengths(copies), batch.segments_BL.expand(copies, -1))

    def says(x_BLD: Tensor) -> Tensor:
        return model.scores(x_BLD, lengths(len(x_BLD)))

    return _laid(reader, parts, ids, int(seconds[0])), hidden, says


def _laid(reader: Reader, parts: Parts, ids: Ragged, second: int) -> TokenRow:
    """One text or two between their marks; of one that was cut, what is left."""
    row, tokenizer = ids.flat.tolist(), reader.tokenizer
    if reader.marks.sentences:
        side, mark = TokenRow.mark(tokenizer, row[0]), TokenRow.mark(tokenizer, reader.marks.between)
        for sentence in sentences(parts[0]):
            side = side + TokenRow.typed(tokenizer, sentence) + mark
        return side[: len(row) - 1] + TokenRow.mark(tokenizer, row[-1])
    between = 1 + reader.marks.twice if len(parts) == 2 else 0
    first = second - 1 - between if between else len(row) - 2
    side = TokenRow.mark(tokenizer, row[0]) + TokenRow.typed(tokenizer, parts[0])[:first]
    if between:
        side = (
            side
            + TokenRow.mark(tokenizer, *row[first + 1 : second])
            + TokenRow.typed(tokenizer, parts[1])[: len(row) - second - 1]
        )
    return side + TokenRow.mark(tokenizer, row[-1])


def _device(model: Classifier | BERT) -> torch.device:
    return next(model.parameters()).device


def _step(steps: np.ndarray, target: str) -> int:
    try:
        number = float(target)
    except ValueError:
        raise UserError(
            f"the target {target!r} is not a number; this model rates texts from {steps[0]:g} to {steps[-1]:g}."
        ) from None
    if not steps[0] <= number <= steps[-1]:
        raise UserError(f"the target {target} is outside of what this model was trained on, {steps[0]:g} to {steps[-1]:g}.")
    return int(np.abs(steps - number).argmin())


def _span(context: str, answer: str) -> tuple[int, int]:
    start = context.find(answer) if answer.strip() else -1
    if start < 0:
        raise UserError(f"the answer {answer!r} does not stand in the context; give words as they are written there.")
    return start, start + len(answer)


@torch.no_grad()
def document_of(answers: TextClassifier | Regressor, text: str) -> Document:
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


def _told(answers: TextClassifier | Regressor, scores_1C: np.ndarray) -> str:
    if isinstance(answers, Regressor):
        return f"rated {answers.labels.restored(scores_1C[:, 0])[0]:.2f}"
    found_C = probabilities(scores_1C)[0]
    return f"{answers.labels.names[int(found_C.argmax())]} (probability {found_C.max():.3f})"
