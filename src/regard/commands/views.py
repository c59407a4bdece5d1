"""`regard lens --show`: a request, and the view that answers it.

`SHOWS` has views of attention as it is, views that change the model or its input to find what matters, and views of vectors.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path

from regard.commands.image_views import (
    attribution_view,
    class_view,
    latents_view,
    only_image,
    patch_view,
    refuse_image,
    relevance_view,
    roles_view,
    rollout_view,
)
from regard.commands.subjects import fresh, recipe_with_data, repeated, subject_of, subjects, trees
from regard.core.atomic import check_place
from regard.core.errors import UserError, nearest
from regard.core.terminal import print_stderr
from regard.data.sources.conllu import read_conllu
from regard.data.sources.files import numbered_lines
from regard.lens.analyses.ablation import ablation
from regard.lens.analyses.bias import biases_of
from regard.lens.analyses.deletion import deletion
from regard.lens.analyses.gradients import gradient_times_input, integrated_gradients
from regard.lens.analyses.head_statistics import head_statistics
from regard.lens.analyses.image_heads import ImageRoles
from regard.lens.analyses.importance import importance
from regard.lens.analyses.logit_lens import logit_lens
from regard.lens.analyses.positions import positions_of
from regard.lens.analyses.rank_collapse import rank_collapse
from regard.lens.analyses.relations import relation_scores
from regard.lens.analyses.roles import Roles, tally_roles
from regard.lens.analyses.rollout import flow, rollout
from regard.lens.analyses.series_attention import SeriesAttention, series_attention
from regard.lens.analyses.weights import AttentionWeights, Choice, attention_weights
from regard.lens.analyses.word_map import WordMap, word_map
from regard.lens.result import LensResult, check_suffix, save
from regard.lens.subject import Subject
from regard.runs.protocols import Forecasting, HasWordVectors, Predictor
from regard.tasks.dialogue.predict import as_writer
from regard.tasks.notices import LONGEST_TURN, check_length, report_unknown_words, text_notice
from regard.tasks.registry import open_run


@dataclass(frozen=True, kw_only=True)
class ViewRequest:
    """Options of a view; None, or False, where nothing was typed."""

    run: str
    device: str | None = None
    settings: tuple[str, ...] = ()  # of the run, such as decode.beam=8
    text: str | None = None
    target: str | None = None  # what the model is scored on
    hypothesis: int | None = None  # of its own outputs, the best is 0
    data: Path | None = None
    layer: int | None = None
    head: int | None = None
    patch: str | None = None  # of an image: row and column, from 1
    part: str | None = None  # cross, decoder or encoder
    words: bool = False  # pieces of a word are taken together
    values: bool = False  # weights times the length of what they bring
    specials: str | None = None  # keep, hide or renormalise

    def subject(self, answers: Predictor) -> Subject:
        assert self.text is not None
        return subject_of(answers, self.text, self.target, self.hypothesis)


MISSING = {"text": "a text to look into", "patch": "--patch ROW,COLUMN"}


@dataclass(frozen=True, kw_only=True)
class LensView:
    """A way of looking: what it needs and what it takes, by the names of `ViewRequest`, and what it makes of them."""

    help: str  # one line
    compute: Callable[[Predictor, ViewRequest], LensResult]
    needs: tuple[str, ...] = ("text",)
    takes: tuple[str, ...] = ("target", "hypothesis")

    def check(self, name: str, asked: ViewRequest) -> None:
        """Refuse a request with missing or superfluous options, before a model is loaded."""
        for need in self.needs:
            if getattr(asked, need) in (None, False):
                missing = MISSING.get(need, f"--{need} {need.upper()}")
                raise UserError(f"--show {name} needs {missing}: {self.help}.")
        for field in fields(asked):
            given = getattr(asked, field.name)
            if field.name in ("run", "device", "settings", *self.needs, *self.takes) or given in (None, False):
                continue
            option = f"the text {given[:40]!r}" if field.name == "text" else f"--{field.name}"
            taken = ", ".join(f"--{taken}" for taken in (*self.needs, *self.takes) if taken != "text")
            alone = "a text alone" if "text" in self.needs else "no text"
            raise UserError(f"{option} is not for --show {name}, which takes {taken or alone}; leave it out.")


def show(name: str, asked: ViewRequest, out: Path | None) -> Iterator[str]:
    """The lines of a view, and its picture in a file."""
    if out is not None:
        check_suffix(out)
        check_place(out, "--out")
    shown = computed(name, asked)
    yield from shown.lines()
    if out is not None:
        save(shown, out)
        yield f"drawn: {out}"


def computed(name: str, asked: ViewRequest, predictor: Predictor | None = None) -> LensResult:
    """Check the request before the model is loaded, then compute a view."""
    if name not in SHOWS:
        raise UserError(f"--show {name} is not a way of looking{nearest(name, SHOWS)}")
    SHOWS[name].check(name, asked)
    if asked.text is not None and not asked.text.strip():
        raise UserError("the text is empty; give a sentence to look into.")
    check_length(asked.text or "", "the text", LONGEST_TURN)
    answers = as_writer(predictor or open_run(asked.run, asked.device, asked.settings))
    refuse_image(answers, asked.run, asked.text or "")
    if isinstance(answers, Forecasting) and name not in OF_SERIES:
        raise UserError(
            f"--show {name} is for models that are scored on words or labels, and {asked.run} forecasts numbers; give "
            f"{', '.join(OF_SERIES[:-1])} or {OF_SERIES[-1]}."
        )
    with report_unknown_words(answers):
        found = SHOWS[name].compute(answers, asked)
    if asked.text is not None and (whole := text_notice(answers, asked.text)):
        print_stderr(whole)
    return found


SENTENCES = 500  # of a treebank
TEXTS = 50  # of these, where no text is given, are looked at for roles
CHANGED_TEXTS, DELETED = 200, 20  # of a file, how many are looked at
FREQUENT = 100  # words, where none are named


OF_SERIES = ("weights", "heads", "rollout", "flow", "rank", "positions", "bias")  # what a forecaster can be asked for


def weights(answers: Predictor, asked: ViewRequest) -> AttentionWeights | SeriesAttention:
    choice = Choice(
        part=asked.part,
        layer=asked.layer,
        head=asked.head,
        words=asked.words,
        values=asked.values,
        specials=asked.specials or "keep",
    )
    subject = asked.subject(answers)
    if subject.series is not None and not (asked.words or asked.values or asked.specials):
        return series_attention(subject, choice)
    return attention_weights(subject, choice)


def roles(answers: Predictor, asked: ViewRequest) -> Roles | ImageRoles:
    """Return the roles of heads on a text, a treebank, or both, or on an image, beside the same model with random weights."""
    if asked.text is None and asked.data is None:
        raise UserError("--show roles needs a text, or --data FILE.conllu with sentences and their trees.")
    if asked.text is not None and asked.data is None and only_image(read := asked.subject(answers)):
        return roles_view(read, lambda: subject_of(fresh(answers), asked.text or ""))
    sentences = [] if asked.data is None else read_conllu(asked.data, SENTENCES)
    other = fresh(answers)
    subjects, theirs = list[Subject](), list[Subject]()
    if asked.text is not None:
        subjects = [asked.subject(answers)]
        theirs = [subject_of(other, asked.text, subjects[0].output_text or asked.target)]
    relations, title = None, subjects[0].title if subjects else f"{asked.data}"
    if sentences:
        known, random = list(trees(answers, sentences)), list(trees(other, sentences))
        left = len(sentences) - len(known)
        told = f" ({left} of {len(sentences)} left out, which this model cannot read)" if left else ""
        relations = relation_scores(f"{asked.data}{told}", known, random)
        subjects += [] if subjects else [tree.subject for tree in known[:TEXTS]]
        theirs += [] if theirs else [tree.subject for tree in random[:TEXTS]]
    return Roles(title, tally_roles(subjects, repeated(answers)), tally_roles(theirs, repeated(other)), relations)


def mapped(answers: Predictor, asked: ViewRequest) -> WordMap:
    """The words that are typed, those of a file, or the most frequent ones."""
    if not isinstance(answers, HasWordVectors):
        raise UserError(f"--show map draws word vectors, and {asked.run} has none of its own; give a run of them, or a file.")
    if asked.text is not None and asked.data is not None:
        raise UserError(f"both words and --data {asked.data} were given; give one of them.")
    if asked.data is not None:
        lines = [line for _, line in numbered_lines(asked.data)]
    else:
        lines = [asked.text] if asked.text is not None else list(answers.vectors.words[:FREQUENT])
    words = list(dict.fromkeys(word for line in lines for word in re.split(r"[\s,]+", line) if word))
    return word_map(words, answers.vectors.vectors_VD[[answers.number(word) for word in words]])


def _texts(answers: Predictor, asked: ViewRequest, most: int) -> Iterable[Subject]:
    """Return one text, the first texts of a file, or those of the run's test set."""
    if asked.text is not None:
        return [asked.subject(answers)]
    return subjects(answers, recipe_with_data(asked.run, asked.data), most)


