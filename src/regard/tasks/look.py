"""`regard lens`: what each written word attended to, or which words and sentences of a document counted, or how a word's vector
follows its context; as lines and as a picture."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from regard.data.senses import read_sentences, typed_sentences
from regard.errors import UserError, nearest
from regard.evaluate.word_space import Sum, WordSpace
from regard.lens import heat, picture, shown, uses_picture, uses_text
from regard.lens.document import Document
from regard.tasks.caption_writer import CaptionWriter
from regard.tasks.classifier import Labeller
from regard.tasks.documents import document_of, reads_documents
from regard.tasks.lengths import LONGEST_TURN, check_length
from regard.tasks.lexicon import Lexicon, vectors_of
from regard.tasks.outputs import check_place
from regard.tasks.rater import Rater
from regard.tasks.replier import as_writer
from regard.tasks.run import aside
from regard.tasks.side_by_side import several, side_by_side
from regard.tasks.table import open_run
from regard.tasks.translator import Translator
from regard.tasks.unknown import telling_unknown
from regard.tasks.uses import find_uses, read_uses
from regard.tasks.whole import told_of_text
from regard.tasks.writer import Writer

PARTS = ("cross", "decoder", "encoder")
NEAREST = 8  # words, to those of static vectors


def look(
    run: str, text: str, part: str | None, out: Path | None, device: str | None, settings: Sequence[str] = ()
) -> Iterator[str]:
    """Checks first: nobody should wait for a model to hear that a file's name is wrong."""
    if part is not None and part not in PARTS:
        raise UserError(f"--part {part} is not a part of the model{nearest(part, PARTS)}")
    if not text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    check_length(text, "the text", LONGEST_TURN)
    _check_out(out)
    answers = as_writer(open_run(run, device, settings))
    if isinstance(answers, CaptionWriter):
        yield from _image(answers.heat(text), part, out)
        return
    if isinstance(answers, Labeller | Rater) and reads_documents(answers):
        if part is not None:
            raise UserError(f"--part {part} is for models that write; this one reads, and all of its attention is drawn.")
        yield from _document(document_of(answers, text), out)
        return
    if isinstance(answers, Lexicon):
        raise UserError(f"{run} holds word vectors, which look at nothing; see where words lie by --show map.")
    if not isinstance(answers, (Translator, Writer)):
        raise UserError(
            f"{run} does not write, and lens draws what written words attended to; see what the words that it reads look at by "
            "--show weights, or give a translator or a language model."
        )
    with telling_unknown(answers):
        written, alignment = answers.attention(text, part) if part else answers.attention(text)
    if whole := told_of_text(answers, text):
        aside(whole)
    yield written
    yield picture.text(alignment)
    if out is not None:
        picture.save(alignment, out)
        yield f"drawn: {out}"


def _document(document: Document, out: Path | None) -> Iterator[str]:
    """On shades, where whoever reads it can see them."""
    colours = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    yield from document.shaded(shutil.get_terminal_size().columns) if colours else document.lines()
    if out is not None:
        shown.save(document, out)
        yield f"drawn: {out}"


def _image(found: heat.Heat, part: str | None, out: Path | None) -> Iterator[str]:
    if part not in (None, "cross"):
        raise UserError(f"--part {part} is of texts; of an image what words looked at is drawn. Leave it out.")
    yield heat.text(found)
    if out is not None:
        heat.save(found, out)
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

    Word vectors `beside` them have one for all uses: what is near that one is told.
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
    matrix = 1 + (last if layer is None else layer)
    yield uses_text.text(found, matrix)
    if out is not None:
        uses_picture.save(found, out, matrix)
        yield f"drawn: {out}"


def _drawn(found: shown.Shown, out: Path | None) -> Iterator[str]:
    yield from found.lines()
    if out is not None:
        shown.save(found, out)
        yield f"drawn: {out}"


def _static(name: str, word: str) -> str:
    space = WordSpace(vectors_of(name))
    known = word if word in space.vectors.numbers else word.lower()
    near = ", ".join(near.word for near in space.nearest(Sum((known,), ()), NEAREST))
    return f"{name} has one vector for {known!r}, whatever stands around it; nearest to that are {near}"


def _check_out(out: Path | None) -> None:
    if out is not None:
        picture.check_suffix(out)
        check_place(out, "--out")
