"""`regard lens`: what each written word attended to, or which words and sentences of a document counted, or how a word's vector
follows its context; as lines and as a picture."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard.commands.image_views import refuse_image, whole_view
from regard.commands.subjects import subject_of
from regard.commands.word_uses import find_uses, read_uses, several, side_by_side
from regard.core.atomic import check_place
from regard.core.errors import UserError, nearest
from regard.core.terminal import print_stderr
from regard.data.sources.senses import read_sentences, typed_sentences
from regard.families import family_of
from regard.lens import result
from regard.lens.analyses.document import Document
from regard.lens.analyses.series_attention import series_attention
from regard.lens.analyses.weights import Choice, attention_page
from regard.lens.analyses.word_senses import UsesInLayer
from regard.metrics.word_analogies import Sum, WordSpace
from regard.runs.protocols import AnswersImages, Attends, Captions, Documents, Forecasting, HasWordVectors, Predictor, ReadsImages
from regard.tasks.dialogue.predict import as_writer
from regard.tasks.notices import LONGEST_TURN, check_length, report_unknown_words, text_notice
from regard.tasks.registry import open_run
from regard.tasks.word_vectors.predict import vectors_of

PARTS = ("cross", "decoder", "encoder")
NEAREST = 8  # words, to those of static vectors


def look(
    run: str,
    text: str,
    part: str | None,
    out: Path | None,
    device: str | None,
    settings: Sequence[str] = (),
    question: str | None = None,
) -> Iterator[str]:
    """Check the request, then yield attention as lines and save its picture; a `question` is about the image `text` names."""
    if part is not None and part not in PARTS:
        raise UserError(f"--part {part} is not a part of the model{nearest(part, PARTS)}")
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    check_length(text, "the text", LONGEST_TURN)
    _check_out(out)
    answers = as_writer(open_run(run, device, settings))
    refuse_image(answers, run, text)
    if (drawn := _of_image(answers, text, part, question)) is not None:
        yield from _drawn(drawn, out)
        return
    if question is not None:
        raise UserError(
            f"one text is drawn at a time, and {question!r} is a second; --word WORD looks at a word in several: see "
            "'regard lens --help'."
        )
    if isinstance(answers, Forecasting):
        yield from _drawn(series_attention(subject_of(answers, text), Choice(part=part)), out)
        return
    if isinstance(answers, Documents) and family_of(answers.model).has("nested_documents"):
        if part is not None:
            raise UserError(f"--part {part} is for models that write; this one reads, and all of its attention is drawn.")
        yield from _document(answers.document(text), out)
        return
    if isinstance(answers, HasWordVectors):
        raise UserError(f"{run} holds word vectors, which look at nothing; see where words lie by --show map.")
    if not isinstance(answers, Attends):
        raise UserError(
            f"{run} does not write, and lens draws what written words attended to; see what the words that it reads look at by "
            "--show weights, or give a translator or a language model."
        )
    with report_unknown_words(answers):
        written, alignment = answers.attention(text, part)
    if whole := text_notice(answers, text):
        print_stderr(whole)
    yield written
    if out is not None and out.suffix.lower() == ".html":
        yield from alignment.lines()
        result.store(attention_page(subject_of(answers, text), part), out)
        yield f"drawn: {out}"
    else:
        yield from _drawn(alignment, out)


def _of_image(answers: Predictor, text: str, part: str | None, question: str | None) -> result.LensResult | None:
    """Return where a model attended in an image: as it answered, wrote, classified or drew; None of a model of texts."""
    if isinstance(answers, AnswersImages):
        image, _, behind_tab = text.partition("\t")
        _must_be_cross(part, "what was attended to")
        return answers.answer_heat(image.strip(), question or behind_tab.strip())
    if question is None and isinstance(answers, ReadsImages):
        if part is not None:
            raise UserError(f"--part {part} is of texts; an image is read by one stack. Leave it out.")
        return whole_view(subject_of(answers, text))
    if question is None and isinstance(answers, Captions):
        _must_be_cross(part, "what words looked at")
        return answers.heat(text)
    return None


def _must_be_cross(part: str | None, what: str) -> None:
    if part not in (None, "cross"):
        raise UserError(f"--part {part} is of texts; of an image {what} is drawn. Leave it out.")


def _document(document: Document, out: Path | None) -> Iterator[str]:
    """Yield a document's lines, shaded on a terminal with colours, and save its picture."""
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    yield from document.shaded(shutil.get_terminal_size().columns) if colours else document.lines()
    if out is not None:
        result.save(document, out)
        yield f"drawn: {out}"


def look_at_word(
    run: str,
    word: str,
    texts: Sequence[str],
    file: Path | None,
    layer: int | None,
    out: Path | None,
    device: str | None,
    beside: str | None = None,
) -> Iterator[str]:
    """The uses of a word in these texts or in the lines of a file; the picture's matrix is that of `layer`, the last if None.

    Word vectors `beside` them have one for all uses: its nearest words are printed.
    """
    _check_out(out)
    if file is not None and texts:
        raise UserError(f"both sentences and --file {file} were given; give one of them.")
    if file is None and not texts:
        raise UserError(f"--word {word} needs sentences to look for it in; type them, or give --file FILE with one on each line.")
    if layer is not None and layer < 0:
        raise UserError(f"--layer {layer} is not a layer; 0 is the embedding with its positions, 1 the first layer above it.")
    uses = find_uses(word, typed_sentences(texts) if file is None else read_sentences(file))
    if len(names := several(run)) > 1:
        if beside is not None:
            raise UserError(f"--beside {beside} is for one run; name it among the others: {run},{beside}.")
        yield from _drawn(side_by_side(names, word, uses, layer, device), out)
        return
    static = [] if beside is None else [_static(beside, word)]
    found = read_uses(run, word, uses, device)
    found = replace(found, notes=(*found.notes, *static))
    last = len(found.layers) - 2
    if layer is not None and layer > last:
        raise UserError(f"--layer {layer}: this model has {last}; give a number from 0, its embedding, to {last}.")
    yield from _drawn(UsesInLayer(found, 1 + (last if layer is None else layer)), out)


def _drawn(found: result.LensResult, out: Path | None) -> Iterator[str]:
    yield from found.lines()
    if out is not None:
        result.save(found, out)
        yield f"drawn: {out}"


def _static(name: str, word: str) -> str:
    space = WordSpace(vectors_of(name))
    known = word if word in space.vectors.numbers else word.lower()
    near = ", ".join(near.word for near in space.nearest(Sum((known,), ()), NEAREST))
    return f"{name} has one vector for {known!r}, whatever stands around it; nearest to that are {near}"


def _check_out(out: Path | None) -> None:
    if out is not None:
        result.check_suffix(out)
        check_place(out, "--out")