def _of_text(help: str, analyse: Callable[[Subject], LensResult]) -> LensView:
    """Return the view of a text by an analysis."""
    return LensView(help=help, compute=lambda answers, asked: analyse(asked.subject(answers)))


def _of_image(help: str, view: Callable[[Subject, ViewRequest], LensResult], *takes: str, needs: str = "") -> LensView:
    """Return a view of an image alone; what it does not show of a text is said by its analysis."""
    asks = ("text", needs) if needs else ("text",)
    return LensView(help=help, compute=lambda answers, asked: view(asked.subject(answers), asked), needs=asks, takes=takes)


def _rollout(answers: Predictor, asked: ViewRequest) -> LensResult:
    subject = asked.subject(answers)
    if only_image(subject):
        return rollout_view(subject, asked)
    if asked.patch is not None:
        raise UserError(f"--patch {asked.patch} is of an image, and this model reads text; leave it out.")
    return rollout(subject)


MANY = ("text", "data", "target", "hypothesis")
SHOWS: dict[str, LensView] = {
    # attention as it is
    "heads": _of_text("of every head, how spread, how far and on what it looks", head_statistics),
    "weights": LensView(
        help="what was looked at, by any layer and head, by words, by what it brings, of any output of a search",
        compute=weights,
        takes=("target", "hypothesis", "part", "layer", "head", "words", "values", "specials"),
    ),
    "roles": LensView(
        help="what each head is for, in a text or an image, beside random weights; with --data FILE.conllu also its grammar",
        compute=roles,
        needs=(),
        takes=("text", "target", "hypothesis", "data"),
    ),
    # of models that read an image
    "patch": _of_image("what a patch of an image attends to, by layer or by head", patch_view, "layer", "head", needs="patch"),
    "class": _of_image("what the class token of an image attends to, by layer or by head", class_view, "layer", "head"),
    "relevance": _of_image("what speaks for a class, patch by patch: weights times their gradients", relevance_view, "target"),
    "latents": _of_image("which pixels a Perceiver's latents attend to", latents_view, "layer", "head"),
    # changes of the model or its input, to find what matters
    "ablation": _of_text("what is lost when each head alone is switched off", ablation),
    "importance": LensView(
        help="how much the loss hangs on each head; of a text, of --data FILE, or of the test set",
        compute=lambda answers, asked: importance(_texts(answers, asked, CHANGED_TEXTS)),
        needs=(),
        takes=MANY,
    ),
    "rollout": LensView(
        help="the share of each word, or patch of an image, in each place after all layers",
        compute=_rollout,
        takes=("target", "hypothesis", "patch"),
    ),
    "flow": _of_text("the most that can flow from each word to each place through all layers", flow),
    "gradients": _of_text(
        "what each word or patch adds to each prediction, by gradient times input",
        lambda subject: attribution_view(subject, gradient_times_input),
    ),
    "integrated": _of_text(
        "what each word or patch adds to each prediction, by integrated gradients",
        lambda subject: attribution_view(subject, integrated_gradients),
    ),
    "logits": _of_text("what the model would say if it stopped at each layer", logit_lens),
    "deletion": LensView(
        help="which explanation predicts the model when words are taken away; of a text, of --data FILE, or of the test set",
        compute=lambda answers, asked: deletion(list(_texts(answers, asked, DELETED))),
        needs=(),
        takes=MANY,
    ),
    "rank": _of_text(
        "how different tokens are by depth, with and without skip connections and feed-forward layers", rank_collapse
    ),
    # vectors
    "positions": LensView(
        help="how alike positions are by distance, and whether a shift is a linear map",
        compute=lambda answers, asked: positions_of(answers.model, asked.run),
        needs=(),
        takes=(),
    ),
    "bias": LensView(
        help="what position adds to the scores of each head, by distance: T5's buckets, ALiBi, Transformer-XL",
        compute=lambda answers, asked: biases_of(answers.model, asked.run),
        needs=(),
        takes=(),
    ),
    "map": LensView(
        help="words of word vectors on two axes: those typed, those in a file, or the most frequent ones",
        compute=mapped,
        needs=(),
        takes=("text", "data"),
    ),
}
